"""The accesses that memory remembers: who, when, by which instruction."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.checks.clocks import OPEN, Index
from fa4kernel.emulator.ptx.module import Instruction

#: Marks of a record: memory that was allocated and not written, and that was freed; a load of
#: tensor memory of which only a use of its registers says that it is complete.
BLANK, FREED, UNWAITED = 1, 2, 4


@dataclass(slots=True)
class Event:
    """One execution of an instruction by several warps or for several CTAs.

    Attributes:
        instruction: what was executed.
        tick: when.
        slots: the warp behind each record.
        agent: what acted: "" for the warp itself, else a noun ("TMA copy").
        strong: an atomic or otherwise ordered access, that may meet others of its kind.
        size: bytes of an access by a thread, where it is smaller than what memory remembers.
        into: address and shape of an MMA's accumulator.
    """

    instruction: Instruction
    tick: int
    slots: Index
    agent: str = ""
    strong: bool = False
    size: int = 4
    into: Any = None


class Records:
    """A table of accesses; number 0 is none.

    Attributes:
        component, time: what a clock must know for the access to be over.
        seen: the component instead that an asynchronous access by another must know.
        parent: another access that is remembered at the same place; 0 for none.
        mark: see :data:`BLANK`.
    """

    def __init__(self) -> None:
        self.count = 1
        self.component = np.zeros(1024, np.int32)
        self.seen = np.zeros(1024, np.int32)
        self.time = np.zeros(1024, np.int32)
        self.parent = np.zeros(1024, np.int32)
        self.mark = np.zeros(1024, np.int8)
        self._copies: dict[int, list[int]] = {}
        self._first: list[int] = [0]
        self._events: list[Event | None] = [None]

    def add(
        self, event: Event, component: Any, time: Any, seen: Any = None, parent: Any = 0,
        mark: int = 0, count: int | None = None,
    ) -> NDArray[np.int32]:  # fmt: skip
        """Remember one access for each of the event's warps; returns their numbers."""
        size = len(event.slots) if count is None else count
        first, end = self.count, self.count + size
        while end > len(self.time):
            for name in ("component", "seen", "time", "parent", "mark"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate((old, np.zeros_like(old))))
        self.component[first:end] = component
        self.seen[first:end] = component if seen is None else seen
        self.time[first:end] = time
        self.parent[first:end] = parent
        if mark:
            self.mark[first:end] = mark
        self.count = end
        self._first.append(first)
        self._events.append(event)
        return np.arange(first, end, dtype=np.int32)

    def chained(
        self, event: Event, mine: NDArray[np.int32], parents: NDArray[np.int32]
    ) -> NDArray[np.int32]:
        """Records like ``mine``, on which others hang; what closes ``mine`` closes them, too."""
        made = self.add(event, self.component[mine], self.time[mine], self.seen[mine], parents)
        for i in np.flatnonzero(self.time[mine] == OPEN):
            self._copies.setdefault(int(mine[i]), []).append(int(made[i]))
        return made

    def close(self, numbers: NDArray[np.int32], times: Any, mark: int = 0) -> None:
        """Asynchronous accesses are over for who knows of these times of their components."""
        self.time[numbers] = times
        if mark:
            self.mark[numbers] |= mark
        if self._copies:
            for number in numbers.tolist():
                for copy in self._copies.pop(number, ()):
                    self.time[copy] = self.time[number]
                    self.mark[copy] |= mark

    def origin(self, number: int) -> tuple[Event | None, int]:
        """The event of a record, and which of the event's warps it is."""
        at = bisect_right(self._first, number) - 1
        return self._events[at], number - self._first[at]

    def events(self, numbers: NDArray[np.int32]) -> NDArray[np.intp]:
        """Numbers that tell the events of records apart."""
        return np.searchsorted(np.array(self._first), numbers, "right") - 1
