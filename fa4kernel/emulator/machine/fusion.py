"""Like instructions of a run, found together so that one NumPy call executes them all.

A softmax step is full of the same instruction on other registers: 64 FMAs, 64 exponentials, 32
conversions. One call on a matrix of rows does them all, where a call each would cost most of its
time before it begins. Instructions are moved together only where no register stands in the way:
one comes after whatever wrote what it reads, and not before whatever read or wrote what it writes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np

from fa4kernel.emulator.isa.semantics import Semantics, flatten
from fa4kernel.emulator.machine.cells import Cell, Cells, Constant, Slot
from fa4kernel.emulator.machine.dataflow import read, written
from fa4kernel.emulator.machine.registers import DTYPES
from fa4kernel.emulator.ptx.module import (
    TYPE_BITS,
    Immediate,
    Instruction,
    Not,
    Operand,
    Register,
)

#: ``("word", row)``, ``("predicate", row)`` or ``("constant", bits)``.
Source: TypeAlias = tuple[str, int]
#: Instructions that are looked for together at most.
MOST_TOGETHER = 64
#: A 32-bit half of a wider register, copied.
COPY = Semantics(np.positive, ("b32",), ("b32",), ufunc=True)


class HasRows(Protocol):
    """Tells the row of each slot."""

    @property
    def of(self) -> Mapping[int, int]:
        """Slot number to row."""
        ...


@dataclass(slots=True)
class Piece:
    """What is executed as one: an instruction, or one half of a packed one or of a wide copy.

    Attributes:
        semantics: what it does.
        key: pieces with the same key can be joined; None for one that cannot.
        sources, target: operands, if it can be joined.
        reads, writes: all rows it touches.
        instruction: where it comes from.
    """

    semantics: Semantics
    key: Any
    sources: tuple[Source, ...]
    target: int
    reads: list[Source]
    writes: list[Source]
    instruction: Instruction


@dataclass(slots=True)
class Group:
    """Pieces that one call can execute; or a single instruction that is bound by itself.

    Attributes:
        semantics: what all of them do.
        sources: for each of them its operands.
        targets: the row each writes.
        alone: the instruction, if it is one that cannot be joined with others.
        calls: the calls that execute it, by how they are made (see ``group_binding``).
    """

    semantics: Semantics
    sources: list[tuple[Source, ...]] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    alone: Instruction | None = None
    calls: dict[Any, list[Any]] = field(default_factory=dict)

    @property
    def heavy(self) -> bool:
        """Whether its function is more than one NumPy call."""
        return not isinstance(self.semantics.function, np.ufunc)


def plan(
    parts: Iterable[tuple[Instruction, Semantics]], cells: Cells, rows: HasRows
) -> list[Group]:
    """The groups of a run, in an order that gives what program order gives.

    A piece joins the first group of its key that it may join. Of chains that do not depend on each
    other (a polynomial for each of some registers) the first links are so in one group, the second
    in another, and so on.
    """
    groups: list[Group] = []
    by_key: dict[Any, list[int]] = {}
    wrote: dict[Source, int] = {}
    looked: dict[Source, int] = {}
    cutter = _Cutter(cells, rows)
    for piece in (p for part in parts for p in cutter.pieces(*part)):
        after = max((wrote.get(s, -1) for s in piece.reads), default=-1) + 1
        for s in piece.writes:
            after = max(after, wrote.get(s, -1) + 1, looked.get(s, -1))
        at = _first(by_key.get(piece.key, ()), after, groups)
        if at is None:
            at = len(groups)
            groups.append(Group(piece.semantics))
            if piece.key is not None:
                by_key.setdefault(piece.key, []).append(at)
        if piece.key is None:
            groups[at].alone = piece.instruction
        else:
            groups[at].sources.append(piece.sources)
            groups[at].targets.append(piece.target)
        for s in piece.reads:
            looked[s] = max(looked.get(s, -1), at)
        for s in piece.writes:
            wrote[s] = at
    return groups


def _first(candidates: Sequence[int], after: int, groups: Sequence[Group]) -> int | None:
    """The first of some groups, by number and rising, from ``after`` on, that has room."""
    for i in range(bisect_left(candidates, after), len(candidates)):
        if len(groups[candidates[i]].targets) < MOST_TOGETHER:
            return candidates[i]
    return None


class _Cutter:
    """Cuts instructions into pieces."""

    def __init__(self, cells: Cells, rows: HasRows) -> None:
        self._cells = cells
        self._rows = rows

    def pieces(self, instruction: Instruction, semantics: Semantics) -> Iterator[Piece]:
        """The pieces of one instruction."""
        copies = self._copies(instruction)
        if copies:
            for source, target in copies:
                key = ("copy", source[0])
                yield self._piece(COPY, key, (source,), target, instruction)
            return
        found = [self._joinable(instruction, semantics, half) for half in range(semantics.packed)]
        operands = [f for f in found if f is not None]
        if len(operands) < semantics.packed:
            reads, writes = (self._touched(r) for r in (read(instruction), written(instruction)))
            yield Piece(semantics, None, (), -1, reads, writes, instruction)
            return
        for target, *sources in operands:
            key = _key(instruction, semantics, sources)
            yield self._piece(semantics, key, tuple(sources), target, instruction)

    @staticmethod
    def _piece(
        semantics: Semantics,
        key: Any,
        sources: tuple[Source, ...],
        target: Source,
        instruction: Instruction,
    ) -> Piece:
        reads = [s for s in sources if s[0] != "constant"]
        return Piece(semantics, key, sources, target[1], reads, [target], instruction)

    def _copies(self, instruction: Instruction) -> list[tuple[Source, Source]]:
        """Source and target of each 32-bit half that a 64-bit ``mov`` copies; [] if it is none."""
        if instruction.opcode != "mov" or instruction.type != "b64" or instruction.guard:
            return []
        to, source = instruction.operands
        items = (*flatten((to,)), *flatten((source,)))
        if not all(isinstance(i, Register | Immediate) for i in items):
            return []
        if any(isinstance(i, Register) and TYPE_BITS[i.type] < 32 for i in items):
            return []
        sources, targets = ([self._cell(c) for c in self._cells.cells(o, 2)] for o in (source, to))
        found = [
            (s, t)
            for s, t in zip(sources, targets, strict=True)
            if s is not None and t is not None and t[0] != "constant"
        ]
        swaps = any(s in targets and s != t for s, t in found)
        return found if len(found) == len(sources) and not swaps else []

    def _touched(self, registers: Iterable[Register]) -> list[Source]:
        found = []
        for register in registers:
            kind = "predicate" if register.type == "pred" else "word"
            for cell in self._cells.of[register.name]:
                if isinstance(cell, Slot):
                    found.append((kind, self._rows.of[cell.number]))
        return found

    def _joinable(
        self, instruction: Instruction, semantics: Semantics, half: int
    ) -> list[Source] | None:
        """Target and operands, if they are plain rows and constants."""
        if instruction.guard is not None or len(semantics.outputs) != 1 or semantics.collective:
            return None
        operands = flatten(instruction.operands)
        if len(operands) != 1 + len(semantics.inputs):
            return None
        kinds = (*semantics.outputs, *semantics.inputs)
        packed = semantics.packed == 2
        found = [
            self._source(operand, kind, half, packed)
            for operand, kind in zip(operands, kinds, strict=True)
        ]
        plain = [s for s in found if s is not None]
        return plain if len(plain) == len(found) and plain[0][0] != "constant" else None

    def _source(self, operand: Operand, kind: str, half: int, packed: bool) -> Source | None:
        if isinstance(operand, Not):
            return None
        if kind == "pred":
            if not isinstance(operand, Register):
                return None
            (cell,) = self._cells.of[operand.name]
            return ("predicate", self._rows.of[cell.number]) if isinstance(cell, Slot) else None
        if np.dtype(DTYPES[kind]).itemsize != 4:
            return None
        cells: Sequence[Cell] = self._cells.cells(operand, 2 if packed else 1)
        return self._cell(cells[half])

    def _cell(self, cell: Cell) -> Source | None:
        if isinstance(cell, Constant):
            return "constant", cell.value
        return ("word", self._rows.of[cell.number]) if isinstance(cell, Slot) else None


def _key(instruction: Instruction, semantics: Semantics, sources: Sequence[Source]) -> Any:
    """What instructions must share to be done by one call."""
    where = tuple(kind for kind, _ in sources)
    name = (instruction.opcode, instruction.qualifiers, semantics.inputs, where)
    if semantics.ufunc:
        return name
    fixed = tuple(str(o) for o in flatten(instruction.operands) if not isinstance(o, Register))
    return (*name, fixed)
