"""``fa4sim machines``: the machines that are known, and where each of their constants is from."""

from __future__ import annotations

import dataclasses
from collections import Counter
from textwrap import indent
from typing import Any

import click

from fa4sim.cli import options
from fa4sim.cli.errors import refusals
from fa4sim.cli.output import print_json, say, table
from fa4sim.specs import MACHINES, Machine, machine_named


@click.command(epilog=options.examples("fa4sim machines", "fa4sim machines b300 --json"))
@click.argument("name", required=False)
@options.json_option()
def machines(as_json: bool, name: str | None) -> None:
    """List machines and the origin of every constant.

    published: in a manual, paper or datasheet. measured: by a script, on a named device. fitted
    and assumed: chosen inside a range, to match stated rows or for a stated reason.

    Without NAME all machines are listed with all their constants.
    """
    with refusals():
        chosen = [machine_named(name)] if name else list(MACHINES.values())
    if as_json:
        print_json({"machines": [machine_facts(machine) for machine in chosen]})
        return
    for number, machine in enumerate(chosen):
        if number:
            say()
        kinds = Counter(origin.kind for origin in machine.origins.values())
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        say(f"{machine.name} (--machine {machine.name.lower()}): {counts}")
        say(indent(constant_table(machine), "  "))
    say("\nChange one with --set machine.NAME=VALUE.")


def constants(machine: Machine) -> dict[str, float]:
    """The numbers of a machine by name."""
    return {
        spec.name: getattr(machine, spec.name)
        for spec in dataclasses.fields(machine)
        if spec.name not in ("name", "origins")
    }


def machine_facts(machine: Machine) -> dict[str, Any]:
    """A machine as plain data: ``constants[name]`` has value, kind, source and range."""
    facts: dict[str, Any] = {}
    for name, value in constants(machine).items():
        origin = machine.origins.get(name)
        facts[name] = {"value": value} | (dataclasses.asdict(origin) if origin else {})
    return {"name": machine.name, "constants": facts}


def constant_table(machine: Machine) -> str:
    """The constants of a machine as text."""
    rows = []
    for name, value in constants(machine).items():
        origin = machine.origins.get(name)
        span = ""
        if origin is not None and origin.low is not None and origin.high is not None:
            span = f"{origin.low:g} to {origin.high:g}"
        rows.append([
            name, f"{value:.6g}", origin.kind if origin else "", span,
            origin.source if origin else "",
        ])  # fmt: skip
    head = ["constant", "value", "origin", "range", "source"]
    return table(head, rows, left=["constant", "origin", "range", "source"])
