"""Pictures of a pipeline as a whole: bars beside each other, and a critical path as a strip."""

from __future__ import annotations

from collections.abc import Mapping

from lesson import WIDTH
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter

from fa4sim import Trace
from fa4sim.analysis import Segment, critical_path, steady_state
from fa4sim.analysis.critical_path import kind_of_work
from fa4sim.views import Picture
from fa4sim.views.style import (
    BLUE,
    FAINT,
    GREEN,
    GREY,
    INK,
    LARGE,
    NORMAL,
    ORANGE,
    PURPLE,
    SKY,
    SMALL,
    VERMILLION,
    Look,
)

#: How kinds of work look in a strip; a hatch tells neighbours apart without colour.
KINDS = {
    "softmax arithmetic": Look(ORANGE),
    "tensor pipe": Look(BLUE, "//"),
    "hand-off": Look(VERMILLION, "xx"),
    "TMEM access": Look(GREEN, ".."),
    "load": Look(PURPLE, "\\\\"),
    "rescaling": Look(SKY, "++"),
    "epilogue": Look(SKY, "--"),
    "start and end": Look(GREY),
    "other": Look(FAINT),
}

BARS = (Look(BLUE), Look(ORANGE, "//"), Look(GREEN, ".."))


def bars(values: Mapping[str, Mapping[str, float]], title: str, x: str, form: str = "{:,.0f}"
         ) -> Picture:  # fmt: skip
    """Horizontal bars, a group for each name of ``values``, a bar in it for each of its series.

    The alt text gives every value, written as ``form`` says.
    """
    series = list(dict.fromkeys(name for group in values.values() for name in group))
    tall = 0.8 / len(series)
    rows = len(values)
    figure = Picture(figsize=(WIDTH, 0.24 * rows * len(series) + 0.16 * rows + 1.1), dpi=100,
                     layout="constrained", facecolor="white")  # fmt: skip
    axes = figure.add_subplot()
    for row, group in enumerate(values.values()):
        for place, name in enumerate(series):
            if name not in group:
                continue
            look, y = BARS[place], row + (place + 0.5) * tall - 0.4
            axes.barh(y, group[name], 0.9 * tall, facecolor=look.face, hatch=look.hatch,
                      edgecolor=look.line, linewidth=0)  # fmt: skip
            side = (4, "left") if group[name] >= 0 else (-4, "right")
            axes.annotate(form.format(group[name]), (group[name], y), xytext=(side[0], 0),
                          va="center", ha=side[1], textcoords="offset points", size=SMALL,
                          color=INK)  # fmt: skip
    low = min(0.0, *(value for group in values.values() for value in group.values()))
    high = max(value for group in values.values() for value in group.values())
    axes.set_xlim(low - 0.08 * (high - low) if low < 0 else 0, high + 0.1 * (high - low))
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_yticks(range(rows), list(values))
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set_title(title, loc="left", size=LARGE, weight="bold", color=INK)
    axes.set_xlabel(x, size=NORMAL, color=INK)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: form.format(value)))
    axes.tick_params(labelsize=SMALL, colors=INK)
    axes.grid(axis="x", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    if len(series) > 1:
        handles = [Rectangle((0, 0), 1, 1, facecolor=look.face, hatch=look.hatch,
                             edgecolor=look.line, linewidth=0) for look in BARS]  # fmt: skip
        figure.legend(handles[: len(series)], series, loc="outside right upper", fontsize=SMALL,
                      frameon=False)  # fmt: skip
    story = "; ".join(
        f"{row}: " + ", ".join(
            f"{name} {form.format(value)}" if len(series) > 1 else form.format(value)
            for name, value in group.items()
        )
        for row, group in values.items()
    )  # fmt: skip
    figure.describe(title, f"Bars: {title}. Across: {x}. {story}.")
    return figure


def block_path(trace: Trace) -> tuple[tuple[Segment, ...], int]:
    """The critical path of one K/V block from the middle of a run, and where the block begins."""
    steady = steady_state(trace)
    path = critical_path(trace)
    end = steady.start + round(steady.period)
    return path.within(steady.start, end), steady.start


def path_strips(traces: Mapping[str, Trace], title: str = "The critical path of one K/V block"
                ) -> Picture:  # fmt: skip
    """One strip for each trace: what stands on the critical path of one block, in order of time."""
    rows = len(traces)
    figure = Picture(figsize=(WIDTH, 0.55 * rows + 1.35), dpi=100, layout="constrained",
                     facecolor="white")  # fmt: skip
    axes = figure.add_subplot()
    seen: dict[str, Look] = {}
    story = []
    for row, (name, trace) in enumerate(traces.items()):
        segments, start = block_path(trace)
        totals: dict[str, int] = {}
        for segment in segments:
            kind = kind_of_work(segment.role, segment.op)
            look = seen.setdefault(kind, KINDS.get(kind, KINDS["other"]))
            totals[kind] = totals.get(kind, 0) + segment.cycles
            axes.add_patch(
                Rectangle((segment.start - start, row - 0.34), segment.cycles, 0.68,
                          facecolor=look.face, hatch=look.hatch, edgecolor=look.line, linewidth=0)
            )  # fmt: skip
        whole = sum(totals.values())
        axes.annotate(f"{whole:,}", (whole, row), xytext=(4, 0), textcoords="offset points",
                      va="center", size=SMALL, color=INK)  # fmt: skip
        ordered = sorted(totals.items(), key=lambda item: -item[1])
        story.append(f"{name}, {whole:,} cycles: " + ", ".join(f"{k} {v:,}" for k, v in ordered))
    longest = max(sum(s.cycles for s in block_path(trace)[0]) for trace in traces.values())
    axes.set_xlim(0, 1.08 * longest)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set_yticks(range(rows), list(traces))
    axes.tick_params(labelsize=SMALL, colors=INK, length=0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("cycles", size=NORMAL, color=INK)
    axes.set_title(title, loc="left", size=LARGE, weight="bold", color=INK)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    handles = [Rectangle((0, 0), 1, 1, facecolor=look.face, hatch=look.hatch,
                         edgecolor=look.line, linewidth=0) for look in seen.values()]  # fmt: skip
    figure.legend(handles, list(seen), loc="outside lower center", ncols=5, fontsize=SMALL,
                  frameon=False)  # fmt: skip
    figure.describe(title, f"{title}. {'. '.join(story)}.")
    return figure
