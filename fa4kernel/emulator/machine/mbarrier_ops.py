"""The ``mbarrier`` instructions (PTX ISA 9.7.13.15); for those that wait see ``phase_waits``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.errors import EmulationError
from fa4kernel.emulator.machine.barrier_address import ORDER, SPACES, BarrierAddress
from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.machine.loads import spread
from fa4kernel.emulator.machine.mbarriers import LARGEST_COUNT
from fa4kernel.emulator.machine.phase_waits import decode_wait
from fa4kernel.emulator.machine.program import (
    Context,
    Handler,
    Outcome,
    allow,
    decodes,
    unsupported,
)
from fa4kernel.emulator.ptx.module import Address, Instruction, Register

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine


@decodes("mbarrier")
def decode_mbarrier(instruction: Instruction, context: Context) -> Handler:
    """``mbarrier`` and what follows it."""
    name = instruction.qualifiers[0]
    decoder = {
        "init": _init,
        "inval": _inval,
        "arrive": _arrive,
        "arrive_drop": _arrive,
        "expect_tx": _bytes,
        "complete_tx": _bytes,
        "try_wait": decode_wait,
        "test_wait": decode_wait,
        "pending_count": _pending_count,
    }.get(name)
    if decoder is None:
        raise unsupported(instruction)
    return decoder(instruction, context)


def _init(instruction: Instruction, context: Context) -> Handler:
    allow(instruction, "init", "b64", *SPACES[:2])
    address = BarrierAddress(instruction, context, 0, own=True)
    count = context.value(instruction.operands[1])

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        lanes = convoy.lanes()
        index = address(machine, lanes)
        if machine.monitor is not None:
            machine.monitor.barrier_init(convoy, lanes, index, instruction)
        machine.barriers.init(index, count(machine.registers, lanes), instruction)
        return None

    return handler


def _inval(instruction: Instruction, context: Context) -> Handler:
    allow(instruction, "inval", "b64", *SPACES[:2])
    address = BarrierAddress(instruction, context, 0, own=True)

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        index = address(machine, convoy.lanes())
        machine.barriers.check(index, instruction)
        if machine.monitor is not None:
            machine.monitor.barrier_inval(convoy, index, instruction)
        machine.barriers.invalidate(index)
        return None

    return handler


def _arrive(instruction: Instruction, context: Context) -> Handler:
    name = instruction.qualifiers[0]
    allow(instruction, name, "expect_tx", "noComplete", "b64", *ORDER, *SPACES)
    operands = list(instruction.operands)
    state = None if isinstance(operands[0], Address) else operands.pop(0)
    first = len(instruction.operands) - len(operands)
    address = BarrierAddress(instruction, context, first)
    more = context.value(operands[1]) if len(operands) > 1 else None
    kept = isinstance(state, Register) and context.is_read(state)
    fixed = None if more is None else more.constant
    if fixed is not None and not 0 <= fixed <= LARGEST_COUNT:
        fixed = None
    expects = "expect_tx" in instruction.qualifiers
    drops = name == "arrive_drop"
    partial = "noComplete" in instruction.qualifiers
    if partial and (expects or more is None or "shared::cluster" in instruction.qualifiers):
        raise unsupported(instruction, ".noComplete takes a count, on a barrier of the own CTA")
    if expects and more is None:
        raise unsupported(instruction, "without the bytes to expect")
    if isinstance(state, Register) and "shared::cluster" in instruction.qualifiers:
        raise unsupported(instruction, "the state of a barrier in shared::cluster")

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        lanes, picked = convoy.lanes(), convoy.picked()
        index = address(machine, lanes, picked)
        barriers = machine.barriers
        value: Any = None
        if more is not None:
            value = fixed if fixed is not None else more(machine.registers, picked)
        count = 1 if value is None or expects else value
        expect = value if expects and value is not None else 0
        if isinstance(state, Register):
            barriers.check(index, instruction)
            if address.remote:
                _own(machine, lanes, index, instruction)
        if kept:
            phase = barriers.phase[index].astype(np.uint64)
            token = phase | barriers.pending[index].astype(np.uint64) << np.uint64(32)
            spread(machine, convoy, state, "u64", token)
        if machine.monitor is not None:
            machine.monitor.arrive(convoy, lanes, index, count, expect, instruction)
        if partial and (_total(index, count) >= barriers.pending[index]).any():
            raise EmulationError(
                "an arrival with .noComplete completes the phase of its mbarrier",
                instruction, "no-complete",
            )  # fmt: skip
        if drops:
            np.subtract.at(barriers.expected, index, np.asarray(count, np.int32))
            if (barriers.expected[index] < 0).any():
                raise EmulationError(
                    "arrive_drop takes more arrivals than the mbarrier expects",
                    instruction, "arrival-underflow",
                )  # fmt: skip
        barriers.apply(index, instruction, count, expect, lanes=lanes)
        return None

    return handler


def _total(index: NDArray[np.intp], count: Any) -> NDArray[np.int64]:
    """For each entry the arrivals of all entries on its barrier."""
    each, which = np.unique(index, return_inverse=True)
    totals = np.zeros(len(each), np.int64)
    np.add.at(totals, which, count)
    found: NDArray[np.int64] = totals[which]
    return found


def _own(
    machine: Machine, lanes: NDArray[np.intp], index: NDArray[np.intp], instruction: Instruction
) -> None:
    """Raise if one of the barriers is another CTA's."""
    if (index // machine.barriers.slots != lanes // 32 % machine.shape.ctas).any():
        raise EmulationError(
            "this instruction reaches only an mbarrier of its own CTA", instruction, "out-of-bounds"
        )


def _pending_count(instruction: Instruction, context: Context) -> Handler:
    allow(instruction, "pending_count", "b64")
    target, state = instruction.operands
    token = context.value(state, 2)

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        counts = token(machine.registers, convoy.lanes()) >> 32 & 0xFFFFFFFF
        spread(machine, convoy, target, "u32", counts.astype(np.uint32))
        return None

    return handler


def _bytes(instruction: Instruction, context: Context) -> Handler:
    name = instruction.qualifiers[0]
    allow(instruction, name, "b64", *ORDER, *SPACES)
    address = BarrierAddress(instruction, context, 0)
    amount = context.value(instruction.operands[1])

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        lanes = convoy.lanes()
        index = address(machine, lanes)
        value = amount(machine.registers, lanes)
        if machine.monitor is not None:
            machine.monitor.arrive(convoy, lanes, index, 0, value, instruction)
        if name == "expect_tx":
            machine.barriers.apply(index, instruction, 0, value, lanes=lanes)
        else:
            machine.barriers.apply(index, instruction, 0, 0, value, lanes=lanes)
        return None

    return handler
