"""The ``fa4sim`` command: its subcommands, and how every one of them ends."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

import fa4sim
from fa4sim.cli.check import check
from fa4sim.cli.compare import compare
from fa4sim.cli.demo import demo
from fa4sim.cli.errors import STOPPED, BadInput, Failure
from fa4sim.cli.fp8 import fp8
from fa4sim.cli.kvcache import kvcache
from fa4sim.cli.machines import machines
from fa4sim.cli.options import examples
from fa4sim.cli.output import print_json
from fa4sim.cli.poster import poster
from fa4sim.cli.rescales import exp2, rescales
from fa4sim.cli.run import run
from fa4sim.cli.sweep import sweep
from fa4sim.cli.timeline import timeline
from fa4sim.cli.validate import validate


class Group(click.Group):
    """A group whose failures all look alike, with ``--json`` too, and carry our exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which they are useful, not in that of the alphabet."""
        return list(self.commands)

    def main(  # type: ignore[override]  # always leaves by SystemExit
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> None:
        """Run the command line and exit with its code."""
        words = list(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # where × cannot be shown, a ? will do
        try:
            code = super().main(words, prog_name, **extra)
            sys.stdout.flush()
            sys.exit(code if isinstance(code, int) else 0)
        except OSError as error:
            _give_up_output()
            click.echo(f"Error: cannot print the result: {error.strerror or error}", err=True)
            sys.exit(BadInput.exit_code)
        except click.Abort:
            if "--json" in words:
                print_json({"error": "stopped", "exit_code": STOPPED})
            click.echo("Stopped.", err=True)
            sys.exit(STOPPED)
        except click.ClickException as error:
            if "--json" in words:
                details = error.details if isinstance(error, Failure) else {}
                message = error.format_message()
                print_json({**details, "error": message, "exit_code": error.exit_code})
            error.show()
            sys.exit(error.exit_code)


def _give_up_output() -> None:
    """Send what is still to be printed nowhere: standard output takes no more (a full disk)."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError):  # there is no file behind it
        pass


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=examples(
        "fa4sim run                                      the demo problem on a B200",
        "fa4sim run --causal --seqlen-q 4096 --set kv_stages=2 --json",
        "fa4sim check --heads 2 --seqlen-q 512 --causal  are the numbers attention?",
        "fa4sim timeline --seqlen-k 1024 -o timeline.png",
        "fa4sim sweep --set kv_stages=2:6",
        "fa4sim demo --out out",
    )
    + "\n\n\b\nExit codes: 0 ok, 1 a check failed, 2 bad input, 3 a deadlock or a hazard.",
)
@click.version_option(fa4sim.__version__, prog_name="fa4sim")
def main() -> None:
    """Simulate FlashAttention-4's forward pass on NVIDIA Blackwell, barrier by barrier.

    `fa4sim COMMAND --help` tells the options of a command.
    """


for command in (
    *(demo, run, check, timeline, compare, sweep, validate, rescales, exp2, fp8),
    *(kvcache, machines, poster),
):
    main.add_command(command)
