"""What the page on inference is made of: calls to simulate, one by one, on all cores."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from fa4sim.simulate import simulate
from fa4sim.specs import B200, Design, Problem

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Call:
    """A call on a B200, with fields of the design and constants of the machine changed."""

    problem: Problem
    design: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What a call came to. Times are in µs and include the launch; ``tflops`` as published ones.

    ``hbm`` is the bandwidth used over that time in bytes per second; ``attention_us`` and
    ``combine_us`` are the kernels' own times, ``splits`` into how many parts keys were cut at most.
    """

    time_us: float
    tflops: float
    hbm: float
    attention_us: float
    combine_us: float
    splits: int
    useful_rows: float
    bottleneck: str
    units: Mapping[str, float]

    @property
    def busiest(self) -> tuple[str, float]:
        """The unit of an SM with the most to do, and its busy fraction."""
        name = max((n for n in self.units if n not in ("l2", "hbm")), key=lambda n: self.units[n])
        return name, self.units[name]


def run_call(call: Call) -> Outcome:
    """Simulate one call."""
    machine = B200.with_constants(**call.constants) if call.constants else B200
    design = Design.for_problem(call.problem, machine, **call.design)
    report = simulate(call.problem, design, machine).report
    times = {kernel.name: machine.seconds(kernel.cycles) * 1e6 for kernel in report.kernels}
    moved = report.units["hbm"] * machine.hbm_rate(design.kv_load) * report.cycles
    return Outcome(
        report.time_us, report.tflops, moved / report.time_us * 1e6, times["attention"],
        times.get("combine", 0.0), design.num_splits, report.useful_rows, report.bottleneck,
        report.units,
    )  # fmt: skip


def run_calls(calls: Mapping[Any, Call], progress: Progress | None = None) -> dict[Any, Outcome]:
    """All of them; ``progress(done, of)`` is called after each."""
    keys = list(calls)
    found: dict[Any, Outcome] = {}
    workers = min(os.cpu_count() or 1, len(keys))
    with ProcessPoolExecutor(workers) as pool:
        for key, outcome in zip(keys, pool.map(run_call, calls.values()), strict=True):
            found[key] = outcome
            if progress is not None:
                progress(len(found), len(keys))
    return found


@cache
def published() -> dict[str, Any]:
    """Published figures on inference, with where they are written."""
    text = files("fa4sim.validation").joinpath("data/inference.json").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    return data
