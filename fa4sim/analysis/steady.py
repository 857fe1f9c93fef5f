"""The steady state: how long a block takes once the pipeline is full, and what it consists of.

A tile begins with an empty pipeline and ends by draining it. In between, every K/V block takes
the same time. That stretch is where a kernel spends its life, so durations are best compared
there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fa4sim.analysis.records import distinct, text_table
from fa4sim.trace import NONE, Table, Trace

#: The QK of the first Q stage starts a block.
FIRST_GEMM = "QK"

#: With fewer blocks than this a tile has no middle.
FEWEST_BLOCKS = 4


@dataclass(frozen=True)
class SteadyState:
    """The middle of the longest tile: ``blocks`` K/V blocks in ``[start, end)``.

    ``sm`` is the SM whose tensor pipe was looked at, ``tile`` the work tile; times are in units of
    the trace's clock. ``period`` is the time per block.
    """

    sm: int
    tile: int
    start: int
    end: int
    blocks: int

    @property
    def period(self) -> float:
        """Time per K/V block (of all Q tiles together)."""
        return (self.end - self.start) / self.blocks


@dataclass(frozen=True)
class OpDuration:
    """One op of one role (or one of its waits) in the steady state.

    ``count`` records of it begin in the steady state; ``mean``, ``least`` and ``most`` are their
    durations. ``per_block`` is the time in it per K/V block, mean over the role's warps (or
    units): the rows of a role of warps add up to the period. ``kind`` is ``"span"`` or ``"wait"``.
    """

    role: str
    op: str
    kind: str
    count: int
    mean: float
    least: int
    most: int
    per_block: float


def steady_state(trace: Trace) -> SteadyState:
    """The middle half of the tile with most K/V blocks, cut where the tensor pipe begins a block.

    Looks at the first SM that computes. Raises ``ValueError`` if no tile has
    :data:`FEWEST_BLOCKS` blocks.
    """
    span = trace.expand().span
    gemms = span.where(role="tensor", op=FIRST_GEMM, stage=0)
    if len(gemms):
        gemms = gemms.where(sm=int(gemms["sm"].min()))
    tiles, counts = np.unique(gemms["tile"], return_counts=True)
    if not len(tiles) or counts.max() < FEWEST_BLOCKS:
        most = int(counts.max()) if len(counts) else 0
        raise ValueError(
            f"no steady state: the longest tile has {most} K/V blocks, and it takes at least "
            f"{FEWEST_BLOCKS}; give longer keys"
        )
    tile = int(tiles[np.argmax(counts)])
    starts = np.sort(gemms.where(tile=tile)["start"])
    low = max(1, len(starts) // 4)
    high = max(low + 1, len(starts) - 1 - len(starts) // 4)
    return SteadyState(
        int(gemms["sm"][0]), tile, int(starts[low]), int(starts[high]), high - low
    )  # fmt: skip


def op_durations(trace: Trace, steady: SteadyState | None = None) -> list[OpDuration]:
    """How long each op and each wait takes in the steady state, by role, longest first.

    Args:
        trace: any trace with a steady state.
        steady: the stretch to look at; :func:`steady_state` if not given.

    Raises:
        ValueError: there is no steady state.
    """
    whole = trace.expand()
    at = steady_state(whole) if steady is None else steady
    rows: list[OpDuration] = []
    tables = {
        kind: table.where((table["start"] < at.end) & (table["end"] > at.start))
        for kind, table in (("span", whole.span), ("wait", whole.wait))
    }
    parties = _parties(tables.values())
    for kind, inside in tables.items():
        name = "op" if kind == "span" else "on"
        start, end = inside["start"], inside["end"]
        clipped = np.minimum(end, at.end) - np.maximum(start, at.start)
        begun = start >= at.start
        groups, which = distinct((inside["role"], inside[name]))
        for number, (role, op) in enumerate(groups.tolist()):
            mine = which == number
            first = mine & begun if (mine & begun).any() else mine
            length = (end - start)[first]
            rows.append(
                OpDuration(
                    whole.strings[role], whole.strings[op] if op != NONE else "", kind,
                    int((mine & begun).sum()), float(length.mean()), int(length.min()),
                    int(length.max()),
                    float(clipped[mine].sum()) / (parties[role] * at.blocks),
                )
            )  # fmt: skip
    return sorted(rows, key=lambda row: (row.role, -row.per_block, row.op))


def _parties(tables: Iterable[Table]) -> dict[int, int]:
    """How many warps (or units) each role has, by the code of its name."""
    tables = list(tables)
    who, _ = distinct(
        [np.concatenate([table[name] for table in tables]) for name in ("role", "cta", "warp")]
    )
    roles, counts = np.unique(who[:, 0], return_counts=True)
    return dict(zip(roles.tolist(), counts.tolist(), strict=True))


def format_durations(rows: Sequence[OpDuration], role: str | None = None) -> str:
    """The durations as aligned text, of one role or of all; waits are marked so.

    Raises ``ValueError`` for a role that isn't there.
    """
    roles = {row.role for row in rows}
    if role is not None and role not in roles:
        raise ValueError(f"no role {role!r} here; there are {', '.join(sorted(roles))}")
    return text_table(
        ("role", "op", "times", "mean", "min", "max", "per block"),
        [
            (row.role, row.op if row.kind == "span" else f"wait {row.op}", f"{row.count:,}",
             f"{row.mean:,.1f}", f"{row.least:,}", f"{row.most:,}", f"{row.per_block:,.1f}")
            for row in rows
            if role in (None, row.role)
        ],
        left=2,
    )  # fmt: skip
