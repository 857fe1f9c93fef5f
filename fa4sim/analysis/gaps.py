"""No unexplained gap: every cycle of every warp is in exactly one span or one wait.

A simulator that loses cycles, or counts them twice, can be made to show anything. This check finds
the places where the record of a warp is silent, and those where it says two things at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fa4sim.analysis.records import all_records, text_table
from fa4sim.trace import Trace


@dataclass(frozen=True)
class Gap:
    """A stretch of a warp's life that is in no record (``"gap"``) or in two (``"overlap"``).

    ``[start, end)`` in units of the trace's clock lies between the records ``before`` and
    ``after``, each named by its op or by what it waits for.
    """

    kind: str
    cta: int
    role: str
    warp: int
    start: int
    end: int
    before: str
    after: str

    @property
    def cycles(self) -> int:
        """Its length."""
        return self.end - self.start


def unexplained_gaps(trace: Trace) -> list[Gap]:
    """The gaps and overlaps in the records of every warp, in order of CTA, warp and time.

    Looks at each warp from its first to its last record; records of no length explain nothing and
    are skipped. An empty list is what every run should give.

    >>> trace = Trace()
    >>> who = dict(cta=0, role="load", warp=14)
    >>> _ = trace.add("span", **who, op="issue K", start=0, end=9)
    >>> _ = trace.add("span", **who, op="issue V", start=12, end=20)
    >>> unexplained_gaps(trace)
    [Gap(kind='gap', cta=0, role='load', warp=14, start=9, end=12, before='issue K',
         after='issue V')]
    """
    whole = trace.expand()
    records = all_records(whole)
    found = []
    for (cta, warp), place in records.warps().items():
        rows = np.arange(place.start, place.stop)
        rows = rows[records.end[rows] > records.start[rows]]
        if len(rows) < 2:
            continue
        # How far the records so far reach, and which of them reaches that far.
        reach = np.maximum.accumulate(records.end[rows])
        furthest = np.maximum.accumulate(np.where(records.end[rows] == reach, rows, -1))
        start = records.start[rows]
        for i in np.nonzero(start[1:] != reach[:-1])[0]:
            before, after = int(furthest[i]), int(rows[i + 1])
            kind = "gap" if start[i + 1] > reach[i] else "overlap"
            low, high = sorted((int(reach[i]), int(start[i + 1])))
            if kind == "overlap":
                high = min(high, int(records.end[after]))
            role, left, right = (
                whole.strings[code]
                for code in (records.role[after], records.name[before], records.name[after])
            )
            found.append(Gap(kind, cta, role, warp, low, high, left, right))
    return found


def format_gaps(gaps: Sequence[Gap], most: int = 20) -> str:
    """The first ``most`` of them as aligned text; "no unexplained gap" if there are none."""
    if not gaps:
        return "no unexplained gap"
    text = text_table(
        ("", "CTA", "warp", "role", "from", "to", "length", "between"),
        [
            (gap.kind, str(gap.cta), str(gap.warp), gap.role, f"{gap.start:,}", f"{gap.end:,}",
             f"{gap.cycles:,}", f"{gap.before} / {gap.after}")
            for gap in gaps[:most]
        ],
    )  # fmt: skip
    left_out = len(gaps) - most
    return f"{text}\n… and {left_out} more" if left_out > 0 else text
