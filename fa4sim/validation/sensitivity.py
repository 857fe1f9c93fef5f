"""What each fitted or assumed constant is worth: throughput at both ends of its range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fa4sim.specs import Machine
from fa4sim.specs.origin import Origin
from fa4sim.validation.errors import errors_of, relative_error
from fa4sim.validation.published import Row
from fa4sim.validation.throughput import Job, Key, Outcome

#: Rows that stand for all: long and short, full and causal.
ROWS = ("full 1k", "full 16k", "causal 1k", "causal 8k")

#: Constants that only other designs use, and which ones.
UNUSED = {
    "clc_fetch_cycles": "the dynamic scheduler, which the kernel chooses for none of them",
    "cp_async_latency_cycles": "copies row by row, which pages and split keys need",
    "hbm_fetch_bytes": "pages smaller than a block",
    "dependent_launch_seconds": "a combine kernel that is launched as dependent",
}


@dataclass(frozen=True)
class Effect:
    """A constant at one end of its range: change of throughput by row, and the mean error then."""

    constant: str
    origin: Origin
    chosen: float
    value: float
    changes: dict[str, float]
    mean_error: float


def open_constants(machine: Machine) -> list[str]:
    """Constants that were fitted or assumed, fitted ones first."""
    origins = machine.origins
    names = [name for name, origin in origins.items() if origin.kind in ("fitted", "assumed")]
    return sorted(names, key=lambda name: (origins[name].kind != "fitted", name))


def variations(machine: Machine) -> list[tuple[str, float]]:
    """``(constant, value)`` for the ends of every range, without the value itself."""
    found = []
    for name in open_constants(machine):
        origin, chosen = machine.origins[name], getattr(machine, name)
        for end in (origin.low, origin.high):
            if end is not None and end != chosen and name not in UNUSED:
                found.append((name, end if isinstance(chosen, float) else round(end)))
    return found


def sensitivity_jobs(rows: Sequence[Row]) -> dict[Key, Job]:
    """Every variation on every row of :data:`ROWS`."""
    return {
        ("vary", name, value, row.name): Job(row, {name: value})
        for name, value in variations(rows[0].machine)
        for row in rows
        if row.name in ROWS
    }


def effects(
    rows: Sequence[Row], outcomes: Mapping[Key, Outcome], base: Mapping[str, float]
) -> list[Effect]:
    """The effect of each variation; ``base`` is TFLOP/s by row name with constants as chosen."""
    machine = rows[0].machine
    found = []
    for name, value in variations(machine):
        got = {
            row.name: outcomes["vary", name, value, row.name].tflops
            for row in rows
            if row.name in ROWS
        }
        errors = [relative_error(got[row.name], row.published) for row in rows if row.name in ROWS]
        changes = {row: tflops / base[row] - 1.0 for row, tflops in got.items()}
        found.append(
            Effect(
                name, machine.origins[name], getattr(machine, name), value, changes,
                errors_of(errors).mean,
            )
        )  # fmt: skip
    return found
