"""What warps access in shared memory, and how closely accesses follow each other."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.checks.accesses import Actor
from fa4kernel.emulator.checks.clocks import OPEN, Index, Ints
from fa4kernel.emulator.checks.monitor import Monitor
from fa4kernel.emulator.checks.records import Event
from fa4kernel.emulator.checks.shadow import MIXED, Layer, Region, Shadow
from fa4kernel.emulator.mutation.coverage import Place, place_of

#: Told with warps, components and times whenever what they know is held against an earlier access.
Compared = Callable[[Index, Any, Ints], None]


class Footprints:
    """Notes what the checks see of accesses.

    Attributes:
        written: warp to the pieces of shared memory that its threads wrote (bool for each).
        fetched: warp to those that asynchronous work it issued has read.
        tight: places of accesses that the very next arrival or meeting of their warp orders before
            some other access; all others are ordered by later ones as well.
    """

    def __init__(self, monitor: Monitor, compared: Compared) -> None:
        self.monitor = monitor
        self.tight: set[Place] = set()
        self._compared = compared
        self._numbers = _numbered(monitor.shared)
        none = np.zeros(self._numbers.pieces.size, np.bool_)
        self.written: dict[int, NDArray[np.bool_]] = defaultdict(none.copy)
        self.fetched: dict[int, NDArray[np.bool_]] = defaultdict(none.copy)
        #: By component, the times of its accesses; and since when one is open.
        self._times: dict[int, list[int]] = defaultdict(list)
        self._open: dict[int, int] = {}
        self._listen()

    def substance(self, row: Ints) -> Ints:
        """A clock without what is only time: warps are known up to their last access before.

        Who knows of a later time of a warp, in which that warp accessed nothing, knows no more; nor
        does who knows of bytes that landed in a phase in which none did.
        """
        clocks, found = self.monitor.clocks, row.copy()
        landed = [phase - 1 for phase in self.monitor.barriers._component.values()]
        for component in range(2 * clocks.units):
            for known in (component, component + clocks.through):
                found[known] = self._last(component, int(row[known]))
        for component in landed:
            if component < len(row):
                found[component] = self._last(component, int(row[component]))
        return found

    def _last(self, component: int, time: int) -> int:
        """The time of the last access of a component until some time; that time, if one is open."""
        if time >= self._open.get(component, OPEN):
            return time
        at = bisect_right(self._times[component], time)
        return self._times[component][at - 1] if at else 0

    def _remembered(self, event: Event, numbers: Ints) -> None:
        """Note the times of new accesses; of one under way, when it began."""
        records, clocks = self.monitor.records, self.monitor.clocks
        components, times = records.component[numbers].tolist(), records.time[numbers].tolist()
        slots = event.slots.tolist() if len(event.slots) == len(numbers) else [None] * len(numbers)
        for component, time, slot in zip(components, times, slots, strict=True):
            if time == OPEN:
                since = 0 if slot is None else int(clocks.time[slot])
                self._open[component] = min(since, self._open.get(component, OPEN))
            elif time not in self._times[component][-1:]:
                insort(self._times[component], time)

    def _listen(self) -> None:
        accesses, records = self.monitor.accesses, self.monitor.records
        read, write, unknown = accesses.read, accesses.write, accesses._unknown
        add = records.add

        def adding(event: Event, *given: Any, **more: Any) -> NDArray[np.int32]:
            numbers = add(event, *given, **more)
            self._remembered(event, numbers)
            return numbers

        def reading(shadow: Shadow, region: Region, actor: Actor, *more: Any) -> None:
            if shadow is self.monitor.shared and actor.event.agent:
                self._note(self.fetched, region, actor)
            read(shadow, region, actor, *more)

        def writing(shadow: Shadow, region: Region, actor: Actor, *more: Any) -> None:
            if shadow is self.monitor.shared and not actor.event.agent:
                self._note(self.written, region, actor)
            write(shadow, region, actor, *more)

        def comparing(actor: Actor, rows: Index, ids: Ints, proxied: bool) -> NDArray[np.bool_]:
            self._compare(actor, rows, ids, proxied)
            return unknown(actor, rows, ids, proxied)

        accesses.read = reading  # type: ignore[method-assign, assignment]
        accesses.write = writing  # type: ignore[method-assign, assignment]
        accesses._unknown = comparing  # type: ignore[method-assign]
        records.add = adding  # type: ignore[method-assign]

    def _note(self, where: dict[int, NDArray[np.bool_]], region: Region, actor: Actor) -> None:
        for slot, pieces in zip(actor.event.slots.tolist(), region.get(self._numbers), strict=True):
            where[slot][pieces] = True

    def _compare(self, actor: Actor, rows: Index, ids: Ints, proxied: bool) -> None:
        """Note earlier accesses that are known, but would not be if they were any later."""
        records, clocks = self.monitor.records, self.monitor.clocks
        components = (records.seen if proxied else records.component)[ids]
        part = actor.part if np.ndim(actor.part) == 0 else actor.part[rows]
        slots, times = actor.event.slots[rows], records.time[ids]
        self._compared(slots, components, times)
        mine = (components == clocks.whole[slots]) | (components == clocks.lone[slots])
        exact = (clocks.known[part, slots, components] == times) & ~mine & (ids != 0)
        for number in np.unique(ids[exact]):
            event, _ = records.origin(int(number))
            if event is not None:
                self.tight.add(place_of(event.instruction))


def _numbered(shadow: Shadow) -> Layer:
    """A layer that holds, for each piece, the piece's own number."""
    ctas, pieces = shadow.writer.pieces.shape
    layer = Layer(ctas, pieces, shadow.writer.size)
    layer.blocks[:] = MIXED
    layer.pieces[:] = np.arange(layer.pieces.size).reshape(layer.pieces.shape)
    return layer
