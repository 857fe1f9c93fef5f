"""Other explanations of the published times: what each would do to rows of different kinds.

Without interference the model is too fast on most rows. Each reading switches it off and puts
something else in its place, sized in round numbers so that full 16k comes out within 2 %. What it
does to the other rows tells how good an explanation it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fa4sim.validation.errors import relative_error
from fa4sim.validation.published import Row, other_shapes, validated_rows
from fa4sim.validation.throughput import Job, Key, Outcome


@dataclass(frozen=True)
class Reading:
    """An explanation, and the constants that stand for it."""

    name: str
    constants: dict[str, float]


ALONE = {"beside_mma_factor": 1.0}
READINGS = (
    Reading("interference (as chosen)", {}),
    Reading("nothing", ALONE),
    Reading("a clock of 1.56 GHz", {**ALONE, "clock_hz": 1.56e9}),
    Reading("MUFU at 13 cycles per warp, not 8", {**ALONE, "mufu_cycles_per_warp": 13.0}),
    Reading("230 cycles per hand-off", {**ALONE, "mbarrier_resume_cycles": 230}),
    Reading("270 cycles per TMEM load", {**ALONE, "tmem_load_latency_cycles": 270}),
)


def looked_at() -> dict[str, Row]:
    """Rows by what holds them back: the chain, MUFU and issue, the tensor pipe."""
    rows = {row.name: row for row in validated_rows()}
    found = {name: rows[name] for name in ("full 16k", "causal 4k", "causal 16k")}
    for group in other_shapes():
        last = group.rows[-1]
        if group.name in ("head dim 64, full", "head dim 64, causal"):
            found[f"d 64, {last.name}"] = last
        elif group.name.startswith("head dims (192, 128)"):
            found["(192, 128), full 8k"] = group.rows[0]
    return found


def reading_jobs() -> dict[Key, Job]:
    """Every reading on every row looked at."""
    return {
        ("reading", reading.name, name): Job(row, reading.constants)
        for reading in READINGS
        for name, row in looked_at().items()
    }


def reading_errors(outcomes: Mapping[Key, Outcome]) -> dict[str, dict[str, float]]:
    """Signed errors by reading and row."""
    return {
        reading.name: {
            name: relative_error(outcomes["reading", reading.name, name].tflops, row.published)
            for name, row in looked_at().items()
        }
        for reading in READINGS
    }
