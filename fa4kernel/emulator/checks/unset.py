"""Registers that are read before anything is written to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fa4kernel.emulator.checks.hazard import KINDS, Party
from fa4kernel.emulator.machine.dataflow import read, registers_in, writes_first
from fa4kernel.emulator.machine.program import Program
from fa4kernel.emulator.ptx.module import Instruction

if TYPE_CHECKING:
    from fa4kernel.emulator.checks.reports import Reports


def check_registers(program: Program, reports: Reports) -> None:
    """Report registers that some way through the program reads unset, once each.

    It need not be wrong: compilers read unset registers into halves of a pair that nobody uses,
    and a way through the program may never be taken.
    """
    unset = set(program.context.rows.unset)
    if not unset:
        return
    for instruction in program.context.function.instructions:
        for name in needed(instruction) & unset:
            unset.discard(name)
            message = f"{KINDS['unset-register'][1]}: {name.partition('@')[0]}"
            reports.add("unset-register", message, None, Party("a thread", instruction, 0), None)


def needed(instruction: Instruction) -> set[str]:
    """Names of registers whose value matters; not destinations that a guard leaves as they are."""
    found = {register.name for register in read(instruction)}
    if writes_first(instruction) and instruction.guard and instruction.opcode != "wgmma":
        sources = {r.name for o in instruction.operands[1:] for r in registers_in(o)}
        kept = {r.name for r in registers_in(instruction.operands[0])} - sources
        found -= kept - {instruction.guard.register.name}
    return found
