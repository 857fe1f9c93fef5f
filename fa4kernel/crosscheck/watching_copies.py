"""Looks at tiles that threads bring into shared memory by `cp.async`."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from fa4kernel.crosscheck.kernel import Kernel
from fa4kernel.crosscheck.record import Arrival, Label, Source
from fa4kernel.crosscheck.simulated_parts import who
from fa4kernel.crosscheck.watching_tensor import TensorWatch
from fa4kernel.emulator.machine.machine import Machine
from fa4sim.specs.limits import TILE_ROWS


class CopyWatch(TensorWatch):
    """A watcher that also writes down what threads copy.

    A copy does not say for which barrier it is; so copies are kept until their warp arrives. Which
    tile they bring follows from the addresses that they read; copies of rows that are not there
    read none, and belong to the tile that the other warps bring to that slot.
    """

    def __init__(self, kernel: Kernel, machine: Machine) -> None:
        super().__init__(kernel, machine)
        self.copied: dict[int, list[Any]] = defaultdict(list)  # by warp
        self.since: dict[int, int] = {}  # by warp: when the first of these began
        self.expected: set[tuple[int, int]] = set()  # barrier and phase whose tile is on its way
        self.arriving: dict[tuple[int, int], list[Source]] = defaultdict(list)

    def copy_issued(self, convoy: Any, copy: Any) -> None:
        """``cp.async`` copies start."""
        for slot in np.unique(copy.lanes // 32).tolist():
            self.copied[slot].append((copy, copy.lanes // 32 == slot))
            self.since.setdefault(slot, self.tick())

    def copies_arrive(self, convoy: Any, arrival: Any) -> None:
        """``cp.async.mbarrier.arrive``: these copies belong to this barrier."""
        slots = arrival.lanes // 32
        for slot in np.unique(slots).tolist():
            for index in np.unique(arrival.barriers[slots == slot]).tolist():
                self._brought(slot, index)
                warp = self.warp(slot)
                _, name, stage = self.barrier(index)
                self.record.did(warp, "arrive", f"{name}[{stage}]", (), self.tick())
                self.arriving[slot, index].append(self.record.here(warp))

    def _brought(self, slot: int, index: int) -> None:
        """Write down the tile of which a warp has started its share."""
        warp = self.warp(slot)
        _, name, stage = self.barrier(index)
        where = f"{'sQ' if name == 'load_Q_full' else 'sKV'}[{stage}]"
        copies, since = self.copied.pop(slot, []), self.since.pop(slot, self.time)
        tensor, label = self._read(copies) or self._beside(warp.cta, where, stage)
        if not tensor:
            self.fault(f"{warp} copies nothing that is there to {where}")
            return
        self.record.did(warp, f"load {tensor}", where, label, since)
        for copy, mine in copies:
            offsets = copy.offsets[mine]
            extent = int(offsets.min()), int(offsets.max()) + copy.size
            held = self.places.put(tensor, warp.cta, where, label, extent, since)
            held.size += copy.size * int(mine.sum())
            self.record.amounts["bytes loaded"] += copy.size * int(mine.sum())
        phase = int(self.machine.barriers.phase[index])
        if (index, phase) not in self.expected:
            self.expected.add((index, phase))
            self.expect_landing(index, tensor, label, where, warp.cta)

    def _read(self, copies: list[Any]) -> tuple[str, Label] | None:
        """The tensor and tile that copies read; None if they read nothing."""
        found = set()
        for copy, mine in copies:
            reading = copy.sources[mine & (copy.taken > 0)]
            if not len(reading):
                continue
            place = self.machine.memory.region_of(reading, 1, copy.instruction)
            if place is None:
                self.fault("one copy reads several arrays")
                continue
            region, offsets = place
            found |= self.kernel.tensors.rows_at(region.memory, offsets)
        if len(found) > 1:
            self.fault(f"copies to one slot read several tiles: {sorted(found)}")
        return min(found, default=None)

    def _beside(self, cta: int, where: str, stage: int) -> tuple[str, Label]:
        """What other warps bring to the same slot; a Q tile without rows follows the first."""
        if where == f"sQ[{stage}]" and stage > 0:
            first = self.places.held(cta, "sQ[0]")
            if first is not None:
                *of, row = first.label
                return "Q", (*of, row + stage * TILE_ROWS)
        held = self.places.held(cta, where)
        return ("", ()) if held is None else (held.tensor, held.label)

    def copies_arrived(self, arrival: Any) -> None:
        """The copies are there: it counts."""
        slots = arrival.lanes // 32
        for slot in np.unique(slots).tolist():
            for index in np.unique(arrival.barriers[slots == slot]).tolist():
                mine = (slots == slot) & (arrival.barriers == index)
                warp, owner = self.warp(slot), self.barrier(index)[0]
                phase = int(self.machine.barriers.phase[index])
                by, count = who(warp.role, warp.cta, owner), int(mine.sum())
                source = self.arriving[slot, index][0]
                if count == 32:
                    self.arriving[slot, index].pop(0)
                self.use(index).arrivals.append(Arrival(phase, count, 0, by, source, self.tick()))
