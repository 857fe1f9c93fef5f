"""Heat maps with the value in every cell, and lines over a logarithmic axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import Normalize

from fa4sim.views import Picture
from fa4sim.views.style import (
    BLACK,
    BLUE,
    FAINT,
    GREEN,
    INK,
    LARGE,
    NORMAL,
    ORANGE,
    PURPLE,
    SMALL,
    VERMILLION,
    dark,
)

Table = Sequence[Sequence[float | None]]
LINES = (
    *((BLUE, "o", "-"), (VERMILLION, "s", "--"), (GREEN, "^", "-."), (ORANGE, "D", ":")),
    *((PURPLE, "v", "-"), (BLACK, "x", "none")),
)


def heat_maps(
    panels: Mapping[str, Table], columns: Sequence[object], rows: Sequence[object], title: str,
    x: str, y: str, *, form: str = "{:.2f}", tall: float = 0.34,
    cells: Mapping[str, Sequence[Sequence[str]]] | None = None,
) -> Picture:  # fmt: skip
    """Panels beside each other on one colour scale, with the value written in every cell.

    ``cells`` holds texts to write in place of the values, ``tall`` is a row's height in inches. A
    cell without a value stays white.
    """
    known = [v for table in panels.values() for line in table for v in line if v is not None]
    scale = Normalize(min(known), max(known))
    colours = colormaps["cividis"]
    wide = max(0.62 * len(columns) * len(panels) + 1.2, 6.0)
    figure = Picture(figsize=(wide, tall * len(rows) + 1.5), dpi=100, layout="constrained",
                     facecolor="white")  # fmt: skip
    all_axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    story = []
    for axes, (name, table) in zip(all_axes, panels.items(), strict=True):
        grid = np.array([[np.nan if v is None else v for v in line] for line in table])
        axes.imshow(grid, cmap=colours, norm=scale, aspect="auto")
        for i, line in enumerate(table):
            for j, value in enumerate(line):
                if value is None:
                    continue
                text = form.format(value) if cells is None else cells[name][i][j]
                shade = "#{:02x}{:02x}{:02x}".format(
                    *(int(255 * c) for c in colours(scale(value))[:3])
                )
                axes.text(j, i, text, ha="center", va="center", size=SMALL,
                          color="white" if dark(shade) else INK)  # fmt: skip
                story.append(f"{name}, {y} {rows[i]}, {x} {columns[j]}: {', '.join(text.split())}")
        axes.set_xticks(range(len(columns)), [_short(value) for value in columns])
        axes.set_yticks(range(len(rows)), [_short(value) for value in rows])
        axes.tick_params(labelsize=SMALL, colors=INK, length=0)
        axes.set_xlabel(x, size=NORMAL, color=INK)
        axes.set_title(name, size=NORMAL, color=INK)
        for spine in axes.spines.values():
            spine.set_visible(False)
    all_axes[0].set_ylabel(y, size=NORMAL, color=INK)
    figure.suptitle(title, x=0.01, ha="left", size=LARGE, weight="bold", color=INK)
    figure.describe(title, f"Heat map: {title}. {'; '.join(story)}.")
    return figure


def _short(value: object) -> str:
    """``1k`` for 1,024; other values as they are."""
    if isinstance(value, int) and value >= 1024 and value % 1024 == 0:
        return f"{value // 1024}k"
    return str(value)


def lines(
    series: Mapping[str, Mapping[int, float]], title: str, x: str, y: str,
    levels: Mapping[str, float] | None = None,
) -> Picture:  # fmt: skip
    """Lines over a logarithmic axis, from zero; the last look is of marks without a line."""
    figure = Picture(figsize=(9.0, 3.8), dpi=100, layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    story = []
    looks = [*LINES[: len(series)]]
    for (name, points), (colour, marker, line) in zip(series.items(), looks, strict=True):
        style = "none" if name.startswith("published") else "-" if line == "none" else line
        axes.plot(list(points), list(points.values()), color=BLACK if style == "none" else colour,
                  marker="x" if style == "none" else marker, linestyle=style, markersize=6,
                  linewidth=1.6, label=name)  # fmt: skip
        story.append(f"{name}: " + ", ".join(f"{v:.2f} at {k}" for k, v in points.items()))
    for name, level in (levels or {}).items():
        axes.axhline(level, color=INK, linewidth=1, linestyle=(0, (2, 2)))
        axes.annotate(name, (1, level), xycoords=("axes fraction", "data"), size=SMALL, ha="right",
                      xytext=(-4, 4), textcoords="offset points", color=INK)  # fmt: skip
        story.append(f"{name}: {level:.2f}")
    ticks = sorted({at for points in series.values() for at in points})
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [_short(at) for at in ticks])
    axes.set_ylim(bottom=0)
    axes.set_title(title, loc="left", size=LARGE, weight="bold", color=INK)
    axes.set_xlabel(x, size=NORMAL, color=INK)
    axes.set_ylabel(y, size=NORMAL, color=INK)
    axes.tick_params(labelsize=SMALL, colors=INK)
    axes.grid(color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.legend(loc="outside right upper", fontsize=SMALL, frameon=False, handlelength=3)
    figure.describe(title, f"Chart: {title}. Across: {x}. Up: {y}. {'. '.join(story)}.")
    return figure
