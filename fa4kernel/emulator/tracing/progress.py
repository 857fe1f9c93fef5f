"""Tells how far a run is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from fa4kernel.emulator.machine.convoy import Convoy

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

#: Told: CTAs that have ended, CTAs of the grid, warp instructions executed.
Report = Callable[[int, int, int], object]
#: Seconds between two reports, and steps between two looks at the clock.
PAUSE, STEPS = 0.1, 64


class Progress:
    """A watcher that reports a few times a second.

    Args:
        report: is told how far the run is.
        ctas: CTAs of the grid.
        threads: threads of each.
    """

    def __init__(self, report: Report, ctas: int, threads: int) -> None:
        self._report = report
        self._ctas = ctas
        self._threads = threads
        self._ended = 0
        self._executed = 0
        self._steps = 0
        self._last = 0.0

    def attach(self, machine: Machine) -> None:
        """Look at a machine that is about to run."""
        self._machine = machine

    def finish(self) -> None:
        """The machine has ended."""
        self._executed += self._machine.executed
        self._tell(0)

    def begin(self, pc: int, convoy: Convoy) -> None:
        """A step."""
        self._steps += 1
        if self._steps % STEPS == 0 and time.monotonic() - self._last > PAUSE:
            self._tell(self._machine.executed)

    def ended(self, convoy: Convoy) -> None:
        """Threads have ended."""
        self._ended += convoy.count

    def _tell(self, now: int) -> None:
        self._last = time.monotonic()
        self._report(self._ended // self._threads, self._ctas, self._executed + now)
