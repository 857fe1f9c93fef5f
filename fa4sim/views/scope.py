"""Which part of a trace a picture shows: the CTA, the window of time, and the words for time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fa4sim.trace import Table, Trace

#: How many K/V blocks a picture shows if nobody says: enough to see the pattern repeat.
BLOCKS_SHOWN = 2.25
#: A trace with no QK to count blocks by shows its middle, this many spans of one CTA.
SPANS_SHOWN = 400


@dataclass(frozen=True)
class Scope:
    """One CTA of an expanded trace between ``start`` and ``end`` (in the trace's clock)."""

    trace: Trace
    cta: int
    sm: int
    start: int
    end: int

    @property
    def length(self) -> int:
        """How long the window is."""
        return self.end - self.start

    def rows(self, name: str, first: str = "start", last: str = "end") -> Table:
        """The rows of a table that belong to this CTA and touch the window."""
        table = self.trace.table(name)
        return table.where((table[first] < self.end) & (table[last] > self.start), cta=self.cta)

    def cut(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """``times`` moved into the window."""
        return np.clip(times, self.start, self.end)

    @property
    def where(self) -> str:
        """In words: which CTA, from when to when."""
        ctas = len(all_ctas(self.trace))
        of = f" of {ctas}" if ctas > 1 else ""
        if ctas == 2 and _is_pair(self.trace):
            of = " of its pair"
        return f"CTA {self.cta}{of}, {from_to(self.trace, self.start, self.end)}"


def all_ctas(trace: Trace) -> list[int]:
    """The CTAs that have spans, in order. Raises ``ValueError`` for a trace without spans."""
    if not trace.size("span"):
        raise ValueError("this trace is empty: it has no spans to draw")
    return [int(cta) for cta in np.unique(trace.span["cta"])]


def pick_cta(trace: Trace, cta: int | None) -> int:
    """``cta``, or the first one. Raises ``ValueError`` if the trace does not have it."""
    ctas = all_ctas(trace)
    if cta is None:
        return ctas[0]
    if cta not in ctas:
        listed = ", ".join(str(c) for c in ctas[:12]) + (", …" if len(ctas) > 12 else "")
        raise ValueError(f"cta={cta!r} is not in this trace; it has CTA {listed}")
    return cta


def scope(
    trace: Trace, start: int | None = None, end: int | None = None, cta: int | None = None,
    *, everything: bool = False,
) -> Scope:  # fmt: skip
    """The part of ``trace`` to draw; ends that are not given are chosen.

    With neither end given that is a few K/V blocks of the steady state, or with ``everything``
    the whole trace. Raises ``ValueError`` for an unknown CTA or a window with nothing in it.
    """
    whole = trace.expand()
    number = pick_cta(whole, cta)
    spans = whole.span.where(cta=number)
    first, last = int(spans["start"].min()), whole.end
    if start is None and end is None and not everything:
        start, end = steady_window(whole, number)
    begin = first if whole.clock == "ns" else min(0, first)  # a GPU's clock started long ago
    low = begin if start is None else int(start)
    high = last if end is None else int(end)
    if high <= low or low >= last or high <= first:
        raise ValueError(
            f"the window from {low:,} to {high:,} {whole.clock} holds nothing; "
            f"this trace runs from {first:,} to {last:,}"
        )
    return Scope(whole, number, int(spans["sm"][0]), low, high)


def steps(trace: Trace, cta: int) -> NDArray[np.int64]:
    """When the tensor pipe began QK of each K/V block, lowest Q stage only, in order.

    A GPU's trace knows nothing of the tensor pipe: there, when QK was issued.
    """
    spans = trace.span.where(cta=cta)
    qk = spans.where(role="tensor", op="QK")
    if not len(qk):
        qk = spans.where(op="issue QK")
    if not len(qk):
        return np.zeros(0, dtype=np.int64)
    return np.sort(qk.where(stage=int(qk["stage"].min()))["start"])


def is_steady(trace: Trace, cta: int) -> bool:
    """Whether there are K/V blocks enough for a steady state to show."""
    return len(steps(trace, cta)) >= 5


def steady_window(trace: Trace, cta: int) -> tuple[int, int]:
    """:data:`BLOCKS_SHOWN` K/V blocks from the middle of the run, or all of a short run."""
    begin = steps(trace, cta)
    if is_steady(trace, cta):
        at = (len(begin) - 1) // 2
        # Not across the seam between two tiles, if there is a better place nearby.
        gaps = np.diff(begin)
        usual = int(np.median(gaps))
        for shift in range(min(at, len(gaps) - at - 2)):
            around = gaps[at - shift : at - shift + 2]
            if np.all(around <= 1.25 * usual):
                at -= shift
                break
        return int(begin[at]), int(begin[at] + BLOCKS_SHOWN * usual)
    spans = trace.span.where(cta=cta)
    order = np.sort(spans["start"])
    if len(begin) or len(order) <= SPANS_SHOWN:
        return int(order[0]), trace.end
    middle = (len(order) - SPANS_SHOWN) // 2
    return int(order[middle]), int(order[middle + SPANS_SHOWN])


def clock_hz(trace: Trace) -> float | None:
    """Cycles per second, if the trace counts cycles and says how long one takes."""
    value = trace.meta.get("clock_hz")
    if trace.clock != "cycles" or not isinstance(value, int | float) or value <= 0:
        return None
    return float(value)


def time_label(clock: str) -> str:
    """What stands under a time axis."""
    return {
        "cycles": "time (SM cycles)",
        "ticks": "ticks (the order of events, not time)",
        "ns": "time (ns)",
    }[clock]


def microseconds(trace: Trace) -> float | None:
    """Microseconds per unit of the trace's clock; None where the clock is not time."""
    if trace.clock == "ns":
        return 1e-3
    hz = clock_hz(trace)
    return None if hz is None else 1e6 / hz


def from_to(trace: Trace, start: int, end: int) -> str:
    """A window in words: ``cycles 400 to 2,000``, ``400 to 2,000 ns``."""
    window = f"{start:,} to {end:,}"
    return f"{window} ns" if trace.clock == "ns" else f"{trace.clock} {window}"


def span_words(trace: Trace, length: float) -> str:
    """A length of time in words: ``2,705 cycles (1.46 µs)``."""
    text = f"{length:,.0f} {trace.clock}"
    scale = microseconds(trace)
    return text if scale is None else f"{text} ({three_digits(length * scale)} µs)"


def three_digits(value: float) -> str:
    """A number to three digits, with all of those before the point.

    >>> three_digits(1384.2), three_digits(1.4594), three_digits(0.000901)
    ('1,384', '1.46', '0.000901')
    """
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _is_pair(trace: Trace) -> bool:
    """Whether the trace says that it is of CTA pairs."""
    design = trace.meta.get("design")
    return isinstance(design, dict) and design.get("cta_group") == 2


def run_words(trace: Trace) -> str:
    """What ran, in a few words: machine, head dims, mask; '' if the trace does not say."""
    problem = trace.meta.get("problem")
    parts = [str(trace.meta["machine"])] if "machine" in trace.meta else []
    if isinstance(problem, dict):
        d, dv = problem.get("head_dim"), problem.get("head_dim_v")
        parts.append(f"d {d}" if d == dv or dv is None else f"d ({d}, {dv})")
        if problem.get("causal"):
            parts.append("causal")
    if _is_pair(trace):
        parts.append("CTA pair")
    return ", ".join(parts)
