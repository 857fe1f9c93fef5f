"""Source operands of instructions that are no plain arithmetic: their values in chosen lanes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.machine.cells import Cells, Constant, Fixed
from fa4kernel.emulator.machine.registers import Registers
from fa4kernel.emulator.machine.rows import Rows
from fa4kernel.emulator.ptx.module import (
    Address,
    FloatImmediate,
    Immediate,
    Operand,
    Register,
    Sink,
    Vector,
)

Lanes = Any  # a slice or an index array


class Value:
    """An operand of one or two cells; calling it gives int64 (or float bits) values of lanes."""

    __slots__ = ("_cells", "_offset", "_rows", "constant")

    def __init__(self, cells: Cells, rows: Rows, operand: Operand, count: int = 1) -> None:
        self._offset = 0
        if isinstance(operand, Address):
            self._offset = operand.offset
            operand = operand.base
        self._cells = cells.cells(operand, count)[:count]
        if isinstance(operand, Register) and len(cells.of[operand.name]) < count:
            self._cells = cells.of[operand.name]
        self._rows = rows
        #: The value, if it is the same for all lanes and known beforehand.
        self.constant: int | None = None
        if all(isinstance(c, Constant) for c in self._cells):
            words = [c.value for c in self._cells if isinstance(c, Constant)]
            self.constant = sum(w << 32 * i for i, w in enumerate(words)) + self._offset

    def cell(self, index: int) -> Value:
        """An accessor of one of the cells alone."""
        found = object.__new__(Value)
        found._cells, found._rows, found._offset = (self._cells[index],), self._rows, 0
        cell = self._cells[index]
        found.constant = cell.value if isinstance(cell, Constant) else None
        return found

    def __call__(self, registers: Registers, lanes: Lanes) -> NDArray[np.int64]:
        """The values in these lanes, unsigned, as int64 (two's complement beyond 2^63)."""
        if self.constant is not None:
            size = len(lanes) if not isinstance(lanes, slice) else lanes.stop - lanes.start
            value = self.constant & (1 << 64) - 1
            return np.full(size, np.int64(value - (value >> 63 << 64)))
        total = self._word(registers, 0, lanes)
        for i in range(1, len(self._cells)):
            total += self._word(registers, i, lanes) << 32
        if self._offset:
            total += self._offset
        return total

    def _word(self, registers: Registers, index: int, lanes: Lanes) -> NDArray[np.int64]:
        """One of the cells in these lanes, as numbers of its own."""
        cell = self._cells[index]
        if isinstance(cell, Constant):
            size = len(lanes) if not isinstance(lanes, slice) else lanes.stop - lanes.start
            return np.full(size, np.int64(cell.value))
        if isinstance(cell, Fixed):
            return registers.special(cell.name)[lanes].astype(np.int64)
        found: NDArray[np.uint32] = registers.words[self._rows.of[cell.number]][lanes]
        return found.astype(np.int64)

    def one(self, registers: Registers, lane: int) -> int:
        """The value in one lane, unsigned."""
        if self.constant is not None:
            return self.constant
        total = self._offset
        for i, cell in enumerate(self._cells):
            if isinstance(cell, Constant):
                word = cell.value
            elif isinstance(cell, Fixed):
                word = int(registers.special(cell.name)[lane])
            else:
                word = int(registers.words[self._rows.of[cell.number], lane])
            total += word << 32 * i
        return total

    def words(self, registers: Registers, lanes: Lanes) -> Any:
        """The low 32 bits of the values, uint32; a scalar if it is a constant."""
        (cell, *_) = self._cells
        if isinstance(cell, Constant):
            size = len(lanes) if not isinstance(lanes, slice) else lanes.stop - lanes.start
            return np.full(size, cell.value, np.uint32)
        if isinstance(cell, Fixed):
            return registers.special(cell.name)[lanes]
        return registers.words[self._rows.of[cell.number]][lanes]


def items_of(operand: Operand) -> tuple[Operand, ...]:
    """The items of a vector, or the operand alone."""
    return operand.items if isinstance(operand, Vector) else (operand,)


__all__ = ["FloatImmediate", "Immediate", "Sink", "Value", "items_of"]
