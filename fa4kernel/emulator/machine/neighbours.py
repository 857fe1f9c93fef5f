"""Which cells should lie in neighbouring rows: those that like instructions write together.

One NumPy call executes a group of like instructions (see ``fusion``) on a matrix of rows. If the
rows follow each other the matrix is a view of the register file; else its rows are gathered first
and strewn again afterwards, which can take longer than the arithmetic. So groups are looked for
before rows are given out, as if each slot had a row of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from fa4kernel.emulator.isa.semantics import Semantics
from fa4kernel.emulator.isa.table import semantics_of
from fa4kernel.emulator.machine.cells import Cells
from fa4kernel.emulator.machine.dataflow import ENDS, Block
from fa4kernel.emulator.machine.fusion import plan
from fa4kernel.emulator.ptx.module import Instruction, PtxError

Part = tuple[Instruction, Semantics]


class Identity(dict[int, int]):
    """Every slot's row is the slot."""

    def __missing__(self, slot: int) -> int:
        return slot


class Unshared:
    """Rows of which no two slots share one."""

    of = Identity()


def neighbours(cells: Cells, alone: Collection[int]) -> list[list[int]]:
    """Slots that should have rows one after the other, in this order.

    Args:
        cells: the cells of the function.
        alone: indices of instructions that are part of no run.
    """
    found = []
    for block in cells.blocks:
        for parts in _runs(cells, block, alone):
            for group in plan(parts, cells, Unshared()):
                targets = list(dict.fromkeys(group.targets))
                if len(targets) > 1:
                    found.append(targets)
    return found


def _runs(cells: Cells, block: Block, alone: Collection[int]) -> Iterator[list[Part]]:
    """The scalar instructions between two others."""
    parts: list[Part] = []
    for index in range(block.start, block.end):
        if index in cells.vanished:
            continue
        instruction = cells.function.instructions[index]
        semantics = None if index in alone else _scalar(instruction)
        if semantics is not None:
            parts.append((instruction, semantics))
        elif parts:
            yield parts
            parts = []
    if parts:
        yield parts


def _scalar(instruction: Instruction) -> Semantics | None:
    """What a scalar instruction does; None for any other, and for one that is refused."""
    if instruction.opcode in ENDS:
        return None
    try:
        semantics = semantics_of(instruction)
    except PtxError:
        return None  # whoever decodes it says so
    return None if semantics is None or semantics.collective else semantics
