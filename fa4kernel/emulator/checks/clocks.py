"""Vector clocks: what each warp knows to have happened.

A clock is a row of counters, one for each *component*: something that happens again and again in
an order of its own, such as the accesses of one warp. Who has 7 in a component knows of everything
up to the seventh. Barriers hand rows on: who arrives gives its own, who waits takes the maximum.

A warp has two clocks. That of *all lanes* says what every lane of the warp knows; that of a *lone
lane* what the lane does that acts for the warp (the elected one, or thread 0). A lone lane that
arrives on a barrier passes on its own knowledge only: of what the other lanes did before, it knows
when the warp last synchronised (``bar.warp.sync``, named barriers). ``elect.sync`` makes lanes wait
for each other without making memory visible (PTX ISA 9.7.13.15 promises that for ``bar.warp.sync``
alone), so it shares the order of events only.

Components come in these groups, the first five fixed and one for each warp of a cluster:

- accesses by all lanes, and by a lone lane;
- the same two as seen through a proxy fence: what asynchronous copies and MMAs may rely on;
- polls of mbarriers;
- others, made when first needed: bytes that landed in a phase of an mbarrier, MMAs that a warp
  issued, initialisations, allocations; completed phases and generations.

*Control* components (polls, phases, generations, commits) tell the order of events without making
memory visible; a TMA copy hands on only these.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.machine.registers import Shape

Ints = NDArray[np.int32]
Index = NDArray[np.intp]

#: A time that nobody has reached: the access is still under way.
OPEN = 2**31 - 1
#: Which clock of a warp.
WHOLE, LONE = 0, 1


class Table:
    """Rows of clocks that are kept elsewhere, such as what has been released to barriers."""

    def __init__(self, clocks: Clocks, rows: int) -> None:
        self.rows = np.zeros((rows, clocks.capacity), np.int32)
        clocks.tables.append(self)

    def join(self, keys: Index, values: Ints, columns: Index | None = None) -> None:
        """``rows[keys] = max(rows[keys], values)``; a key may come more than once.

        Args:
            columns: the components that ``values`` has, if not all.
        """
        if len(keys) > 1:
            order = keys.argsort(kind="stable")
            ordered = keys[order]
            starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
            if len(starts) < len(keys):
                values = np.maximum.reduceat(values[order], starts, axis=0)
                keys = ordered[starts]
        at: Any = keys if columns is None else (keys[:, None], columns)
        self.rows[at] = np.maximum(self.rows[at], values)


class Clocks:
    """The clocks of all warps of a wave; components belong to the warps of one cluster.

    Attributes:
        known: int32, shape (2, warps of all CTAs, components): of all lanes, of a lone lane.
        time: int32, each warp's own time, which its accesses are stamped with.
        epoch: int32, how often all lanes of each warp have synchronised, or learnt something.
        whole, lone, polls: each warp's components.
        control: bool, which components are of control.
    """

    def __init__(self, shape: Shape, expected: int = 64) -> None:
        slots = shape.warps * shape.ctas
        slot = np.arange(slots)
        rank = slot % shape.ctas // shape.clusters
        self.shape = shape
        self.units = shape.warps * shape.size
        self.unit: Index = rank * shape.warps + slot // shape.ctas
        self.whole, self.lone = self.unit, self.unit + self.units
        #: From a component of accesses to the same as seen through a proxy fence.
        self.through = 2 * self.units
        self.polls: Index = 4 * self.units + self.unit
        self.count = 5 * self.units
        self.capacity = self.count + expected
        self.known = np.zeros((2, slots, self.capacity), np.int32)
        self.time = np.ones(slots, np.int32)
        self.epoch = np.zeros(slots, np.int32)
        self.control = np.zeros(self.capacity, np.bool_)
        self.control[4 * self.units : 5 * self.units] = True
        self.passing: Index = np.flatnonzero(self.control)
        self.tables: list[Table] = []
        #: Components that are followed by the same as seen through a proxy fence.
        self.pairs: Index = np.zeros(0, np.intp)
        self.known[WHOLE, slot, self.whole] = 1
        self.known[LONE, slot, self.lone] = 1

    def components(self, control: tuple[bool, ...]) -> int:
        """Make new components, of control or not; returns the first."""
        first = self.count
        self.count += len(control)
        if self.count > self.capacity:
            more = max(self.capacity // 2, len(control))
            self.capacity += more
            self.known = np.pad(self.known, ((0, 0), (0, 0), (0, more)))
            self.control = np.pad(self.control, (0, more))
            for table in self.tables:
                table.rows = np.pad(table.rows, ((0, 0), (0, more)))
        self.control[first : self.count] = control
        self.passing = np.flatnonzero(self.control)
        return first

    def pair(self) -> int:
        """Make a component and, after it, the same as seen through a proxy fence."""
        first = self.components((False, False))
        self.pairs = np.append(self.pairs, first)
        return first

    def knows(self, part: Any, slots: Any, components: Any, times: Any) -> NDArray[np.bool_]:
        """Whether warps know of these times of these components."""
        found: NDArray[np.bool_] = self.known[part, slots, components] >= times
        return found

    def own(self, slots: Index, part: Any) -> Index:
        """The component that an access of these warps is stamped with."""
        return np.where(part == WHOLE, self.whole[slots], self.lone[slots])

    def tick(self, slots: Index) -> None:
        """Later accesses of these warps are later than what they have passed on."""
        self.time[slots] += 1
        now = self.time[slots]
        self.known[WHOLE, slots, self.whole[slots]] = now
        self.known[LONE, slots, self.lone[slots]] = now

    def release(self, slots: Index, part: Any) -> Ints:
        """Rows that these warps pass on (each warp at most once); their time goes on."""
        rows = self._all_lanes(slots, np.asarray(part) == WHOLE)
        self.tick(slots)
        return rows

    def _all_lanes(self, slots: Index, whole: Any) -> Ints:
        """What these warps know; where ``whole``, with what the other lanes know of themselves."""
        rows: Ints = self.known[LONE, slots]
        at = np.flatnonzero(np.broadcast_to(whole, len(slots)))
        if len(at):
            mine = slots[at]
            for component in (self.whole[mine], self.whole[mine] + self.through):
                rows[at, component] = self.known[WHOLE, mine, component]
        return rows

    def acquire(self, slots: Index, part: Any, rows: Ints) -> None:
        """These warps (each at most once) learn what the rows say."""
        if isinstance(part, np.ndarray):
            both = np.flatnonzero(np.asarray(part) == WHOLE)
            self._learn(LONE, slots, rows)
            if len(both):
                self._learn(WHOLE, slots[both], rows[both] if len(rows) > 1 else rows)
                self.epoch[slots[both]] += 1
            return
        self._learn(LONE, slots, rows)
        if part == WHOLE:
            self._learn(WHOLE, slots, rows)
            self.epoch[slots] += 1

    def _learn(self, part: int, slots: Index, rows: Ints) -> None:
        first, last = int(slots[0]), int(slots[-1]) + 1
        if last - first == len(slots):
            view = self.known[part, first:last]
            np.maximum(view, rows, out=view)
        else:
            self.known[part, slots] = np.maximum(self.known[part, slots], rows)

    def merge(self, slots: Index) -> None:
        """The lanes of these warps synchronise: each knows what the others know."""
        rows = self._all_lanes(slots, True)
        self.known[LONE, slots] = rows
        self.known[WHOLE, slots] = rows
        self.epoch[slots] += 1
        self.tick(slots)

    def left_over(self, slots: Index) -> None:
        """A lone lane of each of these warps is all that lives: what it did, the warp did."""
        self.known[WHOLE, slots] = np.maximum(self.known[WHOLE, slots], self.known[LONE, slots])

    def meet(self, slots: Index) -> None:
        """The lanes of these warps wait for each other: they share the order of events only."""
        columns = self.passing
        first, last = int(slots[0]), int(slots[-1]) + 1
        at: Any = slice(first, last) if last - first == len(slots) else slots[:, None]
        self.known[:, at, columns] = self.known[:, at, columns].max(axis=0)

    def fence(self, slots: Index, part: Any) -> None:
        """``fence.proxy.async``: what these know, asynchronous accesses may rely on from here."""
        end = self.through
        for which in (LONE, WHOLE):
            chosen = slots
            if which == WHOLE:
                chosen = slots[np.broadcast_to(np.asarray(part) == WHOLE, len(slots))]
            rows = self.known[which, chosen]
            np.maximum(rows[:, end : 2 * end], rows[:, :end], out=rows[:, end : 2 * end])
            if len(self.pairs):
                rows[:, self.pairs + 1] = np.maximum(rows[:, self.pairs + 1], rows[:, self.pairs])
            self.known[which, chosen] = rows
        self.tick(slots)  # what they write from here on, no fence has seen
