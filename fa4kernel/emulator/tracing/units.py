"""Looks at the units that work beside the threads: copies and MMAs, from issue to completion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.machine.tensor_core import Commit, Mma, Move, Work
from fa4kernel.emulator.tracing.events import UnitEvent
from fa4kernel.emulator.tracing.log import Log

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.bulk import Load, Store
    from fa4kernel.emulator.machine.copies import Copy
    from fa4kernel.emulator.machine.warpgroup_mma import Product


class UnitLog(Log):
    """The part of a recorder that is told of asynchronous work."""

    def _issued(self, work: Any, unit: str, op: str, lane: int) -> None:
        slot = lane // 32
        if self._chosen[slot] and self._room():
            event = UnitEvent(unit, op, int(self._keys[slot]), self.now)
            self._at_work[id(work)] = work, event  # the work is kept, so its id stays its own
            self.units.append(event)

    def _done(self, work: Any) -> UnitEvent | None:
        _, event = self._at_work.pop(id(work), (None, None))
        if event is not None:
            event.end = self.now + 1
        return event

    def loads_issued(self, convoy: Convoy, loads: Sequence[Load]) -> None:
        """Copies into shared memory are under way."""
        for load in loads:
            op = f"load {self._tensor(load.tensor_map)}"
            self._issued(load, "tma", op, load.issuer)

    def loads_done(self, loads: Sequence[Load]) -> None:
        """They have landed."""
        for load in loads:
            self._done(load)

    def store_issued(self, convoy: Convoy, store: Store) -> None:
        """A copy out of shared memory is under way."""
        self._issued(store, "tma_store", f"store {self._tensor(store.tensor_map)}", store.issuer)

    def store_read(self, store: Store) -> None:
        """It has read its source."""
        self._done(store)

    def _tensor(self, tensor_map: Any) -> str:
        number = self.parameter(tensor_map)
        if number >= 0:
            return self.machine.launch.labels.tensor(number)
        return "block" if tensor_map is None else "tensor"

    def parameter(self, tensor_map: Any) -> int:
        """The number of the kernel parameter that a tensor map is; -1 for none."""
        if tensor_map is not None:
            for number, argument in enumerate(self.machine.launch.arguments):
                if argument is tensor_map:
                    return number
        return -1

    def copy_issued(self, convoy: Convoy, copy: Copy) -> None:
        """A ``cp.async`` of many lanes is under way."""
        number = self.machine.memory.argument_at(int(copy.sources[0]))
        known = self.machine.launch.labels.tensors.get(number)
        op = "cp.async" if known is None else f"load {known}"
        self._issued(copy, "cp_async", op, int(copy.lanes[0]))

    def copy_done(self, copy: Copy) -> None:
        """Its bytes are there."""
        self._done(copy)

    def mmas_issued(self, convoy: Convoy, ctas: Sequence[int], works: Sequence[Mma]) -> None:
        """MMAs are queued."""
        for work in works:
            self._product(work, int(work.issuer), f"mma D@{work.operation.d & 0xFFFF}")

    def wgmma_issued(self, convoy: Convoy, product: Product) -> None:
        """A warpgroup's MMA is queued."""
        self._product(product, 32 * int(product.slots[0]), "wgmma")

    def commits_issued(self, convoy: Convoy, works: Sequence[Commit]) -> None:
        """Commits are queued: what comes behind one is another piece of work."""
        for work in works:
            self._products.pop(int(work.issuer), None)

    def _product(self, work: Any, lane: int, op: str) -> None:
        """MMAs of one thread into one accumulator, one behind the other, are told as one."""
        last = self._products.get(lane)
        if last is not None and last.op == op and last.end == -1:
            last.pieces += 1
            self._at_work[id(work)] = work, last
            return
        self._issued(work, "tensor", op, lane)
        entry = self._at_work.get(id(work))
        if entry is not None:
            self._products[lane] = entry[1]

    def tensor_done(self, work: Work) -> None:
        """A tensor core has done something."""
        if isinstance(work, Move):
            op = " ".join(("tcgen05", work.instruction.qualifiers[0]))
            self._issued(work, "tensor", op, int(work.issuer))
        self._done(work)

    def commits_landed(self, works: Sequence[Commit]) -> None:
        """Commits arrive on their barriers."""
        for work in works:
            self._done(work)

    def wgmma_done(self, product: Product) -> None:
        """A warpgroup's MMA is complete."""
        self._done(product)
