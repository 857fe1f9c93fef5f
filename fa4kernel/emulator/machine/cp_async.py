"""The ``cp.async`` instructions that are not bulk (PTX ISA 9.7.9.25.3, 9.7.13.15.15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.errors import EmulationError
from fa4kernel.emulator.machine.barrier_address import BarrierAddress
from fa4kernel.emulator.machine.convoy import Convoy, Mask
from fa4kernel.emulator.machine.copies import Arrival, Copy
from fa4kernel.emulator.machine.memory import check_aligned
from fa4kernel.emulator.machine.places import shared_places
from fa4kernel.emulator.machine.program import (
    Condition,
    Context,
    Handler,
    Outcome,
    Wait,
    allow,
    unsupported,
)
from fa4kernel.emulator.ptx.module import Instruction, Not, Operand, Register

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

PREFETCH = ("L2::64B", "L2::128B", "L2::256B")


def decode_cp_async(instruction: Instruction, context: Context) -> Handler:
    """``cp.async`` and what follows it, bulk copies apart."""
    qualifiers = instruction.qualifiers
    if qualifiers[0] != "async":
        raise unsupported(instruction)
    if "commit_group" in qualifiers:
        allow(instruction, "async", "commit_group")
        return _commit
    if "wait_group" in qualifiers or "wait_all" in qualifiers:
        return _wait(instruction, context)
    if "mbarrier" in qualifiers:
        return _arrive(instruction, context)
    return _copy(instruction, context)


def _copy(instruction: Instruction, context: Context) -> Handler:
    hint = "L2::cache_hint"
    allow(instruction, "async", "ca", "cg", "shared", "shared::cta", "global", hint, *PREFETCH)
    to, source, size_operand, *more = instruction.operands
    if hint in instruction.qualifiers:
        more.pop()
    target, origin = context.value(to), context.value(source, 2)
    size = context.value(size_operand).constant
    if size not in (4, 8, 16) or ("cg" in instruction.qualifiers and size != 16):
        raise unsupported(instruction, f"{size} bytes")
    if len(more) > 1:
        raise unsupported(instruction)
    amount = Amount(instruction, context, size, more[0] if more else None)

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        lanes = convoy.lanes()
        addresses = target(machine.registers, lanes) & 0xFFFFFFFF
        ctas, offsets = shared_places(machine, lanes, addresses, size, instruction, True)
        sources, taken = origin(machine.registers, lanes), amount(machine, convoy)
        wanted = sources[taken > 0]
        if len(wanted):
            check_aligned(wanted, size, instruction)
            machine.memory.region_of(wanted, 1, instruction)
        copies = machine.agents.copies
        copy = Copy(
            copies.serial(), lanes, copies.committed[lanes], ctas, offsets, sources, taken, size,
            instruction,
        )  # fmt: skip
        if machine.monitor is not None:
            machine.monitor.copy_issued(convoy, copy)
        copies.copies.append(copy)
        return None

    return handler


class Amount:
    """How many bytes of its source each lane's copy takes."""

    def __init__(
        self, instruction: Instruction, context: Context, size: int, operand: Operand | None
    ) -> None:
        self.instruction = instruction
        self.size = size
        self.ignore: Register | None = None
        self.negated = isinstance(operand, Not)
        register = operand.register if isinstance(operand, Not) else operand
        if isinstance(register, Register) and register.type == "pred":
            self.ignore = register
        self.value = None if operand is None or self.ignore else context.value(operand)

    def __call__(self, machine: Machine, convoy: Convoy) -> NDArray[np.int64]:
        """Bytes for each lane of the convoy."""
        if self.ignore is not None:
            ignored = machine.registers.predicate(self.ignore, convoy.lo, convoy.hi)
            if convoy.mask is not None:
                ignored = ignored[convoy.mask]
            return np.where(ignored != self.negated, 0, self.size)
        if self.value is None:
            return np.full(convoy.count, self.size)
        taken = self.value(machine.registers, convoy.lanes()) & 0xFFFFFFFF
        if (taken > self.size).any():
            raise EmulationError(
                f"cp.async takes {int(taken.max())} bytes of its source into {self.size}",
                self.instruction, "copy-size",
            )  # fmt: skip
        return taken


def _commit(machine: Machine, convoy: Convoy) -> Outcome:
    machine.agents.copies.committed[convoy.lanes()] += 1
    return None


class CopiesDone(Condition):
    """Lanes wait until at most ``most`` of their groups are pending (None: no copy at all)."""

    def __init__(self, most: int | None) -> None:
        self.most = most

    def ready(self, machine: Machine, convoy: Convoy) -> Mask:
        """Lanes with few enough pending groups."""
        return ~machine.agents.copies.late(convoy.lo, convoy.hi, self.most)

    def describe(self, machine: Machine, convoy: Convoy) -> list[str]:
        """What is waited for."""
        what = "all" if self.most is None else f"all but the newest {self.most} groups of"
        return [f"{what} its cp.async copies"] * len(convoy.warps()[0])


def _wait(instruction: Instruction, context: Context) -> Handler:
    most: int | None = None
    if "wait_group" in instruction.qualifiers:
        allow(instruction, "async", "wait_group")
        most = context.value(instruction.operands[0]).constant
        if most is None:
            raise unsupported(instruction, "the number of groups must be a constant")
    else:
        allow(instruction, "async", "wait_all")
    condition = CopiesDone(most)

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        waiting = ~condition.ready(machine, convoy) & convoy.full_mask()
        if waiting.any():
            return Wait(waiting, condition, again=True, others_again=True)
        if machine.monitor is not None:
            machine.monitor.copies_waited(convoy, most, instruction)
        return None

    return handler


def _arrive(instruction: Instruction, context: Context) -> Handler:
    allow(instruction, "async", "mbarrier", "arrive", "noinc", "shared", "shared::cta", "b64")
    address = BarrierAddress(instruction, context, 0, own=True)
    counted_before = "noinc" in instruction.qualifiers

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        lanes = convoy.lanes()
        index = address(machine, lanes)
        machine.barriers.check(index, instruction)
        if not counted_before:
            np.add.at(machine.barriers.pending, index, np.int32(1))
        copies = machine.agents.copies
        arrival = Arrival(copies.serial(), lanes, index, instruction)
        if machine.monitor is not None:
            machine.monitor.copies_arrive(convoy, arrival)
        copies.arrivals.append(arrival)
        return None

    return handler
