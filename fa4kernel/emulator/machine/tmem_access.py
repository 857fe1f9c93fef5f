"""Where ``tcgen05.ld`` and ``tcgen05.st`` reach: which registers, which lanes and columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.errors import EmulationError
from fa4kernel.emulator.machine.cells import Slot
from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.machine.group_binding import span
from fa4kernel.emulator.machine.operands import items_of
from fa4kernel.emulator.machine.program import Context, allow, unsupported
from fa4kernel.emulator.ptx.module import Immediate, Instruction, Operand, Register
from fa4kernel.emulator.tensor import tmem

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

#: Accesses of an instruction that are remembered.
MOST_KNOWN = 64


@dataclass(frozen=True, slots=True)
class Piece:
    """Neighbouring warps of all CTAs that access the same columns, each its own quarter.

    Attributes:
        lo, hi: their lanes.
        warps: how many they are in each CTA.
        lane: where the first one's lanes begin in tensor memory.
        column: their first column.
    """

    lo: int
    hi: int
    warps: int
    lane: int
    column: int


@dataclass(frozen=True, slots=True)
class Access:
    """Where the warps of a convoy reach.

    Attributes:
        slots, ctas: the warps and their CTAs.
        lane, column: base lanes and columns, one for each warp.
        pieces: the same in pieces, if the convoy consists of them; else empty.
    """

    slots: NDArray[np.intp]
    ctas: NDArray[np.intp]
    lane: NDArray[np.int64]
    column: NDArray[np.int64]
    pieces: tuple[Piece, ...]


class Transfer:
    """What ``tcgen05.ld`` and ``st`` move: which registers, which lanes and columns."""

    def __init__(self, instruction: Instruction, context: Context, store: bool) -> None:
        qualifiers = instruction.qualifiers
        shapes = [q for q in qualifiers if q in tmem.REGISTERS]
        counts = [q for q in qualifiers if q[0] == "x" and q[1:].isdigit()]
        packing = "unpack::16b" if store else "pack::16b"
        allow(instruction, "st" if store else "ld", "sync", "aligned", "b32", packing,
              *shapes, *counts)  # fmt: skip
        if len(shapes) != 1 or len(counts) != 1:
            raise unsupported(instruction)
        self.instruction = instruction
        self.shape, self.num = shapes[0], int(counts[0][1:])
        self.packed = packing in qualifiers
        operands = list(instruction.operands)
        address = operands.pop(0 if store else 1)
        data = operands.pop(0 if not store else -1)
        split = operands[0] if operands else None
        half = split.value if isinstance(split, Immediate) else 0
        self.address = context.value(address)
        self.places = tmem.fragment(self.shape, self.num, half_split=half, packed=self.packed)
        self.columns = tmem.fragment_columns(
            self.shape, self.num, half_split=half, packed=self.packed
        )
        self.items = items_of(data)
        if len(self.items) != self.places.lane.shape[1]:
            raise unsupported(
                instruction, f"{len(self.items)} registers, not {self.places.lane.shape[1]}"
            )
        self.straight = self.shape == "32x32b" and not self.packed
        #: The registers' rows, if all have one, as ``span`` gives them.
        self.rows = _rows(self.items, context)
        self._known: dict[tuple[Any, ...], Access] = {}

    def where(self, machine: Machine, convoy: Convoy) -> Access:
        """Where the convoy's warps reach, checked."""
        slots, leaders = convoy.warps()
        if convoy.mask is not None and convoy.count != 32 * len(slots):
            raise EmulationError(
                "an aligned instruction is executed by part of a warp",
                self.instruction, "divergent-warp",
            )  # fmt: skip
        addresses = self.address(machine.registers, leaders)
        key = (addresses.tobytes(), slots.tobytes(), machine.shape.ctas)
        found = self._known.get(key)
        if found is None:
            if len(self._known) == MOST_KNOWN:
                self._known.clear()
            found = self._known[key] = self._access(machine, convoy, addresses)
        owner, last = machine.tmem.owner, found.column + (self.columns - 1)
        fits = not np.count_nonzero(last >= tmem.COLUMNS)
        if not fits or np.count_nonzero(
            owner[found.ctas, found.column] * owner[found.ctas, last]
        ) != len(last):
            for cta, start in zip(found.ctas, found.column, strict=True):
                machine.tmem.check(int(cta), int(start), self.columns, self.instruction)
        return found

    def _access(self, machine: Machine, convoy: Convoy, addresses: NDArray[np.int64]) -> Access:
        slots, _ = convoy.warps()
        ctas, warps = machine.ctas_of(slots), machine.warps_of(slots)
        lane, column = addresses >> 16 & 0xFFFF, addresses & 0xFFFF
        wrong = lane - 32 * (warps % 4)
        allowed = (wrong == 0) if self.shape == "32x32b" else (wrong == 0) | (wrong == 16)
        if not allowed.all():
            i = int(np.nonzero(~allowed)[0][0])
            raise EmulationError(
                f"warp {warps[i]} may reach tensor memory lanes {32 * (warps[i] % 4)} to"
                f" {32 * (warps[i] % 4) + 31}, not lane {lane[i]}",
                self.instruction, "tmem-lanes",
            )  # fmt: skip
        pieces = () if not self.straight else _pieces(machine, convoy, column)
        return Access(slots, ctas, lane, column, pieces)

    def index(self, ctas: Any, lane: Any, column: Any) -> tuple[Any, Any, Any]:
        """Index of all words, shape (warps, 32, registers)."""
        return (
            ctas[:, None, None],
            column[:, None, None] + self.places.column,
            lane[:, None, None] + self.places.lane,
        )


def _rows(items: tuple[Operand, ...], context: Context) -> Any:
    found = []
    for item in items:
        cells = context.cells.of[item.name] if isinstance(item, Register) else ()
        if len(cells) != 1 or not isinstance(cells[0], Slot):
            return None
        found.append(context.rows.of[cells[0].number])
    return span(found)


def _pieces(machine: Machine, convoy: Convoy, column: NDArray[np.int64]) -> tuple[Piece, ...]:
    """The pieces of a convoy; none if it is not made of whole warps of all CTAs."""
    size = 32 * machine.shape.ctas
    if convoy.mask is not None or convoy.lo % size or convoy.hi % size:
        return ()
    by_warp = column.reshape(-1, machine.shape.ctas)
    if (by_warp != by_warp[:, :1]).any():
        return ()
    found: list[Piece] = []
    for i, start in enumerate(by_warp[:, 0].tolist()):
        lo, lane = convoy.lo + i * size, (convoy.lo // size + i) % 4 * 32
        last = found[-1] if found else None
        if last is not None and last.column == start and lane:
            found[-1] = Piece(last.lo, lo + size, last.warps + 1, last.lane, start)
        else:
            found.append(Piece(lo, lo + size, 1, lane, start))
    return tuple(found)
