"""Who wrote and read global memory last, and what each cluster knows of the others.

Clusters run in no order, whatever their numbers. What orders two of them is a flag: one releases an
address, another acquires it. So a cluster has a clock that counts what it has released, and knows
of each other cluster up to which count. Within a cluster everything counts as ordered, and every
strong access (atomic, volatile, relaxed or more) both acquires and releases: this finds clusters
that nothing orders, not a fence that is missing beside a flag.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.checks.global_arena import PIECE, Arena, Bytes, Ints, Layer, arenas_of
from fa4kernel.emulator.checks.hazard import Party, Place
from fa4kernel.emulator.ptx.module import Instruction

#: Of stores, for each: whether its value was there before, and whether it is there now.
Same = tuple[NDArray[np.bool_], NDArray[np.bool_]]

#: Pieces of reads that are kept of arrays which nobody has written so far.
MOST_PENDING = 4_000_000


@dataclass(frozen=True, slots=True)
class Access:
    """One instruction's access by some clusters.

    Attributes:
        agent: "" for threads, else a noun.
        strong: may meet others of its kind.
        size: bytes that each thread accesses.
    """

    instruction: Instruction
    tick: int
    agent: str
    strong: bool
    size: int


class GlobalHistory:
    """Accesses of all clusters of a launch, over all its waves.

    Args:
        views: the arrays' bytes, and their names.
        name: of a cluster, by its number.
    """

    def __init__(self, views: list[tuple[Bytes, str]], name: Callable[[int], str]) -> None:
        self._name = name
        self.arenas = arenas_of(views)
        self._accesses: list[Access | None] = [None]
        self._room = MOST_PENDING
        self._count: dict[int, int] = {}
        self._known: dict[int, dict[int, int]] = {}
        self._flags: dict[int, dict[int, int]] = {}

    def arena(self, memory: Bytes) -> tuple[Arena, int] | None:
        """The arena that holds a view, and the view's first byte in it; None for other memory."""
        start = memory.__array_interface__["data"][0]
        for arena in self.arenas:
            if arena.base <= start < arena.base + max(1, arena.size):
                return arena, start - arena.base
        return None

    def add(self, access: Access) -> int:
        """Remember what an access was, once for all that happen together; returns its number."""
        if access != self._accesses[-1]:
            self._accesses.append(access)
        return len(self._accesses) - 1

    def counts(self, clusters: Any) -> Any:
        """The clocks of clusters (a number or an array)."""
        if np.ndim(clusters) == 0:
            return self._count.setdefault(int(clusters), 1)
        every, at = np.unique(clusters, return_inverse=True)
        return np.array([self._count.setdefault(int(c), 1) for c in every])[at.reshape(-1)]

    # --- order -------------------------------------------------------------------------------

    def meet(self, cluster: int, flag: int) -> None:
        """A cluster acquires and releases a flag."""
        known = self._known.setdefault(cluster, {})
        left = self._flags.setdefault(flag, {})
        _join(known, left)
        _join(left, known)
        left[cluster] = self._count.setdefault(cluster, 1)
        self._count[cluster] += 1

    # --- accesses ----------------------------------------------------------------------------

    def read(
        self, arena: Arena, where: Callable[[], Ints], pieces: int, clusters: Any, access: int
    ) -> list[Meeting]:
        """Pieces are read; returns what was written there in no order.

        Args:
            arena: whose memory.
            where: gives the numbers of the pieces.
            pieces: how many these are, about.
            clusters: who reads: a number, or one for each piece.
            access: as :meth:`add` numbered it.
        """
        times = self.counts(clusters)
        if arena.written is None or arena.read is None:
            self._room -= pieces
            if self._room > 0:
                arena.pending.append((where, clusters, times, access))
            return []
        at = where()
        found = self._unordered("reads", arena.written, at, clusters, access)
        arena.read.put(at, clusters, times, access)
        return found

    def write(
        self, arena: Arena, at: Ints, clusters: Any, access: int, same: Same | None = None
    ) -> list[Meeting]:
        """Pieces are written; returns who else accessed them in no order.

        Args:
            same: for each piece, whether what is written was there before, and whether it is there
                now: such writes do no harm to others, or to those of the same step.
        """
        written, read = arena.open()
        before, after = (None, None) if same is None else (~same[0], ~same[1])
        found = self._unordered("writes", written, at, clusters, access, before)
        found += self._unordered("overwrites", read, at, clusters, access, before)
        written.put(at, clusters, self.counts(clusters), access)
        if np.ndim(clusters):  # several clusters in one step
            found += self._unordered("writes", written, at, clusters, access, after)
        return found

    def _unordered(
        self, what: str, layer: Layer, at: Ints, clusters: Any, access: int,
        only: NDArray[np.bool_] | None = None,
    ) -> list[Meeting]:  # fmt: skip
        before = layer.cluster[at]
        others = (before != 0) & (before != clusters + 1)
        others = np.flatnonzero(others if only is None else others & only)
        found: dict[tuple[int, int, int], Meeting] = {}
        now = self._accesses[access]
        assert now is not None
        for i in others.tolist():
            who = int(clusters) if np.ndim(clusters) == 0 else int(clusters[i])
            first = int(layer.access[at[i]])
            key = int(before[i]) - 1, who, first
            if key in found:
                found[key].pieces.append(int(at[i]))
                continue
            then = self._accesses[first]
            assert then is not None
            harmless = (then.strong and now.strong) or (then.size < PIECE and now.size < PIECE)
            ordered = self._known.get(who, {}).get(key[0], 0) >= int(layer.time[at[i]])
            if not harmless and not ordered:
                found[key] = Meeting(what, then, key[0], now, who, [int(at[i])])
        return list(found.values())

    def report(self, arena: Arena, meeting: Meeting) -> tuple[str, Party, Party, Place]:
        """Message, parties and place of a meeting."""
        low, high = min(meeting.pieces), max(meeting.pieces)
        place = Place("global", -1, PIECE * low, PIECE * high + PIECE - 1, arena.name)
        first = self._party(meeting.first, meeting.before)
        second = self._party(meeting.second, meeting.after)
        told = {
            "reads": "reads what the first writes; no flag says that it is written",
            "writes": "writes what the first writes, in no order",
            "overwrites": "overwrites what the first reads; no flag says that it is read",
        }[meeting.what]
        return f"the second {told}", first, second, place

    def _party(self, access: Access, cluster: int) -> Party:
        who = self._name(cluster)
        who = f"the {access.agent} of {who}" if access.agent else f"a warp of {who}"
        return Party(who, access.instruction, access.tick)


@dataclass(slots=True)
class Meeting:
    """Two accesses of different clusters that nothing orders."""

    what: str
    first: Access
    before: int
    second: Access
    after: int
    pieces: list[int]


def _join(into: dict[int, int], other: dict[int, int]) -> None:
    for cluster, count in other.items():
        if count > into.get(cluster, 0):
            into[cluster] = count
