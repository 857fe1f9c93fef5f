"""What a measurement returns: figures with their targets, and words and tables for the page."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from benchmarks.speed.stopwatch import Spent


@dataclass(frozen=True)
class Figure:
    """A measured value and what was wanted of it.

    `values` has one entry per repeat, in `unit`; the median counts. `wanted` is the largest value
    that meets the target, or the smallest if `at_least` is set. `wall_s` is how long a person
    waits for it, one entry per repeat, in seconds; empty where nobody waits. ``reason`` tells, if
    the target is missed, why, and what would reach it.

    >>> figure = Figure("import", "s", (0.2, 0.4, 0.3), wanted=0.25)
    >>> figure.value, figure.met
    (0.3, False)
    """

    what: str
    unit: str
    values: tuple[float, ...]
    wanted: float
    at_least: bool = False
    wall_s: tuple[float, ...] = ()
    reason: str = ""

    @property
    def value(self) -> float:
        """The median of the repeats."""
        return statistics.median(self.values)

    @property
    def met(self) -> bool:
        """Whether the median is as wanted. It is not rounded first."""
        return self.as_wanted(self.value)

    def as_wanted(self, value: float) -> bool:
        """Whether `value` would meet the target."""
        return value >= self.wanted if self.at_least else value <= self.wanted


@dataclass(frozen=True)
class Table:
    """A table below a paragraph: what it shows, its column heads and its rows."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Measurement:
    """One part of the page: its heading, how it is measured, what was found."""

    title: str
    how: str
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()


def seconds_figure(what: str, spent: list[Spent], wanted: float) -> Figure:
    """A target of at most `wanted` seconds of CPU time, with wall time beside it."""
    cpu = tuple(one.cpu_s for one in spent)
    return Figure(what, "s", cpu, wanted, wall_s=tuple(one.wall_s for one in spent))
