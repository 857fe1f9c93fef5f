"""Two traces of the same work one above the other, aligned by event rather than by time.

The simulator counts cycles, the emulator of a kernel counts steps, and both issue the same MMAs for
the same tiles and blocks. So the second trace is stretched until each MMA is issued where it is in
the first. What lies between two MMAs shows whether the roles take turns in the same way; how long
it is says nothing, in the second trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from fa4sim.trace import NONE, Trace
from fa4sim.trace.trace import COLUMNS
from fa4sim.views.figure import Picture
from fa4sim.views.layout import Page, label_room, split_legends
from fa4sim.views.scope import Scope, pick_cta, scope
from fa4sim.views.style import INK, SMALL, WIDTH
from fa4sim.views.timeline import (
    SLIM,
    describe_lanes,
    draw_lanes,
    find_lanes,
    legend_groups,
    span_bars,
    wait_bars,
)

#: Op, tile, block and Q stage of an MMA; on Hopper the consumer instead.
Issue = tuple[str, int, int, int]
#: Columns that hold times.
TIMES = ("start", "end", "time", "birth", "first_use", "last_use", "death")


@dataclass(frozen=True)
class Alignment:
    """Times of the MMAs that two traces issue in the same order.

    Attributes:
        issues: the MMAs.
        first, second: when each is issued in either trace; both rise.
        missing: MMAs that only one of the traces has, or has at another place in the order.
        ends: of the two traces.
    """

    issues: tuple[Issue, ...]
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    missing: tuple[Issue, ...]
    ends: tuple[int, int]

    def stretch(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Times of the second trace on the clock of the first; unset ones stay so."""
        old = np.concatenate([[0], self.second, [max(self.ends[1], self.second[-1] + 1)]])
        new = np.concatenate([[0], self.first, [max(self.ends[0], self.first[-1] + 1)]])
        moved = np.rint(np.interp(times, old, new)).astype(np.int64)
        return np.where(times < 0, times, moved)


def align(a: Trace, b: Trace, cta: int | None = None) -> Alignment:
    """Find the MMAs of one CTA that both traces issue, and when.

    Raises:
        ValueError: they have none in common.
    """
    a, b = a.expand(), b.expand()
    times_a, times_b = (issue_times(trace, pick_cta(trace, cta)) for trace in (a, b))
    kept: list[Issue] = []
    for issue in sorted(times_a, key=lambda each: times_a[each]):
        if issue not in times_b:
            continue
        if not kept or (times_a[kept[-1]] < times_a[issue] and times_b[kept[-1]] < times_b[issue]):
            kept.append(issue)
    if not kept:
        raise ValueError(
            f"the traces have no MMA in common ({len(times_a)} and {len(times_b)} with a tile and "
            "a block); give two runs of the same problem, the kernel's with fa4kernel.run(trace=)"
        )
    others = sorted((times_a.keys() | times_b.keys()) - set(kept))
    first, second = (np.array([t[each] for each in kept]) for t in (times_a, times_b))
    return Alignment(tuple(kept), first, second, tuple(others), (a.end, b.end))


def issue_times(trace: Trace, cta: int) -> dict[Issue, int]:
    """When each MMA of a CTA is first issued.

    Where the trace does not tell issues, as the emulator's, a unit's work begins with them.
    """
    spans = trace.span.where(cta=cta)
    tensor = spans.where(role="tensor")
    found: dict[Issue, int] = {}
    for op in ("QK", "PV"):
        rows = spans.where(op=f"issue {op}")  # by the MMA warp; on Hopper by each consumer's warps
        for row in (rows if len(rows) else tensor.where(op=op)).rows():
            key = (op, int(row["tile"]), int(row["block"]), int(row["stage"]))
            if NONE not in key[1:]:
                found[key] = min(int(row["start"]), found.get(key, int(row["start"])))
    return found


def aligned_timelines(
    a: Trace,
    b: Trace,
    labels: Sequence[str] = ("simulator", "kernel"),
    *,
    start: int | None = None,
    end: int | None = None,
    width: float = WIDTH,
) -> Picture:
    """Draw two runs of the same work one above the other, MMA above MMA.

    Args:
        a: its clock is the time axis.
        b: is stretched so that each MMA is issued where it is in `a`.
        labels: what to call them.
        start, end: the window in units of `a`'s clock; by default about two K/V blocks.
        width: in inches.

    Raises:
        ValueError: no MMA in common, other than two labels, or a window with nothing in it.
    """
    if len(labels) != 2:
        raise ValueError(f"labels={list(labels)!r}: give two, one for each trace")
    found = align(a, b)
    top = scope(a, start, end)
    moved = _stretched(b.expand(), found, a.clock)
    parts = [top, Scope(moved, pick_cta(moved, None), 0, top.start, top.end)]
    lanes = [find_lanes(part, "first") for part in parts]
    title = f"{labels[0]} and {labels[1]}, aligned by event"
    words = _words(found, labels, a.clock, b.clock)
    page = Page(
        width, [SLIM * len(rows) for rows in lanes],
        label_room([lane.label for rows in lanes for lane in rows]), title, words,
        split_legends(width, *legend_groups(*parts)), above=0.4, between=1.0,
    )  # fmt: skip
    for axes, part, rows in zip(page.axes, parts, lanes, strict=True):
        draw_lanes(axes, part, rows, span_bars(part, rows), wait_bars(part, rows), page.width,
                   False, text=f"{labels[0]}: {a.clock}", seconds=False)  # fmt: skip
    for axes, label in zip(page.axes, labels, strict=True):
        axes.set_title(label, size=9, weight="bold", loc="left", pad=14)
    shown = _shown(found, top)
    for axes in page.axes:
        _mark(axes, [x for x, _, _ in shown], [name for _, name, _ in shown])
    page.axes[1].set_xticks([x for x, _, _ in shown], [f"{tick:,}" for _, _, tick in shown])
    page.axes[1].set_xlabel(f"{labels[1]}: {b.clock}, stretched", size=9, color=INK)
    page.figure.describe(
        title,
        f"{words} Shown: {a.clock} {top.start:,} to {top.end:,}, "
        + ", ".join(f"{name} at {a.clock} {x:,} and {b.clock} {tick:,}" for x, name, tick in shown)
        + ". " + " ".join(f"{label}: {describe_lanes(part, rows)}"
                          for label, part, rows in zip(labels, parts, lanes, strict=True)),
    )  # fmt: skip
    return page.figure


def _stretched(trace: Trace, found: Alignment, clock: str) -> Trace:
    """The trace with its times moved to another clock."""
    moved = Trace(clock, trace.meta)
    for name, columns in COLUMNS.items():
        table = trace.table(name)
        times = {c: found.stretch(table[c]).tolist() for c in columns if c in TIMES}
        for i, row in enumerate(table.rows()):
            moved.add(name, **row | {column: values[i] for column, values in times.items()})
    return moved


def _words(found: Alignment, labels: Sequence[str], clock: str, other: str) -> str:
    """How well the two fit together."""
    text = (
        f"{len(found.issues)} MMAs are issued in the same order; {labels[1]}'s {other} are "
        f"stretched so that each stands where {labels[0]} issues it, at its {clock}."
    )
    if found.missing:
        op, tile, block, stage = found.missing[0]
        text += (
            f" {len(found.missing)} are not, {op} of tile {tile}, block {block}, stage {stage} "
            "among them."
        )
    return text


def _shown(found: Alignment, part: Scope) -> list[tuple[int, str, int]]:
    """Where QK of the lowest stage is issued in the window: place, words, the other clock."""
    lowest = min(stage for _, _, _, stage in found.issues)
    return [
        (int(x), f"QK of block {block}", int(tick))
        for (op, _, block, stage), x, tick in zip(
            found.issues, found.first, found.second, strict=True
        )
        if op == "QK" and stage == lowest and part.start <= x < part.end
    ]


def _mark(axes: Axes, places: Sequence[int], names: Sequence[str]) -> None:
    for x, name in zip(places, names, strict=True):
        axes.axvline(x, color=INK, linewidth=1.0, linestyle=(0, (3, 2)), zorder=4)
        axes.annotate(name, (x, 1), xycoords=("data", "axes fraction"), size=SMALL, color=INK,
                      xytext=(0, 2), textcoords="offset points", va="bottom")  # fmt: skip
