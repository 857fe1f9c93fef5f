"""What every warp and every unit did, one record after the other.

A record is a span (it worked) or a wait (it stood still). The analyses that follow a warp through
time all start from this one sequence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fa4sim.trace import NONE, Trace

Ints = NDArray[np.int64]

#: One party of a trace: ``(cta, warp, "")`` for a warp, ``(cta, NONE, role)`` for a unit.
Party = tuple[int, int, str]


@dataclass(frozen=True)
class Records:
    """Spans and waits, ordered by party (CTA and warp or unit) and time.

    All columns have shape ``(len(records),)``. ``name`` is the op of a span, or what a wait is on,
    and ``role`` the role, both as string codes of the trace. ``start`` and ``end`` are in units of
    its clock; ``phase`` is that of a wait on a barrier, ``busy`` how long the unit of a span worked
    for it. ``row`` is a record's row in the table it came from.
    """

    cta: Ints
    warp: Ints
    role: Ints
    name: Ints
    start: Ints
    end: Ints
    tile: Ints
    block: Ints
    stage: Ints
    phase: Ints
    busy: Ints
    row: Ints
    is_wait: NDArray[np.bool_]
    parties: dict[Party, slice]

    def __len__(self) -> int:
        return len(self.start)

    def warps(self) -> dict[tuple[int, int], slice]:
        """Where each warp's records lie, by ``(cta, warp)``."""
        return {(cta, warp): at for (cta, warp, _), at in self.parties.items() if warp != NONE}

    def before(self, party: Party, time: int) -> int:
        """The number of the last record of ``party`` that begins before ``time``; NONE if none."""
        at = self.parties.get(party)
        if at is None:
            return NONE
        found = int(self.start[at].searchsorted(time, side="left"))
        return at.start + found - 1 if found else NONE


def all_records(trace: Trace) -> Records:
    """The records of every warp and every unit of a trace, repeats written out."""
    whole = trace.expand()
    span, wait = whole.span, whole.wait
    columns = ("cta", "warp", "role", "start", "end", "tile", "block", "stage")
    spans = [*(span[c] for c in columns), span["op"], np.full(len(span), NONE), span["busy"]]
    waits = [*(wait[c] for c in columns), wait["on"], wait["phase"], np.full(len(wait), NONE)]
    rows = np.concatenate((np.stack(spans), np.stack(waits)), axis=1)
    is_wait = np.arange(rows.shape[1]) >= len(span)
    unit = np.where(rows[1] == NONE, rows[2], NONE)
    order = np.lexsort((rows[4], rows[3], unit, rows[1], rows[0]))
    cta, warp, role, start, end, tile, block, stage, name, phase, busy = rows[:, order]
    unit = unit[order]
    new = (np.diff(cta) != 0) | (np.diff(warp) != 0) | (np.diff(unit) != 0)
    edges = [0, *(np.nonzero(new)[0] + 1).tolist(), len(cta)] if len(cta) else [0]
    parties = {
        (int(cta[low]), int(warp[low]), whole.strings[unit[low]] if unit[low] != NONE else ""):
        slice(low, high)
        for low, high in pairwise(edges)
    }  # fmt: skip
    return Records(
        cta, warp, role, name, start, end, tile, block, stage, phase, busy,
        np.where(is_wait[order], order - len(span), order), is_wait[order], parties,
    )  # fmt: skip


def distinct(columns: Sequence[Ints]) -> tuple[Ints, Ints]:
    """The distinct rows of some columns, in order, and for every row the number of its like.

    >>> rows, which = distinct([np.array([2, 1, 2]), np.array([7, -1, 7])])
    >>> rows.tolist(), which.tolist()
    ([[1, -1], [2, 7]], [1, 0, 1])
    """
    key = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        low = int(column.min(initial=0))
        key = key * (int(column.max(initial=0)) - low + 1) + column - low
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    return np.stack([column[first] for column in columns], axis=1), which.reshape(-1)


def role_lives(trace: Trace, cta: int | None = None) -> dict[str, int]:
    """How long each role lived: from first to last record, summed over its warps.

    ``cta`` restricts it to one CTA. In units of the trace's clock; the records of a compact trace
    count to where their last copy ends.
    """
    lives: dict[tuple[int, int, int], tuple[int, int]] = {}
    for name in ("span", "wait"):
        table = trace.table(name)
        last = table["end"] + _moved(trace, name)
        columns = [table[column] for column in ("cta", "warp", "role")]
        mine = table["warp"] != NONE
        if cta is not None:
            mine &= table["cta"] == cta
        found, where = distinct([column[mine] for column in columns])
        low = np.full(len(found), np.iinfo(np.int64).max)
        high = np.full(len(found), np.iinfo(np.int64).min)
        np.minimum.at(low, where, table["start"][mine])
        np.maximum.at(high, where, last[mine])
        for key, a, b in zip(map(tuple, found.tolist()), low, high, strict=True):
            before = lives.get(key, (int(a), int(b)))
            lives[key] = (min(before[0], int(a)), max(before[1], int(b)))
    totals: dict[str, int] = {}
    for (_, _, role), (born, died) in sorted(lives.items()):
        name = trace.strings[role]
        totals[name] = totals.get(name, 0) + died - born
    return totals


def _moved(trace: Trace, table: str) -> Ints:
    """How far the last copy of each recorded row lies behind the row itself."""
    moved = np.zeros(trace.size(table), dtype=np.int64)
    for repeat in trace.repeats:
        moved[repeat.first[table] : repeat.last[table]] += repeat.times * repeat.cycles
    return moved


def text_table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Aligned text: the first ``left`` columns flush left, the others flush right.

    >>> print(text_table(("role", "cycles"), [("mma", "7"), ("load", "12")]))
    role  cycles
    mma        7
    load      12
    """
    lines = [tuple(header), *(tuple(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if i < left else text.rjust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
