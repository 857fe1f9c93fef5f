"""What the makers of mutants ask about a function: constants, wait loops, sources of values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from fa4kernel.emulator.machine.dataflow import ENDS, registers_in, target, writes_first, written
from fa4kernel.emulator.mutation.mutant import Edit
from fa4kernel.emulator.ptx.module import (
    Address,
    Function,
    Immediate,
    Instruction,
    Operand,
    Register,
)
from fa4kernel.emulator.ptx.printer import instruction_text

#: Instructions that hand a value on, perhaps offset, scaled or chosen: what slices follow.
CARRIERS = frozenset(("mov", "selp", "xor", "add", "sub", "shl", "mul", "mad", "and", "or", "cvt"))
#: Distance of two neighbouring mbarriers in bytes.
BARRIER_BYTES = 8


class Sites:
    """A function's instructions with an index of who writes what and who jumps where.

    Attributes:
        code: the instructions.
        writers: register name to the indices that write it.
        jumps: index to the indices of branches that go there.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self.code = function.instructions
        self.writers: dict[str, list[int]] = defaultdict(list)
        self.jumps: dict[int, list[int]] = defaultdict(list)
        for index, instruction in enumerate(self.code):
            for register in written(instruction):
                self.writers[register.name].append(index)
            if instruction.opcode == "bra":
                self.jumps[target(function, instruction)].append(index)

    def constant(self, operand: Operand) -> int | None:
        """The value of an immediate, or of a register that is only ever loaded with one."""
        if isinstance(operand, Immediate):
            return operand.value
        if not isinstance(operand, Register) or len(self.writers[operand.name]) != 1:
            return None
        writer = self.code[self.writers[operand.name][0]]
        if writer.opcode != "mov" or writer.guard is not None:
            return None
        source = writer.operands[1]
        return source.value if isinstance(source, Immediate) else None

    def wait_loop(self, index: int) -> range | None:
        """The loop of which the try_wait at ``index`` is the head; None if it is none.

        Either ``wait p; @p bra out; bra wait;`` or ``wait p; @!p bra wait;``.
        """
        for last in (index + 1, index + 2):
            if last >= len(self.code) or self.code[last].opcode != "bra":
                return None
            if target(self.function, self.code[last]) == index:
                return range(index, last + 1)
        return None

    def entered_only_from(self, index: int, inside: range) -> bool:
        """Whether every jump to ``index`` comes from these instructions."""
        return all(source in inside for source in self.jumps[index])

    def falls_through(self, index: int) -> bool:
        """Whether what follows the instruction may run after it."""
        instruction = self.code[index]
        return instruction.opcode not in ENDS or instruction.guard is not None

    def sources(self, roots: Iterable[Operand]) -> set[int]:
        """Indices of the instructions from which the values of ``roots`` come, by copies and sums.

        Predicates that choose are not followed.
        """
        found: set[int] = set()
        names = [r.name for root in roots for r in registers_in(root)]
        seen = set(names)
        while names:
            for index in self.writers[names.pop()]:
                instruction = self.code[index]
                if instruction.opcode not in CARRIERS or index in found:
                    continue
                found.add(index)
                operands = instruction.operands[1:]
                for operand in operands[:2] if instruction.opcode == "selp" else operands:
                    fresh = [r.name for r in registers_in(operand) if r.name not in seen]
                    seen.update(fresh)
                    names.extend(fresh)
        return found

    def altered(self, index: int, operand: int, step: int, operation: str = "add") -> Edit:
        """The instruction with an operand increased by ``step`` (or another ``operation``).

        A register whose value the text doesn't tell is copied to a new one, in a block of its own.
        """
        instruction = self.code[index]
        old = instruction.operands[operand]
        value = self.constant(old)
        if value is not None:
            new = {"add": value + step, "xor": value ^ step, "and": value & step}[operation]
            return Edit.to(index, with_operand(instruction, operand, Immediate(new)))
        assert isinstance(old, Register)
        kind = f"s{old.type[1:]}" if operation == "add" else f"b{old.type[1:]}"
        changed = with_operand(instruction, operand, Register("changed", old.type))
        return Edit(
            index,
            f"{{ .reg .{old.type} changed; {operation}.{kind} changed, {old.name.split('@')[0]}, "
            f"{step}; {instruction_text(changed)} }}",
        )

    def next_barrier(self, index: int, operand: int, step: int = BARRIER_BYTES) -> Edit:
        """The instruction with the address of the next mbarrier in shared memory."""
        address = self.code[index].operands[operand]
        assert isinstance(address, Address)
        moved = replace(address, offset=address.offset + step)
        return Edit.to(index, with_operand(self.code[index], operand, moved))


def with_operand(instruction: Instruction, index: int, operand: Operand) -> Instruction:
    """The instruction with one operand replaced."""
    operands = list(instruction.operands)
    operands[index] = operand
    return replace(instruction, operands=tuple(operands))


def without(instruction: Instruction, *qualifiers: str) -> Instruction:
    """The instruction without these qualifiers."""
    kept = tuple(q for q in instruction.qualifiers if q not in qualifiers)
    return replace(instruction, qualifiers=kept)


def address_operand(instruction: Instruction) -> int:
    """Which operand of an ``mbarrier`` instruction is the barrier."""
    state = instruction.qualifiers[0] not in ("init", "inval", "expect_tx", "complete_tx")
    first = instruction.operands[0]
    return 1 if state and (not isinstance(first, Address) or writes_first(instruction)) else 0
