"""``fa4kernel emulate``: run a kernel here and check it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from fa4kernel.cli.facts import (
    deadlock_facts,
    emulation_words,
    hazard_facts,
    hazard_words,
    never_ran_words,
    serious,
)
from fa4kernel.cli.files import Complaint, LaunchFile, naming, read_ptx
from fa4kernel.emulator import DeadlockError, Emulation, EmulationError
from fa4kernel.emulator.emulate import CHECKS
from fa4kernel.emulator.emulate import emulate as run
from fa4kernel.emulator.machine.adversary import WAYS, schedule_of
from fa4kernel.emulator.replay import command
from fa4kernel.emulator.tracing.progress import Report
from fa4sim.cli.errors import BadInput, CheckFailed, PipelineBroken, refusals
from fa4sim.cli.options import examples, json_option
from fa4sim.cli.output import check_target, print_json, say, shows_progress, write_whole
from fa4sim.cli.trace_files import ENDINGS, hint, holds_everything, load_views, write_trace


@click.command(
    epilog=examples(
        "fa4kernel emulate kernel.ptx --launch launch.py",
        "fa4kernel emulate kernel.ptx --launch launch.py --schedule 7    in another order",
        "fa4kernel emulate kernel.ptx --launch launch.py --trace run.html     to explore",
        "fa4kernel emulate kernel.ptx --launch launch.py --trace run.pftrace",
        'fa4kernel emulate kernel.ptx --launch launch.py --trace run.png --ctas "cta 0"',
    )
)
@click.argument("file", metavar="FILE.ptx")
@click.option(
    "--launch",
    "launch_file",
    required=True,
    metavar="FILE.py",
    help="Defines launch() -> Launch, and perhaps check(), which is called after the run and says "
    "by False or an AssertionError that the outputs are wrong. THE CODE OF THIS FILE IS RUN; the "
    "PTX itself cannot touch this computer.",
)
@click.option(
    "--schedule",
    default="lockstep",
    show_default=True,
    metavar="NAME",
    help="Who goes next: lockstep (fast); a number: random from that seed, always the same; or "
    '"delay X" or "hurry X", where X is tma, tma_store, cp_async, tensor, wgmma, warp 3 or cta 1.',
)
@click.option(
    "--checks",
    type=click.Choice(CHECKS),
    default="default",
    show_default=True,
    help="Look for hazards; strict-isa also tells what works on hardware but is not promised.",
)
@click.option(
    "--arithmetic",
    type=click.Choice(("fast", "faithful")),
    default="fast",
    show_default=True,
    help="MMAs in float32, or rounded as the hardware rounds (slow).",
)
@click.option(
    "--trace",
    "trace_file",
    metavar="FILE",
    help="Write what happened, in ticks: a timeline as a picture (.png, .svg) or a page to explore "
    "(.html), a Perfetto trace (.pftrace), or the trace itself (.npz).",
)
@click.option(
    "--ctas",
    default="cluster 0",
    show_default=True,
    metavar="WHICH",
    help='CTAs to trace: "cta 0", "cta 0,2-5", "cluster 1", or "all".',
)
@click.option(
    "--most-steps",
    type=click.IntRange(min=1),
    metavar="N",
    help="Give up after N steps of a wave. [default: never]",
)
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Share the clusters out among N processes.",
)
@json_option()
def emulate(
    as_json: bool, file: str, launch_file: str, trace_file: str | None, ctas: str, **given: Any
) -> None:
    """Run a PTX kernel in the emulator.

    It reports what is wrong with the kernel: a deadlock with who waits for what, accesses that
    nothing orders, undefined behaviour. The outputs are in the arrays of the launch, which check()
    can look at. This is a checker for kernels meant for NVIDIA GPUs.
    """
    target = None if trace_file is None else check_target(trace_file, ENDINGS)
    if target is not None:
        load_views()  # a missing library is told before the run
    ptx = read_ptx(file)
    described = _launch(launch_file)
    schedule = _schedule(given.pop("schedule"))
    traced: bool | str = False if target is None else True if ctas == "all" else ctas
    facts: dict[str, Any] = {"file": file, "launch": launch_file, "grid": described.launch.grid}
    facts["replay"] = command(file, launch_file, schedule=schedule, **given)
    try:
        with refusals(), naming(file), _bar(as_json) as progress:
            found = run(
                ptx, described.launch, schedule=schedule, trace=traced, progress=progress,
                replay=facts["replay"], **given,
            )  # fmt: skip
    except EmulationError as error:
        facts |= _failure(error, target)
        raise PipelineBroken(_failure_words(error, facts), facts) from None
    facts |= {
        "instructions": found.instructions, "steps": found.steps, "wall_s": found.wall_s,
        "decode_s": found.decode_s, "hazards": [hazard_facts(h) for h in found.hazards],
    }  # fmt: skip
    facts["never_ran"] = [each.line for each in found.never_ran]
    if not as_json:
        say(emulation_words(found, described.launch))
        if idle := never_ran_words(found):
            say(idle)
    if target is not None:
        facts["trace"] = str(target)
        shows = _write(found.trace, target)
        if not as_json:
            say(f"wrote {target}: {shows}")
    _verdict(found, described, facts, as_json)


def _launch(path: str) -> LaunchFile:
    try:
        return LaunchFile.load(path)
    except Complaint as complaint:
        raise BadInput(str(complaint)) from None


def _schedule(text: str) -> str:
    try:
        schedule_of(text)
    except ValueError:
        raise BadInput(f"--schedule {text!r}: give {WAYS}") from None
    return text


@contextmanager
def _bar(quiet: bool) -> Iterator[Report | None]:
    """A progress bar on standard error, if somebody watches."""
    if quiet or not shows_progress():
        yield None
        return
    bar: Any = click.progressbar(
        length=1,
        label="emulating",
        file=sys.stderr,
        item_show_func=lambda text: text,
    )
    with bar:

        def tell(ended: int, ctas: int, instructions: int) -> None:
            bar.length = ctas
            bar.update(max(0, ended - bar.pos), f"{instructions / 1e6:.1f} M instructions")

        yield tell


def _write(trace: Any, target: Path) -> str:
    """Write a trace or a picture of it, and say what it shows."""
    if holds_everything(target):
        return f"{write_trace(trace, target)}, in ticks; {hint(target)}"
    views = load_views()
    with refusals():
        figure = views.timeline(trace, warps="first")
        write_whole(target, lambda path: views.save(figure, path))
    return str(views.alt_text(figure)).split(". ")[0]


def _failure(error: EmulationError, target: Path | None) -> dict[str, Any]:
    """What is known of a run that broke off."""
    facts: dict[str, Any] = {
        "fault": error.kind,
        "hazards": [hazard_facts(h) for h in error.hazards],
    }
    if error.instruction is not None:
        facts |= {"line": error.instruction.line, "text": error.instruction.text}
    if isinstance(error, DeadlockError):
        facts["deadlock"] = deadlock_facts(error)
    if target is not None and error.trace is not None and error.trace.size("span"):
        facts["trace"] = str(target)
        _write(error.trace, target)
    return facts


def _failure_words(error: EmulationError, facts: dict[str, Any]) -> str:
    lines = [str(error)]
    if error.hazards:
        lines += ["before that:", hazard_words(error.hazards)]
    if "trace" in facts:
        lines.append(f"what happened until then is in {facts['trace']}")
    return "\n".join(lines)


def _verdict(found: Emulation, described: LaunchFile, facts: dict[str, Any], quiet: bool) -> None:
    """Tell whether the run was good, by the exit code too."""
    wrong = ""
    if described.check is not None:
        wrong = described.checked()
        facts["check"] = wrong or "passed"
    if serious(found.hazards):
        more = f"\nthe outputs are wrong, too: {wrong}" if wrong else ""
        raise PipelineBroken(hazard_words(found.hazards) + more, facts)
    if found.hazards and not quiet:
        say(hazard_words(found.hazards))
    if wrong:
        raise CheckFailed(f"check failed: {wrong}", facts)
    if quiet:
        print_json(facts)
    elif described.check is not None:
        say("check passed")
