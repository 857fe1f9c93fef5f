"""Simulated throughput of published rows, many at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from fa4sim.pipelines.fa4.gpu import simulate_gpu
from fa4sim.specs import Design, Machine, Problem
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
    problem, design, machine = _run(job)
    result = simulate_gpu(problem, design, machine)
    seconds = machine.seconds(result.cycles) + machine.launch_seconds
    span = result.cycles * machine.sms
    units = {name: busy / span for name, busy in result.totals.units.items()}
    return Outcome(problem.flops / seconds / 1e12, units)


def _run(job: Job) -> tuple[Problem, Design, Machine]:
    machine = replace(job.row.machine, **job.constants)  # type: ignore[arg-type]
    return job.row.problem, job.row.chosen(machine, **job.design), machine


def _length(job: Job) -> float:
    """How long a run takes, roughly: rescales that come and go leave no steady state to skip."""
    problem, design, _ = _run(job)
    return problem.flops * (100 if design.rescale_threshold == 0 else 1)


def simulate_rows(jobs: Mapping[Key, Job], progress: Progress | None = None) -> dict[Key, Outcome]:
    """All of them, on all cores, equal ones once; ``progress(done, of)`` is called after each."""
    same: dict[tuple[Problem, Design, Machine], list[Key]] = {}
    for key, job in jobs.items():
        same.setdefault(_run(job), []).append(key)
    runs = sorted((jobs[keys[0]] for keys in same.values()), key=_length, reverse=True)
    found: dict[tuple[Problem, Design, Machine], Outcome] = {}

    def take(results: Iterable[Outcome]) -> dict[Key, Outcome]:
        for job, outcome in zip(runs, results, strict=True):
            found[_run(job)] = outcome
            if progress is not None:
                progress(len(found), len(runs))
        return {key: found[_run(job)] for key, job in jobs.items()}

    workers = min(os.cpu_count() or 1, len(runs))
    if workers <= 1:
        return take(map(simulate_row, runs))
    with ProcessPoolExecutor(workers) as pool:
        return take(pool.map(simulate_row, runs))
