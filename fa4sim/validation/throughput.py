"""Simulated throughput of published rows, many at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from fa4sim.pipelines.fa4.gpu import simulate_gpu
from fa4sim.validation.published import Row

Progress = Callable[[int, int], None]
#: What a job is for: the names of its table, line and column.
Key = Hashable


@dataclass(frozen=True)
class Job:
    """A row to simulate, with constants of the machine or fields of the design changed."""

    row: Row
    constants: dict[str, float] = field(default_factory=dict)
    design: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """TFLOP/s with the launch included, and the busy fraction of each unit over all SMs."""

    tflops: float
    units: dict[str, float]


def simulate_row(job: Job) -> Outcome:
    """One whole-GPU run."""
    row = job.row
    machine = replace(row.machine, **job.constants)  # type: ignore[arg-type]
    result = simulate_gpu(row.problem, row.chosen(machine, **job.design), machine)
    seconds = machine.seconds(result.cycles) + machine.launch_seconds
    span = result.cycles * machine.sms
    units = {name: busy / span for name, busy in result.totals.units.items()}
    return Outcome(row.problem.flops / seconds / 1e12, units)


def simulate_rows(jobs: Mapping[Key, Job], progress: Progress | None = None) -> dict[Key, Outcome]:
    """All of them, on all cores; ``progress(done, of)`` is called after each."""
    workers = min(os.cpu_count() or 1, len(jobs))
    outcomes: dict[Key, Outcome] = {}

    def take(results: Iterable[Outcome]) -> dict[Key, Outcome]:
        for key, outcome in zip(jobs, results, strict=True):
            outcomes[key] = outcome
            if progress is not None:
                progress(len(outcomes), len(jobs))
        return outcomes

    if workers <= 1:
        return take(map(simulate_row, jobs.values()))
    with ProcessPoolExecutor(workers) as pool:
        return take(pool.map(simulate_row, jobs.values(), chunksize=2))
