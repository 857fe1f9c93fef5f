"""Memory that the kernel before may still write: programmatic dependent launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.checks.actors import warps_of
from fa4kernel.emulator.checks.clocks import LONE, WHOLE, Index
from fa4kernel.emulator.checks.hazard import KINDS, Place
from fa4kernel.emulator.checks.reports import party
from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.machine.memory import ARGUMENT
from fa4kernel.emulator.ptx.module import Instruction
from fa4kernel.emulator.tensor.tensor_map import TensorMap

if TYPE_CHECKING:
    from fa4kernel.emulator.checks.state import State
    from fa4kernel.emulator.machine.bulk import Load


class DependenceChecks:
    """Who touches an argument of :attr:`Launch.pending` must have waited for the kernel before.

    That a wait is over is a component of the clocks: barriers hand it on, as anything else.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        launch, memory = state.machine.launch, state.machine.memory
        names = {f"{ARGUMENT}{number}" for number in launch.pending}
        self.regions = [region for region in memory.regions if region.name in names]
        given = [launch.arguments[number] for number in launch.pending]
        self.memory = [region.memory for region in self.regions]
        self.memory += [each.memory for each in given if isinstance(each, TensorMap)]
        self.over = state.clocks.components((False,)) if launch.pending else 0

    def waited(self, convoy: Convoy) -> None:
        """``griddepcontrol.wait``."""
        if self.memory:
            warps, known = warps_of(self.state.machine, convoy), self.state.clocks.known
            whole = np.broadcast_to(warps.part == WHOLE, len(warps.slots))
            known[LONE, warps.slots, self.over] = 1
            known[WHOLE, warps.slots[whole], self.over] = 1

    def accessed(
        self, lanes: Index, addresses: NDArray[np.int64], size: int, instruction: Instruction,
        agent: str = "",
    ) -> None:  # fmt: skip
        """Lanes access global memory, or have it copied."""
        for region in self.regions:
            there = (addresses < region.end) & (addresses + size > region.start)
            if there.any():
                slots = lanes[there] // 32
                at = addresses[there] - region.start
                self._check(slots, at, size, region.name, instruction, agent)

    def copied(
        self, lane: int, memory: NDArray[np.uint8] | None, instruction: Instruction, agent: str
    ) -> None:
        """A lane starts a bulk copy from or to this memory."""
        if memory is not None and any(np.may_share_memory(memory, each) for each in self.memory):
            slots, at = np.array([lane // 32]), np.zeros(1, np.int64)
            self._check(slots, at, 1, "an argument", instruction, agent)

    def _check(
        self, slots: Index, at: NDArray[np.int64], size: int, name: str, instruction: Instruction,
        agent: str,
    ) -> None:  # fmt: skip
        early = np.flatnonzero(self.state.clocks.known[LONE, slots, self.over] == 0)
        if len(early):
            event = self.state.event(instruction, slots[early], agent)
            first = int(at[early[0]])
            self.state.reports.add(
                "dependent-launch", KINDS["dependent-launch"][1], None,
                party(self.state.machine, event, 0),
                Place("global", -1, first, first + size - 1, name), len(early),
            )  # fmt: skip


def memory_of(load: Load) -> NDArray[np.uint8] | None:
    """What a bulk copy reads, if that is memory of an argument."""
    if load.tensor_map is not None:
        return load.tensor_map.memory
    return load.source if isinstance(load.source, np.ndarray) else None
