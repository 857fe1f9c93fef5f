"""``cp.async`` copies under way: small ones, each lane its own (PTX ISA 9.7.9.25.3).

A lane awaits its copies by groups, or lets them signal an mbarrier.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.machine.memory import Memory, aligned
from fa4kernel.emulator.ptx.module import Instruction

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine
    from fa4kernel.emulator.machine.schedule import Schedule

Lanes = NDArray[np.intp]
Numbers = NDArray[np.int64]


@dataclass(slots=True)
class Copy:
    """One ``cp.async`` of the lanes of a convoy, all arrays one entry a lane.

    Attributes:
        serial: counts copies and arrivals in the order they were issued.
        lanes: who issued it.
        groups: which of its groups each lane will have closed it in.
        ctas, offsets: where the bytes go.
        sources: global addresses they come from.
        taken: how many of the ``size`` bytes are copied; the others become zero.
    """

    serial: int
    lanes: Lanes
    groups: Numbers
    ctas: Lanes
    offsets: Numbers
    sources: Numbers
    taken: Numbers
    size: int
    instruction: Instruction
    note: Any = None


@dataclass(slots=True)
class Arrival:
    """Arrivals on barriers, one for each lane when all its earlier copies are complete."""

    serial: int
    lanes: Lanes
    barriers: Lanes
    instruction: Instruction
    note: Any = None


class AsyncCopies:
    """The copies of a wave.

    Attributes:
        copies: those under way, oldest first.
        arrivals: those that wait for copies.
        committed: how many groups each lane has closed.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.copies: list[Copy] = []
        self.arrivals: list[Arrival] = []
        self.committed: Numbers = np.zeros(machine.shape.lanes, np.int64)
        self._serial = 0

    @property
    def busy(self) -> bool:
        """Whether something is under way."""
        return bool(self.copies or self.arrivals)

    def serial(self) -> int:
        """A number larger than all before."""
        self._serial += 1
        return self._serial

    def advance(self, schedule: Schedule) -> bool:
        """Complete some copies, and the arrivals behind them; True if there was anything."""
        if not self.busy:
            return False
        if self.copies:
            chosen = schedule.completes(len(self.copies))
            now, left = self.copies, []
            if chosen is not None:
                now = [c for c, yes in zip(self.copies, chosen, strict=True) if yes]
                left = [c for c, yes in zip(self.copies, chosen, strict=True) if not yes]
            for copy in now:
                self._complete(copy)
            self.copies = left
        self.arrivals = [a for a in map(self._arrive, self.arrivals) if a is not None]
        return True

    def _complete(self, copy: Copy) -> None:
        machine = self.machine
        data = np.zeros((len(copy.lanes), copy.size), np.uint8)
        for taken in np.unique(copy.taken[copy.taken > 0]):
            who = copy.taken == taken
            sources = copy.sources[who]
            data[who, :taken] = read(machine.memory, sources, int(taken), copy.instruction)
        flat = aligned(machine.shared.reshape(-1), f"V{copy.size}")
        at = copy.ctas * (machine.shared.shape[1] // copy.size) + copy.offsets // copy.size
        flat[at] = data.view(f"V{copy.size}")[:, 0]
        if machine.monitor is not None:
            machine.monitor.copy_done(copy)

    def _arrive(self, arrival: Arrival) -> Arrival | None:
        """Arrive for the lanes that can; what is left."""
        late = np.zeros(self.machine.shape.lanes, np.bool_)
        for copy in self.copies:
            if copy.serial < arrival.serial:
                late[copy.lanes] = True
        waits = late[arrival.lanes]
        if waits.all():
            return arrival
        going = Arrival(
            arrival.serial, arrival.lanes[~waits], arrival.barriers[~waits], arrival.instruction,
            arrival.note,
        )  # fmt: skip
        if self.machine.monitor is not None:
            self.machine.monitor.copies_arrived(going)
        self.machine.barriers.apply(going.barriers, arrival.instruction, 1, lanes=going.lanes)
        if not waits.any():
            return None
        arrival.lanes, arrival.barriers = arrival.lanes[waits], arrival.barriers[waits]
        return arrival

    def late(self, lo: int, hi: int, most: int | None) -> NDArray[np.bool_]:
        """Lanes ``lo`` to ``hi`` with more than ``most`` closed groups pending.

        Args:
            lo, hi: range of lanes.
            most: groups; None for lanes with any copy pending, closed in a group or not.
        """
        found = np.zeros(hi - lo, np.bool_)
        for copy in self.copies:
            here = (copy.lanes >= lo) & (copy.lanes < hi)
            if most is not None:
                here &= copy.groups < self.committed[copy.lanes] - most
            found[copy.lanes[here] - lo] = True
        return found


def read(
    memory: Memory, addresses: Numbers, size: int, instruction: Instruction
) -> NDArray[np.uint8]:
    """Bytes at global addresses, shape (lanes, size).

    Raises:
        EmulationError: an address is outside.
    """
    found = memory.region_of(addresses, size, instruction)
    if found is None:
        parts = [read(memory, addresses[i : i + 1], size, instruction)
                 for i in range(len(addresses))]  # fmt: skip
        return np.concatenate(parts)
    region, offsets = found
    block: NDArray[np.uint8] = region.memory[offsets[:, None] + np.arange(size)]
    return block
