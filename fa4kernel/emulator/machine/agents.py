"""What runs beside the threads: copies and MMAs under way, and when they complete."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from fa4kernel.emulator.machine.bulk import BulkCopies
from fa4kernel.emulator.machine.copies import AsyncCopies
from fa4kernel.emulator.machine.tensor_core import TensorCores
from fa4kernel.emulator.machine.warpgroup_mma import WarpgroupMmas

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine
    from fa4kernel.emulator.machine.schedule import Schedule


#: What works beside the threads, in the order in which it gets its turn.
UNITS = ("tma", "tma_store", "cp_async", "tensor", "wgmma")


class Agent(Protocol):
    """Something that works beside the threads."""

    @property
    def busy(self) -> bool:
        """Whether it has something to do."""
        ...


class Agents:
    """All asynchronous agents of a wave.

    Attributes:
        bulk: the TMA units.
        copies: ``cp.async``.
        tensor: the tensor cores, as ``tcgen05`` uses them.
        warpgroups: the same, as ``wgmma`` does.
        all: these.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.bulk = BulkCopies(machine)
        self.copies = AsyncCopies(machine)
        self.tensor = TensorCores(machine)
        self.warpgroups = WarpgroupMmas(machine)
        self.all: list[Agent] = [self.bulk, self.copies, self.tensor, self.warpgroups]
        self._advance: dict[str, Callable[[Schedule], bool]] = dict(
            zip(
                UNITS,
                (self.bulk.advance_loads, self.bulk.advance_stores, self.copies.advance,
                 self.tensor.advance, self.warpgroups.advance),
                strict=True,
            )
        )  # fmt: skip

    @property
    def busy(self) -> bool:
        """Whether something is under way."""
        return any(agent.busy for agent in self.all)

    def advance(self, schedule: Schedule, only: str | None = None) -> bool:
        """Let some of what is under way complete; True if something was.

        Args:
            schedule: says how much, and which unit comes last: when no other has anything to do.
            only: let no other unit work.
        """
        if self.busy:
            self._machine.steps += 1  # so that what completes has a tick of its own
        if only is not None:
            return self._advance[only](schedule)
        moved = False
        for unit, advance in self._advance.items():
            if unit != schedule.last_unit:
                moved |= advance(schedule)
        if schedule.last_unit and not moved:
            moved = self._advance[schedule.last_unit](schedule)
        return moved

    def finish(self) -> None:
        """Complete what is still under way when all threads have ended."""
        from fa4kernel.emulator.machine.schedule import Schedule

        plain = Schedule()
        self.tensor.ending = True
        while self.busy:
            self.advance(plain)
