"""Work that a thread starts and awaits by groups: ``cp.async`` copies and ``wgmma``.

Such work completes in the order in which its groups were closed, so a count of it is a component
of clocks like any other: who has waited for a group knows the count at its end.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from fa4kernel.emulator.checks.accesses import COPY, Actor
from fa4kernel.emulator.checks.actors import Warps, warps_of
from fa4kernel.emulator.checks.clocks import LONE, WHOLE, Index, Ints
from fa4kernel.emulator.checks.footprints import wgmma_operand
from fa4kernel.emulator.checks.records import Event
from fa4kernel.emulator.checks.shadow import Pieces
from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.machine.copies import Arrival, Copy
from fa4kernel.emulator.machine.warpgroup_mma import ROWS, Product
from fa4kernel.emulator.ptx.module import Instruction

if TYPE_CHECKING:
    from fa4kernel.emulator.checks.state import State


class Series:
    """Counts of one kind of work, by the warp that starts it.

    Attributes:
        count: how much each warp has started.
    """

    def __init__(self, state: State) -> None:
        self.clocks = state.clocks
        self.count = np.zeros(self.clocks.known.shape[1], np.int32)
        self._of_unit: dict[int, int] = {}
        self._groups: dict[int, list[tuple[int, int]]] = defaultdict(list)

    def component(self, slot: int) -> int:
        """The component of a warp's work; the next is the same as seen through a proxy fence."""
        unit = int(self.clocks.unit[slot])
        if unit not in self._of_unit:
            self._of_unit[unit] = self.clocks.pair()
        return self._of_unit[unit]

    def start(self, slots: Index, groups: Index) -> tuple[Index, Ints]:
        """Warps start a piece each, in these groups; returns component and time of each."""
        self.count[slots] += 1
        for slot, group in zip(map(int, slots), map(int, groups), strict=True):
            self._groups[slot].append((group, int(self.count[slot])))
        return np.array([self.component(int(s)) for s in slots]), self.count[slots]

    def wait(self, owners: Index, warps: Warps, before: Index | None) -> None:
        """Warps have waited until the groups below ``before`` (None: all) of owners are done.

        Args:
            owners: whose work each of the warps has waited for.
        """
        for i, (owner, slot) in enumerate(zip(map(int, owners), warps.slots, strict=True)):
            log = self._groups[owner]
            over = [c for group, c in log if before is None or group < before[i]]
            done = max(over, default=0)
            self._groups[owner] = [(group, c) for group, c in log if c not in over]
            if not done:
                done = int(self.clocks.known[LONE, owner, self.component(owner)])
            part = warps.part if not isinstance(warps.part, np.ndarray) else warps.part[i]
            for which in (LONE, WHOLE) if part == WHOLE else (LONE,):
                row = self.clocks.known[which, slot]
                component = self.component(owner)
                row[component] = max(int(row[component]), done)


class CopySeries:
    """``cp.async``: writes of shared memory by the generic proxy."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.machine = state.machine
        self.series = Series(state)

    def issued(self, convoy: Convoy, copy: Copy) -> None:
        """Copies of single threads start."""
        state = self.state
        warps = warps_of(self.machine, convoy)
        counts = convoy.lanes_per_warp()
        first = np.cumsum(counts) - counts
        component, time = self.series.start(warps.slots, copy.groups[first])
        rows = np.repeat(np.arange(len(counts)), counts)
        slots = warps.slots[rows]
        event = state.event(copy.instruction, slots, COPY)
        # that the tensor core needs a proxy fence behind these is only told when strict
        seen = component[rows] + (1 if state.strict else 0)
        records = state.records.add(event, component[rows], time[rows], seen)
        start = copy.ctas * state.shared.size + copy.offsets // 4
        index = start[:, None] + np.arange(copy.size // 4)
        part = warps.part if not isinstance(warps.part, np.ndarray) else warps.part[rows]
        actor = Actor(event, part, records)
        state.accesses.write(state.shared, Pieces(index), actor)

    def waited(self, convoy: Convoy, most: int | None) -> None:
        """``cp.async.wait_group`` or ``wait_all`` is over."""
        warps = warps_of(self.machine, convoy)
        _, leaders = convoy.warps()
        committed = self.machine.agents.copies.committed[leaders]
        self.series.wait(warps.slots, warps, None if most is None else committed - most)

    def arrive(self, convoy: Convoy, arrival: Arrival) -> None:
        """``cp.async.mbarrier.arrive``: it will hand on the copies so far."""
        state, clocks = self.state, self.state.clocks
        warps = warps_of(self.machine, convoy)
        event = state.event(arrival.instruction, warps.slots, "arrival of copies")
        rows = np.where(clocks.control, clocks.known[LONE, warps.slots], 0)
        for i, slot in enumerate(map(int, warps.slots)):
            rows[i, self.series.component(slot)] = self.series.count[slot]
        index, first = np.unique(arrival.barriers, return_index=True)
        at = np.searchsorted(warps.slots, arrival.lanes[first] // 32)
        barriers = state.barriers
        part = warps.part if not isinstance(warps.part, np.ndarray) else warps.part[at]
        known = clocks.known[part, warps.slots[at], barriers.phase[barriers.row[index]]]
        now = self.machine.barriers.phase[index]
        barriers.early(barriers.row[index], known, now, event)
        arrival.note = (event, warps.slots, rows)

    def arrived(self, arrival: Arrival) -> None:
        """It arrives, for some of its lanes."""
        event, slots, rows = arrival.note
        pairs = np.unique(np.stack([arrival.barriers, arrival.lanes // 32]), axis=1)
        self.state.acting = event, 0
        given = rows[np.searchsorted(slots, pairs[1])]
        self.state.barriers.signal(pairs[0], given)


class ProductSeries:
    """``wgmma``: reads of shared memory by the async proxy.

    They are counted for the first warp of a warpgroup.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self.machine = state.machine
        self.series = Series(state)

    def issued(self, product: Product) -> None:
        """A warpgroup's product starts."""
        state = self.state
        slots = product.slots[:1]
        component, time = self.series.start(slots, np.array([product.group]))
        event = state.event(product.instruction, slots, "wgmma")
        records = state.records.add(event, component, time)
        shape, ctas = product.shape, np.array([product.cta])
        actor = Actor(event, WHOLE, records, component, proxied=True)
        operands = [(product.b, shape.n, shape.b, shape.b_major)]
        if isinstance(product.a, int):
            operands.append((product.a, ROWS, shape.a, shape.a_major))
        for descriptor, rows, dtype, major in operands:
            footprint = wgmma_operand(descriptor, rows, shape.k, dtype, major)
            state.accesses.read(state.shared, footprint.of(ctas, state.shared), actor)

    def waited(self, convoy: Convoy, most: int) -> None:
        """``wgmma.wait_group`` is over."""
        warps = warps_of(self.machine, convoy)
        ctas = self.machine.shape.ctas
        owners = warps.slots // ctas // 4 * 4 * ctas + warps.slots % ctas
        committed = self.machine.agents.warpgroups.committed[warps.slots]
        for i in range(len(warps.slots)):
            one = np.array([i])
            before = committed[one] - most
            mine = Warps(warps.slots[one], warps.part if not isinstance(warps.part, np.ndarray)
                         else warps.part[one])  # fmt: skip
            self.series.wait(owners[one], mine, before)

    def unwaited(self, convoy: Convoy, instruction: Instruction) -> None:
        """A register of a product under way is used."""
        slots = convoy.warps()[0]
        self.state.tell("wgmma-unwaited", Event(instruction, self.machine.steps, slots), 0)
