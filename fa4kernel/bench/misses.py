"""Where misses of docs/validation/h200.md come from, as far as stored measurements tell.

Two things: the clock that was read beside short runs, and steady states that depend on how a tile
began. Neither changes an error on the page.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fa4kernel.bench.markdown import table
from fa4kernel.bench.measure import RUNS, WARM_UP
from fa4kernel.bench.points import Point, standard
from fa4kernel.bench.predict import Compared, simulators_design
from fa4kernel.bench.stored_traces import Measured
from fa4kernel.hopper.design import config_for
from fa4kernel.hopper.traced import durations
from fa4sim.pipelines.common.cluster import Surroundings
from fa4sim.pipelines.fa4.detail import simulate_cluster
from fa4sim.pipelines.fa4.gpu import Plan, make_plan
from fa4sim.specs import H200, HopperDesign
from fa4sim.specs.measured import h200_value

#: Whose steady states are shown, and of how many kinds of tile.
LENGTH, TILES = 16_384, 8
KERNELS = (
    standard(128, False, LENGTH), standard(128, True, LENGTH),
    standard(64, False, LENGTH, "2 consumers"),
    standard(64, False, LENGTH), standard(64, False, LENGTH, "no ping-pong"),
    standard(64, True, LENGTH), standard(64, True, LENGTH, "no ping-pong"),
    standard(128, False, LENGTH, "80 keys, 3 consumers"),
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """A point with few heads and the standard one of the same shapes, whose runs are longer.

    >>> round(
    ...     Pair.idle(1.8, 1.0, 1.62, 19.0, 2.0), 9
    ... )  # a kernel at 1.6 GHz, 1 ms of waiting at 2 GHz
    1.0
    """

    short: Compared
    long: Compared

    @property
    def waiting_ms(self) -> float:
        """Milliseconds at the highest clock which, beside runs at one clock, give both readings."""
        light = h200_value("sm_clock_light_hz")
        return self.idle(clock(self.short), all_ms(self.short), clock(self.long),
                         all_ms(self.long), light)  # fmt: skip

    @staticmethod
    def idle(clock: float, ms: float, other: float, other_ms: float, light: float) -> float:
        """Of two mean clocks over runs of so many ms and the same time at the clock ``light``."""
        return (clock - other) / ((light - clock) / ms - (light - other) / other_ms)

    @property
    def error(self) -> float:
        """That of the short one if it ran at the clock of the long one."""
        short = self.short
        kernel = short.simulated_ms - short.empty_ms
        kernel *= clock(short) / clock(self.long)
        return (kernel + short.empty_ms) / short.measured_ms - 1


def clock(each: Compared) -> float:
    """The mean clock in Hz that was read."""
    return float(each.row["ours"]["clock_hz"])


def all_ms(each: Compared) -> float:
    """Of all runs between two readings of the clock."""
    return (RUNS + WARM_UP) * each.measured_ms


def pairs(compared: Iterable[Compared]) -> list[Pair]:
    """Points with a single sequence and few heads, with their standard ones."""
    by_name = {each.point.name: each for each in compared}
    found = []
    for each in by_name.values():
        point = each.point
        long = by_name.get(standard(point.head_dim, point.causal, point.seqlen).name)
        few = not point.variant and point.batch == 1 and point.heads == point.kv_heads
        if few and long is not None and long is not each:
            found.append(Pair(each, long))
    return found


def clock_section(compared: Sequence[Compared]) -> str:
    """What the reading of the clock does to short runs."""
    found = pairs(compared)
    light = h200_value("sm_clock_light_hz") / 1e9
    waiting = statistics.median(pair.waiting_ms for pair in found)
    mean, corrected = (
        statistics.mean(errors)
        for errors in ([pair.short.error for pair in found], [pair.error for pair in found])
    )
    rows = [
        (
            pair.short.point.name, f"{all_ms(pair.short):.1f}", f"{clock(pair.short) / 1e9:.2f}",
            f"{all_ms(pair.long):.0f}", f"{clock(pair.long) / 1e9:.2f}", f"{pair.waiting_ms:.1f}",
            f"{pair.short.error:+.1%}", f"{pair.error:+.1%}",
        )
        for pair in found
    ]  # fmt: skip
    head = (
        "point", "its runs (ms)", "clock (GHz)", "the long one's runs (ms)", "its clock (GHz)",
        "waiting that explains both (ms)", "error", "error at the long one's clock",
    )  # fmt: skip
    return f"""
## Where misses come from: the clock of short runs

Times are read between events, but the clock is a mean over a stretch that was longer than the runs:
between its two readings the host also waited for the first one, made events, and prepared the
second. Meanwhile the GPU idles, at up to {light:.2f} GHz. The shorter the runs, the more of the
stretch is idle, the higher the mean, and the faster the simulator seems. Points with few heads are
paired here with the standard ones of the same shapes, whose tiles are the same. If both kernels ran
at one clock, the readings differ by the waiting alone, and it should be equally long everywhere:
the median is {waiting:.1f} ms. (Where the long one works for tens of milliseconds, power slows it
down, which this doesn't know.) The mean of these errors is {mean:+.1%}, and {corrected:+.1%} at the
long one's clock.

{table(head, rows)}
No error on this page is corrected for it. The readings now lie close around the runs
(`fa4kernel.device.MeanClock`), but these points were not measured again. The constant
`share_burst_bytes` was fitted on short points, with their clocks.
"""


def states_section(compared: Sequence[Compared], traces: Iterable[Measured]) -> str:
    """Into which steady states tiles fall, and how steady the measured blocks are."""
    by_name = {each.point.name: each for each in compared}
    states = {point: steady_states(by_name[point.name]) for point in KERNELS}
    rows = []
    for point, found in states.items():
        each = by_name[point.name]
        loop = (point.head_dim, point.variant)
        fastest = min(min(s) for p, s in states.items() if (p.head_dim, p.variant) == loop)
        mean = sum(cycles * count for cycles, count in found.items()) / found.total()
        rows.append(
            (
                point.name,
                ", ".join(f"{c:,} ({n} of {found.total()})" for c, n in sorted(found.items())),
                f"{measured_per_block(each):,.0f}", f"{each.error:+.1%}",
                f"{(1 + each.error) * fastest / mean - 1:+.1%}",
            )
        )  # fmt: skip
    head = (
        "kernel", "steady states: cycles per block (kinds of tile)", "measured, all told", "error",
        "error if they were in the loop's fastest",
    )  # fmt: skip
    spread = [
        (each.point.name, str(each.cfg.consumers), f"{middle:,.0f}", f"{high - low:,.0f}")
        for each in traces
        for low, middle, high in [np.percentile(block_cycles(each), (25, 50, 75))]
    ]
    heads = ("traced kernel", "consumers", "cycles of a block, median", "range of the middle half")
    return f"""
## Where misses come from: steady states

In the simulator nothing jitters. After some blocks the consumers do the same again and again, to
the cycle, and how a tile begins may decide what. Below are the steady states of up to {TILES} tiles
of each kernel, which differ in length or in what they find in L2. Full and causal tiles come to the
same loop, only their first blocks differ. Where a loop has several states, the time of its kernels
is known no better than these differ, nor is what a change of it gains.

{table(head, rows)}
Nor does a GPU always repeat. Blocks of traced kernels, as measured, of two CTAs:

{table(heads, spread)}"""


def steady_states(each: Compared) -> Counter[int]:
    """How many of some kinds of tile of a problem come to which cycles per block."""
    plan, design = planned(each.point)
    machine = H200.with_constants(clock_hz=clock(each))
    found: Counter[int] = Counter()
    kinds = list({tile.shape: tile for tile in reversed(plan.tiles)}.values())[::-1]
    for number in range(min(TILES, len(kinds))):
        tile = kinds[number * len(kinds) // min(TILES, len(kinds))]
        detail = simulate_cluster(each.point.problem, design, machine, [tile], Surroundings())
        if detail.proofs:
            proof = detail.proofs[-1]
            found[round(proof.cycles / proof.period)] += 1
    return found


def measured_per_block(each: Compared) -> float:
    """Measured cycles by the blocks of the SM that has most; of a grid in order, of the mean."""
    plan, _ = planned(each.point)
    if plan.lists is None:
        blocks = sum(tile.blocks for tile in plan.tiles) / H200.sms
    else:
        blocks = max(sum(plan.tiles[i].blocks for i in chosen) for chosen in plan.lists)
    return (each.measured_ms - each.empty_ms) * 1e-3 * clock(each) / blocks


def planned(point: Point) -> tuple[Plan, HopperDesign]:
    """Tiles and the simulator's design of a point."""
    design = simulators_design(config_for(point.problem, **point.changes))
    return make_plan(point.problem, design, H200), design


def block_cycles(found: Measured) -> NDArray[np.int64]:
    """Cycles of every measured block but a tile's first."""
    total: NDArray[np.int64] = np.sum(
        list(durations(found.cfg, found.stamps).values()), axis=0, dtype=np.int64
    )
    return total
