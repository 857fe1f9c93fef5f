"""What all parts of a recorder share: the events, their limit, and the chosen warps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.tracing.events import WARPS, ArrivalEvent, Step, UnitEvent, WaitEvent
from fa4kernel.emulator.tracing.selection import Selection

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

#: Events after which no more are taken, so that a trace stays below a gigabyte.
MOST_EVENTS = 2_000_000


class Log:
    """Steps, waits, arrivals and the work of asynchronous units.

    Args:
        selection: CTAs to look at.
        most: events to remember.

    Attributes:
        truncated: the tick at which memory was full; None if it never was.
    """

    def __init__(self, selection: Selection, most: int = MOST_EVENTS) -> None:
        self.selection = selection
        self.most = most
        self.steps: list[Step] = []
        self.waits: list[WaitEvent] = []
        self.arrivals: list[ArrivalEvent] = []
        self.units: list[UnitEvent] = []
        self.truncated: int | None = None
        self._before = 0
        self._taken = 0
        self._waiting: dict[int, WaitEvent] = {}
        self._waited: dict[int, WaitEvent] = {}
        self._at_work: dict[int, tuple[Any, UnitEvent]] = {}
        self._products: dict[int, UnitEvent] = {}

    def attach(self, machine: Machine) -> None:
        """Look at a machine that is about to run; earlier ones have ended."""
        self.machine = machine
        shape = machine.shape
        slots = np.arange(shape.warps * shape.ctas)
        numbers = np.array([machine.cta_number(cta) for cta in range(shape.ctas)])
        self._keys: NDArray[np.int64] = numbers[slots % shape.ctas] * WARPS + slots // shape.ctas
        mine = np.array([number in self.selection for number in numbers.tolist()])
        self._chosen: NDArray[np.bool_] = mine[slots % shape.ctas]
        machine.tracer = machine.barriers.tracer = self

    def finish(self) -> None:
        """The machine has ended."""
        self._before += self.machine.steps
        self._waiting.clear()
        self._waited.clear()
        self._at_work.clear()
        self._products.clear()

    @property
    def now(self) -> int:
        """The tick of the step that the machine is at."""
        return self._before + self.machine.steps

    def _room(self, count: int = 1) -> bool:
        self._taken += count
        if self._taken > self.most and self.truncated is None:
            self.truncated = self.now
        return self.truncated is None

    def _cta(self, cta: int) -> int:
        return int(self._keys[cta]) // WARPS
