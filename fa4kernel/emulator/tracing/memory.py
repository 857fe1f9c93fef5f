"""Looks at what fills shared and tensor memory, and who reads it; `lives` makes lives of that."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.checks.footprints import COLUMNS, accumulator, packed_a
from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.machine.tensor_core import Mma
from fa4kernel.emulator.ptx.module import Instruction
from fa4kernel.emulator.tensor.descriptors import SmemDescriptor
from fa4kernel.emulator.tracing.events import WARPS, UnitEvent
from fa4kernel.emulator.tracing.life import Span
from fa4kernel.emulator.tracing.units import UnitLog

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.bulk import Load, Store
    from fa4kernel.emulator.machine.copies import Arrival, Copy
    from fa4kernel.emulator.machine.tmem_access import Transfer
    from fa4kernel.emulator.machine.warpgroup_mma import Product


@dataclass(slots=True)
class Filling:
    """Copies into shared memory that signal a barrier.

    Attributes:
        cta, span: where it writes, in bytes.
        tensor: number of the kernel parameter that it copies from; -1 if not known.
        owner, barrier, phase: CTA and offset of the barrier, and its phase at the issue.
    """

    cta: int
    span: Span
    tensor: int
    owner: int
    barrier: int
    phase: int
    start: int


@dataclass(slots=True)
class Emptying:
    """A copy out of shared memory; those of one ``group`` of a thread belong together."""

    cta: int
    span: Span
    tensor: int
    group: tuple[int, int]
    event: UnitEvent


@dataclass(slots=True)
class Use:
    """MMAs into one accumulator, one behind the other.

    Attributes:
        event: when they were issued and complete.
        ctas: that take part.
        d: columns of the accumulator; None for registers.
        fresh: whether the first of them overwrites it.
        factors: issues that read a first factor in tensor memory, and the columns of it.
        operands: starts of factors in shared memory, in each of the CTAs.
    """

    event: UnitEvent
    ctas: tuple[int, ...]
    d: Span | None
    fresh: bool
    factors: list[tuple[int, Span]] = field(default_factory=list)
    operands: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Moved:
    """Warps that load from tensor memory or store to it; a row of columns for each."""

    tick: int
    ctas: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    write: bool


class MemoryLog(UnitLog):
    """The part of a recorder that is told who fills and reads memory.

    Attributes:
        fillings, emptyings, uses, moves: what happened, in order.
        written: ``(tick, CTA, first, last byte)`` of stores of threads to shared memory.
        phases: when phases of mbarriers completed, by CTA, offset and phase.
    """

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.fillings: list[Filling] = []
        self.emptyings: list[Emptying] = []
        self.uses: list[Use] = []
        self.moves: list[Moved] = []
        self.written: list[tuple[int, int, int, int]] = []
        self.phases: dict[tuple[int, int, int], int] = {}
        self._use_of: dict[int, Use] = {}
        self._group_of: dict[int, int] = defaultdict(int)
        self._copied: dict[int, tuple[Span, int, int]] = {}  # by warp: until it arrives

    # --- shared memory -----------------------------------------------------------------------

    def loads_issued(self, convoy: Convoy, loads: Sequence[Load]) -> None:
        """Copies into shared memory are under way."""
        super().loads_issued(convoy, loads)
        barriers = self.machine.barriers
        for load in loads:
            cta = self._cta(load.cta)
            if cta in self.selection and self._room():
                owner, offset = barriers.place(load.barrier)
                span = load.offset, load.offset + load.extent - 1
                tensor = self.parameter(load.tensor_map)
                phase = int(barriers.phase[load.barrier])
                self.fillings.append(
                    Filling(cta, span, tensor, self._cta(owner), offset, phase, self.now)
                )

    def copy_issued(self, convoy: Convoy, copy: Copy) -> None:
        """A ``cp.async`` of many lanes is under way."""
        super().copy_issued(convoy, copy)
        warps = copy.lanes // 32
        for slot in np.unique(warps[self._chosen[warps]]).tolist():
            mine = warps == slot
            offsets, sources = copy.offsets[mine], copy.sources[mine & (copy.taken > 0)]
            span = int(offsets.min()), int(offsets.max()) + copy.size - 1
            at = int(sources[0]) if len(sources) else -1
            tensor = self.machine.memory.argument_at(at)
            before, known, start = self._copied.get(slot, (span, tensor, self.now))
            joined = min(before[0], span[0]), max(before[1], span[1])
            self._copied[slot] = joined, max(known, tensor), start

    def copies_arrive(self, convoy: Convoy, arrival: Arrival) -> None:
        """``cp.async.mbarrier.arrive``: the copies of these warps were for this barrier."""
        barriers = self.machine.barriers
        warps = arrival.lanes // 32
        for slot in np.unique(warps).tolist():
            found = self._copied.pop(slot, None)
            if found is None or not self._room():
                continue
            span, tensor, start = found
            index = int(arrival.barriers[warps == slot][0])
            owner, offset = barriers.place(index)
            phase, cta = int(barriers.phase[index]), int(self._keys[slot]) // WARPS
            self.fillings.append(Filling(cta, span, tensor, self._cta(owner), offset, phase, start))

    def store_issued(self, convoy: Convoy, store: Store) -> None:
        """A copy out of shared memory is under way."""
        super().store_issued(convoy, store)
        _, event = self._at_work.get(id(store), (None, None))
        if event is not None:
            span = store.offset, store.offset + store.extent - 1
            group = store.issuer, self._group_of[store.issuer]
            tensor = self.parameter(store.tensor_map)
            self.emptyings.append(Emptying(event.key // WARPS, span, tensor, group, event))

    def groups_committed(self, convoy: Convoy) -> None:
        """``cp.async.bulk.commit_group``."""
        for lane in convoy.lanes().tolist():
            if lane in self._group_of:
                self._group_of[lane] += 1

    def shared_access(
        self, convoy: Convoy, lanes: NDArray[np.intp], ctas: NDArray[np.intp],
        offsets: NDArray[np.int64], size: int, write: bool, instruction: Instruction,
    ) -> None:  # fmt: skip
        """Threads load from shared memory or store to it."""
        if not write:
            return
        for cta in np.unique(ctas):
            number = self._cta(int(cta))
            if number in self.selection and self._room():
                mine = offsets[ctas == cta]
                first, last = int(mine.min()), int(mine.max()) + size - 1
                self.written.append((self.now, number, first, last))

    def phase_completed(self, index: NDArray[np.intp]) -> None:
        """Phases of mbarriers complete."""
        barriers = self.machine.barriers
        for each in index.tolist():
            cta, offset = barriers.place(each)
            owner = self._cta(cta)
            if owner in self.selection and self._room():
                self.phases[owner, offset, int(barriers.phase[each]) - 1] = self.now

    # --- tensor cores ------------------------------------------------------------------------

    def mmas_issued(self, convoy: Convoy, ctas: Sequence[int], works: Sequence[Mma]) -> None:
        """MMAs are queued."""
        super().mmas_issued(convoy, ctas, works)
        for cta, work in zip(ctas, works, strict=True):
            _, event = self._at_work.get(id(work), (None, None))
            if event is None:
                continue
            operation, size = work.operation, work.operation.group
            use = self._use_of.get(id(event))
            if use is None:
                first = int(self.machine.rank_of(cta)) // size * size
                members = [int(self.machine.cta_at(cta, first + i)) for i in range(size)]
                numbers = tuple(map(self._cta, members))
                d = columns_of(accumulator(operation).own)
                use = Use(event, numbers, d, not work.accumulate)
                self._use_of[id(event)] = use
                self.uses.append(use)
            use.operands.add(SmemDescriptor.decode(operation.b).start)
            if operation.a_in_tmem:
                use.factors.append((self.now, columns_of(packed_a((operation,)).own)))
            else:
                use.operands.add(SmemDescriptor.decode(operation.a).start)

    def wgmma_issued(self, convoy: Convoy, product: Product) -> None:
        """A warpgroup's MMA is queued."""
        super().wgmma_issued(convoy, product)
        _, event = self._at_work.get(id(product), (None, None))
        if event is None:
            return
        use = self._use_of.get(id(event))
        if use is None:
            fresh = not product.accumulate
            use = self._use_of[id(event)] = Use(event, (event.key // WARPS,), None, fresh)
            self.uses.append(use)
        for factor in (product.a, product.b):
            if isinstance(factor, int):
                use.operands.add(SmemDescriptor.decode_wgmma(factor).start)

    def tmem_access(
        self, convoy: Convoy, slots: NDArray[np.intp], ctas: NDArray[np.intp],
        lane: NDArray[np.intp], column: NDArray[np.intp], transfer: Transfer, write: bool,
    ) -> None:  # fmt: skip
        """``tcgen05.ld`` and ``tcgen05.st``."""
        chosen = self._chosen[slots]
        count = int(np.count_nonzero(chosen))
        if count and self._room(count):
            low = column[chosen] + int(transfer.places.column.min())
            high = column[chosen] + int(transfer.places.column.max())
            numbers = self._keys[slots[chosen]] // WARPS
            self.moves.append(Moved(self.now, numbers, low, high, write))

    def finish(self) -> None:
        """The machine has ended."""
        super().finish()
        self._use_of.clear()


def columns_of(pieces: NDArray[np.intp]) -> Span:
    """First and last column among pieces of tensor memory."""
    columns = pieces % COLUMNS
    return int(columns.min()), int(columns.max())
