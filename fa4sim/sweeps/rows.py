"""What one point gives: a row."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fa4sim.engine.errors import Deadlock
from fa4sim.pipelines.call import Kernel
from fa4sim.report import Report
from fa4sim.simulate import simulate
from fa4sim.specs.idle import idle_settings
from fa4sim.specs.setup import Setup
from fa4sim.sweeps.grid import Grid, Point


@dataclass(frozen=True)
class Outcome:
    """What came of a simulation, as plain data: it travels between processes and through JSON."""

    status: str
    reason: str = ""
    report: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Row:
    """One point: its settings, and its report or why there is none.

    ``status`` is ``ok``, ``refused`` (the design does not fit), ``deadlock`` or ``hazard``. The
    report is without its ``waits``.
    """

    settings: Mapping[str, Any]
    status: str
    reason: str = ""
    report: Report | None = None

    @classmethod
    def of(cls, point: Point, outcome: Outcome | None) -> Row:
        """The row of a point; one that cannot run has no outcome."""
        if outcome is None:
            return cls(point.settings, "refused", point.reason)
        report = None
        if outcome.report is not None:
            given = dict(outcome.report)
            evidence, kernels = given.pop("evidence"), given.pop("kernels")
            report = Report(
                **given, waits=(), evidence=tuple(evidence),
                kernels=tuple(Kernel(**kernel) for kernel in kernels),
            )  # fmt: skip
        return cls(point.settings, outcome.status, outcome.reason, report)

    def facts(self) -> dict[str, Any]:
        """As plain data, without the waits."""
        return {
            "settings": dict(self.settings), "status": self.status,
            "reason": self.reason or None, **report_facts(self.report),
        }  # fmt: skip


def report_facts(report: Report | None) -> dict[str, Any]:
    """A report as plain data without its waits; nothing if there is none."""
    if report is None:
        return {}
    figures = {**dataclasses.asdict(dataclasses.replace(report, waits=()))}
    del figures["waits"]
    return figures


def simulate_point(setup: Setup, seed: int) -> Outcome:
    """Simulate one point; what the pipeline does wrong is an outcome, not an error."""
    try:
        run = simulate(setup.problem, setup.design, setup.machine, seed=seed, on_hazard="record")
    except Deadlock as error:
        return Outcome("deadlock", str(error))
    except ValueError as error:
        return Outcome("refused", str(error))
    reason = ""
    if run.hazards:
        more = f" and {len(run.hazards) - 1} more" if len(run.hazards) > 1 else ""
        reason = f"{run.hazards[0]}{more}"
    return Outcome("hazard" if run.hazards else "ok", reason, report_facts(run.report))


def best_of(rows: Sequence[Row]) -> Row | None:
    """The row with the highest throughput (of one problem, the shortest time)."""
    done = [row for row in rows if row.status == "ok" and row.report is not None]
    return max(done, key=lambda row: row.report.tflops if row.report else 0.0, default=None)


def sweep_facts(grid: Grid, rows: Sequence[Row]) -> dict[str, Any]:
    """A whole sweep as plain data: ``swept``, ``rows``, ``best``, and ``idle`` settings."""
    best = best_of(rows)
    setups = [point.setup for point in grid.points() if point.setup is not None]
    return {
        "swept": {name: list(values) for name, values in grid.axes.items()},
        "rows": [row.facts() for row in rows],
        "best": None if best is None else best.facts(),
        "idle": idle_settings(grid.axes, setups),
    }
