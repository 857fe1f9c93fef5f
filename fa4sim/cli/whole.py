"""``--sms`` and ``--trace``: timelines of more than one work tile, and of a stored trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from fa4sim.cli import options
from fa4sim.cli.errors import BadInput, refusals
from fa4sim.cli.trace_files import HINTS, read_trace
from fa4sim.pipelines.fa4.gpu import make_plan
from fa4sim.simulate import Run, simulate
from fa4sim.trace import Trace

#: More K/V blocks than this take minutes, when every CTA is simulated.
MOST_BLOCKS = 20_000


def whole_options() -> Callable[[Any], Any]:
    """The two options."""

    def add(command: Any) -> Any:
        command = click.option(
            "--trace",
            "stored",
            metavar="FILE",
            help="Show a stored trace (.npz) instead of simulating.",
        )(command)
        return click.option(
            "--sms",
            type=int,
            metavar="N",
            help="Instead of one work tile, all that the first N SMs do: every CTA of the GPU is "
            "simulated. For .html, .pftrace and .npz.",
        )(command)

    return add


def check_whole(
    sms: int | None, stored: str | None, tile: int | None, show: str, target: Path
) -> None:  # fmt: skip
    """Raise a usage failure for what cannot be of several SMs, or of a stored trace."""
    if sms is not None and sms < 1:
        raise BadInput(f"--sms {sms} must be at least 1")
    if sms is not None and target.suffix.lower() not in HINTS:
        raise BadInput(
            f"--sms {sms} is for files that hold everything ({', '.join(HINTS)}), and a "
            f"{target.suffix} is a picture of one CTA; leave --sms out, or write another file"
        )
    for name, value in (("--sms", sms), ("--trace", stored)):
        if value is not None and tile is not None:
            raise BadInput(f"{name} {value} and --tile {tile} contradict each other; give one")


def stored_trace(path: str, sms: int | None) -> Trace:
    """The trace of a file, or what its first SMs did."""
    trace = read_trace(path)
    if not trace.size("span"):
        raise BadInput(f"there is nothing to show: the trace {path!r} is empty")
    if sms is None:
        return trace
    design = trace.meta.get("design")
    _check_pairs(sms, int(design.get("cta_group", 1)) if isinstance(design, dict) else 1)
    return trace.of_sms(sms)


def first_sms(setup: options.Setup, seed: int, sms: int) -> tuple[Run, Trace]:
    """The whole GPU's run, every CTA simulated, and what its first SMs did."""
    machine = setup.machine
    if sms > machine.sms:
        raise BadInput(f"--sms {sms}: {machine.name} has {machine.sms} SMs; give at most those")
    _check_pairs(sms, setup.design.cta_group)
    with refusals():
        plan = make_plan(setup.problem, setup.design, machine)
    blocks = setup.design.cta_group * sum(tile.blocks for tile in plan.tiles)
    if blocks > MOST_BLOCKS:
        raise BadInput(
            f"the CTAs of this problem work through {blocks:,} K/V blocks, and --sms simulates all "
            f"of them, at most {MOST_BLOCKS:,}: take fewer heads or shorter sequences, or leave "
            "--sms out for one work tile"
        )
    with refusals():
        run = simulate(
            setup.problem, setup.design, machine, seed=seed, exact=True, on_hazard="record"
        )
    return run, run.trace.of_sms(sms) if run.trace.size("span") else run.trace


def _check_pairs(sms: int, cta_group: int) -> None:
    if sms % cta_group:
        raise BadInput(f"--sms {sms} would cut a CTA pair in two; give an even number")


def check_slices(trace: Trace, most: int) -> None:
    """Raise a usage failure for more than a page can show, saying how many SMs it could."""
    sms = len({*trace.span["sm"].tolist()})
    count = trace.size("span") + trace.size("wait")
    if count > most:
        raise BadInput(
            f"{sms} SMs have {count:,} spans and waits, and a page shows at most {most:,}: "
            f"--sms {max(1, sms * most // count)} would fit, or write a .pftrace or .npz"
        )
