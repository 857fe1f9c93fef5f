"""Registers that products of warpgroups may still write: where, and who touches them meanwhile.

``wgmma.mma_async`` gives its results when the warps wait for them. Until then its registers belong
to it, even if nothing reads them, and whoever touches them before must be noticed. What is found
here, from the text alone, is what *may* be in flight; ``wait_group`` with more than 0 lets
everything stay so. (PTX ISA 9.7.15.4)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from fa4kernel.emulator.machine.dataflow import Block, read, registers_in, written
from fa4kernel.emulator.ptx.module import Function, Instruction, Register

#: From registers to a bit set.
_Bits: TypeAlias = Callable[[Iterable[Register]], int]


@dataclass(frozen=True)
class InFlight:
    """What products may still write.

    Attributes:
        waits: for each ``wgmma.wait_group``, by index, the registers it may complete.
        touching: instructions, by index, that read or write such a register before.
        names: of all registers that products write.
    """

    waits: dict[int, tuple[Register, ...]] = field(default_factory=dict)
    touching: frozenset[int] = frozenset()
    names: frozenset[str] = frozenset()


def in_flight(function: Function, blocks: Sequence[Block]) -> InFlight:
    """Find registers in flight in a function."""
    code = function.instructions
    if not any(_is_product(each) for each in code):
        return InFlight()
    numbers: dict[str, int] = {}
    registers: list[Register] = []
    for each in filter(_is_product, code):
        for register in registers_in(each.operands[0]):
            if register.name not in numbers:
                numbers[register.name] = len(registers)
                registers.append(register)

    def bits(some: Iterable[Register]) -> int:
        found = 0
        for register in some:
            if register.name in numbers:
                found |= 1 << numbers[register.name]
        return found

    entering = _entering(code, blocks, bits)
    waits: dict[int, tuple[Register, ...]] = {}
    touching: set[int] = set()
    for block, state in zip(blocks, entering, strict=True):
        for index in range(block.start, block.end):
            each = code[index]
            if each.opcode == "wgmma" and "wait_group" in each.qualifiers:
                waits[index] = tuple(r for i, r in enumerate(registers) if state >> i & 1)
            sources = each.operands[1:] if _is_product(each) else None
            used = [*read(each), *written(each)]
            if sources is not None:
                used = [r for o in sources for r in registers_in(o)]
            if state and bits(used) & state:
                touching.add(index)
            state = _after(each, state, bits)
    return InFlight(waits, frozenset(touching), frozenset(numbers))


def _is_product(instruction: Instruction) -> bool:
    return instruction.opcode == "wgmma" and instruction.qualifiers[0] == "mma_async"


def _after(instruction: Instruction, state: int, bits: _Bits) -> int:
    """What is in flight behind an instruction."""
    if _is_product(instruction):
        return state | bits(registers_in(instruction.operands[0]))
    if instruction.opcode == "wgmma" and "wait_group" in instruction.qualifiers:
        everything = getattr(instruction.operands[0], "value", None) == 0
        return 0 if everything and instruction.guard is None else state
    return state


def _entering(code: Sequence[Instruction], blocks: Sequence[Block], bits: _Bits) -> list[int]:
    """What may be in flight at the start of each block."""
    entering = [0] * len(blocks)
    waiting = list(range(len(blocks)))
    while waiting:
        n = waiting.pop(0)
        state = entering[n]
        for index in range(blocks[n].start, blocks[n].end):
            state = _after(code[index], state, bits)
        for successor in blocks[n].successors:
            if state & ~entering[successor]:
                entering[successor] |= state
                waiting.append(successor)
    return entering
