"""The whole-GPU demo problem in a fresh process: how long it takes after import, and its memory."""

from __future__ import annotations

import dataclasses
import json

from benchmarks.speed.measurement import Figure, Measurement, seconds_figure
from benchmarks.speed.stopwatch import Spent, fresh
from fa4sim import Problem

#: What `make demo` simulates.
PROBLEM = Problem(batch=4, heads=16, seqlen_q=8192, seqlen_k=8192, head_dim=128)


def measure(problem: Problem = PROBLEM, repeats: int = 5) -> Measurement:
    """One fresh process per repeat."""
    given = json.dumps(dataclasses.asdict(problem))
    found = [fresh("-m", "benchmarks.speed.child", given) for _ in range(repeats)]
    one = found[0]
    spent = [Spent(each["cpu_s"], each["wall_s"]) for each in found]
    peaks = tuple(each["peak_mb"] for each in found)
    words = (
        f"batch {problem.batch}, {problem.heads} heads, {problem.seqlen_q} × {problem.seqlen_k}, "
        f"head dim {problem.head_dim}, {problem.dtype}"
    )
    return Measurement(
        "The demo problem",
        f"`simulate` of {words} on a B200, {repeats} times, each time as the first call of a fresh "
        f"process and after the import. {one['ctas']:,} CTAs are placed from "
        f"{one['detailed_runs']} detailed runs of {one['events']:,} events in all. Peak memory "
        "is the most the same process ever had resident, interpreter and libraries included, in "
        "MB of 10⁶ bytes.",
        (
            seconds_figure("the demo problem on the whole GPU, after import", spent, 1.0),
            Figure("peak memory of the demo problem", "MB", peaks, 500),
        ),
    )
