"""The register file of all threads, and views of it as typed arrays.

``words[row, lane]`` holds 32-bit cells, ``predicates[row, lane]`` truth values. A lane's index is
``(warp * ctas + cta) * 32 + lane in the warp`` and a CTA's ``rank * clusters + cluster``, so the
warps of one role stand together over all CTAs, and so do the even CTAs of all pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.machine.cells import Cell, Cells, Constant, Fixed, Slot
from fa4kernel.emulator.machine.layout import RANK_SHIFT
from fa4kernel.emulator.machine.rows import Rows
from fa4kernel.emulator.ptx.module import Immediate, Operand, Register, Sink, Special, Vector

#: NumPy types of the values of each PTX type.
DTYPES: dict[str, Any] = {
    "u32": np.uint32, "b32": np.uint32, "s32": np.int32, "f32": np.float32,
    "f16x2": np.uint32, "bf16x2": np.uint32, "tf32": np.uint32,
    "u16": np.uint16, "b16": np.uint16, "s16": np.int16, "f16": np.float16, "bf16": np.uint16,
    "u64": np.uint64, "b64": np.uint64, "s64": np.int64, "f64": np.float64, "b128": np.uint64,
    "pred": np.bool_,
    **dict.fromkeys(["e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "e2m1x2", "ue8m0x2"], np.uint16),
}  # fmt: skip
#: Special registers that count: by how many bits the count is shifted, and how it is masked.
CLOCKS: dict[str, tuple[int, int]] = {
    "%clock": (0, 0xFFFFFFFF), "%clock_hi": (32, 0xFFFFFFFF), "%clock64": (0, (1 << 64) - 1),
    "%globaltimer": (0, (1 << 64) - 1), "%globaltimer_lo": (0, 0xFFFFFFFF),
    "%globaltimer_hi": (32, 0xFFFFFFFF),
}  # fmt: skip

Array = NDArray[Any]
Reader = Callable[[], Array]


@dataclass(frozen=True, slots=True)
class Shape:
    """The threads of a wave: how many there are, and how they are numbered."""

    warps: int
    size: int  # CTAs of a cluster
    clusters: int

    @property
    def ctas(self) -> int:
        """CTAs of the wave."""
        return self.size * self.clusters

    @property
    def lanes(self) -> int:
        """Threads of the wave, unused lanes of a last warp included."""
        return self.warps * self.ctas * 32


class Registers:
    """Registers of all threads of a wave; ``now`` tells the time in ticks."""

    def __init__(self, cells: Cells, rows: Rows, shape: Shape, fixed: dict[str, Array]) -> None:
        self.words = np.zeros((max(1, rows.words), shape.lanes), np.uint32)
        self.predicates = np.zeros((max(1, rows.predicates), shape.lanes), np.bool_)
        self.fixed = fixed
        self.now: Callable[[], int] = lambda: 0
        self._files: dict[str, Array] = {"pred": self.predicates}
        self._cells = cells
        self._rows = rows

    def file(self, kind: str) -> Array:
        """All rows as values of a PTX type of 32 bits, or of predicates."""
        found = self._files.get(kind)
        if found is None:
            found = self._files[kind] = self.words.view(DTYPES[kind])
        return found

    def _cell(self, cell: Cell, lo: int, hi: int) -> Array:
        """A cell's 32-bit words in a range of lanes; a scalar if it is a constant."""
        if isinstance(cell, Constant):
            return np.uint32(cell.value)  # type: ignore[return-value]
        if isinstance(cell, Fixed):
            return self.special(cell.name)[lo:hi]
        return self.words[self._rows.of[cell.number], lo:hi]

    def special(self, name: str) -> Array:
        """The words of a special register, for all lanes."""
        found = self.fixed.get(name)
        if found is None:
            assert name.startswith("shared+"), name
            found = self.fixed["rank"] << np.uint32(RANK_SHIFT) | np.uint32(int(name[7:]))
            self.fixed[name] = found
        return found

    def clock(self, name: str, count: int) -> Array:
        """A clock's value, uint64, for ``count`` lanes: ticks, of no fixed length."""
        shift, mask = CLOCKS[name]
        return np.full(count, self.now() >> shift & mask, np.uint64)

    def source(self, operand: Operand, kind: str, lo: int, hi: int) -> list[Array] | Reader:
        """Where a source operand's values are.

        Returns:
            views, one for each 32-bit half of a packed operand or one in all; or, where the value
            must be put together, a function that does so.
        """
        if kind == "pred":
            if isinstance(operand, Immediate):
                return [np.full(hi - lo, operand.value != 0)]
            return [self.predicate(operand, lo, hi)]
        if kind == "b128":
            words = [self._cell(c, lo, hi) for c in self._cells.cells(operand, 4)]
            return joined_quarters(words)
        if isinstance(operand, Special) and operand.name in CLOCKS:
            name = operand.name
            return lambda: self.clock(name, hi - lo).astype(DTYPES[kind])
        bits = np.dtype(DTYPES[kind]).itemsize * 8
        cells = self._cells.cells(operand, max(1, bits // 32))
        if bits <= 32:
            word = self._cell(cells[0], lo, hi)
            if bits == 32:
                return [word.view(DTYPES[kind])]
            if isinstance(cells[0], Constant):
                return [np.uint16(cells[0].value & 0xFFFF).view(DTYPES[kind])]
            return [word.view(DTYPES[kind])[::2]]
        low, high = (self._cell(c, lo, hi) for c in (*cells, Constant(0))[:2])
        if isinstance(cells[0], Constant) and isinstance(cells[1], Constant):
            value = np.uint64(cells[0].value | cells[1].value << 32)
            return [value.view(DTYPES[kind])]
        return join(low, high, DTYPES[kind])

    def halves(self, operand: Operand, lo: int, hi: int) -> list[Array]:
        """The two float32 halves of an f32x2 operand, as views."""
        return [self._cell(c, lo, hi).view(np.float32) for c in self._cells.cells(operand, 2)]

    def rows_of(self, operand: Operand) -> list[int]:
        """The rows of all cells of a destination operand (-1 for a sink)."""
        found: list[int] = []
        for item in operand.items if isinstance(operand, Vector) else (operand,):
            if isinstance(item, Sink):
                found.append(-1)
                continue
            assert isinstance(item, Register)
            for cell in self._cells.of[item.name]:
                assert isinstance(cell, Slot)
                found.append(self._rows.of[cell.number])
        return found

    def predicate(self, operand: Operand, lo: int, hi: int) -> Array:
        """A predicate register's values (a view)."""
        assert isinstance(operand, Register), operand
        (cell,) = self._cells.of[operand.name]
        assert isinstance(cell, Slot)
        return self.predicates[self._rows.of[cell.number], lo:hi]


def join(low: Array, high: Array, dtype: Any) -> Reader:
    """A function that puts 64-bit values together."""

    def read() -> Array:
        wide = high.astype(np.uint64)
        wide <<= np.uint64(32)
        wide |= low
        return wide.view(dtype)

    return read


def joined_quarters(words: list[Array]) -> Reader:
    """A function that puts 128-bit values together, shape (2, n), low halves first."""

    def read() -> Array:
        low, high = (join(words[i], words[i + 1], np.uint64)() for i in (0, 2))
        return np.stack(np.broadcast_arrays(low, high))

    return read
