"""Mutants of what counts the phases and the slots of a ring.

A party remembers the parity of the phase it waits for next and the slot whose turn it is; the
slot goes up by one and starts again at the ring's length, and there the parity changes. These are
scalar instructions, found by following the parities of waits and the addresses of barriers back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fa4kernel.emulator.mutation.barriers import Change, completion_barrier
from fa4kernel.emulator.mutation.mutant import Edit
from fa4kernel.emulator.mutation.sites import Sites, address_operand, with_operand
from fa4kernel.emulator.ptx.module import Immediate, Operand, Register


def counter_mutants(sites: Sites) -> Iterator[tuple[int, Change]]:
    """Index, and kind, change and edit of each mutant."""
    parities, addresses = _roots(sites)
    phase = sites.sources(parities)
    for index in sorted(phase):
        for change in _toggles(sites, index):
            yield index, change
    wraps: set[int] = set()
    for index in sorted(sites.sources(addresses) | phase):
        wraps |= _wrap(sites, index)
    for index in sorted(wraps):
        yield index, ("ring", "one slot longer", sites.altered(index, 2, 1))
        yield index, ("ring", "one slot shorter", sites.altered(index, 2, -1))


def _roots(sites: Sites) -> tuple[list[Operand], list[Operand]]:
    """Operands that are parities of waits, and addresses of barriers."""
    parities: list[Operand] = []
    addresses: list[Operand] = []
    for instruction in sites.code:
        at = completion_barrier(instruction)
        if instruction.opcode == "mbarrier":
            at = address_operand(instruction)
            if instruction.has("parity"):
                parities.append(instruction.operands[at + 1])
        elif instruction.opcode == "tcgen05" and instruction.has("commit"):
            at = 0
        if at is not None:
            addresses.append(instruction.operands[at])
    return parities, addresses


def _toggles(sites: Sites, index: int) -> Iterator[Change]:
    instruction = sites.code[index]
    if instruction.opcode == "xor":
        still = with_operand(instruction, 2, Immediate(0))
        yield "phase", "not toggled", Edit.to(index, still)
        if isinstance(instruction.operands[2], Register):
            always = with_operand(instruction, 2, Immediate(1))
            yield "phase", "always toggled", Edit.to(index, always)
    elif instruction.opcode == "selp":
        operands = instruction.operands
        if [sites.constant(o) for o in operands[1:3]] in ([0, 1], [1, 0]):
            swapped = (operands[0], operands[2], operands[1], *operands[3:])
            edit = Edit.to(index, replace(instruction, operands=swapped))
            yield "phase", "toggled when it should not be", edit


def _wrap(sites: Sites, index: int) -> set[int]:
    """The comparisons with the ring's length, if this is a choice between 0 and the next slot."""
    instruction = sites.code[index]
    if instruction.opcode != "selp":
        return set()
    choice = instruction.operands[3]
    constants = [sites.constant(o) for o in instruction.operands[1:3]]
    if constants.count(0) != 1 or constants.count(None) != 1 or not isinstance(choice, Register):
        return set()
    found = set()
    for writer in sites.writers[choice.name]:
        compare = sites.code[writer]
        limit = sites.constant(compare.operands[2]) if len(compare.operands) > 2 else None
        if compare.opcode == "setp" and limit is not None and limit > 1:
            found.add(writer)
    return found
