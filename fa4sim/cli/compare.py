"""``fa4sim compare``: two designs, machines or problems, side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any

import click

from fa4sim.cli import options
from fa4sim.cli.describe import design_words, problem_words, together
from fa4sim.cli.errors import BadInput, hazardous, refusals
from fa4sim.cli.fields import settings_of
from fa4sim.cli.literals import assignments, literal
from fa4sim.cli.output import print_json, progress, say, table
from fa4sim.cli.run import run_facts
from fa4sim.report import Report
from fa4sim.simulate import Run, simulate
from fa4sim.specs.fields import MACHINE, Settings
from fa4sim.specs.idle import idle_settings, idle_words
from fa4sim.specs.setup import Setup

#: Waits that take less of a role's life than this on both sides are left out.
LEAST_SHARE = 0.02
#: So many waits, those that changed most, are printed for people.
MOST_WAITS_SHOWN = 12


@dataclass(frozen=True)
class Difference:
    """One quantity of both sides; ``ratio`` is b / a."""

    quantity: str
    a: float
    b: float

    @property
    def ratio(self) -> float | None:
        """How many times A the value of B is, if that is defined."""
        return self.b / self.a if self.a else None

    def facts(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "quantity": self.quantity, "a": self.a, "b": self.b,
            "difference": self.b - self.a, "ratio": self.ratio,
        }  # fmt: skip


@click.command(
    epilog=options.examples(
        "fa4sim compare --set-b kv_stages=2",
        "fa4sim compare --set-a cta_group=1 --set-b cta_group=2 --seqlen-q 4096",
        "fa4sim compare --machine-a b200 --machine-b b300 --causal",
        "fa4sim compare --set exp2_period=0 --set-b exp2_period=16",
        "fa4sim compare --set-b machine.clock_hz=1.7e9 --json",
    )
)
@options.problem_options()
@options.machine_option()
@options.set_option()
@click.option("--set-a", multiple=True, metavar="NAME=VALUE", help="As --set, for A only.")
@click.option("--set-b", multiple=True, metavar="NAME=VALUE", help="As --set, for B only.")
@click.option("--machine-a", metavar="NAME", help="As --machine, for A only.")
@click.option("--machine-b", metavar="NAME", help="As --machine, for B only.")
@options.seed_option()
@options.json_option()
def compare(
    as_json: bool, seed: int, set_a: tuple[str, ...], set_b: tuple[str, ...],
    machine_a: str | None, machine_b: str | None, **given: Any,
) -> None:  # fmt: skip
    """Run two variants and print what differs.

    Both take the common options; --set-a, --set-b, --machine-a and --machine-b change one of
    them. A side that is not changed is what the kernel would choose. What follows from a change
    (ring stages, registers, the exponential's split) follows here too, and is listed.
    """
    request = options.Request.of(given)
    requests = [
        request.with_settings(settings_in(texts), machine)
        for texts, machine in ((set_a, machine_a), (set_b, machine_b))
    ]
    sides = [one.build() for one in requests]
    changed = changes(*sides)
    if not changed:
        raise BadInput(
            "A and B are the same; change one of them with --set-a, --set-b, --machine-a or "
            "--machine-b"
        )
    runs: list[Run] = []
    with progress(sides, "simulating A and B") as bar, refusals():
        for side in bar:
            runs.append(
                simulate(side.problem, side.design, side.machine, seed=seed, on_hazard="record")
            )
    rows = list(differences(runs[0].report, runs[1].report))
    idle = idle_settings(dict.fromkeys(name for one in requests for name in one.set_names), sides)
    facts = {
        "changed": {name: {"a": a, "b": b} for name, (a, b) in changed.items()},
        "idle": idle,
        "speedup": speedup(runs),
        "differences": [row.facts() for row in rows],
        "a": run_facts(runs[0], sides[0]),
        "b": run_facts(runs[1], sides[1]),
    }
    if not as_json:
        say(comparison_words(runs, sides, changed, rows, idle))
    hazards = (*runs[0].hazards, *runs[1].hazards)
    if hazards:
        raise hazardous(hazards, facts)
    if as_json:
        print_json(facts)


def settings_in(texts: Sequence[str]) -> Settings:
    """``name=value`` texts as settings."""
    return settings_of({name: literal(name, text) for name, text in assignments(texts).items()})


def changes(a: Setup, b: Setup) -> dict[str, tuple[Any, Any]]:
    """Every field of problem, design and machine in which two setups differ."""
    found: dict[str, tuple[Any, Any]] = {}
    parts = (("", a.problem, b.problem), ("", a.design, b.design), (MACHINE, a.machine, b.machine))
    for prefix, one, other in parts:
        for spec in dataclasses.fields(one):
            if spec.name == "origins":
                continue
            values = getattr(one, spec.name), getattr(other, spec.name)
            if values[0] != values[1]:
                found[prefix + spec.name] = values
    return found


def differences(a: Report, b: Report) -> Iterator[Difference]:
    """Time, throughput, units and the longer waits of two reports."""
    for name in ("time_us", "tflops", "cycles"):
        yield Difference(name, float(getattr(a, name)), float(getattr(b, name)))
    for unit in a.units:
        yield Difference(f"units.{unit}", a.units[unit], b.units.get(unit, 0.0))
    shares = [
        {(role, barrier): share for role, barrier, share in together(report.waits)}
        for report in (a, b)
    ]
    for key in dict.fromkeys((*shares[0], *shares[1])):
        both = shares[0].get(key, 0.0), shares[1].get(key, 0.0)
        if max(both) >= LEAST_SHARE:
            yield Difference(f"waits.{key[0]}.{key[1]}", *both)


def speedup(runs: Sequence[Run]) -> float | None:
    """How many times faster B is than A: by time, or by throughput if the problems differ."""
    a, b = (run.report for run in runs)
    if runs[0].problem == runs[1].problem:
        return a.time_us / b.time_us if b.time_us else None
    return b.tflops / a.tflops if a.tflops else None


def comparison_words(
    runs: Sequence[Run], sides: Sequence[Setup], changed: Mapping[str, tuple[Any, Any]],
    rows: Sequence[Difference], idle: Mapping[str, str],
) -> str:  # fmt: skip
    """The comparison over several lines."""
    lines = []
    for letter, side in zip("AB", sides, strict=True):
        lines += [
            f"{letter}: {side.machine.name}: {problem_words(side.problem)}",
            f"   {design_words(side.design)}",
        ]
    listed = [f"{name} {a!r} → {b!r}" for name, (a, b) in changed.items()]
    lines += ["", f"changed from A to B: {', '.join(listed)}"]
    lines += [idle_words(idle), ""] if idle else [""]
    waits = [row for row in rows if row.quantity.startswith("waits.")]
    waits.sort(key=lambda row: -abs(row.b - row.a))
    rows = [row for row in rows if row not in waits] + waits[:MOST_WAITS_SHOWN]
    cells = [[label(row.quantity), *(number(row, value) for value in (row.a, row.b)), change(row)]
             for row in rows]  # fmt: skip
    lines.append(indent(table(["", "A", "B", "change"], cells, left=[""]), "  "))
    factor = speedup(runs)
    lines.append("")
    for letter, run in zip("AB", runs, strict=True):
        lines.append(f"{letter}: {run.report.bottleneck}")
    if factor is not None:
        what = "time" if runs[0].problem == runs[1].problem else "throughput"
        lines += ["", f"B is {verdict(factor)} than A (by {what})"]
    return "\n".join(lines)


def verdict(factor: float) -> str:
    """A speed-up in words.

    >>> verdict(1.25), verdict(0.8)
    ('1.250 times faster', '1.250 times slower')
    """
    if factor >= 1:
        return f"{factor:.3f} times faster"
    return f"{1 / factor:.3f} times slower"


_LABELS = {"time_us": "time, µs", "tflops": "TFLOP/s", "cycles": "kernel cycles"}


def label(quantity: str) -> str:
    """A quantity's name in the table.

    >>> label("units.mufu"), label("waits.mma.S_full")
    ('mufu busy', 'mma waits for S_full')
    """
    kind, _, rest = quantity.partition(".")
    if kind == "units":
        return f"{rest} busy"
    if kind == "waits":
        return " waits for ".join(rest.split(".", 1))
    return _LABELS[quantity]


def number(row: Difference, value: float) -> str:
    """One value as its quantity is read."""
    if "." in row.quantity:
        return f"{value:.1%}"
    return f"{value:,.0f}" if row.quantity != "time_us" else f"{value:,.1f}"


def change(row: Difference) -> str:
    """What changed, in percent, or in points of percent for shares."""
    if "." in row.quantity:
        return f"{100 * (row.b - row.a):+.1f} pp"
    return "" if row.ratio is None else f"{row.ratio - 1:+.1%}"
