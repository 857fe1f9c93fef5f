"""``fa4kernel tables``: what the emulator executes and checks, out of its own code."""

from __future__ import annotations

import click

from fa4kernel.emulator.tables import PAGE, page, pages_differ, write_page
from fa4sim.cli.errors import CheckFailed, refusals
from fa4sim.cli.options import examples, json_option
from fa4sim.cli.output import print_json, say


@click.command(epilog=examples("fa4kernel tables", f"fa4kernel tables --write    renew {PAGE}"))
@click.option("--write", is_flag=True, help=f"Put them into {PAGE}, in this repository.")
@click.option("--check", is_flag=True, help=f"Only say whether {PAGE} is up to date.")
@json_option()
def tables(as_json: bool, write: bool, check: bool) -> None:
    """Print the tables of instructions, checks and error bounds.

    They are generated from the emulator's code, and stand in docs/emulator.md.
    """
    facts: dict[str, object] = {"file": PAGE}
    with refusals():
        if check and pages_differ():
            raise CheckFailed(f"{PAGE} is out of date: run `fa4kernel tables --write`", facts)
        if write:
            facts["file"] = str(write_page())
    if as_json:
        print_json(facts)
    elif write:
        say(f"wrote {facts['file']}")
    elif check:
        say(f"{PAGE} is up to date")
    else:
        say(page())
