"""Flags in shared memory: what releasing stores and atomics hand on to acquiring loads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.checks.actors import Entries
from fa4kernel.emulator.checks.clocks import Index, Ints
from fa4kernel.emulator.ptx.module import Instruction

if TYPE_CHECKING:
    from fa4kernel.emulator.checks.state import State

#: Accesses that may meet each other without being a race (PTX ISA 8.7.1, morally strong).
STRONG = frozenset(("relaxed", "acquire", "release", "acq_rel", "volatile", "mmio"))
RELEASES, ACQUIRES = frozenset(("release", "acq_rel")), frozenset(("acquire", "acq_rel"))


def is_strong(instruction: Instruction) -> bool:
    """Whether an access is an atomic, or ordered otherwise."""
    return instruction.opcode in ("atom", "red") or bool(STRONG & set(instruction.qualifiers))


class FlagChecks:
    """Clocks by the place of a flag: all that was ever given there.

    A relaxed access hands on what its warp knew at its last fence, and what it learns counts from
    the next.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self._given: dict[int, Ints] = {}

    def access(self, found: Entries, places: Index, write: bool, instruction: Instruction) -> None:
        """Strong accesses, before they count.

        Args:
            found: who.
            places: where, for each entry.
            write: whether something is written; atomics also read.
        """
        if instruction.opcode == "atom" and len(found.warps.slots) > 1:
            for row in range(len(found.warps.slots)):  # each finds what those before it gave
                mine = found.row == row
                self._access(one_warp(found, row, mine), places[mine], write, instruction)
            return
        self._access(found, places, write, instruction)

    def _access(self, found: Entries, places: Index, write: bool, instruction: Instruction) -> None:
        state, qualifiers = self.state, set(instruction.qualifiers)
        if not write or instruction.opcode == "atom":
            for slot, part, place in zip(found.slots, parts(found), places.tolist(), strict=True):
                row = self._given.get(place)
                if row is None:
                    continue
                row = np.pad(row, (0, state.clocks.capacity - len(row)))[None]
                one = np.array([slot])
                if qualifiers & ACQUIRES:
                    state.clocks.acquire(one, int(part), row)
                else:
                    state.fences.learned_relaxed(one, row)
        if write:
            rows = state.clocks.release(found.warps.slots, found.warps.part)
            if not qualifiers & RELEASES:
                rows = state.fences.given_relaxed(found.warps, rows)
            for which, place in zip(found.row, places.tolist(), strict=True):
                old = self._given.get(place)
                row = rows[which].copy()
                if old is not None:
                    row[: len(old)] = np.maximum(row[: len(old)], old)
                self._given[place] = row


def one_warp(found: Entries, row: int, mine: NDArray[np.bool_]) -> Entries:
    """The entries of one of the warps, which ``mine`` picks."""
    only = np.arange(len(found.warps.slots)) == row
    none = np.zeros(np.count_nonzero(mine), np.intp)
    return Entries(found.warps.of(only), none, found.lane[mine], found.lanes[mine])


def parts(found: Entries) -> Index:
    """Whose clock counts, for each entry."""
    return np.broadcast_to(np.asarray(found.part), len(found.row))
