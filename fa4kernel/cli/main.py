"""The ``fa4kernel`` command and its subcommands."""

from __future__ import annotations

import click

import fa4sim
from fa4kernel.cli.bench import bench
from fa4kernel.cli.code import code
from fa4kernel.cli.crosscheck import command as crosscheck
from fa4kernel.cli.emulate import emulate
from fa4kernel.cli.inspect import inspect
from fa4kernel.cli.run import run
from fa4kernel.cli.tables import tables
from fa4kernel.cli.trace import trace
from fa4sim.cli.main import Group
from fa4sim.cli.options import examples


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=examples(
        "fa4kernel run --causal                             our attention kernel, checked",
        "fa4kernel crosscheck --causal                      simulator, kernel and reference",
        "fa4kernel trace -o timeline.png                    what an H200 did, and the simulator",
        "fa4kernel inspect kernel.ptx                       what is in it",
        "fa4kernel inspect kernel.ptx --template launch.py  a launch description to start from",
        "fa4kernel emulate kernel.ptx --launch launch.py",
    )
    + "\n\n\b\nExit codes: 0 ok, 1 a check failed, 2 bad input, 3 a deadlock or a hazard.",
)
@click.version_option(fa4sim.__version__, prog_name="fa4kernel")
def main() -> None:
    """Run kernels that are meant for NVIDIA GPUs on this computer, and check them.

    `fa4kernel COMMAND --help` tells the options of a command.
    """


for command in (run, crosscheck, inspect, emulate, tables, code, bench, trace):
    main.add_command(command)
