"""What an interactive timeline is made of: a header that is JSON, and packed columns of numbers.

The header names every column by its place in the bytes (:mod:`fa4sim.views.interactive.pack`).
Texts are in one list per run and columns hold their numbers, -1 for none. Times count from the
run's ``origin``, in units of its clock. The JavaScript beside this module is the only reader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fa4sim.trace import Trace
from fa4sim.views.interactive.aligning import alignments
from fa4sim.views.interactive.pack import Pack
from fa4sim.views.interactive.run import RunData
from fa4sim.views.scope import run_words, scope

SCHEMA = 1
#: More slices than this make a page that no browser likes.
MOST_SLICES = 1_000_000


@dataclass(frozen=True)
class Payload:
    """A header (JSON-able) and the bytes of the columns that it names."""

    header: Mapping[str, Any]
    columns: bytes


def timeline_data(
    traces: Sequence[Trace],
    labels: Sequence[str],
    *,
    title: str = "",
    start: int | None = None,
    end: int | None = None,
    cta: int | None = None,
) -> Payload:
    """Everything an interactive timeline shows of one or two traces.

    Args:
        traces: one, or two to be stacked; compact ones are expanded.
        labels: what to call them, one each.
        title: of the whole; by default the labels.
        start, end: the window to open with, in units of the first trace's clock; by default about
            two K/V blocks from the middle of a CTA (all of a short run).
        cta: which CTA that is; by default the first.

    Raises:
        ValueError: not one or two traces, another number of labels, an empty trace, one of more
            than :data:`MOST_SLICES` spans and waits, unknown CTA, window with nothing in it.

    >>> trace = Trace()
    >>> _ = trace.add("span", sm=0, cta=0, role="load", warp=14, op="issue K", start=0, end=41)
    >>> payload = timeline_data([trace], ["a run"])
    >>> payload.header["runs"][0]["tracks"]
    [{'sm': 0, 'cta': 0, 'role': 'load', 'warp': 14, 'rows': [[0, 1]]}]
    """
    if not 1 <= len(traces) <= 2:
        raise ValueError(f"{len(traces)} traces were given; a timeline shows one, or two stacked")
    if len(labels) != len(traces):
        raise ValueError(f"labels={list(labels)!r}: give {len(traces)}, one for each trace")
    whole = [trace.expand() for trace in traces]
    for label, trace in zip(labels, whole, strict=True):
        _check_size(trace, label)
    window = scope(whole[0], start, end, cta)
    pack = Pack()
    runs = [
        RunData(trace, label, pack).header() for trace, label in zip(whole, labels, strict=True)
    ]  # fmt: skip
    header = {
        "schema": SCHEMA,
        "title": title or _title(whole, labels),
        "runs": runs,
        "window": [window.start - runs[0]["origin"], window.end - runs[0]["origin"]],
        "cta": window.cta,
        "alignments": alignments(whole, [run["origin"] for run in runs]),
    }
    return Payload(header, pack.bytes())


def _title(traces: Sequence[Trace], labels: Sequence[str]) -> str:
    """The labels; of a single run also what ran."""
    words = run_words(traces[0]) if len(traces) == 1 else ""
    return " and ".join(labels) + (f": {words}" if words else "")


def _check_size(trace: Trace, label: str) -> None:
    count = trace.size("span") + trace.size("wait")
    if not trace.size("span"):
        raise ValueError(f"the trace {label!r} is empty: it has no spans to draw")
    if count > MOST_SLICES:
        raise ValueError(
            f"the trace {label!r} has {count:,} spans and waits, and a page shows at most "
            f"{MOST_SLICES:,}; cut it with trace.window(start, end)"
        )
