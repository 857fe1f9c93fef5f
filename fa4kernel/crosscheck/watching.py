"""The kernel's side: an emulated run, looked at as it goes, as a record.

Nothing is taken from the simulator but names. Which tile it is that an instruction touches follows
from the data itself: a TMA load names it by its coordinates, an MMA by the shared memory that its
descriptors point to, a warp by the tensor memory that it reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from fa4kernel.crosscheck.kernel import Kernel
from fa4kernel.crosscheck.record import Label, Record
from fa4kernel.crosscheck.tensors import rows_left
from fa4kernel.crosscheck.watching_copies import CopyWatch
from fa4kernel.emulator.machine.machine import Machine

__all__ = ["Watch"]


class Watch(CopyWatch):
    """A watcher of one machine that writes a :class:`Record`; see the module."""

    def __init__(self, kernel: Kernel, machine: Machine) -> None:
        super().__init__(kernel, machine)
        self.reading: dict[int, Label] = {}  # by warp: the scores that it has in registers
        self.statistics: dict[int, int] = {}  # shared offset -> stage whose softmax wrote it
        self.pointers: set[int] = set()  # shared offsets of the TMEM address
        self.output: dict[int, tuple[int, Label]] = {}  # by warp: stage and O that it finishes

    # -- copies --------------------------------------------------------------------------------

    def loads_issued(self, convoy: Any, loads: Sequence[Any]) -> None:
        """TMA loads start."""
        for load in loads:
            tensors = self.kernel.tensors
            tensor = tensors.name(load.tensor_map) if load.tensor_map is not None else None
            if tensor is None:
                self.fault(f"a load of no known tensor at shared offset {load.offset:#x}")
                continue
            _, barrier, stage = self.barrier(load.barrier)
            slot = f"{'sQ' if barrier == 'load_Q_full' else 'sKV'}[{stage}]"
            number = self.number(load.cta)
            within = self._sequence(number, tensor, stage)
            label = tensors.label(load.tensor_map, load.coordinates, within)
            warp = self.warp(load.issuer // 32)
            time = self.tick()
            fresh = self._begins(number, slot, tensor, label)
            self.record.did(warp, f"load {tensor}", slot, label, time)
            extent = (load.offset, load.offset + load.extent)
            held = self.places.put(tensor, number, slot, label, extent, time)
            held.size += load.bytes
            self.record.amounts["bytes loaded"] += load.bytes
            if fresh:
                self.expect_landing(load.barrier, tensor, label, slot, number)

    def _begins(self, cta: int, slot: str, tensor: str, label: Label) -> bool:
        """Whether a load is the first of its tile."""
        held = self.places.held(cta, slot)
        return held is None or (held.tensor, held.label) != (tensor, label)

    def _sequence(self, cta: int, tensor: str, stage: int) -> int | None:
        """The sequence of a further Q tile: that of the first, beyond whose end it may lie."""
        if tensor != "Q" or stage == 0:
            return None
        first = self.places.held(cta, "sQ[0]")
        return first.label[0] if first is not None else None

    def store_issued(self, convoy: Any, store: Any) -> None:
        """A TMA store starts."""
        tensors = self.kernel.tensors
        slot = store.issuer // 32
        warp = self.warp(slot)
        if store.tensor_map is None or tensors.name(store.tensor_map) != "O":
            self.fault(f"a store of no known tensor from shared offset {store.offset:#x}")
            return
        held = self.places.at(warp.cta, store.offset, "O")
        where = held.slot if held is not None else f"shared offset {store.offset:#x}"
        within = held.label[0] if held is not None else None
        label = tensors.label(store.tensor_map, store.coordinates, within)
        if held is not None and label != held.label:
            self.fault(f"O tile {held.label} is stored as {label}")
        self.record.did(warp, "store O", where, label, self.tick())
        self.record.amounts["bytes stored"] += store.bytes
        if held is not None:
            held.use(self.time)
            self.storing[id(store)] = (store, held)
            held.users.add(id(store))

    def store_read(self, store: Any) -> None:
        """A TMA store has read shared memory."""
        _, held = self.storing.pop(id(store), (None, None))
        if held is not None:
            held.users.discard(id(store))
            held.use(self.tick())
            if not held.users:
                self.places.end(held.cta, held.slot, self.time)

    # -- tensor memory -------------------------------------------------------------------------

    def allocated(
        self, slot: int, cta: int, start: int, columns: int, offset: int, instruction: Any
    ) -> None:
        """``tcgen05.alloc`` writes the address of its columns to shared memory."""
        self.pointers.add(offset)

    def tmem_access(
        self, convoy: Any, slots: Any, ctas: Any, lane: Any, column: Any, transfer: Any,
        write: bool,
    ) -> None:  # fmt: skip
        """``tcgen05.ld`` and ``st``."""
        size = 128 * transfer.columns
        for slot, first in zip(slots.tolist(), column.tolist(), strict=True):
            self.record.amounts[f"TMEM bytes {'stored' if write else 'loaded'}"] += size
            warp = self.warp(slot)
            if warp.role.startswith("softmax"):
                if write:
                    self._write_p(slot, first, transfer.columns)
                else:
                    self._read_s(slot, first)
            else:
                self._touch_o(slot, first, write)

    def _region(self, column: int) -> str:
        """The region of MMAs' results that a column is in."""
        first = max((start for start in self.regions if start <= column), default=-1)
        return self.regions.get(first, f"column {column}")

    def _read_s(self, slot: int, column: int) -> None:
        warp = self.warp(slot)
        region = self._region(column)
        held = self.places.at(warp.cta, column, "S")
        label = held.label if held is not None else ()
        if held is None:
            self.fault(f"{warp} reads column {column}, which holds no S")
        else:
            held.use(self.time)
            held.users.add(slot)
        self.reading[slot] = label
        self.record.did(warp, "read S", region, label, self.tick())

    def _write_p(self, slot: int, column: int, width: int) -> None:
        warp = self.warp(slot)
        region = self._region(column)
        label = self.reading.get(slot, ())
        name = region.replace("S", "P")
        scores = self.places.held(warp.cta, name.replace("P", "S"))
        if scores is not None and scores.label == label:
            self.leave_s(scores)
        self.places.put("P", warp.cta, name, label, (column, column + width), self.tick())
        self.record.did(warp, "write P", name, label, self.time)

    def _touch_o(self, slot: int, column: int, write: bool) -> None:
        warp = self.warp(slot)
        region = self._region(column)
        held = self.places.held(warp.cta, region)
        label = held.label if held is not None else ()
        if held is None:
            self.fault(f"{warp} touches column {column}, which holds no O")
        else:
            held.use(self.tick())
        last = self.last(warp)
        if write and last is not None and (last.what, last.on) == ("finish O", region):
            last.what = "rescale O"
            self.finished.pop(slot, None)
            return
        if last is not None and (last.what, last.on) == ("rescale O", region):
            last.end = self.tick()
            return
        self.record.did(warp, "finish O", region, label, self.tick())
        self.finished.setdefault(slot, set()).add(region)
        self.output[slot] = int(region[1:]) if region[1:].isdigit() else -1, label

    # -- shared memory -------------------------------------------------------------------------

    def shared_access(
        self, convoy: Any, lanes: Any, ctas: Any, offsets: Any, size: int, write: bool,
        instruction: Any,
    ) -> None:  # fmt: skip
        """Loads and stores of threads."""
        for slot in np.unique(lanes // 32).tolist():
            mine = offsets[lanes // 32 == slot]
            low, high = int(mine.min()), int(mine.max()) + size
            warp = self.warp(slot)
            if warp.role.startswith("softmax") and write:
                stage = int(warp.role[-1])
                self.statistics |= dict.fromkeys(mine.tolist(), stage)
                self.record.did(warp, "write stats", f"stats[{stage}]", (), self.tick())
            elif warp.role == "correction" and low not in self.pointers:
                self._correction(slot, low, high, write)

    def _correction(self, slot: int, low: int, high: int, write: bool) -> None:
        warp = self.warp(slot)
        if low in self.statistics:
            stats = f"stats[{self.statistics[low]}]"
            self.record.did(warp, "read stats", stats, (), self.tick())
            return
        stage, label = self.output.get(slot, (-1, ()))
        where = f"sO[{stage}]"
        if write:
            self.places.put("O", warp.cta, where, label, (low, high), self.tick())
            self.record.did(warp, "finish O", f"O{stage}", label, self.time)
            if self.kernel.design.epilogue == "correction":
                self.finished.setdefault(slot, set()).add(where)
            return
        held = self.places.held(warp.cta, where)
        if held is not None:
            held.use(self.tick())
        if label and rows_left(self.kernel.problem, self.kernel.design, label, warp.lane):
            self.record.did(warp, "store O", where, label, self.tick())

    # -- the end -------------------------------------------------------------------------------

    def finish(self) -> Record:
        """The record of a machine that has ended."""
        self.record.lives = list(self.places.lives())
        self.count_named()
        warps = self.machine.shape.warps
        self.record.roles = {warp: self.machine.names.role(warp) for warp in range(warps)}
        for index in self.never_used():
            cta = self.number(self.machine.barriers.place(index)[0])
            count = int(self.machine.barriers.expected[index])
            _, name, _ = self.barrier(index)
            self.record.never_used.setdefault(cta, []).append((name, count))
        kinds = Counter(
            operation.what for operations in self.record.warps.values() for operation in operations
        )
        self.record.amounts["rescales"] = kinds["rescale O"]
        self.record.amounts["rescale votes"] = kinds["read stats"] - kinds["finish O"]
        return self.record
