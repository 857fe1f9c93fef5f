"""The clock and the record of one detailed simulation.

Invariant: simulated time is ``env.now + skipped``. A steady pipeline is fast-forwarded by adding
to ``skipped`` and to the roles' own counters; nothing in SimPy's queue moves.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from operator import attrgetter
from typing import TYPE_CHECKING

import simpy
from simpy.core import BoundClass, EmptySchedule
from simpy.events import NORMAL, Event

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


class Delay(Event):
    """What ``clock.timeout(cycles)`` gives: SimPy's Timeout without its checks.

    Almost every event of a run is one of these, so it is put into the queue directly.
    """

    _value = None
    _ok = True

    def __init__(self, clock: Clock, cycles: int) -> None:
        self.env = clock
        self.callbacks = []
        heappush(clock._queue, (clock._now + cycles, NORMAL, next(clock._eid), self))


class Clock(simpy.Environment):
    """SimPy's environment with whole cycles as its time.

    ``cycle`` is the current time: an int, because every delay is one. ``timeout(cycles)`` gives an
    event so many cycles from now. Neither costs a call of a function in Python.
    """

    if TYPE_CHECKING:
        cycle: int

        def timeout(self, delay: int) -> Delay:  # type: ignore[override]
            """An event ``delay`` cycles from now."""

    else:
        cycle = property(attrgetter("_now"))
        timeout = BoundClass(Delay)


class Core:
    """What every part of a detailed simulation shares: clock, trace, hazards, steps taken."""

    def __init__(self, trace: Trace | None = None) -> None:
        self.env = Clock()
        self.trace = Trace() if trace is None else trace
        self.skipped = 0
        self.events = 0
        self.hazards: list[Hazard] = []
        #: If a list: every barrier operation as (warp, what, barrier, stage), in program order.
        self.log: list[tuple[str, str, str, int]] | None = None
        self._seen: set[tuple[object, ...]] = set()

    @property
    def now(self) -> int:
        """Simulated time in cycles, skipped periods included."""
        return self.env.cycle + self.skipped

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
