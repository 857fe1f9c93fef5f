"""Which mbarrier an operand means: its own CTA's, or another's of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.errors import EmulationError
from fa4kernel.emulator.machine.layout import RANK_SHIFT, SHARED_WINDOW
from fa4kernel.emulator.machine.program import Context
from fa4kernel.emulator.ptx.module import Instruction

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

SPACES = ("shared", "shared::cta", "shared::cluster")
#: Qualifiers that say what an operation orders, and for whom.
ORDER = ("release", "acquire", "relaxed", "cta", "cluster")
OFFSET = (1 << RANK_SHIFT) - 1


class BarrierAddress:
    """Which barrier each lane means."""

    def __init__(
        self, instruction: Instruction, context: Context, operand: int, own: bool = False
    ) -> None:
        spaces = [q for q in instruction.qualifiers if q in SPACES]
        self.generic = not spaces
        self.remote = not own and (self.generic or "shared::cluster" in spaces)
        self.instruction = instruction
        self.address = context.value(instruction.operands[operand], 2 if self.generic else 1)

    def __call__(
        self, machine: Machine, lanes: NDArray[np.intp], picked: Any = None
    ) -> NDArray[np.intp]:
        """Indices into the machine's barriers.

        Args:
            lanes: whose barriers.
            picked: the same as a slice, if there is one.
        """
        if len(lanes) == 1:
            lane = int(lanes[0])
            address = self.address.one(machine.registers, lane)
            if self.generic and address >> 32 != SHARED_WINDOW:
                self._elsewhere(address)
            address &= 0xFFFFFFFF
            index = one_barrier(machine, lane, address, self.instruction, not self.remote)
            return np.array([index])
        addresses = self.address(machine.registers, lanes if picked is None else picked)
        if self.generic:
            elsewhere = addresses >> 32 != SHARED_WINDOW
            if np.count_nonzero(elsewhere):
                self._elsewhere(int(addresses[elsewhere][0]))
        addresses &= 0xFFFFFFFF
        return barrier_index(machine, lanes, addresses, self.instruction, not self.remote)

    def _elsewhere(self, address: int) -> None:
        raise EmulationError(
            f"mbarrier at generic address {address:#x}, which is not in shared memory",
            self.instruction, "out-of-bounds",
        )  # fmt: skip


def barrier_index(
    machine: Machine,
    lanes: NDArray[np.intp],
    addresses: NDArray[np.int64],
    instruction: Instruction,
    own: bool,
) -> NDArray[np.intp]:
    """Indices of the barriers at shared addresses, as the lanes see them."""
    ctas = machine.cta_of_lane[lanes]
    first = int(addresses[0])
    if (  # one offset for all, without clusters
        machine.shape.size == 1
        and not first & 7
        and first < 8 * machine.barriers.slots
        and not np.count_nonzero(addresses != first)
    ):
        found: NDArray[np.intp] = ctas * machine.barriers.slots + (first >> 3)
        return found
    ranks, offsets = addresses >> RANK_SHIFT, addresses & OFFSET
    wrong = ranks >= machine.shape.size
    if own:
        wrong |= ranks != machine.rank_of(ctas)
    if np.count_nonzero(wrong):
        raise EmulationError(
            f"mbarrier at {int(addresses[wrong][0]):#x}, which is in the window of CTA rank"
            f" {int(ranks[wrong][0])}: this instruction reaches only its own CTA's",
            instruction, "out-of-bounds",
        )  # fmt: skip
    return machine.barriers.at(machine.cta_at(ctas, ranks), offsets, instruction)


def one_barrier(
    machine: Machine, lane: int, address: int, instruction: Instruction, own: bool
) -> int:
    """Index of the barrier at a shared address, as one lane sees it."""
    cta = lane // 32 % machine.shape.ctas
    rank, offset = address >> RANK_SHIFT, address & OFFSET
    fine = not offset & 7 and offset < 8 * machine.barriers.slots and rank < machine.shape.size
    if not fine or (own and rank != machine.rank_of(cta)):
        barrier_index(machine, np.array([lane]), np.array([address]), instruction, own)
    return int(machine.cta_at(cta, rank)) * machine.barriers.slots + (offset >> 3)
