"""Problems far larger than the demo: how long a person waits."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.speed.measurement import Measurement, Table
from benchmarks.speed.stopwatch import timed
from benchmarks.speed.words import shown
from fa4sim import Problem, simulate

PROBLEMS = {
    "batch 64, 32 heads, 8192 × 8192, causal": Problem(
        batch=64, heads=32, seqlen_q=8192, causal=True
    ),
    "1 head, 524,288 × 524,288, full": Problem(heads=1, seqlen_q=524_288),
    "1 head, 524,288 × 524,288, causal": Problem(heads=1, seqlen_q=524_288, causal=True),
}


def measure(problems: Mapping[str, Problem] = PROBLEMS) -> Measurement:
    """Each problem once."""
    return Measurement(
        "Large problems",
        "`simulate` on a B200, each problem once in one process, so without a spread. No target "
        "was set.",
        tables=(
            Table(
                "One run each.",
                ("problem", "work tiles", "detailed runs", "CPU time", "wall time"),
                tuple(row(words, problem) for words, problem in problems.items()),
            ),
        ),
    )


def row(words: str, problem: Problem) -> tuple[str, ...]:
    """What one run took."""
    spent, run = timed(lambda: simulate(problem))
    tiles = len(run.gpu.plan.tiles) if run.gpu is not None else 0
    return (
        words,
        f"{tiles:,}",
        f"{run.report.detailed_runs}",
        shown(spent.cpu_s, "s"),
        shown(spent.wall_s, "s"),
    )
