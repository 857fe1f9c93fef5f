"""Where registers live: cells of 32 bits, and the copies between them that need no instruction.

A register of 32 bits or fewer is one cell, of 64 bits two (low, high), of 128 bits four. NVVM's
PTX is nearly in static single assignment form, and two fifths of it only copy, pack and unpack
registers or load constants. Where source and destination are each written once, in places that
dominate every use, the destination is another name for the source's cells and the instruction
vanishes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from fa4kernel.emulator.machine.dataflow import (
    Block,
    blocks_of,
    dominators,
    read,
    registers_in,
    written,
)
from fa4kernel.emulator.machine.layout import AddressOf
from fa4kernel.emulator.ptx.module import (
    TYPE_BITS,
    FloatImmediate,
    Function,
    Immediate,
    Instruction,
    Operand,
    Register,
    Special,
    Symbol,
    Vector,
)


@dataclass(frozen=True, slots=True)
class Constant:
    """A cell that always holds these 32 bits."""

    value: int


@dataclass(frozen=True, slots=True)
class Fixed:
    """A cell that a special register fills when a thread starts."""

    name: str


@dataclass(frozen=True, slots=True)
class Slot:
    """A cell that instructions write; ``number`` counts them."""

    number: int


Cell: TypeAlias = Constant | Fixed | Slot

#: Special registers that never change while a thread lives.
STEADY = frozenset(
    [f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid",
                                    "cluster_ctaid", "cluster_nctaid") for axis in "xyz"]
    + ["%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid", "%cluster_ctarank",
       "%cluster_nctarank", "%is_explicit_cluster", "%dynamic_smem_size", "%total_smem_size",
       "%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge", "%lanemask_gt"]
)  # fmt: skip


def cells_of_type(kind: str) -> int:
    """How many cells a register of this type has."""
    return max(1, TYPE_BITS[kind] // 32)


class Cells:
    """The cells of every register of a function, and which instructions are mere names.

    Attributes:
        of: register name to its cells, low bits first (predicates have one, of their own kind).
        vanished: indices of instructions that need not run.
        blocks: the basic blocks.
    """

    def __init__(self, function: Function, address_of: AddressOf) -> None:
        self.function = function
        self._address_of = address_of
        self.blocks = blocks_of(function)
        self.of: dict[str, tuple[Cell, ...]] = {}
        self.vanished: set[int] = set()
        self._slots = 0
        self._names: dict[str, tuple[int, int | None]] = {}
        self._settled = self._written_once_before_every_use()
        self._sources = self._copies()
        for name in function.registers:
            self._resolve(name)

    def new_slot(self) -> Slot:
        """A cell that nobody else has."""
        self._slots += 1
        return Slot(self._slots - 1)

    def _written_once_before_every_use(self) -> dict[str, int]:
        """Registers with one unguarded definition that dominates all uses, and its index."""
        code = self.function.instructions
        definition: dict[str, int] = {}
        several: set[str] = set()
        for index, instruction in enumerate(code):
            for register in written(instruction):
                if register.name in definition or instruction.guard:
                    several.add(register.name)
                definition[register.name] = index
        block_of = [0] * len(code)
        for number, block in enumerate(self.blocks):
            block_of[block.start : block.end] = [number] * (block.end - block.start)
        dominated = dominators(self.blocks)
        for index, instruction in enumerate(code):
            for register in read(instruction):
                name = register.name
                first = definition.get(name)
                if first is None or name in several:
                    continue
                here, there = block_of[index], block_of[first]
                fine = first < index if here == there else dominated[here] >> there & 1
                if not fine:
                    several.add(name)
        return {name: index for name, index in definition.items() if name not in several}

    def _copies(self) -> dict[str, tuple[Operand, int, int]]:
        """Of registers that a copy defines: the source, and which of its cells, from where on."""
        found: dict[str, tuple[Operand, int, int]] = {}
        for index, instruction in enumerate(self.function.instructions):
            if not self._may_vanish(instruction):
                continue
            to, source = instruction.operands[0], instruction.operands[1]
            targets = [r.name for r in registers_in(to)]
            if not targets or any(self._settled.get(t) != index for t in targets):
                continue
            if any(r.name not in self._settled for r in registers_in(source)):
                continue
            start = 0
            for register in registers_in(to):
                count = cells_of_type(register.type)
                found[register.name] = (source, start, count)
                start += count
            self.vanished.add(index)
        return found

    def _may_vanish(self, instruction: Instruction) -> bool:
        if instruction.guard is not None or len(instruction.operands) != 2:
            return False
        to, source = instruction.operands
        if instruction.opcode == "cvta" or instruction.qualifiers == ("u64", "u32"):
            plain = instruction.opcode in ("cvta", "cvt") and isinstance(to, Register)
            return plain and isinstance(source, Register) and _copyable(instruction)
        if instruction.opcode != "mov" or instruction.type == "pred":
            return False
        if isinstance(source, Special):
            return source.name in STEADY
        items = [*_items(to), *_items(source)]
        if any(isinstance(i, Register) and TYPE_BITS[i.type] < 32 for i in items):
            same = isinstance(to, Register) and isinstance(source, Register | Immediate)
            return same and instruction.type in ("b16", "u16", "s16")
        return all(isinstance(i, Register | Immediate | FloatImmediate | Symbol) for i in items)

    def _resolve(self, name: str) -> tuple[Cell, ...]:
        if name in self.of:
            return self.of[name]
        kind = self.function.registers[name].type
        count = cells_of_type(kind)
        copy = self._sources.get(name)
        cells: tuple[Cell, ...]
        if copy is None:
            cells = tuple(self.new_slot() for _ in range(count))
        else:
            source, start, length = copy
            cells = self._source_cells(source, name)[start : start + length]
            assert len(cells) == count, name
        self.of[name] = cells
        return cells

    def _source_cells(self, source: Operand, name: str) -> tuple[Cell, ...]:
        instruction = self.function.instructions[self._settled[name]]
        if instruction.opcode == "cvta":
            return self._generic(instruction)
        if instruction.opcode == "cvt":
            return (*self.cells(source, 1), Constant(0))
        total = max(1, TYPE_BITS[instruction.type] // 32)
        return self.cells(source, total)

    def _generic(self, instruction: Instruction) -> tuple[Cell, ...]:
        low, high = self.cells(instruction.operands[1], 2)
        window = self._address_of.window(instruction.qualifiers)
        return (low, high) if window is None else (low, Constant(window))

    def cells(self, operand: Operand, count: int) -> tuple[Cell, ...]:
        """The cells of a source operand of ``count`` cells."""
        if isinstance(operand, Register):
            return self._resolve(operand.name)
        if isinstance(operand, Immediate):
            return _words(operand.value, count)
        if isinstance(operand, FloatImmediate):
            return _words(operand.bits, count)
        if isinstance(operand, Special):
            return (Fixed(operand.name), Constant(0))[:count]
        if isinstance(operand, Symbol):
            return self._address_of(operand, count)
        if isinstance(operand, Vector):
            each = max(1, count // len(operand.items))
            return tuple(cell for item in operand.items for cell in self.cells(item, each))
        raise TypeError(f"{operand} is no source operand")


def _copyable(instruction: Instruction) -> bool:
    kinds = [TYPE_BITS[o.type] for o in instruction.operands if isinstance(o, Register)]
    return kinds == ([64, 64] if instruction.opcode == "cvta" else [64, 32])


def _items(operand: Operand) -> Iterable[Operand]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def _words(value: int, count: int) -> tuple[Cell, ...]:
    return tuple(Constant((value >> (32 * i)) & 0xFFFFFFFF) for i in range(count))


__all__ = ["Block", "Cell", "Cells", "Constant", "Fixed", "Slot"]
