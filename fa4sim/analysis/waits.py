"""Who waited for what, how often and how long.

A warp is either working or waiting. This table says what for: the barrier or unit, the reason the
role gave, and which share of the role's life it took.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fa4sim.analysis.records import distinct, role_lives, text_table
from fa4sim.trace import Trace


@dataclass(frozen=True)
class WaitRow:
    """All waits of one role for one thing and one reason.

    ``on`` names the barrier or unit and ``kind`` says which of the two it is. ``count`` waits of
    all the role's warps took ``cycles`` together, the longest of them ``longest``; ``share`` is
    ``cycles`` divided by the life of all these warps, 0 to 1.
    """

    role: str
    on: str
    kind: str
    reason: str
    count: int
    cycles: int
    share: float
    longest: int


def wait_table(trace: Trace, cta: int | None = None) -> list[WaitRow]:
    """The waits of a trace by role, thing waited for and reason, largest share first.

    Args:
        trace: any trace; the repeats of a compact one count as often as they happened.
        cta: only the warps of this CTA (the second CTA of a pair has an MMA warp that only waits).

    Returns:
        One row per role, ``on``, ``kind`` and reason; times in units of the trace's clock.

    Raises:
        ValueError: the trace has no such CTA.

    >>> trace = Trace()
    >>> who = dict(cta=0, role="mma", warp=12)
    >>> _ = trace.add("span", **who, op="issue QK", start=0, end=60)
    >>> _ = trace.add("wait", **who, on="S_full", kind="barrier", reason="S", start=60, end=100)
    >>> wait_table(trace)
    [WaitRow(role='mma', on='S_full', kind='barrier', reason='S', count=1, cycles=40, share=0.4,
             longest=40)]
    """
    wait = trace.wait
    weight = trace.weights("wait")
    if cta is not None:
        ctas = {*wait["cta"].tolist(), *trace.span["cta"].tolist()}
        if cta not in ctas:
            raise ValueError(f"cta={cta} is not in this trace; it has {sorted(ctas)}")
        weight = weight[wait["cta"] == cta]
        wait = wait.where(cta=cta)
    lives = role_lives(trace, cta)
    groups, where = distinct([wait[name] for name in ("role", "on", "kind", "reason")])
    length = wait["end"] - wait["start"]
    count = np.zeros(len(groups), dtype=np.int64)
    cycles = np.zeros(len(groups), dtype=np.int64)
    longest = np.zeros(len(groups), dtype=np.int64)
    np.add.at(count, where, weight)
    np.add.at(cycles, where, weight * length)
    np.maximum.at(longest, where, length)
    rows = []
    for codes, n, total, most in zip(groups.tolist(), count, cycles, longest, strict=True):
        role, on, kind, reason = (trace.strings[code] if code >= 0 else "" for code in codes)
        life = lives.get(role, 0)
        share = int(total) / life if life else 0.0
        rows.append(WaitRow(role, on, kind, reason, int(n), int(total), share, int(most)))
    return sorted(rows, key=lambda row: (-row.share, row.role, row.on, row.reason))


def wait_shares(rows: Sequence[WaitRow]) -> dict[tuple[str, str], float]:
    """Shares of life by ``(role, on)``, reasons added up."""
    shares: dict[tuple[str, str], float] = {}
    for row in rows:
        shares[row.role, row.on] = shares.get((row.role, row.on), 0.0) + row.share
    return shares


def format_waits(rows: Sequence[WaitRow], most: int = 20) -> str:
    """The first ``most`` rows as aligned text, and how many were left out."""
    text = text_table(
        ("role", "waits for", "because of", "times", "total", "share", "longest"),
        [
            (row.role, row.on, row.reason, f"{row.count:,}", f"{row.cycles:,}", f"{row.share:.1%}",
             f"{row.longest:,}")
            for row in rows[:most]
        ],
        left=3,
    )  # fmt: skip
    left_out = len(rows) - most
    return f"{text}\n… and {left_out} smaller ones" if left_out > 0 else text
