"""A Perfetto trace written to a file."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

from benchmarks.speed.measurement import Measurement, seconds_figure
from benchmarks.speed.stopwatch import timed
from fa4sim import Problem, Run, simulate
from fa4sim.views.perfetto import write_perfetto
from fa4sim.views.perfetto_reader import read_perfetto

#: Slices (spans and waits) that the trace has at least.
SLICES = 50_000


def measure(least: int = SLICES, repeats: int = 5) -> Measurement:
    """Write the trace of one run `repeats` times, then count its slices in the file."""
    run = run_with(least)
    trace = run.trace
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.pftrace"
        spent = [timed(lambda: write_perfetto(trace, path))[0] for _ in range(repeats)]
        size = path.stat().st_size
        slices = len(read_perfetto(path).slices)
    return Measurement(
        "Perfetto trace",
        f"The trace of one work tile of {run.problem.seqlen_k:,} keys, the shortest found with "
        f"{least:,} slices or more, written to a new file {repeats} times. Read back with "
        f"Perfetto's own classes, the file has {slices:,} slices ({trace.size('span'):,} spans "
        f"and {trace.size('wait'):,} waits) in {size / 1e6:.1f} MB, with arguments, flows and "
        f"counters. The time is that of all {slices:,}, not scaled to {least:,}. Simulating is "
        "not included.",
        (seconds_figure(f"a Perfetto trace of {slices:,} slices, written", spent, 0.5),),
    )


def run_with(least: int) -> Run:
    """A run of one CTA whose expanded trace has at least this many slices, and not many more."""
    blocks = 8
    while True:
        run = simulate(Problem(heads=1, seqlen_q=256, seqlen_k=blocks * 128), scope="cta")
        found = run.trace.size("span") + run.trace.size("wait")
        if found >= least:
            return run
        blocks = max(blocks + 1, math.ceil(blocks * least / found))
