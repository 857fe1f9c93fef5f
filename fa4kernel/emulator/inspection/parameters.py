"""A kernel's parameters, and what reads them: a tensor map, a pointer, or plain numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from fa4kernel.emulator.inspection.addresses import Addresses, width
from fa4kernel.emulator.inspection.known import Known, Loaded, Param
from fa4kernel.emulator.machine.layout import AddressOf
from fa4kernel.emulator.ptx.module import (
    Address,
    Function,
    Instruction,
    Operand,
    TensorAddress,
    Vector,
)

Kind = Literal["tensor map", "pointer", "scalar", "struct", "unread"]
#: Bytes of a tensor map (PTX ISA 5.5.8).
MAP_BYTES = 128
#: What a fast division by a number known at launch reads (CUTLASS, ``fast_math.h``, FastDivmod).
DIVISOR = ((0, 4), (4, 4), (8, 1), (9, 1))


@dataclass(frozen=True)
class Field:
    """A part of a parameter that the kernel loads.

    Attributes:
        offset, size: in bytes, from the parameter's first.
        type: of the load.
        pointer: whether it serves as an address of global memory.
        lines: PTX lines that load it, or that use the pointer.
    """

    offset: int
    size: int
    type: str
    pointer: bool
    lines: tuple[int, ...]


@dataclass(frozen=True)
class ParameterUse:
    """A parameter and what the kernel does with it.

    Attributes:
        index, type, size, align, offset: as declared; sizes in bytes.
        kind: what it seems to be.
        rank: dimensions of the tensor, of a tensor map.
        loads, stores: PTX lines that copy from the tensor and to it.
        fields: what is loaded, by offset.
    """

    index: int
    type: str
    size: int
    align: int
    offset: int
    kind: Kind
    rank: int | None
    loads: tuple[int, ...]
    stores: tuple[int, ...]
    fields: tuple[Field, ...]

    @property
    def is_divisor(self) -> bool:
        """Whether it looks like a divisor prepared for fast division."""
        return self.size == 12 and {(f.offset, f.size) for f in self.fields} <= set(DIVISOR) and (
            self.fields != ()
        )  # fmt: skip

    @property
    def words(self) -> str:
        """What it seems to be, in words."""
        if self.kind == "tensor map":
            ways = [w for w, lines in (("read", self.loads), ("written", self.stores)) if lines]
            rank = f"{self.rank}-D " if self.rank else ""
            return f"{rank}tensor map, {' and '.join(ways) or 'only prefetched'}"
        if self.kind == "unread":
            return "never read"
        if self.is_divisor:
            return "divisor prepared for fast division"
        if self.kind == "struct":
            return "struct: " + ", ".join(map(_field_words, self.fields))
        if self.kind == "pointer":
            return "pointer"
        return f"scalar {self.fields[0].type if self.type == 'b8' else self.type}"


def _field_words(field: Field) -> str:
    kind = "pointer" if field.pointer else field.type
    return f"{kind} at byte {field.offset}"


def parameters_of(function: Function, address_of: AddressOf) -> list[ParameterUse]:
    """What a kernel does with each of its parameters."""
    code = function.instructions
    reads = [(i, o) for i in code for o in _param_operands(i)]
    targets = [(i, o) for i in code for o in _global_operands(i)]
    known = Addresses(function, address_of, [o for _, o in (*reads, *targets)])
    maps: dict[int, list[Instruction]] = defaultdict(list)
    loaded: dict[int, list[tuple[Instruction, int]]] = defaultdict(list)
    for instruction, operand in reads:
        place = known.of(operand)
        if place.origin != Param() or not place.exact:
            continue
        if isinstance(operand, TensorAddress) or "tensormap" in instruction.qualifiers:
            maps[place.base].append(instruction)
        else:
            for at, size in _elements(instruction):
                loaded[place.base + at].append((instruction, size))
    pointers: dict[int, list[Instruction]] = defaultdict(list)
    for instruction, operand in targets:
        origin = known.of(operand).origin
        if isinstance(origin, Loaded):
            pointers[origin.offset].append(instruction)
    found = []
    for index, p in enumerate(function.parameters):
        inside = range(p.offset, p.offset + p.size)
        fields = tuple(
            _field(offset - p.offset, loaded[offset], pointers.get(offset, []))
            for offset in sorted(loaded) if offset in inside
        )  # fmt: skip
        uses = [i for offset, each in maps.items() if offset in inside for i in each]
        found.append(
            ParameterUse(
                index, p.type, p.size, p.align, p.offset, _kind(p.size, fields, uses),
                _rank(uses), _lines(uses, to_global=False), _lines(uses, to_global=True), fields,
            )
        )  # fmt: skip
    return found


def _param_operands(instruction: Instruction) -> Iterable[Operand]:
    """Operands that may be addresses in the parameter block."""
    if instruction.opcode in ("ld", "ldu") and "param" in instruction.qualifiers:
        return [instruction.operands[1]]
    if "tensormap" in instruction.qualifiers:
        return [o for o in instruction.operands if isinstance(o, Address)]
    return [o for o in instruction.operands if isinstance(o, TensorAddress)]


def _global_operands(instruction: Instruction) -> Iterable[Operand]:
    """Operands that are addresses of global memory."""
    opcode, qualifiers = instruction.opcode, instruction.qualifiers
    spaces = [q for q in qualifiers if q.startswith(("shared", "param", "local", "const"))]
    addresses = [o for o in instruction.operands if isinstance(o, Address)]
    if opcode in ("ld", "ldu", "st", "atom", "red", "multimem") and not spaces:
        return addresses
    if opcode == "cp" and "global" in qualifiers and "tensor" not in qualifiers:
        order = [q for q in qualifiers if q.startswith(("shared", "global"))]
        return addresses[order.index("global") :][:1]
    return []


def _elements(instruction: Instruction) -> list[tuple[int, int]]:
    """Offset and size of each element that a load takes."""
    target, size = instruction.operands[0], width(instruction)
    count = len(target.items) if isinstance(target, Vector) else 1
    return [(i * size, size) for i in range(count)]


def _field(
    offset: int, loads: list[tuple[Instruction, int]], uses: list[Instruction]
) -> Field:  # fmt: skip
    instruction, size = max(loads, key=lambda load: load[1])
    lines = dict.fromkeys(i.line for i in (uses or [i for i, _ in loads]))
    return Field(offset, size, instruction.type, bool(uses), tuple(lines))


def _kind(size: int, fields: tuple[Field, ...], maps: list[Instruction]) -> Kind:
    if maps and size >= MAP_BYTES:
        return "tensor map"
    if not fields:
        return "unread"
    if len(fields) > 1 or fields[0].size < size:
        return "struct"
    return "pointer" if fields[0].pointer else "scalar"


def _rank(uses: list[Instruction]) -> int | None:
    ranks = {int(q[0]) for i in uses for q in i.qualifiers if len(q) == 2 and q[1] == "d"}
    return ranks.pop() if len(ranks) == 1 else None


def _lines(uses: list[Instruction], to_global: bool) -> tuple[int, ...]:
    found = []
    for instruction in uses:
        spaces = [q for q in instruction.qualifiers if q.startswith(("shared", "global"))]
        if instruction.opcode == "cp" and len(spaces) > 1 and (spaces[0] == "global") == to_global:
            found.append(instruction.line)
    return tuple(dict.fromkeys(found))


__all__ = ["Field", "Known", "ParameterUse", "parameters_of"]
