"""What a recorder remembers. Times are ticks, the machine's steps, counted on from wave to wave.

A warp goes by its key: the number of its CTA in the grid times 64, plus its own number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.ptx.module import Instruction

WARPS = 64


def key_of(cta: int, warp: int) -> int:
    """The key of a warp.

    >>> divmod(key_of(3, 12), WARPS)
    (3, 12)
    """
    return cta * WARPS + warp


@dataclass(slots=True)
class Step:
    """An item of the program that some warps executed."""

    tick: int
    pc: int
    keys: NDArray[np.int64]


@dataclass(slots=True)
class WaitEvent:
    """A warp that stood still from ``start`` to ``end`` (-1: to the end of the run).

    Attributes:
        what: "mbarrier", "named", "cluster", or what else it was, in words.
        owner: number of the CTA whose barrier it is.
        place: offset or number of the barrier.
        phase: how many phases must be complete.
    """

    key: int
    instruction: Instruction
    what: str
    owner: int
    place: int
    phase: int
    start: int
    end: int = -1

    def continues(self, before: WaitEvent) -> bool:
        """Whether it is the same wait once more: for the same phase, at the same instruction."""
        return (
            self.phase >= 0
            and self.instruction is before.instruction
            and (self.what, self.owner, self.place, self.phase)
            == (before.what, before.owner, before.place, before.phase)
        )


@dataclass(slots=True)
class ArrivalEvent:
    """Arrivals of one warp on a barrier, or bytes that landed.

    Attributes:
        unit: the asynchronous unit that arrived, "" for the warp itself.
        key: the warp that arrived or set the unit to work; -1 if not known.
        phase: phases that were complete before it.
    """

    tick: int
    what: str
    owner: int
    place: int
    phase: int
    count: int
    bytes: int
    unit: str
    key: int


@dataclass(slots=True)
class UnitEvent:
    """Work of an asynchronous unit, from its issue to its completion (-1: never)."""

    unit: str
    op: str
    key: int
    start: int
    end: int = -1
    pieces: int = 1
