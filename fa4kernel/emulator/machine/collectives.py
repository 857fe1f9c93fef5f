"""Instructions of a whole warp: shuffles, votes, reductions, ``elect``, ``bar.warp.sync``.

A warp that has diverged waits at them until all lanes that the member mask names have come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fa4kernel.emulator.isa.semantics import Semantics, flatten
from fa4kernel.emulator.machine.binding import bind
from fa4kernel.emulator.machine.convoy import Convoy, Mask
from fa4kernel.emulator.machine.operands import Value
from fa4kernel.emulator.machine.program import (
    Condition,
    Context,
    Handler,
    Outcome,
    Wait,
)
from fa4kernel.emulator.ptx.module import Instruction, Register

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

#: Those whose last operand names the lanes that take part.
WITH_MEMBERS = ("shfl", "vote", "match", "redux", "elect")


class Together(Condition):
    """Lanes of one warp wait until the others stand at the same instruction.

    The scheduler joins convoys that meet; nothing else can make them ready.
    """

    def ready(self, machine: Machine, convoy: Convoy) -> Mask:
        """Those whose warp is complete."""
        return ~incomplete(machine, convoy)

    def describe(self, machine: Machine, convoy: Convoy) -> list[str]:
        """Which lanes are missing."""
        slots, _ = convoy.warps()
        masks = convoy.full_mask().reshape(-1, 32)
        return [
            "the lanes "
            + ", ".join(map(str, np.nonzero(~masks[s - convoy.lo // 32])[0]))
            + " of its own warp, at an instruction of the whole warp"
            for s in slots
        ]


def incomplete(machine: Machine, convoy: Convoy) -> Mask:
    """Lanes of warps of which a lane that has not ended is missing."""
    if convoy.mask is None:
        return np.zeros(convoy.hi - convoy.lo, np.bool_)
    here = convoy.mask.reshape(-1, 32)
    alive = machine.alive[convoy.lo : convoy.hi].reshape(-1, 32)
    lacking = (alive & ~here).any(axis=1) & here.any(axis=1)
    return np.repeat(lacking, 32) & convoy.mask


def collective(instruction: Instruction, semantics: Semantics, context: Context) -> Handler:
    """The handler of a collective whose values ``semantics`` tells."""
    whole = _needs_all(instruction, context)
    if whole and instruction.opcode == "elect" and instruction.guard is None:
        return _elect(instruction, context)

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        if whole and convoy.mask is not None:
            lacking = incomplete(machine, convoy)
            if np.count_nonzero(lacking):
                rest = convoy.part(~lacking)
                if rest is not None:
                    execute(machine, rest)
                return Wait(lacking, Together(), again=True)
        execute(machine, convoy)
        return None

    def execute(machine: Machine, convoy: Convoy) -> None:
        key = (id(instruction), convoy.lo, convoy.hi, convoy.mask is None)
        steps = machine.bound.get(key)
        if steps is None:
            mask = None if convoy.mask is None else machine.mask_buffer(convoy.lo, convoy.hi)
            steps = bind(instruction, semantics, machine.registers, convoy.lo, convoy.hi, mask)
            machine.bound[key] = steps
        if convoy.mask is not None:
            machine.mask_buffer(convoy.lo, convoy.hi)[:] = convoy.mask
        for step in steps:
            step()

    return handler


def _elect(instruction: Instruction, context: Context) -> Handler:
    """``elect.sync`` of a whole warp: its first lane, without arrays of all lanes' values."""
    target, elected = flatten(instruction.operands[:1])

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        registers = machine.registers
        lo, hi = convoy.lo, convoy.hi
        if convoy.mask is not None:
            lacking = incomplete(machine, convoy)
            if np.count_nonzero(lacking):
                rest = convoy.part(~lacking)
                if rest is not None:
                    handler(machine, rest)
                return Wait(lacking, Together(), again=True)
        where: Any = True if convoy.mask is None else convoy.mask
        slots, leaders = convoy.warps()
        if isinstance(elected, Register):
            view = registers.predicate(elected, lo, hi)
            np.copyto(view, False, where=where)
            view[leaders - lo] = True
        if isinstance(target, Register):
            numbers = np.zeros((hi - lo) // 32, np.uint32)
            numbers[slots - lo // 32] = leaders % 32
            row = registers.words[registers.rows_of(target)[0], lo:hi]
            np.copyto(row, np.repeat(numbers, 32), where=where)
        if machine.monitor is not None:
            machine.monitor.warp_met(convoy)
        return None

    return handler


def _needs_all(instruction: Instruction, context: Context) -> bool:
    if instruction.opcode not in WITH_MEMBERS:
        return False
    members = Value(context.cells, context.rows, instruction.operands[-1])
    return members.constant is not None and members.constant & 0xFFFFFFFF == 0xFFFFFFFF


def whole_warp(handler: Handler) -> Handler:
    """The handler of an ``.aligned`` instruction: it waits until its warps are whole."""

    def waiting(machine: Machine, convoy: Convoy) -> Outcome:
        if convoy.mask is not None:
            lacking = incomplete(machine, convoy)
            if np.count_nonzero(lacking):
                return Wait(lacking, Together(), again=True, others_again=True)
        return handler(machine, convoy)

    return waiting
