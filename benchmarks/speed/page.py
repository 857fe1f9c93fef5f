"""The page made from what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from benchmarks.speed.measurement import Figure, Measurement
from benchmarks.speed.words import SIGNS, median, shown, spread

HEAD = """\
# How fast the simulator and the emulator are

How long fa4sim and the PTX emulator (`fa4kernel.emulator`) themselves take, against the targets set
for them.

<!-- Written by `python -m benchmarks.run`; do not edit. -->
"""

TIMES = (
    "Times and rates are CPU time of the process, since the machine may have had other work; wall "
    "time is given where a person waits for it. Other work can slow a program in CPU time too, "
    "through shared caches and clocks. The median of the repeats decides, before it is rounded; "
    "`min – max` is their range and `as wanted` tells how many repeats by themselves met the "
    "target. The sides of a ratio run turn by turn in one run of the command. Python's garbage "
    "collector is on, as usual.\n"
)

AGAIN = """\
To measure again (some minutes; `--only NAME` for one measurement, `--help` for the rest):

```sh
make bench
```
"""


def page(machine: Mapping[str, str], measurements: Sequence[Measurement]) -> str:
    """The whole page: the machine, the targets, how each was measured."""
    figures = [figure for measurement in measurements for figure in measurement.figures]
    parts = [HEAD, table(("", ""), machine.items())]
    if figures:
        parts += ["## Targets\n", summary(figures) + "\n", targets(figures)]
        parts += [f"- Missed: {f.what}. {f.reason}\n" for f in figures if f.reason and not f.met]
    parts += [TIMES, AGAIN, "## How each is measured\n"]
    for measurement in measurements:
        parts += [f"### {measurement.title}\n", measurement.how + "\n"]
        for each in measurement.tables:
            parts += [each.caption + "\n", table(each.head, each.rows)]
    return "\n".join(parts)


def summary(figures: Sequence[Figure]) -> str:
    """How many targets were met, and which were not."""
    missed = [figure.what for figure in figures if not figure.met]
    met = f"{len(figures) - len(missed)} of {len(figures)} met"
    return f"{met}. Missed: {'; '.join(missed)}." if missed else f"{met}."


def targets(figures: Sequence[Figure]) -> str:
    """The table of figures against their targets."""
    head = ("what", "wanted", "measured", "min – max", "as wanted", "wall time", "met?")
    rows = [
        (
            figure.what,
            f"{'≥' if figure.at_least else '≤'} {figure.wanted:g}{SIGNS[figure.unit]}",
            shown(figure.value, figure.unit),
            spread(figure.values, figure.unit),
            f"{sum(map(figure.as_wanted, figure.values))} of {len(figure.values)}",
            median(figure.wall_s, "s"),
            "met" if figure.met else "**missed**",
        )
        for figure in figures
    ]
    return table(head, rows)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table, with an empty line to follow."""
    head = list(head)
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
