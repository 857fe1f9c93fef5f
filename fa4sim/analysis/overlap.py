"""How much of one unit's work runs while another works.

Overlap is the point of the kernel: softmax of one Q tile should run under the matrix products of
the other. It is a number: the part of one party's busy time during which the other is busy too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fa4sim.analysis.records import Ints, text_table
from fa4sim.trace import Table, Trace

#: The pairs that :func:`overlap_table` shows unless told otherwise; those a trace lacks are left
#: out.
PAIRS = (
    ("tensor", "exp2"),
    ("tensor", "softmax0.exp2"),
    ("tensor", "softmax1.exp2"),
    ("softmax0.exp2", "softmax1.exp2"),
    ("exp2", "tensor"),
    ("tma", "tensor"),
    ("cp_async", "tensor"),
    ("correction", "tensor"),
    ("tma_store", "tensor"),
)


@dataclass(frozen=True)
class Overlap:
    """``a`` was busy for ``busy`` units of time, ``both`` of them with ``b`` busy as well.

    Times are summed over SMs; ``share`` is ``both / busy``, 0 to 1 (0 if ``a`` never worked).
    """

    a: str
    b: str
    busy: int
    both: int

    @property
    def share(self) -> float:
        """The part of ``a``'s busy time that runs under ``b``."""
        return self.both / self.busy if self.busy else 0.0


def overlap(trace: Trace, a: str, b: str) -> Overlap:
    """How much of what ``a`` does happens while ``b`` does something, SM by SM.

    Args:
        trace: any trace.
        a, b: the name of a role, a unit or an op (``"tensor"``, ``"mufu"``, ``"exp2"``), or
            ``"role.op"`` (``"softmax0.exp2"``). A party is busy while any of its spans runs;
            waits don't count.

    Raises:
        ValueError: the trace has no spans of that name.

    >>> trace = Trace()
    >>> _ = trace.add("span", sm=0, role="tensor", op="QK", start=0, end=100)
    >>> _ = trace.add("span", sm=0, role="softmax0", op="exp2", start=60, end=200)
    >>> overlap(trace, "tensor", "exp2").share
    0.4
    """
    whole = trace.expand().span
    return _overlap(whole, a, b, _names(whole))


def overlap_table(trace: Trace, pairs: Iterable[tuple[str, str]] | None = None) -> list[Overlap]:
    """:func:`overlap` of several pairs.

    Of the standard :data:`PAIRS`, those with a party that the trace lacks are left out; of
    ``pairs`` given, such a one raises ``ValueError``.
    """
    whole = trace.expand().span
    names = _names(whole)
    if pairs is None:
        pairs = [(a, b) for a, b in PAIRS if a in names and b in names]
    return [_overlap(whole, a, b, names) for a, b in pairs]


def overlap_sentence(trace: Trace) -> str:
    """What the overlap says about the kernel, in a sentence.

    Raises ``ValueError`` for a trace without tensor or exp2 spans.
    """
    there, back = overlap_table(trace, (("tensor", "exp2"), ("exp2", "tensor")))
    text = (
        f"Exponentials run during {there.share:.0%} of the tensor pipe's busy time, and the "
        f"tensor pipe during {back.share:.0%} of theirs"
    )
    if "softmax1.exp2" not in _names(trace.span):
        return text + "; with one Q tile they can only take turns."
    (two,) = overlap_table(trace, (("softmax0.exp2", "softmax1.exp2"),))
    return text + f"; softmax1 exponentiates during {two.share:.0%} of softmax0's exponentials."


def format_overlap(rows: Sequence[Overlap]) -> str:
    """The overlaps as aligned text."""
    return text_table(
        ("of the time of", "runs under", "busy", "both", "share"),
        [(row.a, row.b, f"{row.busy:,}", f"{row.both:,}", f"{row.share:.1%}") for row in rows],
        left=2,
    )


def merge(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The union of intervals ``[start, end)`` as disjoint intervals in order.

    >>> merge(np.array([0, 5, 20]), np.array([6, 9, 30]))
    (array([ 0, 20]), array([ 9, 30]))
    """
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    first = np.ones(len(start), dtype=bool)
    first[1:] = start[1:] > reach[:-1]
    last = np.ones(len(start), dtype=bool)
    last[:-1] = first[1:]
    return start[first], reach[last]


def shared_time(a: tuple[Ints, Ints], b: tuple[Ints, Ints]) -> int:
    """How long both of two merged sets of intervals hold."""
    if not len(a[0]) or not len(b[0]):
        return 0
    # Time covered by b up to any moment: it grows inside b's intervals and rests between them.
    edges = np.stack(b, axis=1).reshape(-1)
    covered = np.zeros(len(edges), dtype=np.int64)
    covered[1:] = np.cumsum(np.diff(edges) * (np.arange(len(edges) - 1) % 2 == 0))
    return int((_at(edges, covered, a[1]) - _at(edges, covered, a[0])).sum())


def _at(edges: Ints, covered: Ints, time: Ints) -> Ints:
    """The time covered up to ``time``."""
    behind = np.searchsorted(edges, time, side="right")
    inside = behind % 2 == 1
    passed = covered[np.maximum(behind - 1, 0)]
    return np.where(inside, passed + time - edges[np.maximum(behind - 1, 0)], passed)


def _overlap(span: Table, a: str, b: str, names: set[str]) -> Overlap:
    first, second = _chosen(span, a, names), _chosen(span, b, names)
    busy = both = 0
    for sm in np.unique(first["sm"]):
        mine, other = first.where(sm=int(sm)), second.where(sm=int(sm))
        merged = merge(mine["start"], mine["end"])
        busy += int((merged[1] - merged[0]).sum())
        both += shared_time(merged, merge(other["start"], other["end"]))
    return Overlap(a, b, busy, both)


def _chosen(span: Table, name: str, names: set[str]) -> Table:
    """The spans whose role, unit or op is ``name``, or whose role and op ``name`` joins."""
    if name not in names:
        raise ValueError(
            f"{name!r} names no span of this trace; it has {', '.join(sorted(names)) or 'none'}"
        )
    role, _, op = name.partition(".")
    if op:
        return span.where(role=role, op=op)
    hit = np.zeros(len(span), dtype=bool)
    for column in ("role", "unit", "op"):
        hit[span.where(None, **{column: name}).ids] = True
    return span.where(hit)


def _names(span: Table) -> set[str]:
    """What the spans can be called: roles, units, ops, and pairs of role and op."""
    names = {name for column in ("role", "unit", "op") for name in span.unique(column)}
    for role in span.unique("role"):
        names |= {f"{role}.{op}" for op in span.where(role=role).unique("op")}
    return names
