"""Unit utilisation: how busy each unit was, over time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fa4sim.trace import NONE, Table, Trace
from fa4sim.views.figure import Picture
from fa4sim.views.layout import Page, label_room, shortened, time_axis
from fa4sim.views.scope import Scope, run_words, scope, three_digits
from fa4sim.views.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    NORMAL,
    ORANGE,
    PURPLE,
    SKY,
    SMALL,
    VERMILLION,
    WIDTH,
    YELLOW,
)

#: The units that traces name, in the order they are shown, and their colours.
UNITS = {
    "tensor": BLUE,
    "mufu": ORANGE,
    "fma": YELLOW,
    "alu": VERMILLION,
    "tmem": SKY,
    "smem": GREEN,
    "tma": PURPLE,
    "cp_async": PURPLE,
    "tma_store": PURPLE,
    "issue": GREY,
}
#: Units of which every sub-partition of an SM has one; warp w uses that of w mod 4.
PER_SUBPARTITION = frozenset({"mufu", "fma", "alu", "tmem", "issue"})
#: What the names of counters of cycles worked begin with.
BUSY = "busy:"
ROW = 0.5


def unit_utilisation(
    trace: Trace,
    buckets: int = 60,
    *,
    start: int | None = None,
    end: int | None = None,
    cta: int | None = None,
    width: float = WIDTH,
    title: str | None = None,
) -> Picture:
    """Draw the busy share of every unit of one SM over time, as small multiples.

    A unit's share in a stretch of time is the cycles it worked there, over the cycles there are;
    of units that each sub-partition has, the mean of the four. A simulated trace counts them
    (counters ``busy:mufu`` and so on, a few times per K/V block). Of a unit that isn't counted,
    spans tell: those on that unit, each working evenly from start to end.

    Args:
        trace: any trace.
        buckets: stretches of equal length to divide the window into, at least 1.
        start, end: the window in units of the trace's clock; by default the whole run.
        cta: which CTA; by default the first.
        width: in inches.
        title: instead of the default one.

    Raises:
        ValueError: ``buckets`` below 1 or more than there are cycles, unknown CTA, empty window.
    """
    part = scope(trace, start, end, cta, everything=True)
    if not 1 <= buckets <= part.length:
        raise ValueError(
            f"buckets={buckets!r} must be 1 to {part.length:,}, the length of the window in "
            f"{part.trace.clock}"
        )
    edges = np.linspace(part.start, part.end, buckets + 1)
    counted = [name.removeprefix(BUSY) for name in counted_units(part.trace)]
    present = [*part.rows("span").unique("unit"), *counted]
    units = [unit for unit in UNITS if unit in present]
    others = [unit for unit in dict.fromkeys(present) if unit not in UNITS]
    shares = {unit: busy_shares(part, unit, edges) for unit in [*units, *others]}
    heading = title or f"Busy units of {part.where}"
    labels = [f"{unit} 100%" for unit in shares]
    words = run_words(part.trace)
    page = Page(
        width, [ROW] * len(shares), label_room(labels) + 0.4, heading,
        (f"{words}. " if words else "") + "Each strip from 0 to 100 % busy; right: mean of the "
        f"window. One step is {three_digits(part.length / buckets)} {part.trace.clock}.",
        above=0.3, between=0.14, right=0.6,
    )  # fmt: skip
    means = {}
    for i, (axes, (unit, share)) in enumerate(zip(page.axes, shares.items(), strict=True)):
        last = i == len(shares) - 1
        means[unit] = float(share.mean())
        axes.stairs(share, edges, fill=True, color=UNITS.get(unit, GREY), zorder=2)
        axes.stairs(share, edges, color=INK, linewidth=0.8, zorder=3)
        time_axis(axes, part.trace, part.start, part.end, label=last, seconds=i == 0)
        axes.tick_params(axis="x", labelbottom=last)
        axes.set_ylim(0, 1)
        axes.set_yticks([0, 1], ["0", "100 %"], size=SMALL, color="#555555")
        axes.tick_params(axis="y", length=0)
        axes.text(-0.055, 0.5, shortened(unit), size=NORMAL, color=INK, ha="right", va="center",
                  transform=axes.transAxes)  # fmt: skip
        axes.text(1.01, 0.5, f"{means[unit]:.0%}", size=NORMAL, color=INK, weight="bold",
                  va="center", transform=axes.transAxes)  # fmt: skip
    busy = ", ".join(f"{unit} {mean:.1%}" for unit, mean in means.items())
    page.figure.describe(
        heading,
        f"Busy share of each unit of {part.where}, in {buckets} steps of "
        f"{three_digits(part.length / buckets)} {part.trace.clock}. Mean over the window: {busy}.",
    )
    return page.figure


def busy_shares(part: Scope, unit: str, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """The busy share of ``unit`` in each stretch between two ``edges``, 0 to 1."""
    counter = part.trace.counter.where(cta=part.cta, name=BUSY + unit)
    if len(counter):
        return counted_shares(part, unit, counter, edges)
    spans = part.rows("span").where(unit=unit)
    start, end, busy = spans["start"], spans["end"], spans["busy"].astype(np.float64)
    length = end - start
    # A trace that does not say how long the unit worked (a measured one) has it work throughout.
    busy = np.where(spans["busy"] == NONE, length, busy)
    rate = np.divide(busy, length, out=np.zeros_like(busy), where=length > 0)
    copies = 4 if unit in PER_SUBPARTITION else 1
    total = np.zeros(len(edges) - 1)
    for copy in range(copies):
        mine = spans["warp"] % 4 == copy if copies == 4 else np.ones(len(spans), dtype=bool)
        done = _worked(start[mine], end[mine], rate[mine], edges)
        total += np.clip(np.diff(done) / np.diff(edges), 0.0, 1.0)
    share: NDArray[np.float64] = total / copies
    return share


def counted_units(trace: Trace) -> list[str]:
    """Names of the counters of units' work that a trace has."""
    return [name for name in trace.counter.unique("name") if name.startswith(BUSY)]


def counted_shares(
    part: Scope, unit: str, counter: Table, edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Shares from a counter of cycles worked, which rises evenly from each value to the next."""
    born = int(part.trace.span.where(cta=part.cta)["start"].min())
    times = np.concatenate([[born], counter["time"]])
    worked = np.concatenate([[0], counter["value"]])
    copies = 4 if unit in PER_SUBPARTITION else 1
    done = np.interp(edges, times, worked)
    share: NDArray[np.float64] = np.diff(done) / np.diff(edges) / copies
    return np.clip(share, 0.0, 1.0)


def _worked(
    start: NDArray[np.int64], end: NDArray[np.int64], rate: NDArray[np.float64],
    edges: NDArray[np.float64],
) -> NDArray[np.float64]:  # fmt: skip
    """Busy time up to each edge: the integral of the rates of all spans so far."""
    times = np.concatenate([start, end])
    order = np.argsort(times, kind="stable")
    times = times[order].astype(np.float64)
    speed = np.cumsum(np.concatenate([rate, -rate])[order])
    if not len(times):
        return np.zeros(len(edges))
    done = np.concatenate([[0.0], np.cumsum(speed[:-1] * np.diff(times))])
    worked: NDArray[np.float64] = np.interp(edges, times, done)
    return worked
