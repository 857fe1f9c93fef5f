"""``fa4sim timeline``: one CTA in pictures or as a trace for Perfetto."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from fa4sim.cli import options
from fa4sim.cli.describe import fault_words, problem_words, setup_facts
from fa4sim.cli.errors import (
    BadInput,
    PipelineBroken,
    hazard_facts,
    hazardous,
    missing_extra,
    refusals,
)
from fa4sim.cli.output import check_target, note, print_json, say, write_whole
from fa4sim.engine.errors import Deadlock
from fa4sim.simulate import Run, simulate
from fa4sim.specs.checks import quoted
from fa4sim.trace import Trace

#: Later than any work tile ends.
MOST_CYCLES = 2**53

#: What a picture of a fault shows on either side of it.
CYCLES_AROUND = 3000

ENDINGS = (".png", ".svg", ".pftrace")
PERFETTO_HINT = "open it at https://ui.perfetto.dev (it stays on your machine)"

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
    help="A picture (.png, .svg) or a Perfetto trace (.pftrace).",
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
    default=0,
    show_default=True,
    metavar="N",
    help="Which work tile, in the scheduler's order.",
)
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
    as_json: bool, seed: int, output: str, show: str, tile: int, start: int | None,
    end: int | None, **given: Any,
) -> None:  # fmt: skip
    """Draw one CTA: who worked, who waited for what.

    A picture shows about two K/V blocks from the middle of the work tile (busy units: all of it);
    --from and --to choose another window. A Perfetto trace holds all of the tile unless they are
    given.
    """
    target = check_target(output, ENDINGS)
    check_window(start, end)
    check_show(show, target.suffix, start, end)
    setup = options.Request.of(given).build()
    try:
        with refusals():
            run = _one_tile(setup, seed, tile)
    except PipelineBroken as failure:
        stop = failure.__context__
        if isinstance(stop, Deadlock) and stop.trace is not None:
            note(f"wrote {target}: {write_until(stop, setup, target, start, end, show)}")
        raise
    if not run.trace.size("span"):
        raise BadInput("there is nothing to show: this problem has no queries or no keys")
    if target.suffix.lower() == ".pftrace":
        shown = write_perfetto(run.trace, target, start, end)
    else:
        title = ""
        if run.hazards:
            title = f"{fault_words(setup.design)}: {run.hazards[0].kind}"
            start, end = around(run.hazards[0].cycle, run.trace.end, start, end)
        shown = write_picture(run.trace, target, start, end, show, title)
    facts = {
        "file": str(target), "shows": shown, "tile": tile, "cycles": run.report.cycles,
        "hazards": hazard_facts(run.hazards), **setup_facts(setup),
    }  # fmt: skip
    if not as_json:
        say(f"{setup.machine.name}: {problem_words(setup.problem)}; work tile {tile}, "
            f"{run.report.cycles:,} cycles")  # fmt: skip
        say(f"wrote {target}: {shown}")
        if target.suffix.lower() == ".pftrace":
            say(PERFETTO_HINT)
    if run.hazards:
        raise hazardous(run.hazards, facts)
    if as_json:
        print_json(facts)


def _one_tile(setup: options.Setup, seed: int, tile: int) -> Run:
    """One CTA's run; kept apart so that a deadlock on the way can be drawn."""
    return simulate(
        setup.problem, setup.design, setup.machine,
        scope="cta", seed=seed, tile=tile, on_hazard="record",
    )  # fmt: skip


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
    if target.suffix.lower() == ".pftrace":
        return write_perfetto(stop.trace, target, start, end)
    title = f"{fault_words(setup.design) or 'deadlock'}: nothing moves after cycle {stop.at:,}"
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


def write_perfetto(whole: Trace, target: Path, start: int | None, end: int | None) -> str:
    """Write a Perfetto trace of the window, or of everything, and return what it holds."""
    views = load_views()
    with refusals():
        trace = whole.expand()
        if start is not None or end is not None:
            trace = trace.window(start, None if end is None else end + 1)
        check_not_empty(whole, trace, start, end)
        try:
            write_whole(target, lambda path: views.write_perfetto(trace, path))
        except ImportError as error:
            raise missing_extra(error, "viz", "a Perfetto trace") from None
    return f"a Perfetto trace of {trace.size('span'):,} slices"


def load_views() -> Any:
    """:mod:`fa4sim.views`. Raises a failure that names the extra to install."""
    try:
        from fa4sim import views
    except ImportError as error:
        raise missing_extra(error, "viz", "drawing") from None
    return views


def check_show(show: str, ending: str, start: int | None, end: int | None) -> None:
    """Raise a usage failure for a picture that the file or the window cannot be of."""
    if ending.lower() == ".pftrace" and show != "timeline":
        raise BadInput(
            f"--show {show} is a picture, and a .pftrace holds everything; write a .png or .svg"
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


def check_not_empty(whole: Trace, part: Trace, start: int | None, end: int | None) -> None:
    """Raise a usage failure if nobody works in the window ``part`` of a trace."""
    if part.size("span"):
        return
    first = 0 if start is None else start
    last = whole.end if end is None else end
    waits = " (roles wait, but none works)" if part.size("wait") else ""
    raise BadInput(
        f"nothing happens from cycle {first:,} to {last:,}{waits}; this work tile runs from 0 to "
        f"{whole.end:,}, so choose another window with --from and --to"
    )


def first_line(text: str) -> str:
    """The first sentence of an alt text, without what it says in brackets."""
    return text.splitlines()[0].split(". ")[0].split(" (")[0].rstrip(".")
