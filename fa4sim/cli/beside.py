"""``--beside``: a second run below the first, from other settings or from a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fa4sim.cli import options
from fa4sim.cli.errors import BadInput, refusals
from fa4sim.cli.fields import settings_of
from fa4sim.cli.literals import assignments, literal
from fa4sim.cli.output import note, write_whole
from fa4sim.cli.trace_files import (
    holds_everything,
    load_views,
    read_trace,
    write_trace,
)
from fa4sim.specs.idle import idle_settings, idle_words
from fa4sim.trace import Trace


def second_run(
    request: options.Request, beside: tuple[str, ...], run: Callable[[options.Setup], Trace]
) -> tuple[str, Trace] | None:  # fmt: skip
    """What to call the run of ``--beside``, and its trace; ``run`` simulates. None without it.

    Raises a usage failure for what is neither settings nor one file.
    """
    if not beside:
        return None
    files = [what for what in beside if what.lower().endswith(".npz")]
    if files:
        if len(beside) > 1:
            raise BadInput(f"--beside {files[0]!r} is a trace; give it alone, or settings only")
        return Path(files[0]).stem, read_trace(files[0])
    wrong = next((what for what in beside if "=" not in what), None)
    if wrong is not None:
        raise BadInput(f"--beside {wrong!r}: give NAME=VALUE, as for --set, or a trace (.npz)")
    values = {name: literal(name, text) for name, text in assignments(beside).items()}
    setup = request.with_settings(settings_of(values)).build()
    idle = idle_settings(values, [setup])
    if idle:
        note(idle_words(idle))
    with refusals():
        return ", ".join(beside), run(setup)


def write_two(
    trace: Trace, other: tuple[str, Trace], target: Path, start: int | None, end: int | None
) -> str:  # fmt: skip
    """Draw two runs one above the other and return what that shows, in words."""
    labels = ("as asked for", other[0])
    if holds_everything(target):
        return write_trace(trace, target, start, end, other=other[1], labels=labels)
    views = load_views()
    draw = views.compare_timelines if trace.clock == other[1].clock else views.aligned_timelines
    with refusals():
        figure = draw(trace, other[1], labels, start=start, end=end)
        write_whole(target, lambda path: views.save(figure, path))
    return f"{labels[0]} above, {labels[1]} below"
