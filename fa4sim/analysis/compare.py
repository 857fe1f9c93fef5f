"""Two runs side by side: what changed, by how much, and where.

A knob that makes a kernel faster moves time from one place to another. The comparison lists
cycles, unit use, waits, durations of every op in the steady state and the composition of the
critical path of both runs, and sorts each list by what changed most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fa4sim.analysis.critical_path import critical_path
from fa4sim.analysis.records import text_table
from fa4sim.analysis.steady import op_durations, steady_state
from fa4sim.analysis.waits import wait_shares, wait_table
from fa4sim.trace import NONE, Trace

#: Version of what :meth:`Comparison.as_dict` returns.
SCHEMA = 1

#: The sections of a comparison in the order in which they are shown.
SECTIONS = ("time", "units", "waits", "ops", "path")

#: Sections whose numbers are fractions, shown in percent.
FRACTIONS = ("units", "waits")

Sections = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Difference:
    """One number of two runs. One that a run doesn't have at all counts as 0."""

    section: str
    name: str
    before: float
    after: float

    @property
    def change(self) -> float:
        """``after - before``."""
        return self.after - self.before

    @property
    def ratio(self) -> float:
        """``after / before``; infinite if there was nothing before."""
        if self.before:
            return self.after / self.before
        return float("inf") if self.after else 1.0


@dataclass(frozen=True)
class Comparison:
    """All differences of two runs, section by section, largest change first."""

    names: tuple[str, str]
    rows: tuple[Difference, ...]

    def section(self, name: str) -> list[Difference]:
        """The rows of one section. Raises ``ValueError`` for one that doesn't exist."""
        if name not in SECTIONS:
            raise ValueError(f"no section {name!r}; there are {', '.join(SECTIONS)}")
        return [row for row in self.rows if row.section == name]

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON: ``sections[section][name] = {before, after, change}``."""
        sections: dict[str, dict[str, dict[str, float]]] = {}
        for row in self.rows:
            sections.setdefault(row.section, {})[row.name] = {
                "before": row.before,
                "after": row.after,
                "change": row.change,
            }
        return {"schema": SCHEMA, "names": list(self.names), "sections": sections}


def describe(trace: Trace) -> Sections:
    """The numbers of a trace that :func:`compare` compares, by section and name.

    ``time`` has the span, named by the clock, and with a steady state the time per K/V block;
    ``units`` the busy fraction of the units that the trace records by themselves; ``waits`` the
    share of life by role and barrier; ``ops`` the mean duration of each op in the steady state;
    ``path`` the time on the critical path, per K/V block with a steady state, whole without.
    """
    whole = trace.expand()
    start = int(whole.span["start"].min(initial=whole.end))
    length = max(1, whole.end - start)
    sections: Sections = {"time": {whole.clock: float(length)}, "units": {}, "ops": {}}
    span = whole.span
    sms = max(1, len(np.unique(span["sm"])))
    for unit in ("tensor", "tma", "cp_async", "tma_store"):
        mine = span.where(role=unit)
        if len(mine):
            length_of = mine["end"] - mine["start"]
            worked = np.where(mine["busy"] == NONE, length_of, np.minimum(mine["busy"], length_of))
            sections["units"][unit] = float(worked.sum()) / (sms * length)
    sections["waits"] = {
        f"{role} {on}": share for (role, on), share in wait_shares(wait_table(whole)).items()
    }
    path = critical_path(whole)
    try:
        steady = steady_state(whole)
    except ValueError:
        sections["path"] = {f"{a} {b}": float(c) for (a, b), c in path.totals().items()}
        return sections
    sections["time"][f"{whole.clock} per block"] = steady.period
    sections["path"] = {f"{a} {b}": c for (a, b), c in path.per_block().items()}
    sections["ops"] = {
        f"{row.role} {row.op}": row.mean
        for row in op_durations(whole, steady)
        if row.kind == "span"
    }
    return sections


def compare(
    before: Trace | Mapping[str, Any],
    after: Trace | Mapping[str, Any],
    names: tuple[str, str] = ("before", "after"),
) -> Comparison:
    """Compare two runs.

    Args:
        before, after: traces, or what a report says: a mapping with any of ``cycles``,
            ``time_us``, ``tflops`` (numbers), ``units`` (name to fraction), ``waits`` (a mapping,
            or a list of mappings with role, barrier and share), or the sections of
            :func:`describe`. Other entries are left aside.
        names: what to call the two.

    Raises:
        ValueError: a mapping with nothing to compare in it.

    >>> print(format_comparison(compare({"cycles": 200}, {"cycles": 150})))
    time    before  after  change
    cycles     200    150    -25%
    """
    both = [
        describe(run) if isinstance(run, Trace) else _from_report(run) for run in (before, after)
    ]
    rows = []
    for section in SECTIONS:
        old, new = (run.get(section, {}) for run in both)
        differences = [
            Difference(section, name, old.get(name, 0.0), new.get(name, 0.0))
            for name in dict.fromkeys((*old, *new))
        ]
        if section != "time":
            differences.sort(key=lambda row: (-abs(row.change), row.name))
        rows += differences
    return Comparison(names, tuple(rows))


def format_comparison(comparison: Comparison, most: int = 8) -> str:
    """The comparison as aligned text: of each section the ``most`` that changed most."""
    parts = []
    for section in SECTIONS:
        rows = comparison.section(section)
        if not rows:
            continue
        text = text_table(
            (section, *comparison.names, "change"),
            [
                (row.name, _number(row.before, section), _number(row.after, section), _change(row))
                for row in rows[:most]
            ],
        )
        left_out = len(rows) - most
        parts.append(f"{text}\n… and {left_out} that changed less" if left_out > 0 else text)
    return "\n\n".join(parts)


def _number(value: float, section: str) -> str:
    if section in FRACTIONS:
        return f"{value:.1%}"
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


def _change(row: Difference) -> str:
    if row.section in FRACTIONS:
        return f"{100 * row.change:+.1f} points"
    if not row.before:
        return "new" if row.after else ""
    return f"{row.ratio - 1:+.0%}" if row.after else "gone"


def _from_report(report: Mapping[str, Any]) -> Sections:
    """Bring what a report says into sections."""
    sections: Sections = {
        name: {key: float(value) for key, value in report[name].items()}
        for name in SECTIONS
        if isinstance(report.get(name), Mapping)
    }
    time = {
        name: float(report[name])
        for name in ("cycles", "time_us", "tflops")
        if isinstance(report.get(name), int | float)
    }
    if time:
        sections["time"] = {**sections.get("time", {}), **time}
    waits = report.get("waits")
    if isinstance(waits, Sequence):
        shares: dict[str, float] = {}
        for wait in waits:
            key = f"{wait['role']} {wait['barrier']}"
            shares[key] = shares.get(key, 0.0) + float(wait["share"])
        sections["waits"] = shares
    if not sections:
        raise ValueError(
            f"nothing to compare in a report with {', '.join(map(repr, report)) or 'no entries'}; "
            f"give cycles, units, waits or the sections {', '.join(SECTIONS)}"
        )
    return sections
