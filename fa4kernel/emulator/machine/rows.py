"""Rows of the register file for cells: a linear scan over live ranges.

A register file row holds one cell of every thread. Fewer rows mean less memory per CTA and better
use of the cache, so cells that are never live together share one.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from fa4kernel.emulator.machine.cells import Cell, Cells, Slot
from fa4kernel.emulator.machine.dataflow import live_sets, read, registers_in, writes_first, written
from fa4kernel.emulator.ptx.module import Register, Vector

#: Free rows that are kept back, oldest used first: a row that is written again soon after it was
#: read stands in the way of executing like instructions together (see ``fusion``).
SLACK = 96


class Rows:
    """Rows of slots. ``words`` and ``predicates`` are how many rows there are of each kind.

    Args:
        cells: the cells of all registers.
        held: for some instructions by index, registers that keep their rows until then.
        together: slots that like to have rows one after the other, in this order.

    Attributes:
        of: slot number to row.
        unset: names of registers that may be read before they are written.
    """

    def __init__(
        self,
        cells: Cells,
        held: Mapping[int, tuple[Register, ...]] | None = None,
        together: Sequence[Sequence[int]] = (),
    ) -> None:
        self._cells = cells
        self._held = held or {}
        predicate = {
            cell.number
            for name, register in cells.function.registers.items()
            if register.type == "pred"
            for cell in cells.of[name]
            if isinstance(cell, Slot)
        }
        ranges, self.unset = self._live_ranges()
        wanted = [*self._vectors(), *together]
        words = {n: r for n, r in ranges.items() if n not in predicate}
        self.of, self.words = _scan(words, wanted)
        others, self.predicates = _scan({n: ranges[n] for n in ranges if n in predicate}, wanted)
        self.of |= others

    def _slots(self, registers: Iterable[Register]) -> int:
        found = 0
        for register in registers:
            for cell in self._cells.of[register.name]:
                if isinstance(cell, Slot):
                    found |= 1 << cell.number
        return found

    def _live_ranges(self) -> tuple[dict[int, tuple[int, int]], tuple[str, ...]]:
        code, blocks = self._cells.function.instructions, self._cells.blocks
        touched: dict[int, tuple[int, int]] = {}

        def touch(slots: int, position: int) -> None:
            while slots:
                low = slots & -slots
                number = low.bit_length() - 1
                first, last = touched.get(number, (position, position))
                touched[number] = (min(first, position), max(last, position))
                slots ^= low

        uses, kills = [], []
        for block in blocks:
            use = kill = 0
            for index in range(block.start, block.end):
                if index in self._cells.vanished:
                    continue
                reading, writing = self._slots(read(code[index])), self._slots(written(code[index]))
                reading |= self._slots(self._held.get(index, ()))
                use |= reading & ~kill
                if code[index].guard is None:
                    kill |= writing
                touch(reading | writing, index)
            uses.append(use)
            kills.append(kill)
        into, out = live_sets(blocks, uses, kills)
        for block, entering, leaving in zip(blocks, into, out, strict=True):
            touch(entering, block.start)
            touch(leaving, max(block.start, block.end - 1))
        return touched, self._names_of(self._unset(into[0]))

    def _unset(self, entering: int) -> int:
        """Of slots live at the start those that an instruction reads, not only holds."""
        held = 0
        for registers in self._held.values():
            held |= self._slots(registers)
        return entering & ~held

    def _names_of(self, slots: int) -> tuple[str, ...]:
        return tuple(
            name
            for name, cells in self._cells.of.items()
            if any(isinstance(c, Slot) and slots >> c.number & 1 for c in cells)
        )

    def _vectors(self) -> list[list[int]]:
        """Slots that one instruction writes as a vector."""
        found: list[list[int]] = []
        for index, instruction in enumerate(self._cells.function.instructions):
            if index in self._cells.vanished or not writes_first(instruction):
                continue
            if not isinstance(instruction.operands[0], Vector):
                continue
            cells: list[Cell] = []
            for register in registers_in(instruction.operands[0]):
                cells.extend(self._cells.of[register.name])
            numbers = [c.number for c in cells if isinstance(c, Slot)]
            if len(numbers) == len(cells) > 1 and len(set(numbers)) == len(numbers):
                found.append(numbers)
        return found


def _scan(
    ranges: Mapping[int, tuple[int, int]], together: Sequence[Sequence[int]]
) -> tuple[dict[int, int], int]:
    """Rows for live ranges (first to last position, both included), and how many rows.

    Slots that want to lie together get their rows when the first of them is written.
    """
    row_of: dict[int, int] = {}
    free: deque[int] = deque()
    active: list[tuple[int, int]] = []  # (last position, row)
    rows = 0
    order = sorted(ranges, key=lambda n: (ranges[n][0], n))
    group_of = _groups(order, together)
    for number in order:
        if number in row_of:
            continue
        start = ranges[number][0]
        while active and active[0][0] < start:
            free.append(heapq.heappop(active)[1])
        members = group_of.get(number, [number])
        found = _consecutive(free, len(members)) if len(members) > 1 else None
        if found is None and len(members) == 1 and len(free) > SLACK:
            found = free.popleft()
        if found is None:
            found, rows = rows, rows + len(members)
        for i, member in enumerate(members):
            row_of[member] = found + i
            heapq.heappush(active, (ranges[member][1], found + i))
    return row_of, rows


def _groups(order: Sequence[int], together: Sequence[Sequence[int]]) -> dict[int, Sequence[int]]:
    """The slots that get their rows at once, by each of them; a slot is in one group."""
    known, taken = set(order), set[int]()
    found: dict[int, Sequence[int]] = {}
    for wanted in together:
        if taken.isdisjoint(wanted) and known.issuperset(wanted):
            taken.update(wanted)
            found |= dict.fromkeys(wanted, wanted)
    return found


def _consecutive(free: deque[int], count: int) -> int | None:
    """Take ``count`` free rows that follow each other; None if there are none."""
    ordered: Sequence[int] = sorted(free)
    run = 0
    for i, row in enumerate(ordered):
        run = run + 1 if i and row == ordered[i - 1] + 1 else 1
        if run == count:
            first = row - count + 1
            kept = [r for r in free if not first <= r <= row]
            free.clear()
            free.extend(kept)
            return first
    return None
