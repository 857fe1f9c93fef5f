"""The public functions: show one or two traces in a notebook, or write them to a page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fa4sim.trace import Trace
from fa4sim.views.aligned import aligned_timelines
from fa4sim.views.figure import Picture
from fa4sim.views.interactive.data import Payload, timeline_data
from fa4sim.views.interactive.page import page, write_page
from fa4sim.views.timeline import compare_timelines, timeline

#: What two runs are called if nobody says.
LABELS = ("a", "b")


def interactive_timeline(
    trace: Trace,
    other: Trace | None = None,
    labels: Sequence[str] | None = None,
    *,
    start: int | None = None,
    end: int | None = None,
    cta: int | None = None,
    height: int = 520,
) -> Any:
    """Show a trace, or two stacked, as a timeline to zoom, walk and search in.

    Args:
        trace: any trace; compact ones are expanded.
        other: a second one to stand below it: another design, the emulator's, a GPU's.
        labels: what to call them; by default what made them, or ``a`` and ``b``.
        start, end: the window to open with, in units of ``trace``'s clock; by default about two
            K/V blocks from the middle.
        cta: which CTA that is; by default the first.
        height: of the tracks, in pixels.

    Returns:
        A :class:`~fa4sim.views.interactive.widget.TimelineWidget`; without the library anywidget
        (extra ``notebooks``) the static :class:`~fa4sim.views.Picture`.

    Raises:
        ValueError: what :func:`timeline_data` raises, or a height below 100.
    """
    if height < 100:
        raise ValueError(f"height={height!r} must be at least 100 pixels, to hold a few tracks")
    payload, picture = _made(trace, other, labels, start, end, cta)
    try:
        from fa4sim.views.interactive.widget import TimelineWidget
    except ImportError:
        return picture
    return TimelineWidget(payload, picture, height)


def interactive_html(
    trace: Trace,
    other: Trace | None = None,
    labels: Sequence[str] | None = None,
    *,
    start: int | None = None,
    end: int | None = None,
    cta: int | None = None,
    title: str = "",
) -> str:
    """The same as the text of a self-contained HTML page; see :func:`interactive_timeline`.

    It loads nothing from anywhere, and may stand in another page as an ``iframe``.
    """
    return page(*_made(trace, other, labels, start, end, cta, title))


def write_interactive(
    trace: Trace,
    path: str | os.PathLike[str],
    other: Trace | None = None,
    labels: Sequence[str] | None = None,
    *,
    start: int | None = None,
    end: int | None = None,
    cta: int | None = None,
    title: str = "",
) -> Path:
    """Write :func:`interactive_html` to ``path`` (``.html``) and return the path.

    The file appears whole or not at all. Raises ``ValueError`` for another ending, ``OSError`` if
    the folder cannot be written.
    """
    return write_page(*_made(trace, other, labels, start, end, cta, title), path)


def _made(
    trace: Trace, other: Trace | None, labels: Sequence[str] | None, start: int | None,
    end: int | None, cta: int | None, title: str = "",
) -> tuple[Payload, Picture]:  # fmt: skip
    """The data and the static picture of the same."""
    traces = [trace] if other is None else [trace, other]
    names = list(labels) if labels is not None else _names(traces)
    payload = timeline_data(traces, names, title=title, start=start, end=end, cta=cta)
    return payload, _picture(traces, names, start, end, cta)


def _picture(
    traces: Sequence[Trace], labels: Sequence[str], start: int | None, end: int | None,
    cta: int | None,
) -> Picture:  # fmt: skip
    if len(traces) == 1:
        return timeline(traces[0], start=start, end=end, cta=cta)
    a, b = traces
    if a.clock != b.clock:
        try:
            return aligned_timelines(a, b, labels, start=start, end=end)
        except ValueError:  # no MMA in common: show the first
            return timeline(a, start=start, end=end, cta=cta)
    return compare_timelines(a, b, labels, start=start, end=end)


def _names(traces: Sequence[Trace]) -> list[str]:
    """What made each trace, where that tells them apart."""
    made = [_maker(trace) for trace in traces]
    return made if len({*made}) == len(made) else list(LABELS)


def _maker(trace: Trace) -> str:
    if trace.clock == "ticks":
        return "emulated"
    if trace.clock == "ns" or trace.meta.get("made_by") == "fa4kernel.hopper":
        return "measured"
    return "simulated"
