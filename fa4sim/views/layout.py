"""Pictures laid out in inches: title, axes from top to bottom, legends outside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from fa4sim.trace import Trace
from fa4sim.views.figure import Picture
from fa4sim.views.scope import microseconds, time_label
from fa4sim.views.style import FAINT, INK, LARGE, NORMAL, SMALL, Look, text_width

LINE = 0.18  # inches from one line of small text to the next
RIGHT = 0.2  # inches right of the axes
WIDEST_NAME = 2.5  # inches of a lane's or a legend entry's name


@dataclass(frozen=True)
class Entry:
    """One line of a legend."""

    label: str
    look: Look


@dataclass(frozen=True)
class Bar:
    """A rectangle from ``start`` to ``end`` in time and ``low`` to ``high`` across it.

    ``labels`` are what could be written inside, the longest first; the first that fits is.
    ``kind`` and ``name`` are its heading and its line in the legend.
    """

    start: float
    end: float
    low: float
    high: float
    look: Look
    labels: tuple[str, ...] = ()
    kind: str = ""
    name: str = ""


class Legend:
    """Entries under a heading, in ``columns`` columns filled from top to bottom."""

    def __init__(self, heading: str, entries: Sequence[Entry], columns: int) -> None:
        self.heading = heading
        self.entries = [replace(each, label=shortened(each.label)) for each in entries]
        self.cell = max((text_width(e.label) for e in self.entries), default=1.0) + 0.5
        self.columns = max(1, min(columns, len(self.entries)))
        self.rows = -(-len(self.entries) // self.columns)
        self.width = max(self.columns * self.cell, text_width(heading, SMALL, "bold") + 0.2)

    @property
    def height(self) -> float:
        """In inches."""
        return (self.rows + bool(self.heading)) * LINE if self.entries else 0.0

    def draw(self, figure: Picture, left: float, top: float) -> None:
        """Draw with the upper left corner at (left, top) inches from the lower left of the page."""
        if not self.entries:
            return
        width, height = figure.get_size_inches()
        axes = figure.add_axes((left / width, (top - self.height) / height,
                                self.width / width, self.height / height))  # fmt: skip
        axes.set_xlim(0, self.width)
        axes.set_ylim(0, self.height)
        axes.axis("off")
        axes.text(0, self.height - 0.6 * LINE, self.heading, size=SMALL, weight="bold",
                  color=INK, va="center")  # fmt: skip
        for i, entry in enumerate(self.entries):
            column, row = divmod(i, self.rows)
            x, y = column * self.cell, self.height - (row + bool(self.heading) + 0.6) * LINE
            axes.add_patch(
                Rectangle((x, y - 0.055), 0.3, 0.11, facecolor=entry.look.face,
                          hatch=entry.look.hatch or None, edgecolor=entry.look.line, linewidth=0)
            )  # fmt: skip
            axes.add_patch(
                Rectangle((x, y - 0.055), 0.3, 0.11, fill=False, edgecolor="#777777", linewidth=0.4)
            )
            axes.text(x + 0.37, y, entry.label, size=SMALL, color=INK, va="center")


class Page:
    """A picture whose parts are placed from top to bottom.

    ``heights`` are the axes' heights in inches. Left of the axes there is room for ``left``
    inches of labels, right of them ``right``, between them ``between``, below them room for an
    axis label and ``legends``, which stand side by side.
    """

    def __init__(
        self, width: float, heights: Sequence[float], left: float, title: str, note: str,
        legends: Sequence[Legend] = (), *, between: float = 0.55, above: float = 0.0,
        right: float = RIGHT,
    ) -> None:  # fmt: skip
        if width < 4:
            raise ValueError(f"width={width!r} inches is too narrow to read; use 4 or more")
        notes = wrap(note, width - 0.5)
        top = 0.34 + LINE * len(notes) + above
        bottom = 0.5 + (max(legend.height for legend in legends) + 0.1 if legends else 0.0)
        total = top + sum(heights) + between * (len(heights) - 1) + bottom
        self.figure = Picture(figsize=(width, total), dpi=100, facecolor="white")
        self.axes: list[Axes] = []
        self.width = width - left - right
        at = total - top
        for height in heights:
            at -= height
            axes = self.figure.add_axes((left / width, at / total,
                                         self.width / width, height / total))  # fmt: skip
            self.axes.append(axes)
            at -= between
        self.figure.text(0.1 / width, 1 - 0.2 / total, title, size=LARGE, weight="bold",
                         color=INK, va="center")  # fmt: skip
        for i, line in enumerate(notes):
            self.figure.text(0.1 / width, 1 - (0.42 + i * LINE) / total, line, size=SMALL,
                             color="#555555", va="center")  # fmt: skip
        x, y = 0.1, bottom - 0.5
        spare = width - 0.2 - sum(legend.width for legend in legends)
        gap = min(0.5, max(0.0, spare / len(legends))) if legends else 0.0
        for legend in legends:
            legend.draw(self.figure, x, y)
            x += legend.width + gap


def shortened(text: str, size: float = SMALL, width: float = WIDEST_NAME) -> str:
    """A name of a trace in at most so many inches: its beginning and its end.

    >>> shortened("pipeline_kv.full"), len(shortened("x" * 500)) < 60
    ('pipeline_kv.full', True)
    """
    if text_width(text, size) <= width:
        return text
    keep = len(text) // 2
    while keep > 1 and text_width(f"{text[:keep]}…{text[-keep:]}", size) > width:
        keep = max(1, min(keep - 1, int(keep * width / text_width(text[:keep], size) / 2)))
    return f"{text[:keep]}…{text[-keep:]}"


def wrap(text: str, width: float, size: float = SMALL) -> list[str]:
    """``text`` broken into lines of at most ``width`` inches."""
    lines: list[str] = []
    for word in text.split():
        if lines and text_width(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def legends_of(width: float, kinds: Sequence[str], bars: Sequence[Bar]) -> list[Legend]:
    """Legends for the bars' looks, one for each of ``kinds`` that is there."""
    groups: dict[str, dict[str, Entry]] = {kind: {} for kind in kinds}
    for bar in bars:
        if bar.name:
            groups[bar.kind].setdefault(bar.name, Entry(bar.name, bar.look))
    return split_legends(width, *((kind, list(found.values())) for kind, found in groups.items()))


def split_legends(width: float, *groups: tuple[str, Sequence[Entry]]) -> list[Legend]:
    """Legends side by side over a page ``width`` inches wide, in as few lines as will do."""
    room = width - 0.2
    shown = [(heading, entries) for heading, entries in groups if entries]
    best: list[Legend] = []
    for columns in product(range(1, 7), repeat=len(shown)):
        legends = [Legend(*group, n) for group, n in zip(shown, columns, strict=True)]
        fits = sum(legend.width for legend in legends) <= room or max(columns) == 1
        if fits and (not best or _lines(legends) < _lines(best)):
            best = legends
    return best


def _lines(legends: Sequence[Legend]) -> tuple[int, int]:
    return max(legend.rows for legend in legends), sum(legend.columns for legend in legends)


def draw_bars(axes: Axes, bars: Sequence[Bar], *, outline: float = 0.0) -> None:
    """Draw rectangles, one collection per look, in the order of their first bar.

    Those at least ``outline`` units of time long are set apart by a white line; 0 outlines none.
    """
    looks: dict[Look, list[Bar]] = {}
    for bar in bars:
        looks.setdefault(bar.look, []).append(bar)
    for look, alike in looks.items():
        x0, x1, y0, y1 = np.array([(b.start, b.end, b.low, b.high) for b in alike]).T
        corners = np.stack(
            [np.stack([x0, y0], 1), np.stack([x1, y0], 1), np.stack([x1, y1], 1),
             np.stack([x0, y1], 1)], axis=1,
        )  # fmt: skip
        axes.add_collection(
            PolyCollection(list(corners), facecolors=[look.face], edgecolors=[look.line],
                           linewidths=0, hatch=look.hatch or None, zorder=2),
            autolim=False,
        )  # fmt: skip
        long = corners[x1 - x0 >= outline] if outline else []
        if len(long):
            axes.add_collection(
                PolyCollection(list(long), facecolors="none", edgecolors="white", linewidths=0.5,
                               zorder=3),
                autolim=False,
            )  # fmt: skip


def write_in_bars(
    axes: Axes, bars: Sequence[Bar], width: float, *, height: float = 0.0, size: float = SMALL
) -> None:
    """Write into each bar the longest of its labels that fits.

    ``width`` is the axes' in inches. If their ``height`` is given too, a label that fits upright
    only is set upright.
    """
    low, high = axes.get_xlim()
    bottom, top = axes.get_ylim()
    for bar in bars:
        start, end = max(bar.start, low), min(bar.end, high)
        room = (end - start) / (high - low) * width - 0.06
        tall = (bar.high - bar.low) / abs(top - bottom) * height - 0.06
        for label in bar.labels:
            length = text_width(label, size)
            upright = length > room and room >= 0.06 and length <= tall
            if length <= room or upright:
                box = None
                if bar.look.hatch:
                    box = {"boxstyle": "square,pad=0.1", "facecolor": bar.look.face,
                           "edgecolor": "none"}  # fmt: skip
                axes.text((start + end) / 2, (bar.low + bar.high) / 2, label, size=size,
                          color=bar.look.ink, ha="center",
                          va="center" if upright else "center_baseline", zorder=5, bbox=box,
                          rotation=90 if upright else 0, clip_on=True)  # fmt: skip
                break


def time_axis(
    axes: Axes, trace: Trace, start: float, end: float, *, label: bool = True,
    seconds: bool = True, zero: float = 0, text: str = "",
) -> None:  # fmt: skip
    """Set the time axis from ``start`` to ``end``, with µs on top where the clock is time."""
    axes.set_xlim(start, end)
    ticks = MaxNLocator(8, integer=True, steps=[1, 2, 2.5, 5, 10]).tick_values(
        start - zero, end - zero
    )
    shown = [tick for tick in ticks if start <= zero + tick <= end]
    axes.set_xticks([zero + tick for tick in shown], [f"{tick:,.0f}" for tick in shown])
    figure = axes.get_figure(root=True)
    assert figure is not None
    inches = axes.get_position().width * figure.get_size_inches()[0]
    _keep_on_page(axes, start, end, inches)
    axes.tick_params(axis="x", labelsize=SMALL, color="#777777", labelcolor=INK)
    if label:
        axes.set_xlabel(text or time_label(trace.clock), size=NORMAL, color=INK)
    scale = microseconds(trace)
    if seconds and scale is not None:
        top = axes.secondary_xaxis("top", functions=(_times(scale), _times(1 / scale)))
        times = MaxNLocator(6).tick_values(start * scale, end * scale)
        digits = max(0, -math.floor(math.log10(times[1] - times[0]) + 1e-9))
        times = [time for time in times if start * scale <= time <= end * scale]
        top.set_xticks(times, [f"{time:,.{digits}f}" for time in times])
        top.tick_params(axis="x", labelsize=SMALL, color="#777777", labelcolor="#555555")
        top.set_xlabel("µs", size=SMALL, color="#555555", loc="right", labelpad=2)
    plain(axes)


def _keep_on_page(axes: Axes, start: float, end: float, inches: float) -> None:
    """Let a label at the right end of a time axis end at its tick, if it would be cut off."""
    for place, label in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True):
        right = (end - place) / (end - start) * inches + RIGHT
        if text_width(label.get_text(), SMALL) / 2 + 0.1 > right:
            label.set_horizontalalignment("right")


def _times(factor: float) -> Callable[[ArrayLike], ArrayLike]:
    """A function that multiplies by ``factor``."""
    return lambda values: np.asarray(values) * factor


def plain(axes: Axes) -> None:
    """No more frame than needed, and faint vertical lines."""
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#777777")
    axes.grid(axis="x", color=FAINT, linewidth=0.6, zorder=0)
    axes.set_axisbelow(True)


def lane_labels(axes: Axes, labels: Sequence[str]) -> None:
    """Name the lanes 0, 1, … from top to bottom."""
    axes.set_ylim(len(labels) - 0.5, -0.5)
    shown = [shortened(label) for label in labels]
    axes.set_yticks(range(len(labels)), shown, size=SMALL, color=INK)
    axes.tick_params(axis="y", length=0)


def label_room(labels: Sequence[str], size: float = SMALL) -> float:
    """Inches that lane labels need left of the axes."""
    return max(text_width(shortened(label, size), size) for label in labels) + 0.2
