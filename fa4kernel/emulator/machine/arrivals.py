"""Who came last to each barrier: what a deadlock's report tells, and what a trace records.

Kept for every mbarrier, always: an entry costs a few numbers, and when nothing goes on any more it
is too late to ask.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.ptx.module import Instruction

Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Arrival:
    """One arrival, or bytes that landed.

    Attributes:
        lane: whose instruction it was, as an index of the machine's lanes; -1 if not known.
        instruction: the instruction.
        tick: when, in steps of the machine.
    """

    lane: int
    instruction: Instruction
    tick: int


class LastArrivals:
    """The last arrival on each barrier and the last bytes, and who came in the phase under way.

    Args:
        count: barriers.
        ctas: CTAs of the machine.
        now: tells the machine's step.
    """

    def __init__(self, count: int, ctas: int, now: Callable[[], int]) -> None:
        self._now = now
        self._ctas = ctas
        self._instructions: list[Instruction] = []
        self._numbers: dict[int, int] = {}
        # Row 0 for arrivals, row 1 for bytes; numbers of instructions and lanes count from 1.
        self._what = np.zeros((2, count), np.int32)
        self._lane = np.zeros((2, count), np.int32)
        self._tick = np.zeros((2, count), np.int64)
        self._came = np.zeros(count, np.uint32)

    def record(self, index: Indices, instruction: Instruction, lanes: Any, landed: bool) -> None:
        """Somebody arrived, or (``landed``) bytes came.

        Args:
            index: barriers, one for each entry.
            instruction: what brought it about.
            lanes: who executed it, one for each entry; None if that is not known.
            landed: whether it was only bytes.
        """
        number = self._number(instruction)
        row = int(landed)
        self._what[row, index] = number
        self._tick[row, index] = self._now()
        if lanes is None:
            self._lane[row, index] = 0
            return
        self._lane[row, index] = lanes + 1
        if not landed:
            bits = np.uint32(1) << (lanes // (32 * self._ctas)).astype(np.uint32)
            np.bitwise_or.at(self._came, index, bits)

    def record_one(self, at: int, instruction: Instruction, lanes: Any, landed: bool) -> None:
        """The same where all entries are of the barrier ``at``."""
        row = int(landed)
        self._what[row, at] = self._number(instruction)
        self._tick[row, at] = self._now()
        if lanes is None:
            self._lane[row, at] = 0
            return
        first, last = int(lanes[0]), int(lanes[-1])
        self._lane[row, at] = last + 1
        if landed:
            return
        size = 32 * self._ctas
        if len(lanes) == 1:
            bits = 1 << last // size
        elif last - first == len(lanes) - 1:
            bits = (2 << last // size) - (1 << first // size)
        else:
            bits = int(np.bitwise_or.reduce(1 << lanes // size))
        self._came[at] |= np.uint32(bits)

    def _number(self, instruction: Instruction) -> int:
        """The number by which an instruction is kept."""
        number = self._numbers.get(id(instruction))
        if number is None:
            self._instructions.append(instruction)
            number = self._numbers[id(instruction)] = len(self._instructions)
        return number

    def phase_done(self, index: Any) -> None:
        """A phase of these barriers is complete."""
        self._came[index] = 0

    def last(self, index: int, landed: bool = False) -> Arrival | None:
        """The last arrival on a barrier, or the last bytes that landed; None if there was none."""
        row = int(landed)
        number = int(self._what[row, index])
        if not number:
            return None
        lane, tick = int(self._lane[row, index]) - 1, int(self._tick[row, index])
        return Arrival(lane, self._instructions[number - 1], tick)

    def came(self, index: int) -> list[int]:
        """Numbers of the warps, of any CTA, that arrived in the phase that is under way."""
        bits = int(self._came[index])
        return [warp for warp in range(32) if bits >> warp & 1]
