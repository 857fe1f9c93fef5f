"""mbarriers: where they are, who made them, and the tables the checks keep about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.checks.actors import entries
from fa4kernel.emulator.checks.clocks import LONE, WHOLE, Index, Ints, Table
from fa4kernel.emulator.checks.hazard import KINDS, Party, Place
from fa4kernel.emulator.checks.records import Event
from fa4kernel.emulator.checks.reports import cta_number, party
from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.ptx.module import Instruction

if TYPE_CHECKING:
    from fa4kernel.emulator.checks.state import State


#: Looks at barriers that are remembered before those are dropped that others have followed.
MOST_LOOKS = 1024


class BarrierRows:
    """The mbarriers of a wave, as the checks see them.

    Attributes:
        row: for each barrier of the machine, its row in the tables below; 0 if it has none.
        phase: component "phases known complete" of each row; the one before is "bytes landed".
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self.machine = state.machine
        self.clocks = state.clocks
        barriers = self.machine.barriers
        self.row: Index = np.zeros(len(barriers.phase), np.intp)
        self.phase: Index = np.zeros(1, np.intp)
        self._component: dict[int, int] = {}
        self._slots = barriers.slots
        #: Where in shared memory barriers lie, in units of 8 bytes: the first, and after the last.
        self.extent = (barriers.slots, 0)
        self._count = 1
        warps = self.machine.shape.warps
        #: Clocks given to the phase of each parity: rows 2 row + parity.
        self.given = Table(self.clocks, 2)
        #: Each warp's last look at the phase of each parity, in its own count of polls; and when.
        self.looks = np.zeros((1, 2, warps), np.int32)
        self._looked = np.zeros((1, 2, warps), np.int32)
        self._looks: list[Event] = []
        self._most_looks = MOST_LOOKS
        self.count_polls = np.zeros(self.clocks.known.shape[1], np.int32)
        shape = self.machine.shape
        #: For each CTA the components of the polls of its warps.
        self._polls: Index = self.clocks.polls.reshape(shape.warps, shape.ctas).T
        #: Initialisation: the component and time that a user must know.
        self.init_component: Index = np.zeros(1, np.intp)
        self.init_time: Ints = np.zeros(1, np.int32)
        self.init_event: list[tuple[Event | None, int]] = [(None, 0)]
        self._inits: dict[int, int] = {}

    # --- init ------------------------------------------------------------------------------

    def init(self, convoy: Convoy, lanes: Index, index: Index, instruction: Instruction) -> None:
        """``mbarrier.init``: an access of its own kind, made visible by a fence of its own."""
        found = entries(self.machine, convoy, index)
        slots = found.slots
        event = self.state.event(instruction, slots)
        for i, (slot, which) in enumerate(zip(slots, index[found.lane], strict=True)):
            if self.machine.barriers.phase[which] >= 0:
                self._tell("live-barrier", self.row[which], (None, 0), event, i)
            self.extent = (min(self.extent[0], int(which) % self._slots),
                           max(self.extent[1], int(which) % self._slots + 1))  # fmt: skip
            row = self._row_of(int(which))
            self.init_component[row] = self._init_component(int(slot))
            self.init_time[row] = self.clocks.time[slot]
            self.init_event[row] = (event, i)
            self.given.rows[2 * row : 2 * row + 2] = 0
            self.looks[row] = 0
        for part in (WHOLE, LONE):
            chosen = np.broadcast_to((np.asarray(found.part) == WHOLE) | (part == LONE), len(slots))
            mine = slots[chosen]
            for slot in mine:
                self.clocks.known[part, slot, self._init_component(int(slot))] = self.clocks.time[
                    slot
                ]

    def inval(self, index: Index) -> None:
        """``mbarrier.inval``: the memory is free for other use; a new init makes a new barrier."""
        self.row[index] = 0

    def live(self, ctas: Index, offsets: Any, size: int) -> NDArray[np.bool_] | None:
        """Whether ``size`` bytes from offsets on hold a live barrier; None if none does.

        Args:
            ctas, offsets: one for each access.
        """
        first, last = offsets >> 3, offsets + size - 1 >> 3
        if self.extent[1] <= first.min() or self.extent[0] > last.max():
            return None
        found = np.zeros(len(ctas), np.bool_)
        for step in range(int((last - first).max()) + 1):
            at = np.minimum(first + step, last)
            found |= self.machine.barriers.phase[ctas * self._slots + at] >= 0
        return found if np.count_nonzero(found) else None

    def _init_component(self, slot: int) -> int:
        """The component of a warp's initialisations; the next is the same through a fence."""
        unit = int(self.clocks.unit[slot])
        if unit not in self._inits:
            self._inits[unit] = self.clocks.pair()
        return self._inits[unit]

    def init_fence(self, slots: Index, part: Any) -> None:
        """``fence.mbarrier_init``: inits are visible to asynchronous arrivals."""
        for component in self._inits.values():
            for which in (LONE, WHOLE):
                mine = (
                    slots
                    if which == LONE
                    else slots[np.broadcast_to(np.asarray(part) == WHOLE, len(slots))]
                )
                known = self.clocks.known[which, mine, component]
                old = self.clocks.known[which, mine, component + 1]
                self.clocks.known[which, mine, component + 1] = np.maximum(old, known)

    def init_columns(self) -> Index:
        """Components of initialisations, plain and through a fence."""
        found = [c + i for c in self._inits.values() for i in (0, 1)]
        return np.array(found, np.intp)

    def _row_of(self, index: int) -> int:
        row = int(self.row[index])
        if row:
            return row
        row = self.row[index] = self._count
        self._count += 1
        if self._count > len(self.phase):
            more = max(64, self._count)
            self.phase = np.pad(self.phase, (0, more))
            self.init_component = np.pad(self.init_component, (0, more))
            self.init_time = np.pad(self.init_time, (0, more))
            self.looks = np.pad(self.looks, ((0, more), (0, 0), (0, 0)))
            self._looked = np.pad(self._looked, ((0, more), (0, 0), (0, 0)))
            self.given.rows = np.pad(self.given.rows, ((0, 2 * more), (0, 0)))
            self.init_event += [(None, 0)] * more
        cta, offset = self.machine.barriers.place(index)
        key = int(self.machine.rank_of(cta)) << 24 | offset
        if key not in self._component:
            self._component[key] = self.clocks.components((False, True)) + 1
        self.phase[row] = self._component[key]
        return int(row)

    def check_init(
        self, rows: Index, slots: Index, part: Any, event: Event, asynchronous: bool,
        which: Index | None = None,
    ) -> None:  # fmt: skip
        """The init of barriers must be known to who uses them.

        Args:
            which: the party of the event for each entry, if not one after the other.
        """
        component = self.init_component[rows] + (1 if asynchronous else 0)
        known = self.clocks.knows(part, slots, component, self.init_time[rows])
        if known.all():
            return
        for i in np.flatnonzero(~known):
            first = self.init_event[int(rows[i])]
            party_of = int(i) if which is None else int(which[i])
            self._tell("uninitialised-barrier", rows[i], first, event, party_of)

    # --- telling ---------------------------------------------------------------------------

    def place(self, row: int) -> Place:
        """Where the barrier of a row is."""
        (index,) = np.flatnonzero(self.row == row)
        cta, offset = self.machine.barriers.place(int(index))
        name = self.machine.barrier_name(int(index))
        return Place("mbarrier", cta_number(self.machine, cta), offset, offset + 7, name)

    def _tell(
        self, kind: str, row: Any, first: tuple[Event | None, int], event: Event, which: int
    ) -> None:
        before: Party | None = None
        if first[0] is not None:
            before = party(self.machine, first[0], first[1])
        second = party(self.machine, event, which)
        self.state.reports.add(kind, KINDS[kind][1], before, second, self.place(int(row)))
