"""``fa4sim timeline``: a CTA in pictures; a CTA or more on a page, or as a trace for Perfetto."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from fa4sim.cli import options
from fa4sim.cli.beside import second_run, write_two
from fa4sim.cli.describe import fault_words, problem_words, setup_facts
from fa4sim.cli.errors import (
    BadInput,
    PipelineBroken,
    hazard_facts,
    hazardous,
    refusals,
)
from fa4sim.cli.output import check_target, note, print_json, say, write_whole
from fa4sim.cli.trace_files import (
    ENDINGS,
    first_line,
    hint,
    holds_everything,
    load_views,
    write_trace,
)
from fa4sim.cli.whole import check_slices, check_whole, first_sms, stored_trace, whole_options
from fa4sim.engine.errors import Deadlock
from fa4sim.simulate import Run, simulate
from fa4sim.specs.checks import quoted
from fa4sim.specs.idle import idle_settings, idle_words
from fa4sim.trace import Trace

#: Later than any work tile ends.
MOST_CYCLES = 2**53

#: What a picture of a fault shows on either side of it.
CYCLES_AROUND = 3000

#: What ``--show`` draws, by name: a picture of a trace from one cycle to another.
PICTURES: dict[str, Callable[[Any, Trace, int | None, int | None], Any]] = {
    "timeline": lambda views, trace, start, end: views.timeline(trace, start=start, end=end),
    "memory": lambda views, trace, start, end: views.memory_map(trace, start, end),
    "units": lambda views, trace, start, end: views.unit_utilisation(trace, start=start, end=end),
    "life-of-k": lambda views, trace, _start, _end: views.tile_life(trace, "K"),
    "life-of-s": lambda views, trace, _start, _end: views.tile_life(trace, "S"),
    "life-of-o": lambda views, trace, _start, _end: views.tile_life(trace, "O"),
}


@click.command(
    epilog=options.examples(
        "fa4sim timeline -o timeline.png",
        "fa4sim timeline -o timeline.html               to zoom, walk and search in a browser",
        "fa4sim timeline --beside kv_stages=2 -o two.html    two designs, one above the other",
        "fa4sim timeline --heads 8 --seqlen-q 4096 --sms 4 -o sms.html    all that four SMs do",
        "fa4sim timeline --trace kept.npz -o kept.html    a stored trace",
        "fa4sim timeline --seqlen-k 1024 --causal --from 0 --to 8000 -o start.svg",
        "fa4sim timeline --tile 100 -o tile.pftrace      every warp, barrier and unit",
        "fa4sim timeline --show memory -o memory.png     what lies where in SMEM and TMEM",
        "fa4sim timeline --set cta_group=1 --set kv_stages=2 -o short_ring.png",
    )
)
@options.problem_options()
@options.machine_option()
@options.set_option()
@options.seed_option()
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    help="A picture (.png, .svg), an interactive page (.html), a Perfetto trace (.pftrace), or "
    "the trace itself (.npz).",
)
@click.option(
    "--beside",
    multiple=True,
    metavar="WHAT",
    help="Put a second run below it: a setting that differs (kv_stages=2, repeat for more), or a "
    "trace from a .npz file, as `fa4kernel trace` and `fa4kernel emulate` write them.",
)
@click.option(
    "--show",
    type=click.Choice(list(PICTURES)),
    default="timeline",
    show_default=True,
    help="Who works and waits; what lies in SMEM and TMEM; busy units; the life of K₃; of S "
    "and P; of O.",
)
@click.option(
    "--tile",
    type=int,
    metavar="N",
    help="Which work tile, in the scheduler's order.  [default: 0]",
)
@whole_options()
@click.option(
    "--from",
    "start",
    type=int,
    metavar="CYCLE",
    help="First cycle to show. [default: a steady part]",
)
@click.option(
    "--to",
    "end",
    type=int,
    metavar="CYCLE",
    help="Last cycle to show. [default: a steady part]",
)
@options.break_option()
@options.json_option()
def timeline(
    as_json: bool, seed: int, output: str, beside: tuple[str, ...], show: str, tile: int | None,
    sms: int | None, stored: str | None, start: int | None, end: int | None, **given: Any,
) -> None:  # fmt: skip
    """Draw one CTA: who worked, who waited for what.

    A picture shows about two K/V blocks from the middle of the work tile (busy units: all of it);
    --from and --to choose another window. An interactive page opens with that window and holds
    the whole work tile, or with --sms all that some SMs do; a Perfetto trace holds all of it
    unless they are given.
    """
    target = check_target(output, ENDINGS)
    check_window(start, end)
    check_show(show, target, start, end, beside)
    check_whole(sms, stored, tile, show, target)
    request = options.Request.of(given)

    def simulated(setup: options.Setup) -> tuple[Run, Trace]:
        return _one_tile(setup, seed, tile or 0) if sms is None else first_sms(setup, seed, sms)

    other = second_run(request, beside, lambda setup: simulated(setup)[1])
    if stored is not None:
        trace = stored_trace(stored, sms)
        shown = _write(trace, other, target, start, end, show)
        if as_json:
            print_json({"file": str(target), "shows": shown, "trace": stored})
        else:
            say(f"{stored}: {trace.end:,} {trace.clock}")
            _tell(target, shown)
        return
    setup = request.build()
    try:
        with refusals():
            run, trace = simulated(setup)
    except PipelineBroken as failure:
        stop = failure.__context__
        if isinstance(stop, Deadlock) and stop.trace is not None:
            note(f"wrote {target}: {write_until(stop, setup, target, start, end, show)}")
        raise
    if not trace.size("span"):
        raise BadInput("there is nothing to show: this problem has no queries or no keys")
    title = ""
    if run.hazards and target.suffix.lower() not in (".pftrace", ".npz"):
        title = f"{fault_words(setup.design)}: {run.hazards[0].kind}"
        start, end = around(run.hazards[0].cycle, trace.end, start, end)
    shown = _write(trace, other, target, start, end, show, title)
    part = {"tile": tile or 0} if sms is None else {"sms": sms}
    idle = idle_settings(request.set_names, [setup])
    facts = {
        "file": str(target), "shows": shown, **part, "cycles": run.report.cycles,
        "hazards": hazard_facts(run.hazards), **setup_facts(setup), "idle": idle,
    }  # fmt: skip
    if not as_json:
        words = f"work tile {tile or 0}" if sms is None else f"{sms} of {setup.machine.sms} SMs"
        say(f"{setup.machine.name}: {problem_words(setup.problem)}; {words}, "
            f"{run.report.cycles:,} cycles")  # fmt: skip
        if idle:
            say(idle_words(idle))
        _tell(target, shown)
    if run.hazards:
        raise hazardous(run.hazards, facts)
    if as_json:
        print_json(facts)


def _write(
    trace: Trace, other: tuple[str, Trace] | None, target: Path, start: int | None,
    end: int | None, show: str, title: str = "",
) -> str:  # fmt: skip
    """Write one run, or two, into ``target`` and return what it shows, in words."""
    if target.suffix.lower() == ".html":
        for each in (trace, *(() if other is None else (other[1],))):
            check_slices(each, load_views().interactive.MOST_SLICES)
    if other is not None:
        return write_two(trace, other, target, start, end)
    if holds_everything(target):
        return write_trace(trace, target, start, end, title=title)
    return write_picture(trace, target, start, end, show, title)


def _tell(target: Path, shown: str) -> None:
    """Say what was written and what to do with it."""
    say(f"wrote {target}: {shown}")
    if holds_everything(target):
        say(hint(target))


def _one_tile(setup: options.Setup, seed: int, tile: int) -> tuple[Run, Trace]:
    """One CTA's run; kept apart so that a deadlock on the way can be drawn."""
    run = simulate(
        setup.problem, setup.design, setup.machine,
        scope="cta", seed=seed, tile=tile, on_hazard="record",
    )  # fmt: skip
    return run, run.trace


def around(
    cycle: int, last: int, start: int | None, end: int | None
) -> tuple[int | None, int | None]:
    """A window around what happened at ``cycle``, where none was asked for."""
    if start is not None or end is not None:
        return start, end
    return max(0, cycle - CYCLES_AROUND), max(1, min(last, cycle + CYCLES_AROUND))


def write_until(
    stop: Deadlock, setup: options.Setup, target: Path, start: int | None, end: int | None,
    show: str,
) -> str:  # fmt: skip
    """Draw what happened up to a deadlock, or export it, and return what was written, in words."""
    assert stop.trace is not None
    title = f"{fault_words(setup.design) or 'deadlock'}: nothing moves after cycle {stop.at:,}"
    if target.suffix.lower() == ".html":
        start, end = around(stop.at, stop.trace.end, start, end)
    if holds_everything(target):
        return write_trace(stop.trace, target, start, end, title=title)
    start, end = around(stop.at, stop.trace.end, start, end)
    return write_picture(stop.trace, target, start, end, show, title)


def write_picture(
    trace: Trace, target: Path, start: int | None, end: int | None, show: str = "timeline",
    title: str = "",
) -> str:  # fmt: skip
    """Draw a picture into ``target`` and return what it shows, in words.

    A ``title`` is for the timeline; the other pictures have their own, and some their own window.
    """
    views = load_views()
    with refusals():
        if title and show == "timeline":
            figure = views.timeline(trace, start=start, end=end, title=title)
        else:
            figure = PICTURES[show](views, trace, start, end)
        write_whole(target, lambda path: views.save(figure, path))
        return first_line(str(views.alt_text(figure)))


def check_show(
    show: str, target: Path, start: int | None, end: int | None, beside: tuple[str, ...] = ()
) -> None:  # fmt: skip
    """Raise a usage failure for a picture that the file or the window cannot be of."""
    ending = target.suffix.lower()
    if show != "timeline" and holds_everything(target):
        raise BadInput(
            f"--show {show} is a picture, and a {ending} holds everything; write a .png or .svg"
        )
    if beside and (show != "timeline" or ending in (".pftrace", ".npz")):
        what = f"--show {show}" if show != "timeline" else f"a {ending} file"
        raise BadInput(
            f"--beside puts two timelines on a page or in a picture (.html, .png, .svg), and "
            f"{what} is of one run"
        )
    if show.startswith("life") and (start is not None or end is not None):
        raise BadInput(f"--show {show} chooses its own window; leave --from and --to out")


def check_window(start: int | None, end: int | None) -> None:
    """Raise a usage failure for a window that is negative or upside down."""
    for name, value in (("--from", start), ("--to", end)):
        if value is not None and value < 0:
            raise BadInput(f"{name} {value} must be 0 or more")
        if value is not None and value > MOST_CYCLES:
            raise BadInput(f"{name} {quoted(value)} must be at most {MOST_CYCLES:,}")
    if start is not None and end is not None and end <= start:
        raise BadInput(f"--from {start} must be below --to {end}")
