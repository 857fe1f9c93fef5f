"""The clock and the record of one detailed simulation.

Invariant: simulated time is ``env.now + skipped``. A steady pipeline is fast-forwarded by adding
to ``skipped`` and to the roles' own counters; nothing in SimPy's queue moves.
"""

from __future__ import annotations

from collections.abc import Callable

import simpy
from simpy.core import EmptySchedule
from simpy.events import Event

from fa4sim.engine.errors import Hazard
from fa4sim.trace import Trace


class Wake(Event):
    """An event that happens a known time after it is fired, and costs one step of the engine.

    ``tag`` names what it stands for, so that two states of the simulation can be compared.
    """

    def __init__(self, env: simpy.Environment, tag: tuple[object, ...] = ()) -> None:
        super().__init__(env)
        self.tag = tag

    def fire(self, delay: int = 0) -> None:
        """Schedule the event ``delay`` cycles from now. Call it once."""
        self._ok = True
        self._value = None
        self.env.schedule(self, delay=delay)


class Core:
    """What every part of a detailed simulation shares: clock, trace, hazards, steps taken."""

    def __init__(self, trace: Trace | None = None) -> None:
        self.env = simpy.Environment()
        self.trace = Trace() if trace is None else trace
        self.skipped = 0
        self.events = 0
        self.hazards: list[Hazard] = []
        self._seen: set[tuple[object, ...]] = set()

    @property
    def now(self) -> int:
        """Simulated time in cycles, skipped periods included."""
        return int(self.env.now) + self.skipped

    def later(self, delay: int, action: Callable[[], None], tag: tuple[object, ...]) -> None:
        """Run ``action`` in ``delay`` cycles; ``tag`` tells what it is when states are compared."""
        wake = Wake(self.env, tag)
        assert wake.callbacks is not None
        wake.callbacks.append(lambda _event: action())
        wake.fire(delay)

    def report(self, hazard: Hazard) -> None:
        """Record a hazard; the same one (kind, barrier, stage, parties) is recorded once."""
        key = (hazard.kind, hazard.barrier, hazard.stage, hazard.cta, hazard.by)
        if key not in self._seen:
            self._seen.add(key)
            self.hazards.append(hazard)

    def run(self, watch: Callable[[], bool] | None = None) -> None:
        """Step until nothing is left to happen, or until ``watch`` says stop (asked each step)."""
        step = self.env.step
        steps = 0
        try:
            if watch is None:
                while True:
                    step()
                    steps += 1
            while not watch():
                step()
                steps += 1
        except EmptySchedule:
            pass
        finally:
            self.events += steps
