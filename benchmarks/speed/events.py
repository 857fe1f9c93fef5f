"""Events per second of the simulator against bare SimPy timeouts.

An event is one step of the SimPy environment. Both sides run in one process, turn by turn.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Generator
from functools import partial

import simpy

from benchmarks.speed.measurement import Figure, Measurement, Table
from benchmarks.speed.sampler import sample, shares
from benchmarks.speed.stopwatch import timed
from benchmarks.speed.words import rate, shown
from fa4sim import B200, Design, Problem, simulate
from fa4sim.engine.core import Core
from fa4sim.pipelines.fa4.build import build_cluster
from fa4sim.pipelines.fa4.cluster import Cluster, Surroundings
from fa4sim.pipelines.fa4.gpu import make_plan
from fa4sim.trace import Trace

#: One work tile of 64 K/V blocks. Short turns, and many: load on the machine comes and goes.
PROBLEM = Problem(batch=1, heads=1, seqlen_q=256, seqlen_k=64 * 128)

BARE = "bare SimPy timeouts"
DROPPED = "stepping the pipeline, rows of the trace dropped"
RECORDED = "stepping the pipeline, rows recorded"
WHOLE = "the whole call of `simulate`"
WAYS = (BARE, DROPPED, RECORDED, WHOLE)


def measure(problem: Problem = PROBLEM, repeats: int = 16, profiled: int = 8) -> Measurement:
    """Every way of spending events, `repeats` times in turn, and `profiled` whole calls sampled."""
    warps = len(one_tile(problem, Trace()).agents)
    events = whole_call(problem)
    # Bare steps are several times faster: more of them, to measure over similar times.
    timeouts = 3 * events // warps
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    for repeat in range(repeats):
        turns: dict[str, Callable[[], int]] = {
            DROPPED: partial(run_tile, one_tile(problem, RowsDropped())),
            RECORDED: partial(run_tile, one_tile(problem, Trace())),
            BARE: partial(run_bare, bare_environment(warps, timeouts), warps, timeouts),
            WHOLE: partial(whole_call, problem),
        }
        # There and back, so that load which rises or falls favours no way over another.
        for way in turns if repeat % 2 else reversed(turns):
            spent, steps = timed(turns[way])
            rates[way].append(steps / max(spent.cpu_s, 1e-9))
    seen: Counter[str] = Counter()
    for _ in range(profiled):
        seen += sample(lambda: whole_call(problem))
    return Measurement(
        "Events per second",
        f"One work tile of {problem.seqlen_q} queries and {problem.seqlen_k:,} keys is simulated "
        f'step by step (`scope="cta"`, `exact=True`): {events:,} events by {warps} warps. The '
        f"other side is a plain SimPy environment in which {warps} processes each yield one "
        "timeout after another. Both run in the same Python process, turn by turn, "
        f"{repeats} times, and each turn gives one ratio, by CPU time. The target is held against "
        "the whole call, which also builds the pipeline and works out the critical path and the "
        "report; the first table tells how much is stepping. A bare timeout resumes one generator "
        "that does nothing; an event of the pipeline resumes generators nested a few deep, which "
        "book units, pass barriers and record what they did. The second table comes from looking "
        "at the running stack every few milliseconds of CPU time; time in NumPy and the standard "
        "library counts for the module that called it.",
        (Figure("events per second, against bare SimPy", "x", ratios(rates, WHOLE), 0.5, True),),
        (rates_table(rates), shares_table(seen)),
    )


def ratios(rates: dict[str, list[float]], way: str) -> tuple[float, ...]:
    """Events per second of one way as parts of bare SimPy's, turn by turn."""
    return tuple(a / b for a, b in zip(rates[way], rates[BARE], strict=True))


def rates_table(rates: dict[str, list[float]]) -> Table:
    """Events per second and time per event of every way, medians."""
    rows = []
    for way in WAYS:
        median = statistics.median(rates[way])
        part = statistics.median(ratios(rates, way))
        rows.append((way, rate(median), f"{1e6 / median:.2f}", shown(part, "x")))
    return Table(
        "Medians. A row of the trace is the record of a span, a wait, an arrival or a tile's life.",
        ("what runs", "events per second", "µs per event", "of bare SimPy"),
        tuple(rows),
    )


def shares_table(seen: Counter[str]) -> Table:
    """Parts of the whole call's CPU time by module."""
    rows = tuple((f"`{name}`" if "." in name else name, f"{part:.0%}")
                 for name, part in shares(seen))  # fmt: skip
    return Table(
        f"Where the CPU time of the whole call goes, from {seen.total():,} samples.",
        ("module", "share"),
        rows,
    )


class RowsDropped(Trace):
    """A trace that takes rows and keeps none, to see what keeping them costs."""

    def __init__(self) -> None:
        super().__init__()
        self.append = dict.fromkeys(self.append, lambda _row: None)


def one_tile(problem: Problem, trace: Trace) -> Cluster:
    """The pipeline of the problem's first work tile, built and ready to step."""
    design = Design.for_problem(problem, B200)
    plan = make_plan(problem, design, B200)
    around = Surroundings(first_wave=True, in_step=plan.lists is not None)
    return build_cluster(Core(trace), problem, design, B200, plan.tiles[:1], around, seed=0)


def run_tile(cluster: Cluster) -> int:
    """Step a pipeline to its end; return the number of events."""
    cluster.core.run()
    return cluster.core.events


def whole_call(problem: Problem) -> int:
    """Simulate the first work tile step by step; return the number of events."""
    return simulate(problem, scope="cta", exact=True).report.events


def bare_environment(processes: int, timeouts: int) -> simpy.Environment:
    """A plain environment with `processes` that each yield `timeouts`, one after the other."""
    env = simpy.Environment()

    def process() -> Generator[simpy.Event, object, None]:
        for _ in range(timeouts):
            yield env.timeout(1)

    for _ in range(processes):
        env.process(process())
    return env


def run_bare(env: simpy.Environment, processes: int, timeouts: int) -> int:
    """Step such an environment to its end; return the number of events."""
    env.run()
    return processes * (timeouts + 2)  # every process also begins with a step and ends with one
