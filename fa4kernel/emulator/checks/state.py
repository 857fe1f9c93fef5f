"""What the checks know, in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.checks.accesses import Accesses
from fa4kernel.emulator.checks.barriers import BarrierChecks
from fa4kernel.emulator.checks.clocks import Clocks, Index
from fa4kernel.emulator.checks.copies import CopyChecks
from fa4kernel.emulator.checks.dependence import DependenceChecks
from fa4kernel.emulator.checks.fences import FenceChecks
from fa4kernel.emulator.checks.first_use import first_use
from fa4kernel.emulator.checks.flags import FlagChecks
from fa4kernel.emulator.checks.footprints import (
    COLUMNS,
    GROUPS,
    SHARED_BLOCK,
    TENSOR_BLOCK,
)
from fa4kernel.emulator.checks.global_checks import GlobalChecks, history_of
from fa4kernel.emulator.checks.global_history import GlobalHistory
from fa4kernel.emulator.checks.hazard import KINDS, Hazard, Party, Place
from fa4kernel.emulator.checks.lanes import LaneChecks
from fa4kernel.emulator.checks.lifetime import LifetimeChecks
from fa4kernel.emulator.checks.records import Event, Records
from fa4kernel.emulator.checks.rendezvous import RendezvousChecks
from fa4kernel.emulator.checks.reports import Reports, cta_number, party
from fa4kernel.emulator.checks.series import CopySeries, ProductSeries
from fa4kernel.emulator.checks.shadow import Shadow
from fa4kernel.emulator.checks.strictly import TensorFences
from fa4kernel.emulator.checks.tensor import TensorChecks
from fa4kernel.emulator.checks.transfers import TransferChecks
from fa4kernel.emulator.checks.unset import check_registers
from fa4kernel.emulator.ptx.module import Instruction

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine


class State:
    """All that the checks know of a machine: clocks, memory, barriers, and what is under way.

    Args:
        machine: the wave of clusters to watch.
        reports: where hazards go; several waves may share it.
        strict: whether to tell where only hardware's habits, not the manual, make it right.
        history: what earlier waves did with global memory.
    """

    def __init__(
        self, machine: Machine, reports: Reports, strict: bool = False,
        history: GlobalHistory | None = None,
    ) -> None:  # fmt: skip
        self.machine = machine
        self.reports = reports
        self.strict = strict
        shape = machine.shape
        code = machine.program.context.function.instructions
        barriers = sum(i.opcode == "mbarrier" and i.qualifiers[0] == "init" for i in code)
        self.clocks = Clocks(shape, (2 * barriers + 24) * shape.size)
        self.records = Records()
        self.shared = Shadow("shared", shape.ctas, -(-machine.shared.shape[1] // 4), SHARED_BLOCK)
        self.tensor_memory = Shadow("tensor", shape.ctas, GROUPS * COLUMNS, TENSOR_BLOCK)
        self.accesses = Accesses(machine, self.clocks, self.records, reports, strict)
        self.lanes = LaneChecks(self)
        self.barriers = BarrierChecks(self)
        self.rendezvous = RendezvousChecks(self)
        self.copies = CopyChecks(self)
        self.tensor = TensorChecks(self)
        self.transfers = TransferChecks(self)
        self.first_use = first_use(machine.program)
        self.cp_async = CopySeries(self)
        self.wgmma = ProductSeries(self)
        self.lifetime = LifetimeChecks(self)
        self.flags = FlagChecks(self)
        self.fences = FenceChecks(self)
        self.tensor_fences = TensorFences(self)
        self.dependence = DependenceChecks(self)
        self.global_memory = GlobalChecks(machine, reports, history or history_of(machine))
        #: Who acts right now on a barrier.
        self.acting: tuple[Event, int] | None = None
        if strict:
            check_registers(machine.program, reports)

    # --- helpers ---------------------------------------------------------------------------

    def event(self, instruction: Instruction, slots: Index, agent: str = "") -> Event:
        """What happens now."""
        return Event(instruction, self.machine.steps, slots, agent)

    def current(self) -> Party:
        """Who acts right now on a barrier."""
        assert self.acting is not None
        return party(self.machine, *self.acting)

    def tell(self, kind: str, event: Event, which: int) -> None:
        """Report something that has one party and no place."""
        self.reports.add(kind, KINDS[kind][1], None, party(self.machine, event, which), None)

    def live(
        self, ctas: Index, offsets: NDArray[np.int64], size: int, event: Event,
        slots: Index | None = None,
    ) -> None:  # fmt: skip
        """Report accesses to the memory of live barriers.

        Args:
            ctas, offsets, size: of each access.
            event: whose.
            slots: the warp of each, if the event's are not one for each access.
        """
        found = self.barriers.live(ctas, offsets, size)
        if found is None:
            return
        i = int(np.flatnonzero(found)[0])
        which = i if slots is None else int(np.flatnonzero(event.slots == slots[i])[0])
        at = int(offsets[i])
        place = Place("shared", cta_number(self.machine, int(ctas[i])), at, at + size - 1)
        second = party(self.machine, event, which)
        self.reports.add("live-barrier", KINDS["live-barrier"][1], None, second, place)

    def close(self) -> None:
        """Let go of everything, as the machine does: this holds the machine, and its parts this."""
        self.__dict__.clear()

    @property
    def hazards(self) -> tuple[Hazard, ...]:
        """What was found so far."""
        return self.reports.hazards
