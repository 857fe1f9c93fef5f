"""What happens when nobody can go on: waits that may time out do, until nothing changes.

``mbarrier.try_wait`` may return false, and a warp that polls or sleeps goes on by itself. Such
warps stand aside while others can work, since going on would only spin. When nobody else can, they
go on; it is a deadlock when that leads to the same state again and again.
"""

from __future__ import annotations

import zlib
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from fa4kernel.emulator.machine.convoy import Convoy, Mask
from fa4kernel.emulator.machine.program import Condition

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

#: How often one state may come back, and how many rounds may pass with no barrier completed.
MOST_SAME, MOST_ROUNDS = 3, 1000
#: Jumps backwards after which a convoy stands aside, in case it spins on memory.
MOST_TURNS = 1024


class Pause(Condition):
    """Lanes that could go on, but stand aside until nobody else can.

    ``polled`` is what they ask for again and again, if they do.
    """

    def __init__(self, why: str, polled: Condition | None = None) -> None:
        self.why = why
        self.polled = polled

    def ready(self, machine: Machine, convoy: Convoy) -> Mask:
        """All of them, when the schedule is impatient."""
        return np.full(convoy.hi - convoy.lo, machine.schedule.impatient())

    def expire(self, machine: Machine, convoy: Convoy) -> bool:
        """They go on."""
        return True

    def describe(self, machine: Machine, convoy: Convoy) -> list[str]:
        """Why they stood aside."""
        return [self.why] * len(convoy.warps()[0])


class Patience:
    """Rounds of time-outs, and the states at their beginning."""

    def __init__(self) -> None:
        self._seen: Counter[int] = Counter()
        self._rounds = 0
        self._phases = -1

    def ends(self, machine: Machine) -> bool:
        """Whether another round would be in vain."""
        phases = int(machine.barriers.phase.sum())
        if phases != self._phases:
            self._phases, self._rounds = phases, 0
            self._seen.clear()
        state = fingerprint(machine)
        self._seen[state] += 1
        self._rounds += 1
        return self._seen[state] > MOST_SAME or self._rounds > MOST_ROUNDS


def fingerprint(machine: Machine) -> int:
    """A number for the state of the threads and what they share, all but sure to tell two apart."""
    barriers, registers = machine.barriers, machine.registers
    found = 0
    for array in (registers.words, registers.predicates, machine.shared, barriers.pending,
                  barriers.bytes):  # fmt: skip
        found = zlib.crc32(np.ascontiguousarray(array).data, found)
    places = sorted((each.convoy.pc, each.convoy.lo, each.convoy.hi) for each in machine.blocked)
    return zlib.crc32(repr(places).encode(), found)
