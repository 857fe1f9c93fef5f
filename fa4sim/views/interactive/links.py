"""What hangs together: why a wait ended, who used what somebody made, the critical path."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fa4sim.analysis.causes import Causes
from fa4sim.analysis.critical_path import critical_path
from fa4sim.analysis.records import Records, all_records
from fa4sim.trace import NONE, Trace
from fa4sim.trace.table import Ints
from fa4sim.views.flows import flows
from fa4sim.views.interactive.rows import Slices

#: The reason of a wait that a deadlock left standing.
NEVER = "deadlock"


@dataclass(frozen=True)
class Why:
    """What ended each wait of a trace, one entry per row of its ``wait`` table.

    ``by`` is the role that arrived last, ``time`` when it did that and ``landed`` when that was
    there to be seen; ``way`` names what lies between the two, and ``slice`` what the party was
    doing. All of them are :data:`NONE`, or '', where the trace does not tell.
    """

    by: list[str]
    warp: Ints
    cta: Ints
    time: Ints
    landed: Ints
    way: list[str]
    slice: Ints


@dataclass(frozen=True)
class Edges:
    """Links from slice ``source`` to slice ``target``, what went across, and for a wait when."""

    source: Ints
    target: Ints
    time: Ints
    what: list[str]


class Links:
    """The links of an expanded trace between the slices of ``slices``."""

    def __init__(self, trace: Trace, slices: Slices) -> None:
        self.trace = trace
        self.slices = slices
        self.records = all_records(trace)
        self.causes = Causes(trace, self.records)

    def slice_of(self, record: int) -> int:
        """The slice of a record; NONE if there is none."""
        if record == NONE:
            return NONE
        records, row = self.records, int(self.records.row[record])
        drawn = self.slices.of_wait if records.is_wait[record] else self.slices.of_span
        return int(drawn[row])

    def why(self) -> Why:
        """What ended each wait."""
        records = self.records
        count = self.trace.size("wait")
        numbers = {name: np.full(count, NONE, dtype=np.int64)
                   for name in ("warp", "cta", "time", "landed", "slice")}  # fmt: skip
        by, way = [""] * count, [""] * count
        for record in np.flatnonzero(records.is_wait).tolist():
            row = int(records.row[record])
            if int(records.phase[record]) == 0:  # starts free: nobody's arrival is needed
                continue
            cause = self.causes.of_wait(record)
            if cause is None or cause.landed > records.end[record]:
                continue
            cta, warp, unit = cause.party
            doing = self._doing(records, cause.party, cause.time)
            by[row] = cause.role or unit
            if not by[row] and doing != NONE:
                by[row] = self.trace.strings[records.role[doing]]
            way[row] = cause.way
            values = {"warp": warp, "cta": cta, "time": cause.time, "landed": cause.landed,
                      "slice": self.slice_of(doing)}  # fmt: skip
            for name, value in values.items():
                numbers[name][row] = value
        return Why(by=by, way=way, **numbers)

    def arrived(self) -> Ints:
        """Arrivals that the phase of each wait that never ended had seen; NONE of all others."""
        wait, arrive = self.trace.wait, self.trace.arrive
        found = np.full(len(wait), NONE, dtype=np.int64)
        for row in np.flatnonzero(wait.text("reason") == NEVER).tolist():
            here = np.ones(len(arrive), dtype=bool)
            for column, value in (("cta", "cta"), ("barrier", "on"), ("stage", "stage")):
                here &= arrive[column] == wait[value][row]
            here &= arrive["phase"] == wait["phase"][row] - 1
            found[row] = int(arrive["count"][here].sum())
        return found

    def _doing(self, records: Records, party: tuple[int, int, str], time: int) -> int:
        """The last record of a party that begins before ``time``, its first if none does."""
        found = records.before(party, time)
        at = records.parties.get(party)
        return found if found != NONE or at is None else at.start

    def edges(self, why: Why) -> Edges:
        """Direct links between slices: flows, and all arrivals that a wait was for."""
        span = self.slices.of_span
        found = [(int(span[a]), int(span[b]), what, NONE) for a, b, what in flows(self.trace)]
        on, stage = self.trace.wait.text("on"), self.trace.wait["stage"]
        for record in np.flatnonzero(self.records.is_wait).tolist():
            row = int(self.records.row[record])
            place = f"[{stage[row]}]" if stage[row] != NONE else ""
            target = int(self.slices.of_wait[row])
            for source, time in self._arrived(record, row, why).items():
                found.append((source, target, f"{on[row]}{place}", time))
        kept = [edge for edge in found if NONE not in edge[:2] and edge[0] != edge[1]]

        def numbers(column: int) -> Ints:
            return np.array([edge[column] for edge in kept], dtype=np.int64)

        return Edges(numbers(0), numbers(1), numbers(3), [edge[2] for edge in kept])

    def _arrived(self, record: int, row: int, why: Why) -> dict[int, int]:
        """The slices in which parties arrived for a wait, and when: of each party its last."""
        if int(self.records.phase[record]) == 0:
            return {}
        found = {}
        for cause in self.causes.arrivals(record):
            found[self.slice_of(self._doing(self.records, cause.party, cause.time))] = cause.time
        # The bytes of a load are no arrival, but may be the last to come.
        if why.slice[row] != NONE:
            found[int(why.slice[row])] = int(why.time[row])
        return found

    def path(self) -> list[dict[str, int | str]]:
        """The links of the critical path in order of time, each with its slice if it has one."""
        found: list[dict[str, int | str]] = []
        for segment in critical_path(self.trace).segments:
            party = (segment.cta, segment.warp, "" if segment.warp != NONE else segment.role)
            record = self.records.before(party, segment.end)
            found.append({
                "start": segment.start, "length": segment.cycles, "role": segment.role,
                "op": segment.op, "why": segment.why, "slice": self.slice_of(record),
            })  # fmt: skip
        return found

    def bytes(self) -> Ints:
        """Transaction bytes by row of the span table: those that an issue announces (expect_tx).

        A load has those of the issue that asked for it. NONE where the trace does not tell, or
        where one announcement was for more than one issue.
        """
        span, records = self.trace.span, self.records
        found = np.full(len(span), NONE, dtype=np.int64)
        arrive = self.trace.arrive
        arrive = arrive.where(arrive["tx_bytes"] > 0)
        time, size = arrive["time"], arrive["tx_bytes"]
        sender = np.where(arrive["from_cta"] == NONE, arrive["cta"], arrive["from_cta"])
        issues = np.array([op.startswith("issue ") for op in span.text("op")], dtype=bool)
        for cta, warp in {*zip(sender.tolist(), arrive["warp"].tolist(), strict=True)}:
            mine = (sender == cta) & (arrive["warp"] == warp)
            order = np.argsort(time[mine], kind="stable")
            times, sizes = time[mine][order], size[mine][order]
            (rows,) = np.nonzero((span["cta"] == cta) & (span["warp"] == warp) & issues)
            rows = rows[np.argsort(span["start"][rows], kind="stable")]
            which = np.searchsorted(times, span["end"][rows], side="right") - 1
            alone = np.bincount(which[which >= 0], minlength=len(times)) == 1
            known = (which >= 0) & alone[which]
            found[rows[known]] = sizes[which[known]]
        for record in np.flatnonzero(~records.is_wait & (records.warp == NONE)).tolist():
            issue = self.causes.issue(record)
            if issue != NONE and not records.is_wait[issue]:
                found[records.row[record]] = found[records.row[issue]]
        return found
