"""Spans and waits as slices in rows: which of them share a line of the timeline.

A track is a warp of a role, or an asynchronous unit. On a row of a track nothing overlaps; what is
nested in a slice, or overlaps it, goes to the track's next row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fa4sim.trace import NONE, Trace
from fa4sim.trace.table import Ints
from fa4sim.views.timeline import ROLES


@dataclass(frozen=True)
class Track:
    """One warp or unit; ``rows`` are the ``[first, last)`` of the slices on each of its rows."""

    sm: int
    cta: int
    role: str
    warp: int
    rows: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Slices:
    """Spans and waits, track by track and row by row, in order of time.

    ``source`` is the row in the trace's tables: span ``source``, or of a wait ``source`` less the
    number of spans. ``of_span`` and ``of_wait`` are the slices of the tables' rows.
    """

    tracks: tuple[Track, ...]
    source: Ints
    of_span: Ints
    of_wait: Ints


def arrange(trace: Trace) -> Slices:
    """Put the spans and waits of an expanded trace on rows, but for waits that took no time."""
    span, wait = trace.span, trace.wait
    place = [np.concatenate([span[c], wait[c]]) for c in ("sm", "cta", "role", "warp")]
    start = np.concatenate([span["start"], wait["start"]])
    end = np.concatenate([span["end"], wait["end"]])
    sm, cta, role, warp = place
    rank = np.array([ROLES.index(s) if s in ROLES else len(ROLES) for s in trace.strings] or [0])
    # Of those that start together, one of no length stands before the others, then the longest.
    order = np.lexsort((-end, end > start, start, warp, role, rank[role], cta, sm))
    order = order[(end[order] > start[order]) | (order < len(span))]
    keys = np.stack(place, axis=1)[order]
    seams = np.flatnonzero(np.any(np.diff(keys, axis=0) != 0, axis=1)) + 1
    tracks: list[Track] = []
    source: list[int] = []
    since, until = start.tolist(), end.tolist()
    for group in np.split(order, seams) if len(order) else ():
        at = int(group[0])
        rows = []
        for row in share_out(group.tolist(), since, until):
            rows.append((len(source), len(source) + len(row)))
            source += row
        tracks.append(
            Track(int(sm[at]), int(cta[at]), trace.strings[role[at]], int(warp[at]), tuple(rows))
        )
    drawn = np.array(source, dtype=np.int64)
    where = np.full(len(start), NONE, dtype=np.int64)
    where[drawn] = np.arange(len(drawn))
    return Slices(tuple(tracks), drawn, where[: len(span)], where[len(span) :])


def share_out(
    items: Sequence[int], start: Sequence[int], end: Sequence[int]
) -> list[list[int]]:  # fmt: skip
    """Items, in order of their start, on rows: each on the first where it overlaps nothing.

    >>> share_out([0, 1, 2], start=[0, 2, 9], end=[9, 5, 12])
    [[0, 2], [1]]
    """
    rows: list[list[int]] = []
    for item in items:
        for row in rows:
            if end[row[-1]] <= start[item]:
                row.append(item)
                break
        else:
            rows.append([item])
    return rows
