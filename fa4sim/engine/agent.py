"""One warp of a role: it waits, works and arrives, and leaves a record of every cycle.

Invariant: from its first cycle to its last, every cycle of a warp is inside exactly one span or one
wait of the trace.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from simpy.events import Event, Process

from fa4sim.engine.barrier import Barrier
from fa4sim.engine.core import Core
from fa4sim.engine.errors import Hazard
from fa4sim.engine.units import Group, SubPartition, Unit
from fa4sim.trace import NONE

Steps = Generator[Event, Any, None]


class Agent:
    """A warp with a role; roles derive from it and define ``run``.

    ``tile`` counts the work tiles this warp has begun, ``step`` the K/V blocks of the tile in
    hand, and every role keeps what its loops count in attributes, never in local variables: that
    is what lets a proved steady state be fast-forwarded.
    """

    def __init__(
        self, core: Core, sm: int, cta: int, role: str, warp: int, smsp: SubPartition
    ) -> None:
        self.core = core
        self.env = core.env
        self.sm = sm
        self.cta = cta
        self.role = role
        self.warp = warp
        self.smsp = smsp
        self.key = f"{role}.{warp}@{cta}"
        self.role_code = core.trace.code(role)
        self.tile = 0
        self.step = 0
        self.tile_id = NONE
        self.block = NONE
        self.place = 0
        self.born = 0
        self.died = NONE
        self.waiting: tuple[Barrier, int, int] | None = None
        self.waits_done = 0
        #: Engine time at which the operation in hand began.
        self.since = 0
        self.steps: Steps
        self.process: Process
        code = core.trace.code
        self._codes = {name: code(name) for name in ("barrier", "unit")}
        self._kinds: dict[tuple[str, str], tuple[int, int]] = {}
        self._add_span = core.trace.append["span"]
        self._add_wait = core.trace.append["wait"]

    # -- recording -----------------------------------------------------------------------------

    def kind(self, unit: str, op: str) -> tuple[int, int]:
        """The codes of an operation on a unit, for :meth:`record`."""
        return self.core.trace.code(unit), self.core.trace.code(op)

    def span(self, unit: str, op: str, start: int, busy: int, stage: int = NONE) -> None:
        """Record that ``op`` ran on ``unit`` from ``start`` (engine time) to now."""
        kind = self._kinds.get((unit, op))
        if kind is None:
            kind = self._kinds[unit, op] = self.kind(unit, op)
        self.record(kind, start, busy, stage)

    def record(self, kind: tuple[int, int], start: int, busy: int, stage: int) -> None:
        """:meth:`span` for what is done most often: with codes looked up beforehand."""
        skipped = self.core.skipped
        what, op = kind
        self._add_span(
            (self.sm, self.cta, self.role_code, self.warp, what, op, start + skipped,
             self.env.cycle + skipped, self.tile_id, self.block, stage, NONE, busy)
        )  # fmt: skip

    def _wait_row(
        self, on: int, kind: str, stage: int, phase: int, reason: str, start: int
    ) -> None:
        skipped = self.core.skipped
        self._add_wait(
            (self.sm, self.cta, self.role_code, self.warp, on, self._codes[kind], stage, phase,
             self.core.trace.code(reason), start + skipped, self.env.cycle + skipped,
             self.tile_id, self.block, NONE)
        )  # fmt: skip

    # -- waiting -------------------------------------------------------------------------------

    def wait(self, barrier: Barrier, phase: int, reason: str, log: bool = True) -> Steps:
        """Wait until ``barrier`` has completed ``phase`` phases (0: passes at once).

        Raises nothing; a wait that comes a whole phase late is reported as ``phase_behind``.
        """
        if self.role in barrier.dropped_waits:
            return
        if log and self.core.log is not None:
            self.core.log.append((self.key, "wait", barrier.name, barrier.stage))
        env = self.env
        start = self.since = env.cycle
        needed = phase
        if barrier.completions > phase:
            needed = barrier.due(phase)
            self.core.report(
                Hazard(
                    "phase_behind", barrier.name, barrier.stage, barrier.cta, self.role,
                    barrier.last_by, self.tile_id, self.block, self.core.now,
                    f"{self.role} waits for phase {phase} when {barrier.completions} phases have "
                    "completed: its phase bit no longer tells them apart",
                )
            )  # fmt: skip
        self.waiting = (barrier, phase, start)
        if barrier.completions >= needed:
            if barrier.try_cycles:
                yield env.timeout(barrier.try_cycles)
        else:
            yield barrier.subscribe(needed, self)
        _, phase, start = self.waiting  # a fast-forward may have moved it on
        self.waiting = None
        self.waits_done += 1
        seen = barrier.observed
        if self.key in seen and seen[self.key] < phase:
            seen[self.key] = phase
        if env.cycle > start:
            self._wait_row(barrier.code, "barrier", barrier.stage, phase, reason, start)

    def wait_for_ever(self, barrier: Barrier, phase: int, since: int) -> None:
        """Record a wait that never ends, up to now."""
        if self.env.cycle > since:
            self._wait_row(barrier.code, "barrier", barrier.stage, phase, "deadlock", since)

    def stand(self, event: Event, unit: str, reason: str, stage: int = NONE) -> Steps:
        """Wait for a unit to finish something (a bulk store's reads, say)."""
        start = self.since = self.env.cycle
        yield event
        if self.env.cycle > start:
            self._wait_row(self.core.trace.code(unit), "unit", stage, NONE, reason, start)

    # -- working -------------------------------------------------------------------------------

    def work(self, op: str, unit: str, group: Group, latency: int = 0, stage: int = NONE) -> Steps:
        """Run one group of instructions and stay until its results are there.

        ``unit`` is the one the span is shown on; ``latency`` is what the last result still needs
        when its unit is done.
        """
        env = self.env
        start = self.since = env.cycle
        end = self.smsp.run(start, group) + latency
        if end > start:
            yield env.timeout(end - start)
        self.span(unit, op, start, getattr(group, unit) + latency, stage)

    def spend(self, op: str, unit: str, cycles: int, stage: int = NONE) -> Steps:
        """Stand for ``cycles`` with one issue slot used: a latency nobody else is held up by."""
        if cycles <= 0:
            return
        start = self.since = self.env.cycle
        self.smsp.slots(start, 1)
        yield self.env.timeout(cycles)
        self.span(unit, op, start, cycles, stage)

    def port(
        self, op: str, unit: str, port: Unit, cycles: int, latency: int, issue: int, stage: int
    ) -> Steps:
        """Use a port for ``cycles`` and wait ``latency`` for the last of it."""
        env = self.env
        start = self.since = env.cycle
        self.smsp.slots(start, issue)
        end = port.reserve(start, cycles) + latency
        yield env.timeout(end - start)
        self.span(unit, op, start, cycles + latency, stage)

    # -- comparing -----------------------------------------------------------------------------

    def state(self, base_step: int) -> tuple[object, ...]:
        """Where this warp stands, with its block counted from ``base_step``."""
        return (self.tile, self.step - base_step, self.place, *self.counters())

    def counters(self) -> tuple[object, ...]:
        """What else a role counts (ring positions, modulo what matters)."""
        return ()

    def run(self) -> Steps:
        """What this warp does, from its first instruction to its last."""
        raise NotImplementedError

    def begin(self) -> None:
        """Start this warp."""
        self.steps = self.run()
        self.process = self.env.process(self.steps)
