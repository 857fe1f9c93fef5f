"""Waiting for a phase of an mbarrier: ``try_wait`` and ``test_wait`` (PTX ISA 9.7.13.15.16)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.machine.barrier_address import ORDER, SPACES, BarrierAddress
from fa4kernel.emulator.machine.convoy import Convoy, Mask
from fa4kernel.emulator.machine.loads import spread
from fa4kernel.emulator.machine.operands import Value
from fa4kernel.emulator.machine.patience import Pause
from fa4kernel.emulator.machine.program import (
    Condition,
    Context,
    Handler,
    Outcome,
    Wait,
    allow,
    unsupported,
)
from fa4kernel.emulator.ptx.module import Instruction, Pair, Sink

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

POLLS = "nothing: it polls an mbarrier that has not completed the phase"


class PhaseDone(Condition):
    """Lanes wait until a barrier completes a phase.

    ``parity`` is that of the phase; with ``token``, the number of the phase itself.
    """

    def __init__(
        self,
        instruction: Instruction,
        index: NDArray[np.intp],
        lanes: NDArray[np.intp],
        parity: NDArray[np.int64],
        token: bool,
        target: Any = None,
    ) -> None:
        self.target = target
        self.instruction = instruction
        self.index = index
        self.lanes = lanes
        self.parity = parity
        self.token = token

    def version(self, machine: Machine) -> int:
        """Changes of any mbarrier."""
        return machine.barriers.changes

    def passed(self, machine: Machine, at: Any = slice(None)) -> NDArray[np.bool_]:
        """For each lane whether the phase has completed."""
        phase: NDArray[np.int32] = machine.barriers.phase[self.index[at]]
        parity: NDArray[np.int64] = self.parity[at]
        if self.token:
            later: NDArray[np.bool_] = phase > parity
            return later
        return ((phase ^ parity) & 1).astype(np.bool_)

    def ready(self, machine: Machine, convoy: Convoy) -> Mask:
        """Those whose phase has completed."""
        lanes = convoy.lanes()
        at = slice(None) if len(lanes) == len(self.lanes) else np.searchsorted(self.lanes, lanes)
        passed = self.passed(machine, at)
        if convoy.mask is None:
            return passed
        found = np.zeros(convoy.hi - convoy.lo, np.bool_)
        found[convoy.mask] = passed
        return found

    def expire(self, machine: Machine, convoy: Convoy) -> bool:
        """The wait times out: its result is false."""
        spread(machine, convoy, self.target, "pred", np.zeros(convoy.count, np.bool_))
        return True

    def describe(self, machine: Machine, convoy: Convoy) -> list[str]:
        """Barrier, phase, arrivals and bytes."""
        barriers = machine.barriers
        found = []
        for leader in convoy.warps()[1]:
            at = int(np.searchsorted(self.lanes, leader))
            i = int(self.index[at])
            cta, offset = barriers.place(i)
            expected, pending = int(barriers.expected[i]), int(barriers.pending[i])
            found.append(
                f"mbarrier {machine.barrier_name(i)} at shared offset {offset:#x} of CTA {cta}: "
                f"waits for phase parity {int(self.parity[at]) & 1} to complete, the barrier is in "
                f"phase {int(barriers.phase[i])} with {expected - pending} of {expected} arrivals "
                f"and {int(barriers.bytes[i])} bytes outstanding"
            )
        return found


def decode_wait(instruction: Instruction, context: Context) -> Handler:
    """``mbarrier.try_wait``, which waits, and ``test_wait``, which does not."""
    name = instruction.qualifiers[0]
    allow(instruction, name, "parity", "b64", *ORDER, *SPACES)
    target = instruction.operands[0]
    if isinstance(target, Pair | Sink):
        raise unsupported(instruction)
    address = BarrierAddress(instruction, context, 1, own=True)
    if "shared::cluster" in instruction.qualifiers:
        raise unsupported(instruction, "a CTA cannot wait on another's mbarrier")
    parity: Value = context.value(instruction.operands[2], 1)
    token = "parity" not in instruction.qualifiers
    blocks = name == "try_wait"
    if len(instruction.operands) > (4 if blocks else 3):
        raise unsupported(instruction, f"{len(instruction.operands)} operands")

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        lanes, picked = convoy.lanes(), convoy.picked()
        index = address(machine, lanes, picked)
        machine.barriers.check(index, instruction)
        wanted = parity(machine.registers, picked)
        condition = PhaseDone(instruction, index, lanes, wanted, token, target)
        passed = condition.passed(machine)
        if machine.monitor is not None:
            machine.monitor.poll(convoy, lanes, index, wanted, passed, instruction)
        count = np.count_nonzero(passed)
        if count == len(passed):
            view = machine.registers.predicate(target, convoy.lo, convoy.hi)
            np.copyto(view, True, where=True if convoy.mask is None else convoy.mask)
            return None
        if not blocks:
            spread(machine, convoy, target, "pred", passed)
        waiting = ~passed
        if convoy.mask is not None:
            waiting = np.zeros(convoy.hi - convoy.lo, np.bool_)
            waiting[convoy.mask] = ~passed
        if not blocks:
            return Wait(waiting, Pause(POLLS, condition))
        if count:
            part = convoy.part(~waiting)
            assert part is not None
            spread(machine, part, target, "pred", np.ones(part.count, np.bool_))
        return Wait(waiting, condition, again=True)

    return handler
