"""The whole validation: which runs it takes, and what they come to."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

from fa4sim.specs import Machine, Problem, machine_named
from fa4sim.validation.errors import Errors, errors_of, relative_error
from fa4sim.validation.ideas import Worth, idea_jobs, worths
from fa4sim.validation.null_models import NULL_MODELS
from fa4sim.validation.published import (
    Group,
    Row,
    conditions,
    other_shapes,
    pipe_use,
    source,
    validated_rows,
)
from fa4sim.validation.readings import reading_errors, reading_jobs
from fa4sim.validation.sensitivity import Effect, effects, sensitivity_jobs
from fa4sim.validation.throughput import Job, Key, Progress, simulate_rows


@dataclass(frozen=True)
class Line:
    """A row beside what was simulated and what the null models say, in TFLOP/s."""

    row: Row
    simulated: float
    null_models: dict[str, float]

    @property
    def error(self) -> float:
        """Signed, as a fraction; above 0 the simulator is the faster."""
        return relative_error(self.simulated, self.row.published)


@dataclass(frozen=True)
class PipeUse:
    """Busy fractions of tensor pipe and MUFU on one machine, published and simulated.

    ``undisturbed`` are the simulated ones if MUFU, FMA and ALU work took no longer beside MMAs.
    """

    machine: str
    published: dict[str, float]
    simulated: dict[str, float]
    undisturbed: dict[str, float]


@dataclass(frozen=True)
class Validation:
    """Everything the page shows. ``errors`` and ``null_errors`` are of the rows not fitted."""

    lines: tuple[Line, ...]
    errors: Errors
    null_errors: dict[str, Errors]
    shapes: tuple[tuple[Group, tuple[float, ...]], ...]
    ideas: tuple[Worth, ...]
    pipes: tuple[PipeUse, ...]
    readings: dict[str, dict[str, float]]
    effects: tuple[Effect, ...]
    machine: Machine
    wall_s: float

    @property
    def ok(self) -> bool:
        """Whether mean and worst error of the rows not fitted are as small as wanted."""
        return self.errors.ok

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data; errors and gains as fractions."""
        return {
            "ok": self.ok,
            "source": source(),
            "conditions": conditions(),
            "rows": [
                {
                    "name": line.row.name,
                    "published_tflops": line.row.published,
                    "simulated_tflops": line.simulated,
                    "error": line.error,
                    "fitted": line.row.fitted,
                    "null_models_tflops": line.null_models,
                }
                for line in self.lines
            ],
            "not_fitted": {"mape": self.errors.mean, "worst": self.errors.worst},
            "null_models": {
                name: {"mape": errors.mean, "worst": errors.worst}
                for name, errors in self.null_errors.items()
            },
            "other_shapes": [
                {
                    "group": group.name,
                    "source": group.source,
                    "clock_hz": row.machine.clock_hz,
                    "row": row.name,
                    "published_tflops": row.published,
                    "slower_tflops": row.slower,
                    "simulated_tflops": simulated,
                    "error": relative_error(simulated, row.published),
                }
                for group, figures in self.shapes
                for row, simulated in zip(group.rows, figures, strict=True)
            ],
            "ideas": [
                {"idea": worth.idea.name, "gain": worth.gains, "published": worth.published}
                for worth in self.ideas
            ],
            "pipe_use": [vars(pipe) for pipe in self.pipes],
            "readings": self.readings,
            "sensitivity": [
                {
                    "constant": effect.constant,
                    "kind": effect.origin.kind,
                    "chosen": effect.chosen,
                    "value": effect.value,
                    "change": effect.changes,
                    "mape": effect.mean_error,
                }
                for effect in self.effects
            ],
            "wall_s": self.wall_s,
        }


def run_validation(progress: Progress | None = None, sensitivity: bool = True) -> Validation:
    """Simulate the published rows and everything that goes with them.

    Args:
        progress: called with (done, of) after every simulated row.
        sensitivity: also vary every fitted or assumed constant over its range.

    >>> result = run_validation(sensitivity=False)  # doctest: +SKIP
    >>> result.errors.mean < 0.05  # doctest: +SKIP
    True
    """
    started = time.perf_counter()
    rows, groups = validated_rows(), other_shapes()
    jobs: dict[Key, Job] = {("row", row.name): Job(row) for row in rows}
    for number, group in enumerate(groups):
        jobs |= {("shape", number, i): Job(row) for i, row in enumerate(group.rows)}
    jobs |= idea_jobs(rows)
    jobs |= _pipe_jobs()
    jobs |= reading_jobs()
    if sensitivity:
        jobs |= sensitivity_jobs(rows)
    outcomes = simulate_rows(jobs, progress)
    base = {row.name: outcomes["row", row.name].tflops for row in rows}
    fitted = [row for row in rows if row.fitted]
    models = {name: fit(fitted) for name, fit in NULL_MODELS.items()}
    lines = tuple(
        Line(row, base[row.name], {name: model(row.problem) for name, model in models.items()})
        for row in rows
    )
    judged = [line for line in lines if not line.row.fitted]
    return Validation(
        lines,
        errors_of([line.error for line in judged]),
        {
            name: errors_of(
                [relative_error(line.null_models[name], line.row.published) for line in judged]
            )
            for name in models
        },
        tuple(
            (group, tuple(outcomes["shape", n, i].tflops for i in range(len(group.rows))))
            for n, group in enumerate(groups)
        ),
        tuple(worths(rows, outcomes, base)),
        tuple(
            PipeUse(
                entry["machine"],
                {unit: entry[unit] for unit in PIPES},
                *(
                    {unit: outcomes["pipe", entry["machine"], alone].units[unit] for unit in PIPES}
                    for alone in (False, True)
                ),
            )
            for entry in pipe_use()[1]
        ),
        reading_errors(outcomes),
        tuple(effects(rows, outcomes, base)) if sensitivity else (),
        rows[0].machine,
        time.perf_counter() - started,
    )


#: Units whose use is published.
PIPES = ("tensor", "mufu")


def _pipe_jobs() -> dict[Key, Job]:
    """The machines whose pipe use is published, with interference and without."""
    problem = Problem(batch=2, heads=16, seqlen_q=16384)
    jobs: dict[Key, Job] = {}
    for entry in pipe_use()[1]:
        row = Row("full 16k", problem, machine_named(entry["machine"]), math.nan)
        jobs["pipe", entry["machine"], False] = Job(row)
        jobs["pipe", entry["machine"], True] = Job(row, {"beside_mma_factor": 1.0})
    return jobs
