"""SM occupancy: which SM ran what and when, waves and tail of the whole GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fa4sim.trace import Trace
from fa4sim.views.figure import Picture
from fa4sim.views.layout import Bar, Entry, Page, draw_bars, split_legends, time_axis
from fa4sim.views.scope import three_digits
from fa4sim.views.style import BLUE, FAINT, INK, NORMAL, ORANGE, SKY, SMALL, WIDTH, Look

#: What an SM runs first, second, third, … takes turns in two looks. If it runs but one CTA, they
#: tell those that compute the fewest tiles from those that compute more.
ODD, EVEN = Look(BLUE), Look(SKY, "//")
TAIL = Look(ORANGE, "..", pale=True)

Placement = tuple[int, int, int, Sequence[int]]


@dataclass(frozen=True)
class Waves:
    """What :func:`sm_occupancy` shows, in numbers. Times in cycles, shares 0 to 1.

    ``tail`` is when the first SM that had work runs out of it; ``tail_share`` the part of all SM
    time that SMs idle from then on, ``busy_share`` the part in which they run something.
    """

    sms_per_cluster: int
    finish: int
    tail: int
    most_on_one_sm: int
    unused_sms: int
    busy_share: float
    tail_share: float


def waves(occupancy: Sequence[Placement], sms: int, sms_per_cluster: int | None = None) -> Waves:
    """Work the numbers out; raises what :func:`sm_occupancy` raises."""
    if not occupancy:
        raise ValueError("occupancy is empty: no CTA was placed on any SM")
    firsts = np.unique([first for first, *_ in occupancy])
    group = sms_per_cluster or (2 if len(firsts) > 1 and not np.any(firsts % 2) else 1)
    ends = np.zeros(sms, dtype=np.int64)
    counts = np.zeros(sms, dtype=np.int64)
    busy = 0
    for first, start, end, _ in occupancy:
        if not 0 <= first <= sms - group:
            raise ValueError(f"SM {first} is not one of this GPU's {sms} SMs (0 to {sms - 1})")
        if end < start:
            raise ValueError(
                f"the CTA on SM {first} ends at {end:,}, before its start at {start:,}"
            )
        mine = slice(first, first + group)
        ends[mine] = np.maximum(ends[mine], end)
        counts[mine] += 1
        busy += group * (end - start)
    used = counts > 0
    finish = int(ends.max())
    area = max(1, sms * finish)
    return Waves(
        group, finish, int(ends[used].min()), int(counts.max()), int((~used).sum()),
        busy / area, float((finish - ends[used]).sum()) / area,
    )  # fmt: skip


def sm_occupancy(
    occupancy: Sequence[Placement],
    clock_hz: float,
    sms: int,
    *,
    sms_per_cluster: int | None = None,
    width: float = WIDTH,
    title: str | None = None,
) -> Picture:
    """Draw what every SM of the GPU ran over time: waves of CTAs, and the tail.

    Args:
        occupancy: ``(first SM, start, end, tiles)`` of every CTA or pair, times in cycles; as
            ``Run.occupancy`` gives it.
        clock_hz: SM cycles per second.
        sms: how many SMs the GPU has.
        sms_per_cluster: 2 for CTA pairs; by default 2 if every first SM is even.
        width: in inches.
        title: instead of the default one.

    Raises:
        ValueError: nothing placed, an SM that the GPU does not have, an end before its start, a
            clock that is not positive.

    >>> from fa4sim.views import alt_text
    >>> placed = [(0, 0, 100, [0]), (1, 0, 80, [1]), (0, 100, 200, [2])]
    >>> print(alt_text(sm_occupancy(placed, 1.85e9, 2)))
    What each of 2 SMs runs: 3 CTAs, 3 work tiles; at most 2 CTAs on one SM, one after the other. \
The SMs run something in 70.0% of 200 cycles (0.108 µs); the tail, from cycle 80 on, idles \
30.0% of all SM time.
    """
    if not clock_hz > 0:
        raise ValueError(f"clock_hz={clock_hz!r} must be positive")
    numbers = waves(occupancy, sms, sms_per_cluster)
    group, finish = numbers.sms_per_cluster, numbers.finish
    kind = "CTA pair" if group == 2 else "CTA"
    heading = title or f"What each of {sms} SMs runs"
    story = _story(occupancy, numbers, kind, clock_hz)
    stays = numbers.most_on_one_sm == 1
    fewest, most = _tiles_each(occupancy)
    looks = _legend(kind, stays, fewest, most)
    if numbers.tail < finish:
        looks.append(Entry("tail: the first SM has run out of work", TAIL))
    page = Page(width, [min(4.4, max(1.2, 0.03 * sms))], 0.6, heading, story,
                split_legends(width, ("Running", looks)), above=0.3)  # fmt: skip
    (axes,) = page.axes
    time_axis(axes, Trace("cycles", {"clock_hz": clock_hz}), 0, max(1, finish))
    axes.set_ylim(sms, 0)
    step = max(1, -(-sms // 8 // 4) * 4) if sms > 8 else 1
    ticks = list(range(0, sms, step))
    axes.set_yticks([tick + 0.5 for tick in ticks], [str(tick) for tick in ticks], size=SMALL)
    axes.set_ylabel("SM", size=NORMAL, color=INK)
    seen: dict[int, int] = {}
    bars = [Bar(numbers.tail, finish, 0, sms, TAIL)] if numbers.tail < finish else []
    for first, start, end, tiles in sorted(occupancy, key=lambda p: (p[0], p[1])):
        turn = seen[first] = seen.get(first, 0) + 1
        odd = len(tiles) == fewest if stays else turn % 2 == 1
        bars.append(Bar(start, end, first, first + group, ODD if odd else EVEN))
    draw_bars(axes, bars, outline=0.002 * finish)
    axes.axvline(numbers.tail, color=INK, linewidth=1, linestyle="--", zorder=6)
    axes.grid(axis="y", color=FAINT, linewidth=0.4)
    page.figure.describe(heading, f"{heading}: {story}")
    return page.figure


def _tiles_each(occupancy: Sequence[Placement]) -> tuple[int, int]:
    """The fewest and the most work tiles that one CTA or pair computes."""
    counts = [len(tiles) for *_, tiles in occupancy]
    return min(counts), max(counts)


def _legend(kind: str, stays: bool, fewest: int, most: int) -> list[Entry]:
    """Where no SM runs a second CTA, looks tell how many tiles a CTA computes; else its turn."""
    if not stays:
        return [Entry(f"1st, 3rd, … {kind} of its SM", ODD), Entry(f"2nd, 4th, … {kind}", EVEN)]
    looks = [Entry(f"{kind} that computes {_tiles(fewest)}", ODD)]
    if most > fewest:
        more = _tiles(most) if most == fewest + 1 else f"{fewest + 1:,} to {_tiles(most)}"
        looks.append(Entry(f"{kind} that computes {more}", EVEN))
    return looks


def _tiles(count: int) -> str:
    return f"{count:,} work tile{'s' if count != 1 else ''}"


def _story(occupancy: Sequence[Placement], numbers: Waves, kind: str, clock_hz: float) -> str:
    tiles = sum(len(tiles) for *_, tiles in occupancy)
    many = f"at most {numbers.most_on_one_sm} {kind}s on one SM, one after the other"
    tail = (
        f"the tail, from cycle {numbers.tail:,} on, idles {numbers.tail_share:.1%} of all SM time"
    )
    unused = f" {numbers.unused_sms} SMs get no work." if numbers.unused_sms else ""
    fewest, most = _tiles_each(occupancy)
    each = _tiles(most) if fewest == most else f"{fewest:,} to {_tiles(most)}"
    return (
        f"{len(occupancy):,} {kind}s, {tiles:,} work tiles; "
        + (many if numbers.most_on_one_sm > 1 else f"one {kind} on an SM, for {each}")
        + f". The SMs run something in {numbers.busy_share:.1%} of {numbers.finish:,} cycles "
        f"({three_digits(numbers.finish * 1e6 / clock_hz)} µs); "
        + (tail if numbers.tail < numbers.finish else "all end together")
        + f".{unused}"
    )
