"""What runs beside the threads: copies and MMAs under way, and when they complete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fa4kernel.emulator.machine.bulk import BulkCopies
from fa4kernel.emulator.machine.copies import AsyncCopies
from fa4kernel.emulator.machine.tensor_core import TensorCores
from fa4kernel.emulator.machine.warpgroup_mma import WarpgroupMmas

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine
    from fa4kernel.emulator.machine.schedule import Schedule


class Agent(Protocol):
    """Something that works beside the threads."""

    @property
    def busy(self) -> bool:
        """Whether it has something to do."""
        ...

    def advance(self, schedule: Schedule) -> bool:
        """Do some of it; True if there was anything."""
        ...


class Agents:
    """All asynchronous agents of a wave.

    Attributes:
        bulk: the TMA units.
        copies: ``cp.async``.
        tensor: the tensor cores, as ``tcgen05`` uses them.
        warpgroups: the same, as ``wgmma`` does.
        all: these, in the order in which they get their turn.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.bulk = BulkCopies(machine)
        self.copies = AsyncCopies(machine)
        self.tensor = TensorCores(machine)
        self.warpgroups = WarpgroupMmas(machine)
        self.all: list[Agent] = [self.bulk, self.copies, self.tensor, self.warpgroups]

    @property
    def busy(self) -> bool:
        """Whether something is under way."""
        return any(agent.busy for agent in self.all)

    def advance(self, schedule: Schedule) -> bool:
        """Let some of what is under way complete; True if something was."""
        if self.busy:
            self._machine.steps += 1  # so that what completes has a tick of its own
        moved = False
        for agent in self.all:
            if agent.busy:
                moved |= agent.advance(schedule)
        return moved

    def finish(self) -> None:
        """Complete what is still under way when all threads have ended."""
        from fa4kernel.emulator.machine.schedule import Schedule

        plain = Schedule()
        self.tensor.ending = True
        while self.busy:
            self.advance(plain)
