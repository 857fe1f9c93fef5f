"""What mbarriers hand on, and the rules of their phases.

Whoever arrives in a phase gives its clock to all who see that phase complete. Three rules keep
phases apart (each holds in every schedule, or the kernel works by luck):

1. who arrives, commits or starts a copy knows that all earlier phases are complete: else it may
   land in one of them;
2. when a phase completes, all who looked at the phase before are known to have done so: else they
   may look too late and see the wrong parity;
3. who waits is not two phases behind: else it cannot tell the phase from a later one. Of a barrier
   that only commits of one thread complete, it also knows what later commits tell: they land in
   the order of their issue.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.checks.actors import Entries, entries
from fa4kernel.emulator.checks.barrier_rows import MOST_LOOKS, BarrierRows
from fa4kernel.emulator.checks.clocks import LONE, WHOLE, Index, Ints
from fa4kernel.emulator.checks.hazard import KINDS
from fa4kernel.emulator.checks.records import Event
from fa4kernel.emulator.checks.reports import party
from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.ptx.module import Instruction


def part_at(part: Any, i: int) -> int:
    """Whose clock counts for one of several, see :mod:`clocks`."""
    return int(part[i]) if isinstance(part, np.ndarray) else int(part)


class BarrierChecks(BarrierRows):
    """Arrivals, waits and phases of mbarriers."""

    # --- arrivals --------------------------------------------------------------------------

    def arrive(
        self, convoy: Convoy, index: Index, count: Any, relaxed: bool, instruction: Instruction
    ) -> None:
        """Arrivals (count 0: only bytes are announced) by lanes of a convoy."""
        barriers = self.machine.barriers
        found = entries(self.machine, convoy, index)
        at = index[found.lane]
        rows = self.row[at]
        slots, part = found.slots, found.part
        event = self.state.event(instruction, slots)
        phase = barriers.phase[at]
        self.state.acting = event, 0
        self.check_init(rows, slots, part, event, False)
        number = found.lanes * (count if np.ndim(count) == 0 else count[found.lane])
        landing = phase + self._split(at, rows, number, event)
        self.early(rows, self.clocks.known[part, slots, self.phase[rows]], landing, event)
        if np.ndim(count) == 0 and count == 0:
            return
        given = self.clocks.release(found.warps.slots, found.warps.part)
        if relaxed:
            given = self.state.fences.given_relaxed(found.warps, given)
        if len(found.row) > len(given):
            given = given[found.row]
        self.given.join(2 * rows + (phase & 1), given)
        self._remote(at, rows, slots, part, event)
        self._sole(at, rows, found, count, phase)

    def _split(self, at: Index, rows: Index, number: Index, event: Event) -> Any:
        """How many phases end before each entry lands, by those that come with it but before it.

        Warps that arrive in one step arrive one after the other all the same. What the lanes of one
        warp bring together belongs to one phase; a warp of which it does not is told of.
        """
        barriers = self.machine.barriers
        if np.sum(number) <= barriers.pending[at].min():
            return 0
        ahead = np.zeros(len(at), np.int32)
        left: dict[int, tuple[int, int]] = {}
        for i, (barrier, brought) in enumerate(zip(at.tolist(), number.tolist(), strict=True)):
            expected = max(1, int(barriers.expected[barrier]))
            now, ahead[i] = left.get(barrier, (int(barriers.pending[barrier]), 0))
            if now == 0:  # an underflow, a fault
                continue
            if brought > now:
                self._tell("split-arrival", rows[i], (None, 0), event, i)
            over = (brought - now) // expected + 1 if brought >= now else 0
            left[barrier] = (now - brought - 1) % expected + 1, int(ahead[i]) + over
        return ahead

    def _remote(self, at: Index, rows: Index, slots: Index, part: Any, event: Event) -> None:
        """Arrivals on another CTA's barriers: that CTA must live until they are there."""
        owners = at // self.machine.barriers.slots
        far = owners != self.machine.ctas_of(slots)
        if np.count_nonzero(far):
            lifetime = self.state.lifetime
            columns = self.clocks.own(slots, part)
            lifetime.arrived(rows[far], columns[far], self.clocks.time[slots[far]] - 1)
            gone = far & lifetime.ended[owners]
            for i in np.flatnonzero(gone):
                self._tell("used-after-exit", rows[i], (None, 0), event, int(i))

    def early(
        self, rows: Index, known: Any, phase: Any, event: Event, which: Index | None = None
    ) -> None:
        """Rule 1: who does this knows that the phases before ``phase`` are complete.

        Args:
            which: the party of the event for each entry, if not one after the other.
        """
        late = known < phase
        if not np.count_nonzero(late):
            return
        for i in np.flatnonzero(late):
            party_of = int(i) if which is None else int(which[i])
            self._tell("early-phase", rows[i], (None, 0), event, party_of)

    def _sole(
        self, at: Index, rows: Index, found: Entries, count: Any, phase: NDArray[np.int32]
    ) -> None:
        """Who makes all arrivals of a phase itself knows that it is complete."""
        barriers = self.machine.barriers
        number = found.lanes * (count if np.ndim(count) == 0 else count[found.lane])
        sole = (number == barriers.expected[at]) & (barriers.bytes[at] == 0)
        if np.count_nonzero(sole):
            part, slots = found.part, found.slots
            for which in (WHOLE, LONE):
                i = np.flatnonzero(sole & ((np.asarray(part) == WHOLE) | (which == LONE)))
                self.clocks.known[which, slots[i], self.phase[rows[i]]] = phase[i] + 1

    def signal(self, index: Index, given: Ints, columns: Index | None = None) -> None:
        """Asynchronous arrivals land and bring a clock each (or some columns of one)."""
        if columns is None and given.shape[1] < self.clocks.capacity:  # made before a new component
            columns = np.arange(given.shape[1])
        keys = 2 * self.row[index] + (self.machine.barriers.phase[index] & 1)
        self.given.join(keys, given, columns)

    # --- waits -----------------------------------------------------------------------------

    def poll(
        self, convoy: Convoy, index: Index, wanted: Index, passed: NDArray[np.bool_], token: bool,
        relaxed: bool, instruction: Instruction,
    ) -> None:  # fmt: skip
        """``test_wait`` and ``try_wait``, at each try."""
        found = entries(self.machine, convoy, index, wanted)  # and so whether it passed
        at, lane = index[found.lane], found.lane
        rows, slots, part = self.row[at], found.slots, found.part
        phase, through = self.machine.barriers.phase[at], passed[lane]
        known = self.clocks.known[part, slots, self.phase[rows]]
        goal = wanted[lane] if token else known - ((known ^ wanted[lane]) & 1)
        event = self.state.event(instruction, slots)
        self.check_init(rows, slots, part, event, False)
        for i in np.flatnonzero(phase > goal + 1):
            told = (
                0
                if token
                else self.state.tensor.told(int(slots[i]), part_at(part, int(i)), rows[i])
            )
            told -= (told ^ int(wanted[lane[i]])) & 1
            if phase[i] <= told + 1:
                goal[i] = told
                if self.state.strict:
                    self._tell("commit-order", rows[i], (None, 0), event, int(i))
            else:
                self._tell("ambiguous-wait", rows[i], (None, 0), event, int(i))
        if not np.count_nonzero(through):
            return
        if not through.all():
            rows, slots, goal = rows[through], slots[through], goal[through]
            part = part if not isinstance(part, np.ndarray) else part[through]
            phase, row = phase[through], found.row[through]
        else:
            row = found.row
        self._look(rows, slots, part, goal, event, row)
        given = self.given.rows[2 * rows + (phase - 1 & 1)]
        given[goal < 0] = 0
        if len(row) > 1 and np.count_nonzero(row[1:] == row[:-1]):
            for entry in range(len(row)):
                one = slice(entry, entry + 1)
                self.clocks.acquire(slots[one], LONE, given[one])
            return
        if relaxed:
            self.state.fences.learned_relaxed(slots, given)
            given = np.where(self.clocks.control, given, 0)
        self.clocks.acquire(slots, part, given)

    def _look(
        self, rows: Index, slots: Index, part: Any, goal: Any, event: Event, row: Index
    ) -> None:
        polls = self.clocks.polls[slots]
        self.count_polls[slots] += 1
        now = self.count_polls[slots]
        known = self.clocks.known
        known[LONE, slots, polls] = now
        if isinstance(part, np.ndarray):
            i = np.flatnonzero(part == WHOLE)
            known[WHOLE, slots[i], polls[i]] = now[i]
        elif part == WHOLE:
            known[WHOLE, slots, polls] = now
        warps = slots // self.machine.shape.ctas
        self.looks[rows, goal & 1, warps] = now
        self._looked[rows, goal & 1, warps] = len(self._looks)
        self._looks.append(event)
        if len(self._looks) > self._most_looks:
            self._forget()

    def _forget(self) -> None:
        """Keep of the looks only those that are the last of a warp at a barrier."""
        kept, places = np.unique(self._looked, return_inverse=True)
        self._looks = [self._looks[i] for i in kept]
        self._looked = places.reshape(self._looked.shape).astype(np.int32)
        self._most_looks = 2 * len(kept) + MOST_LOOKS

    def completed(self, index: Index) -> None:
        """Phases complete; the machine has counted them already."""
        rows, phase = self.row[index], self.machine.barriers.phase[index] - 1
        parity = phase & 1
        keys, component = 2 * rows + parity, self.phase[rows]
        given = self.given.rows
        given[keys, component] = given[keys, component - 1] = phase + 1
        looks = self.looks[rows, 1 - parity]
        if np.count_nonzero(looks):
            known = given[keys[:, None], self._polls[index // self.machine.barriers.slots]]
            late = looks > known
            if np.count_nonzero(late):
                self._overrun(index, rows, phase, late)
            self.looks[rows, 1 - parity] = 0
        given[2 * rows + 1 - parity] = 0

    def _overrun(
        self, index: Index, rows: Index, phase: NDArray[np.int32], late: NDArray[np.bool_]
    ) -> None:
        ctas = index // self.machine.barriers.slots
        for i, warp in np.argwhere(late):
            event = self._looks[self._looked[rows[i], (phase[i] - 1) & 1, warp]]
            slot = int(warp) * self.machine.shape.ctas + int(ctas[i])
            which = int(np.flatnonzero(event.slots == slot)[0])
            self.state.reports.add(
                "overrun", KINDS["overrun"][1], party(self.machine, event, which),
                self.state.current(), self.place(int(rows[i])),
            )  # fmt: skip
