"""Fences: what async accesses, relaxed arrivals and relaxed loads may rely on behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fa4kernel.emulator.checks.actors import Warps, warps_of
from fa4kernel.emulator.checks.clocks import Index, Ints
from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.ptx.module import Instruction

if TYPE_CHECKING:
    from fa4kernel.emulator.checks.state import State


class FenceChecks:
    """What each warp knew at its last fence, and what it learned by relaxed accesses since."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.clocks = state.clocks
        self._fenced: dict[int, Ints] = {}
        self._learned: dict[int, Ints] = {}

    def fence(self, convoy: Convoy, instruction: Instruction) -> None:
        """``fence`` and ``membar``."""
        warps = warps_of(self.state.machine, convoy)
        kinds = ".".join(instruction.qualifiers)
        if "proxy" in kinds:
            if "proxy.async" in kinds and "async.global" not in kinds:
                self.clocks.fence(warps.slots, warps.part)
            return
        if "mbarrier_init" in kinds:
            self.state.barriers.init_fence(warps.slots, warps.part)
            self._remember(warps, self.state.barriers.init_columns())
            return
        self._remember(warps, slice(None))
        for i, slot in enumerate(warps.slots.tolist()):
            row = self._learned.pop(slot, None)
            if row is not None:
                row = np.pad(row, (0, self.clocks.capacity - len(row)))
                part = warps.part if not isinstance(warps.part, np.ndarray) else int(warps.part[i])
                self.clocks.acquire(np.array([slot]), part, row[None])

    def _remember(self, warps: Warps, columns: Any) -> None:
        rows = self.clocks.release(warps.slots, warps.part)
        for slot, row in zip(warps.slots.tolist(), rows, strict=True):
            kept = np.zeros_like(row)
            kept[columns] = row[columns]
            self._fenced[slot] = joined(kept, self._fenced.get(slot))

    def given_relaxed(self, warps: Warps, given: Ints) -> Ints:
        """What a relaxed arrival hands on: order, and what was known at the last fence."""
        found: Ints = np.where(self.clocks.control, given, 0)
        for i, slot in enumerate(warps.slots.tolist()):
            found[i] = joined(found[i], self._fenced.get(slot))
        return found

    def learned_relaxed(self, slots: Index, given: Ints) -> None:
        """What a relaxed wait or load learns counts from the next fence on."""
        for slot, row in zip(slots.tolist(), given, strict=True):
            self._learned[slot] = joined(row, self._learned.get(slot))


def joined(row: Ints, other: Ints | None) -> Ints:
    """The maximum of two clocks; the second may be shorter, or None."""
    if other is None:
        return row
    found = row.copy()
    found[: len(other)] = np.maximum(found[: len(other)], other)
    return found
