"""Who ended a wait: the arrival, or the last bytes of a TMA load, that completed the phase."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fa4sim.trace import NONE, Table, Trace

#: Barriers that count transaction bytes, and the loads whose bytes they are.
LANDINGS = {"load_KV_full": ("load K", "load V"), "load_Q_full": ("load Q",)}


@dataclass(frozen=True)
class Cause:
    """What completed phase number ``phase`` of a barrier: ``role``'s arrival, at ``time``."""

    phase: int
    time: int
    role: str
    warp: int
    cta: int


class Completions:
    """When each phase of each barrier of a trace was completed, and by whom.

    The phase column of an arrival says how many phases had been completed before it, so a phase
    is completed by the last arrival of its number; on a barrier that also counts bytes, by the
    last load into the same stage if that is later.
    """

    def __init__(self, trace: Trace) -> None:
        self._arrive = trace.arrive
        self._loads = trace.span.where(role="tma")
        self._known: dict[tuple[str, int, int], dict[int, Cause]] = {}

    def of(self, barrier: str, stage: int, cta: int) -> dict[int, Cause]:
        """The completed phases of one stage of one CTA's barrier, by number."""
        key = (barrier, stage, cta)
        if key not in self._known:
            rows = self._arrive.where(barrier=barrier, stage=stage, cta=cta)
            self._known[key] = self._causes(barrier, stage, rows)
        return self._known[key]

    def find(self, barrier: str, stage: int, phase: int, cta: int, by: int) -> Cause | None:
        """What let a wait of CTA ``cta`` for ``phase`` phases return at time ``by``, if known."""
        cause = self.of(barrier, stage, cta).get(phase - 1)
        return cause if cause is not None and cause.time <= by else None

    def _causes(self, barrier: str, stage: int, rows: Table) -> dict[int, Cause]:
        causes = {}
        roles = rows.text("by")
        for i in np.argsort(rows["time"], kind="stable"):
            phase = int(rows["phase"][i])
            causes[phase] = Cause(
                phase, int(rows["time"][i]), str(roles[i]), int(rows["warp"][i]),
                int(rows["cta"][i]),
            )  # fmt: skip
        if barrier in LANDINGS and np.any(rows["tx_bytes"] > 0):
            self._land(causes, self._loads.where(op=LANDINGS[barrier], stage=stage))
        return causes

    @staticmethod
    def _land(causes: dict[int, Cause], loads: Table) -> None:
        """Move each completion to the last of that phase's loads: one in every CTA of a pair."""
        for cta in np.unique(loads["cta"]):
            mine = loads.where(cta=int(cta))
            ends = np.sort(mine["end"])
            for phase, end in zip(sorted(causes), ends, strict=False):
                if end > causes[phase].time:
                    causes[phase] = Cause(phase, int(end), "tma", NONE, int(cta))
