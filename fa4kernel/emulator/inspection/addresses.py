"""What registers hold, as far as the text tells: a known place plus a multiple of something.

An address in PTX is put together from a variable or a parameter, constants, and what is only known
when the kernel runs, such as the number of a stage. That is enough to say which barrier of which
ring an instruction means, and which parameter a tensor map or a pointer comes from.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from fa4kernel.emulator.inspection.known import ANYTHING, Known, Loaded, Param, Shared
from fa4kernel.emulator.machine.dataflow import read, registers_in, written
from fa4kernel.emulator.machine.layout import RANK_SHIFT, AddressOf
from fa4kernel.emulator.ptx.module import (
    Address,
    Function,
    Immediate,
    Instruction,
    Operand,
    Register,
    Symbol,
    TensorAddress,
    Vector,
)

#: Bits of a shared address that hold the offset in its CTA.
OFFSET_BITS = (1 << RANK_SHIFT) - 1
#: Rounds after which a register that still changes is given up.
MOST_ROUNDS = 8


Rule = Callable[[Sequence[Known], Instruction], Known]


def _add(values: Sequence[Known], _: Instruction) -> Known:
    return values[0].plus(values[1])


def _sub(values: Sequence[Known], _: Instruction) -> Known:
    return values[0].plus(values[1], -1)


def _mul(values: Sequence[Known], instruction: Instruction) -> Known:
    return ANYTHING if "hi" in instruction.qualifiers else values[0].times(values[1])


def _mad(values: Sequence[Known], instruction: Instruction) -> Known:
    return _mul(values, instruction).plus(values[2])


def _shl(values: Sequence[Known], _: Instruction) -> Known:
    a, by = values
    return a.times(Known(1 << by.base)) if by.exact and 0 <= by.base < 64 else ANYTHING


def _shr(values: Sequence[Known], _: Instruction) -> Known:
    a, by = values
    if a.exact and by.exact and a.origin is None and 0 <= by.base < 64:
        return Known(a.base >> by.base)
    return ANYTHING


def _and(values: Sequence[Known], _: Instruction) -> Known:
    """Clearing the bits that hold the CTA's rank, and those that are 0, leaves an address."""
    for value, mask in (values, values[::-1]):
        if mask.exact and mask.origin is None:
            kept = mask.base & OFFSET_BITS
            if (
                value.origin == Shared()
                and value.base & kept == value.base
                and (value.step & kept == value.step)
            ):
                return value
            if value.exact and value.origin is None:
                return Known(value.base & mask.base)
    return ANYTHING


def _or(values: Sequence[Known], _: Instruction) -> Known:
    a, b = values
    if a.exact and b.exact and a.origin is None and b.origin is None:
        return Known(a.base | b.base)
    for value, bits in (values, values[::-1]):
        small = bits.exact and bits.origin is None and value.step % 8 == 0 and value.base % 8 == 0
        if small and 0 <= bits.base < 8:
            return value.plus(bits)
    return ANYTHING


def _same(values: Sequence[Known], _: Instruction) -> Known:
    return values[0]


def _either(values: Sequence[Known], _: Instruction) -> Known:
    return values[0].join(values[1])


RULES: dict[str, Rule] = {
    **{"mov": _same, "cvt": _same, "cvta": _same, "mapa": _same, "shfl": _same},
    **{"add": _add, "sub": _sub, "mul": _mul, "mad": _mad, "shl": _shl, "shr": _shr},
    **{"and": _and, "or": _or, "selp": _either, "min": _either, "max": _either},
}


#: Sources that a rule looks at, if not two.
NEEDS: dict[Rule, int] = {_same: 1, _mad: 3}


class Addresses:
    """What is known of the registers that make up some operands of a function.

    Args:
        function: the function.
        address_of: where its variables and parameters lie.
        operands: those that will be asked for.
    """

    def __init__(
        self, function: Function, address_of: AddressOf, operands: Iterable[Operand]
    ) -> None:
        self._address_of = address_of
        self._known: dict[str, Known] = {}
        code = definitions(function, operands)
        for round_ in range(MOST_ROUNDS):
            changed = [name for each in code for name in self._step(each)]
            if not changed:
                break
            if round_ >= MOST_ROUNDS - 2:
                self._known.update(dict.fromkeys(changed, ANYTHING))

    def of(self, operand: Operand) -> Known:
        """What is known of a source operand, or of the address that ``[...]`` names."""
        if isinstance(operand, Register):
            return self._known.get(operand.name, ANYTHING)
        if isinstance(operand, Immediate):
            return Known(operand.value)
        if isinstance(operand, Symbol):
            return self._symbol(operand)
        if isinstance(operand, Address):
            return self.of(operand.base).plus(Known(operand.offset))
        if isinstance(operand, TensorAddress):
            return self.of(operand.base)
        if isinstance(operand, Vector) and operand.items:
            return self.of(operand.items[0])  # the low half of a packed value
        return ANYTHING

    def _symbol(self, symbol: Symbol) -> Known:
        if symbol.name in self._address_of.shared:
            return Known(self._address_of.shared[symbol.name] + symbol.offset, 0, Shared())
        if symbol.name in self._address_of.params:
            return Known(self._address_of.params[symbol.name] + symbol.offset, 0, Param())
        return ANYTHING

    def _step(self, instruction: Instruction) -> list[str]:
        """Take one instruction into account; the names of registers of which less is known now."""
        sources = instruction.operands[1:]
        changed = []
        for place, register in enumerate(written(instruction)):
            value = self._value(instruction, sources, place)
            if value is None:
                continue
            before = self._known.get(register.name)
            now = value if before is None else before.join(value)
            if now != before:
                self._known[register.name] = now
                changed.append(register.name)
        return changed

    def _value(
        self, instruction: Instruction, sources: Sequence[Operand], place: int
    ) -> Known | None:
        if instruction.opcode in ("ld", "ldu") and "param" in instruction.qualifiers:
            address = self.of(sources[0])
            if not address.exact or address.origin != Param():
                return ANYTHING
            return Known(0, 0, Loaded(address.base + place * width(instruction)))
        rule = RULES.get(instruction.opcode)
        if rule is None or place:
            return ANYTHING
        if any(isinstance(s, Register) and s.name not in self._known for s in sources):
            return None  # its definition comes later in the text, and this one's turn once more
        values = [self.of(s) for s in sources]
        return rule(values, instruction) if len(values) >= NEEDS.get(rule, 2) else ANYTHING


def definitions(function: Function, operands: Iterable[Operand]) -> list[Instruction]:
    """The instructions, in order, on whose results the operands depend."""
    by_name: dict[str, list[int]] = defaultdict(list)
    for index, instruction in enumerate(function.instructions):
        for register in written(instruction):
            by_name[register.name].append(index)
    wanted = {r.name for operand in operands for r in registers_in(operand)}
    todo, found = list(wanted), set[int]()
    while todo:
        for index in by_name[todo.pop()]:
            if index in found:
                continue
            found.add(index)
            if function.instructions[index].opcode not in (*RULES, "ld"):
                continue  # nothing is known of it, whatever it was made of
            for register in read(function.instructions[index]):
                if register.name not in wanted:
                    wanted.add(register.name)
                    todo.append(register.name)
    return [function.instructions[index] for index in sorted(found)]


def width(instruction: Instruction) -> int:
    """Bytes of one element that a load or store moves."""
    bits = "".join(c for c in instruction.type if c.isdigit()) or "32"
    return max(1, int(bits) // 8)


def shared_offset(known: Known) -> Known | None:
    """The same as an offset in shared memory, or None if it is no address there."""
    return replace(known, origin=None) if known.origin == Shared() else None
