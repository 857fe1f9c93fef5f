"""Why something did not happen earlier: who ended a wait, who put work into a unit's queue.

A trace records every arrival on a barrier, so the arrival that completed a phase is the last one
of that phase. Two causes have no arrival of their own and are found by time: the bytes of a TMA
load (the load's span ends when they are there), and the moment at which the other CTA of a pair
sent an arrival (a fixed time before it lands).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fa4sim.analysis.records import Ints, Party, Records
from fa4sim.trace import NONE, RECEIVERS, Table, Trace

TENSOR, TMA_STORE = "tensor", "tma_store"

#: Barriers that complete with the bytes of a TMA load, and the spans that deliver them.
DELIVERED = {
    "load_Q_full": ("load Q",),
    "load_KV_full": ("load K", "load V"),
    "load_K_full": ("load K",),
    "load_V_full": ("load V",),
}

#: What a warp does to put each of a unit's ops into its queue.
ISSUED_BY = {
    "QK": "issue QK",
    "PV": "issue PV",
    "load Q": "issue Q",
    "load K": "issue K",
    "load V": "issue V",
    "store O": "issue O",
}

#: What the scheduler warp does to have a tile's coordinates fetched.
ASK = "ask for a tile"


@dataclass(frozen=True)
class Cause:
    """``party`` did the last thing that was missing at ``time``.

    What it did was there to be seen at ``landed``; ``way`` names what lies between the two.
    """

    party: Party
    time: int
    landed: int
    way: str = ""
    role: str = ""


class Causes:
    """The causes of a trace's waits and of its units' work. Times are of the trace's clock."""

    def __init__(self, trace: Trace, records: Records) -> None:
        self.trace = trace
        self.records = records
        self.arrive = trace.arrive
        self._from = np.where(
            self.arrive["from_cta"] == NONE, self.arrive["cta"], self.arrive["from_cta"]
        )
        # CTAs of a pair have neighbouring numbers, and arrive on each other's barriers.
        self.group = 2 if bool((self._from != self.arrive["cta"]).any()) else 1
        self._time = self.arrive["time"]
        self._by = self.arrive.text("by")
        self._index_arrivals()
        self._index_loads()
        self._index_issues()
        self.commit_delay = self._learn_commit_delay()
        self.crossing = self._learn_crossing()

    def cluster(self, cta: int) -> range:
        """The CTAs that share barriers with ``cta``, itself included."""
        first = cta - cta % self.group
        return range(first, first + self.group)

    # -- of a wait --------------------------------------------------------------------------------

    def of_wait(self, record: int) -> Cause | None:
        """What ended the wait ``record``; None if the trace doesn't tell."""
        records = self.records
        cta, end = int(records.cta[record]), int(records.end[record])
        stage, phase = int(records.stage[record]), int(records.phase[record])
        on = self.trace.strings[records.name[record]]
        if on == TMA_STORE:
            return self._ended((cta, NONE, TMA_STORE), end)
        if on == TENSOR:  # Hopper: a warp waits for its own warpgroup's products
            return self._product(cta, stage, end)
        row = self._completing(cta, int(records.name[record]), stage, phase - 1, end)
        load = self._delivery(cta, on, stage, end)
        if load is not None and (row == NONE or load.time >= self._time[row]):
            return load
        return self._arrival(row) if row != NONE else None

    def arrivals(self, record: int) -> list[Cause]:
        """Every arrival of the phase that the wait ``record`` was for, in order of time.

        Of a load that delivers bytes, see :meth:`of_wait`: it makes no arrival of its own.
        """
        records = self.records
        cta, stage = int(records.cta[record]), int(records.stage[record])
        barrier, phase = int(records.name[record]), int(records.phase[record]) - 1
        for owner in (cta, *(other for other in self.cluster(cta) if other != cta)):
            key = self._key(owner, barrier, stage, phase)
            first, last = self._every_key.searchsorted([key, key + 1])
            rows = self._every_row[first:last].tolist()
            if rows:
                seen = [row for row in rows if self._time[row] <= records.end[record]]
                return [cause for row in seen if (cause := self._arrival(row)) is not None]
        return []

    def _completing(self, cta: int, barrier: int, stage: int, phase: int, end: int) -> int:
        """The row of the last arrival of a phase: on the CTA's own barrier or on its peer's."""
        for owner in (cta, *(other for other in self.cluster(cta) if other != cta)):
            key = self._key(owner, barrier, stage, phase)
            found = int(self._keys.searchsorted(key, side="right")) - 1
            if found >= 0 and self._keys[found] == key:
                row = int(self._rows[found])
                return row if self._time[row] <= end else NONE
        return NONE

    def _arrival(self, row: int) -> Cause | None:
        """Who made arrival ``row``, and when."""
        cta, warp = int(self.arrive["cta"][row]), int(self.arrive["warp"][row])
        landed, by = int(self._time[row]), str(self._by[row])
        if by == TENSOR:
            cause = self._ended((cta, NONE, TENSOR), landed - self.commit_delay)
            if cause is None:
                return None
            return Cause(cause.party, cause.time, landed, "commit", TENSOR)
        if by == "clc":
            return self._asked((cta, warp, ""), landed)
        source = int(self._from[row])
        if source == cta:
            return Cause((cta, warp, ""), landed, landed)
        sent = landed - self.crossing
        return Cause((source, warp, ""), sent, landed, "arrive from the other CTA", by)

    def _ended(self, party: Party, time: int) -> Cause | None:
        """The last thing that unit ``party`` finished by ``time``."""
        at = self.records.parties.get(party)
        if at is None:
            return None
        found = int(self.records.end[at].searchsorted(time, side="right"))
        if not found:
            return None
        end = int(self.records.end[at.start + found - 1])
        return Cause(party, end, end)

    def _product(self, cta: int, stage: int, time: int) -> Cause | None:
        """The last product of warpgroup ``stage`` that was finished by ``time``."""
        party = (cta, NONE, TENSOR)
        at = self.records.parties.get(party)
        if at is None:
            return None
        ends = self.records.end[at][self.records.stage[at] == stage]
        found = int(ends.searchsorted(time, side="right"))
        if not found:
            return None
        end = int(ends[found - 1])
        return Cause(party, end, end if time == end else time, "commit", TENSOR)

    def _asked(self, party: Party, landed: int) -> Cause | None:
        """When the scheduler warp asked for the tile that came at ``landed``."""
        record = self.records.before(party, landed)
        at = self.records.parties.get(party)
        while at is not None and record >= at.start:
            if self.trace.strings[self.records.name[record]] == ASK:
                return Cause(
                    party, int(self.records.start[record]), landed, "fetch the next tile", "clc"
                )
            record -= 1
        return None

    def _delivery(self, cta: int, on: str, stage: int, end: int) -> Cause | None:
        """The load whose bytes were the last to come by ``end`` for this stage of a barrier."""
        best: Cause | None = None
        for other in self.cluster(cta):
            ends, receiver = self._loads.get((other, on, stage), (None, ""))
            if ends is None:
                continue
            found = int(ends.searchsorted(end, side="right"))
            if found and (best is None or ends[found - 1] > best.time):
                time = int(ends[found - 1])
                best = Cause((other, NONE, receiver), time, time)
        return best

    # -- of a unit's work -------------------------------------------------------------------------

    def issue(self, record: int) -> int:
        """The record in which a warp put the unit's work ``record`` into its queue, or NONE."""
        found = self._issues.get(record, NONE)
        if found == NONE or self.records.start[found] > self.records.start[record]:
            return NONE
        return found

    # -- indexes ----------------------------------------------------------------------------------

    def _key(self, cta: Any, barrier: Any, stage: Any, phase: Any) -> Any:
        """One number, or an array of them, for a phase of a stage of a barrier; -1 has its own."""
        place = (cta * len(self.trace.strings) + barrier) * self._stages + stage + 1
        return place * self._phases + phase + 1

    def _index_arrivals(self) -> None:
        """The last arrival of every phase of every barrier: sorted keys, and their rows."""
        arrive = self.arrive
        self._stages = int(arrive["stage"].max(initial=0)) + 2
        self._phases = int(arrive["phase"].max(initial=0)) + 3
        keys = self._key(*(arrive[name] for name in ("cta", "barrier", "stage", "phase")))
        order = np.lexsort((arrive.ids, arrive["time"], keys))
        last = np.ones(len(order), dtype=bool)
        last[:-1] = np.diff(keys[order]) != 0
        self._every_key: Ints = keys[order]
        self._every_row: Ints = order
        self._keys: Ints = keys[order][last]
        self._rows: Ints = order[last]

    def _index_loads(self) -> None:
        """When the loads for each stage of each delivered barrier ended, in order."""
        self._loads: dict[tuple[int, str, int], tuple[Ints, str]] = {}
        for receiver in RECEIVERS:
            spans = self.trace.span.where(role=receiver)
            for barrier, ops in DELIVERED.items():
                loads = spans.where(op=ops)
                places = np.stack((loads["cta"], loads["stage"]), axis=1)
                for cta, stage in np.unique(places, axis=0):
                    mine = loads.where(cta=int(cta), stage=int(stage))
                    self._loads[int(cta), barrier, int(stage)] = np.sort(mine["end"]), receiver

    def _index_issues(self) -> None:
        """Match each unit's work with the record that issued it: both are first come, first served.

        If a cut trace holds more of one than of the other, the latest are matched.
        """
        records = self.records
        self._issues: dict[int, int] = {}
        codes = {text: code for code, text in enumerate(self.trace.strings)}
        for op, issue in ISSUED_BY.items():
            if op not in codes or issue not in codes:
                continue
            done = self._of_name(codes[op], unit=True)
            asked = self._of_name(codes[issue], unit=False)
            places = zip(records.cta[done].tolist(), records.stage[done].tolist(), strict=True)
            for cta, stage in sorted(set(places)):
                # A pair's tensor pipes are both driven by the leader's MMA warp.
                issuers = self.cluster(cta) if op in ("QK", "PV") else (cta,)
                mine = done[(records.cta[done] == cta) & (records.stage[done] == stage)]
                theirs = asked[
                    np.isin(records.cta[asked], list(issuers)) & (records.stage[asked] == stage)
                ]
                if op in ("QK", "PV") and len(theirs):
                    # On Hopper the four warps of a warpgroup issue together.
                    theirs = theirs[records.warp[theirs] == records.warp[theirs].max()]
                n = min(len(mine), len(theirs))
                self._issues.update(
                    zip(mine[len(mine) - n :].tolist(), theirs[len(theirs) - n :].tolist(),
                        strict=True)
                )  # fmt: skip

    def _of_name(self, code: int, unit: bool) -> Ints:
        """Records with this name, of units or of warps, in order of time."""
        records = self.records
        (found,) = np.nonzero(
            (records.name == code) & ~records.is_wait & ((records.warp == NONE) == unit)
        )
        order: Ints = found[np.argsort(records.start[found], kind="stable")]
        return order

    # -- constants that the trace shows -----------------------------------------------------------

    def _learn_commit_delay(self) -> int:
        """Time from the end of a QK to the arrival of its commit, the shortest seen."""
        arrive = self.arrive.where(barrier="S_full", by=TENSOR)
        tensor = self.trace.span.where(role=TENSOR, op="QK")
        delays = []
        for cta, stage in _pairs(arrive):
            ends = np.sort(tensor.where(cta=cta, stage=stage)["end"])
            times = arrive.where(cta=cta, stage=stage)["time"]
            found = np.searchsorted(ends, times, side="right")
            if len(ends) and (found > 0).any():
                delays.append(int((times - ends[found - 1])[found > 0].min()))
        return min(delays, default=0)

    def _learn_crossing(self) -> int:
        """Time an arrival takes to the other CTA of a pair, from the first that a warp sent."""
        for row in np.flatnonzero(self._from != self.arrive["cta"]).tolist():
            party = (int(self._from[row]), int(self.arrive["warp"][row]), "")
            landed = int(self.arrive["time"][row])
            record = self.records.before(party, landed)
            if self._by[row] == "peer_mma" and record != NONE:
                return landed - int(self.records.start[record])
        return 0


def _pairs(table: Table) -> list[tuple[int, int]]:
    """The (cta, stage) pairs of a table."""
    return sorted(set(zip(table["cta"].tolist(), table["stage"].tolist(), strict=True)))
