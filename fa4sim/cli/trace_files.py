"""The files that commands write a trace to: an interactive page, a Perfetto trace, the trace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fa4sim.cli.errors import BadInput, missing_extra, refusals
from fa4sim.cli.output import write_whole
from fa4sim.trace import Trace, load, save

#: Files that hold a whole trace rather than a picture of a part of it, and what to do with them.
HINTS = {
    ".html": "open it in a browser; it needs no network, and ? there lists the keys",
    ".pftrace": "open it at https://ui.perfetto.dev (it stays on your machine)",
    ".npz": "fa4sim.trace.load reads it, and fa4sim timeline --beside draws it",
}
PERFETTO_HINT = HINTS[".pftrace"]
PICTURES = (".png", ".svg")
ENDINGS = (*PICTURES, *HINTS)


def load_views() -> Any:
    """:mod:`fa4sim.views`. Raises a failure that names the extra to install."""
    try:
        from fa4sim import views
    except ImportError as error:
        raise missing_extra(error, "viz", "drawing") from None
    return views


def holds_everything(target: Path) -> bool:
    """Whether a file of this ending holds a whole trace."""
    return target.suffix.lower() in HINTS


def hint(target: Path) -> str:
    """What to do with the file; '' for a picture."""
    return HINTS.get(target.suffix.lower(), "")


def write_trace(
    trace: Trace,
    target: Path,
    start: int | None = None,
    end: int | None = None,
    other: Trace | None = None,
    labels: Sequence[str] | None = None,
    title: str = "",
) -> str:
    """Write a trace to a file that holds everything, and return what it holds, in words.

    A page opens with the window from ``start`` to ``end``, of the other files they are the ends. A
    page can show an ``other`` trace below.
    """
    ending = target.suffix.lower()
    if ending == ".html":
        return _write_page(trace, target, start, end, other, labels, title)
    if ending == ".pftrace":
        return write_perfetto(trace, target, start, end)
    with refusals():
        cut = _cut(trace, start, end)
        write_whole(target, lambda path: save(cut, path))
    return f"a trace of {cut.size('span'):,} spans and {cut.size('wait'):,} waits"


def _write_page(
    trace: Trace, target: Path, start: int | None, end: int | None, other: Trace | None,
    labels: Sequence[str] | None, title: str,
) -> str:  # fmt: skip
    views = load_views()
    with refusals():
        write_whole(
            target,
            lambda path: views.write_interactive(
                trace, path, other, labels, start=start, end=end, title=title
            ),
        )  # fmt: skip
    shown = [trace] if other is None else [trace, other]
    sizes = [each.expand() for each in shown]
    counts = [f"{each.size('span') + each.size('wait'):,} slices" for each in sizes]
    return f"an interactive timeline of {' and '.join(counts)}"


def write_perfetto(whole: Trace, target: Path, start: int | None, end: int | None) -> str:
    """Write a Perfetto trace of the window, or of everything, and return what it holds."""
    views = load_views()
    with refusals():
        trace = _cut(whole, start, end)
        try:
            write_whole(target, lambda path: views.write_perfetto(trace, path))
        except ImportError as error:
            raise missing_extra(error, "viz", "a Perfetto trace") from None
    return f"a Perfetto trace of {trace.size('span'):,} slices"


def read_trace(path: str) -> Trace:
    """A trace from a file. Raises a usage failure if there is none, or of another kind."""
    with refusals():
        try:
            return load(path)
        except OSError as error:
            raise BadInput(f"cannot read {path!r}: {error.strerror}") from None


def _cut(whole: Trace, start: int | None, end: int | None) -> Trace:
    """The window of a trace; the expanded trace without one."""
    trace = whole.expand()
    if start is not None or end is not None:
        trace = trace.window(start, None if end is None else end + 1)
    _check_not_empty(whole, trace, start, end)
    return trace


def _check_not_empty(whole: Trace, part: Trace, start: int | None, end: int | None) -> None:
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
