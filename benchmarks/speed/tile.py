"""One CTA tile with its full trace."""

from __future__ import annotations

from benchmarks.speed.measurement import Measurement, seconds_figure
from benchmarks.speed.stopwatch import timed
from fa4sim import Problem, simulate

#: One work tile of 128 K/V blocks.
PROBLEM = Problem(batch=1, heads=1, seqlen_q=256, seqlen_k=128 * 128)


def measure(problem: Problem = PROBLEM, repeats: int = 7) -> Measurement:
    """The first work tile, its trace written out in full, `repeats` times."""
    simulate(problem, scope="cta")  # so that no repeat pays for what is loaded once
    found = [timed(lambda: simulate(problem, scope="cta").trace.expand()) for _ in range(repeats)]
    trace = found[-1][1]
    blocks = len(set(trace.span["block"].tolist()) - {-1})
    return Measurement(
        "One CTA tile with its full trace",
        f'`simulate(..., scope="cta")` of one work tile of {blocks} K/V blocks, {repeats} times '
        "in one process after a first call that does not count. The steady stretch is proved to "
        "repeat and its records are written out, so the trace is that of every block: "
        f"{trace.size('span'):,} spans and {trace.size('wait'):,} waits.",
        (
            seconds_figure(
                f"one CTA tile of {blocks} K/V blocks with its full trace",
                [spent for spent, _ in found],
                0.15,
            ),
        ),
    )
