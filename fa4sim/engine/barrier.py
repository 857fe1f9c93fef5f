"""Barriers with phases: the mbarrier of shared memory, and the named barrier of a CTA.

Invariant: a barrier has completed ``completions`` phases; the current phase still lacks
``pending`` arrivals and ``tx_pending`` transaction bytes. The hardware keeps one phase bit
(``completions & 1``); counting completions instead lets the simulator tell a phase from the one
two later, which the bit cannot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fa4sim.engine.core import Core, Wake
from fa4sim.engine.errors import Hazard

if TYPE_CHECKING:
    from fa4sim.engine.agent import Agent


class Barrier:
    """One stage of one barrier of one CTA.

    ``expected`` is the count it was initialised with; ``parties`` how many arrivals each role
    should make per phase (all warps of the role together), which is what the checks compare
    with. ``resume_cycles`` pass between the completing arrival and a parked waiter's next
    instruction.
    """

    def __init__(
        self,
        core: Core,
        name: str,
        stage: int,
        cta: int,
        sm: int,
        expected: int,
        parties: Mapping[str, int],
        resume_cycles: int,
        try_cycles: int,
    ) -> None:
        self.core = core
        self.name = name
        self.stage = stage
        self.cta = cta
        self.sm = sm
        self.expected = expected
        self.parties = dict(parties)
        self.resume_cycles = resume_cycles
        self.try_cycles = try_cycles
        self.code = core.trace.code(name)
        self.completions = 0
        self.pending = expected
        self.tx_pending = 0
        self.arrived_by: dict[str, int] = dict.fromkeys(parties, 0)
        self.last_by = ""
        self.waiters: list[tuple[int, Wake]] = []
        #: How many completions each registered waiter has seen, by its key.
        self.observed: dict[str, int] = {}
        self.dropped_arrivals: frozenset[str] = frozenset()
        self.dropped_waits: frozenset[str] = frozenset()

    @property
    def phase(self) -> int:
        """Phases completed so far; the one in progress has this number."""
        return self.completions

    def watch(self, key: str) -> None:
        """Register a waiter that must see every completion."""
        self.observed[key] = 0

    # -- arriving ------------------------------------------------------------------------------

    def arrive(self, role: str, warp: int, cta: int, count: int, tx_bytes: int = 0) -> None:
        """``count`` arrivals by a warp of ``role`` in CTA ``cta``; perhaps bytes to expect."""
        if role in self.dropped_arrivals:
            return
        core = self.core
        made = self.arrived_by.get(role, 0) + count
        self.arrived_by[role] = made
        self.last_by = role
        per_phase = self.parties.get(role, 0)
        if per_phase == 0 or (made - 1) // per_phase != self.completions:
            self._misplaced(role, made, per_phase)
        core.trace.append["arrive"](
            (self.sm, self.cta, self.code, self.stage, self.completions, count, tx_bytes,
             core.trace.code(role), cta, warp, core.env.cycle + core.skipped)
        )  # fmt: skip
        self.tx_pending += tx_bytes
        if count > self.pending:
            self._overflow(role, count)
        self.pending -= count
        if self.pending <= 0 and self.tx_pending == 0:
            self._complete()

    def deliver(self, tx_bytes: int) -> None:
        """The TMA has written ``tx_bytes``; the last of them may complete the phase."""
        self.tx_pending -= tx_bytes
        if self.pending <= 0 and self.tx_pending == 0:
            self._complete()

    def _complete(self) -> None:
        done = self.completions
        for key, seen in self.observed.items():
            if seen < done:
                self.core.report(
                    Hazard(
                        "unobserved_phase", self.name, self.stage, self.cta, self.last_by, key,
                        -1, -1, self.core.now,
                        f"phase {done} completed before {key} had waited for phase {seen}: "
                        "nothing ordered it after the arrivals of that phase",
                    )
                )  # fmt: skip
                self.observed[key] = done
        self.completions = done + 1
        self.pending += self.expected
        if self.waiters:
            still = []
            for needed, wake in self.waiters:
                if needed <= self.completions:
                    wake.fire(self.resume_cycles)
                else:
                    still.append((needed, wake))
            self.waiters = still

    def _misplaced(self, role: str, made: int, per_phase: int) -> None:
        meant = (made - 1) // per_phase if per_phase else -1
        if per_phase == 0:
            kind, text = "surplus_arrival", f"{role} is not among the arrivers of this barrier"
        elif meant < self.completions:
            kind = "surplus_arrival"
            text = (
                f"arrival {made} of {role} belongs to phase {meant} but lands in phase "
                f"{self.completions}: that phase completed without it (count {self.expected}, "
                f"arrivers {sum(self.parties.values())})"
            )
        else:
            kind = "missing_arrival"
            text = (
                f"arrival {made} of {role} belongs to phase {meant} but lands in phase "
                f"{self.completions}, which still lacks arrivals (count {self.expected}, "
                f"arrivers {sum(self.parties.values())})"
            )
        self.core.report(
            Hazard(kind, self.name, self.stage, self.cta, role, "", -1, -1, self.core.now, text)
        )

    def _overflow(self, role: str, count: int) -> None:
        """More arrivals than the phase still lacks: the rest falls into the next one."""
        self.core.report(
            Hazard(
                "surplus_arrival", self.name, self.stage, self.cta, role, "", -1, -1,
                self.core.now,
                f"{count} arrivals of {role} meet a phase that lacks {self.pending}: its count is "
                f"{self.expected}, its arrivers make {sum(self.parties.values())}, and what is "
                "too many counts towards the next phase",
            )
        )  # fmt: skip

    # -- waiting -------------------------------------------------------------------------------

    def due(self, phase: int) -> int:
        """The completion count at which a wait for ``phase`` really returns.

        The hardware compares one bit: a waiter that comes a whole phase late finds the bit
        flipped back and waits for the next but one.
        """
        late = self.completions - phase
        if late > 0 and late % 2:
            return phase + late + 1
        return phase

    def subscribe(self, needed: int, agent: Agent) -> Wake:
        """An event that fires ``resume_cycles`` after completion number ``needed``."""
        wake = Wake(self.core.env, (agent.key, self))
        self.waiters.append((needed, wake))
        return wake

    def missing(self) -> tuple[str, ...]:
        """Which roles have not made all their arrivals for the current phase."""
        lacking = []
        for role, per_phase in self.parties.items():
            owed = (self.completions + 1) * per_phase - self.arrived_by.get(role, 0)
            if owed > 0:
                lacking.append(f"{role} ({owed} of {per_phase})")
        return tuple(lacking)

    def state(self) -> tuple[int, ...]:
        """What matters for comparing two moments, phases counted from the waiters."""
        seen = tuple(self.completions - count for count in self.observed.values())
        made = tuple(
            self.arrived_by[role] - self.completions * per for role, per in self.parties.items()
        )
        return (self.pending, self.tx_pending, len(self.waiters), *seen, *made)
