"""Tensor memory of all CTAs of a wave, and who has allocated what (PTX ISA 9.7.16.1, 9.7.16.7)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.errors import EmulationError
from fa4kernel.emulator.ptx.module import Instruction

COLUMNS = 512
LANES = 128


class TensorMemory:
    """128 lanes by 512 columns of 32 bits for each CTA.

    Attributes:
        words: uint32, shape (ctas, columns, lanes): a column's lanes lie together.
        owner: which allocation each column belongs to, by CTA; 0 for none.
        relinquished: whether a CTA has given up the right to allocate.
    """

    def __init__(self, ctas: int) -> None:
        self.words: NDArray[np.uint32] = np.zeros((ctas, COLUMNS, LANES), np.uint32)
        self.owner = np.zeros((ctas, COLUMNS), np.int32)
        self.relinquished = np.zeros(ctas, np.bool_)
        self._count = 0

    def allocate(self, cta: int, columns: int, instruction: Instruction) -> int | None:
        """The first free columns of that number, aligned to it; None if there are none now."""
        if columns not in (32, 64, 128, 256, 512):
            raise EmulationError(
                f"tcgen05.alloc of {columns} columns: 32, 64, 128, 256 or 512 are allowed",
                instruction, "tmem-allocation",
            )  # fmt: skip
        if self.relinquished[cta]:
            raise EmulationError(
                f"CTA {cta} allocates tensor memory after it relinquished the permit to",
                instruction, "tmem-allocation",
            )  # fmt: skip
        for start in range(0, COLUMNS, columns):
            if not self.owner[cta, start : start + columns].any():
                self._count += 1
                self.owner[cta, start : start + columns] = self._count
                return start
        return None

    def free(self, cta: int, start: int, columns: int, instruction: Instruction) -> None:
        """Give columns back.

        Raises:
            EmulationError: they are not one whole allocation.
        """
        end = start + columns
        mine = self.owner[cta, start:end]
        whole = 0 < len(mine) == columns and mine[0] > 0 and (mine == mine[0]).all()
        if not whole or np.count_nonzero(self.owner[cta] == mine[0]) != columns:
            raise EmulationError(
                f"tcgen05.dealloc of columns {start} to {end - 1} of CTA {cta}, which are no"
                " allocation of its own", instruction, "tmem-allocation",
            )  # fmt: skip
        self.owner[cta, start:end] = 0

    def check(self, cta: int, start: int, columns: int, instruction: Instruction) -> None:
        """Raise if a column is not allocated."""
        end = start + columns
        if start < 0 or end > COLUMNS or not self.owner[cta, start:end].all():
            raise EmulationError(
                f"tensor memory columns {start} to {end - 1} of CTA {cta} are not (all) allocated",
                instruction, "tmem-unallocated",
            )  # fmt: skip
