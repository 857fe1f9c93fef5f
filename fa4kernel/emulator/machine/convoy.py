"""A convoy: the threads, of any warps and CTAs, that stand at one instruction."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Lanes = NDArray[np.intp]


class Convoy:
    """Lanes ``lo`` to ``hi`` (multiples of 32) at instruction ``pc``.

    ``mask`` says which lanes of the range belong to it; None means all. Invariant: the first and
    the last warp of the range have a lane in it.
    """

    __slots__ = ("_lanes", "_warps", "hi", "lo", "mask", "pc")

    def __init__(self, pc: int, lo: int, hi: int, mask: Mask | None = None) -> None:
        self.pc = pc
        self.lo = lo
        self.hi = hi
        self.mask = mask
        self._warps: tuple[Lanes, Lanes] | None = None
        self._lanes: Lanes | None = None

    def __repr__(self) -> str:
        return f"Convoy(pc={self.pc}, {self.lo}:{self.hi}, {self.count} lanes)"

    @classmethod
    def of(cls, pc: int, lo: int, mask: Mask) -> Convoy | None:
        """The convoy of the lanes ``lo + nonzero(mask)``; None if there are none."""
        truths = mask.tobytes()  # searched faster than an array of this size
        first = truths.find(1)
        if first < 0:
            return None
        first, last = first & ~31, (truths.rfind(1) | 31) + 1
        whole = truths.find(0, first, last) < 0
        return cls(pc, lo + first, lo + last, None if whole else mask[first:last])

    @property
    def count(self) -> int:
        """Its lanes."""
        return self.hi - self.lo if self.mask is None else int(np.count_nonzero(self.mask))

    @property
    def warp_count(self) -> int:
        """How many warps have lanes here."""
        return (self.hi - self.lo) // 32 if self.mask is None else len(self.warps()[0])

    def full_mask(self) -> Mask:
        """The mask, also where all lanes take part; not to be written to."""
        if self.mask is not None:
            return self.mask
        return np.ones(self.hi - self.lo, np.bool_)

    def warps(self) -> tuple[Lanes, Lanes]:
        """``(slots, leaders)``: which warps have lanes here, and the first such lane of each.

        A slot is a lane's index divided by 32.
        """
        if self._warps is None:
            if self.mask is None:
                slots = np.arange(self.lo // 32, self.hi // 32)
                self._warps = slots, slots * 32
            else:
                by_warp = self.mask.reshape(-1, 32)
                here = np.nonzero(by_warp.any(axis=1))[0]
                slots = here + self.lo // 32
                self._warps = slots, slots * 32 + by_warp[here].argmax(axis=1)
        return self._warps

    def lanes(self) -> Lanes:
        """Indices of its lanes."""
        if self._lanes is None:
            if self.mask is None:
                self._lanes = np.arange(self.lo, self.hi)
            else:
                self._lanes = self.mask.nonzero()[0] + self.lo
        return self._lanes

    def picked(self) -> Any:
        """Its lanes to index with: a slice where they are all of the range."""
        return slice(self.lo, self.hi) if self.mask is None else self.lanes()

    def lanes_per_warp(self) -> NDArray[np.intp]:
        """How many lanes of each of its warps are here, in the order of :meth:`warps`."""
        if self.mask is None:
            return np.full((self.hi - self.lo) // 32, 32)
        counts: NDArray[np.intp] = self.mask.reshape(-1, 32).sum(axis=1)
        return counts[counts > 0]

    def part(self, mask: Mask, pc: int | None = None) -> Convoy | None:
        """Those of its lanes that ``mask`` (of the whole range) names."""
        chosen = mask if self.mask is None else mask & self.mask
        return Convoy.of(self.pc if pc is None else pc, self.lo, chosen)

    def with_warps(self, chosen: Any) -> Mask:
        """A mask of the range for those of :meth:`warps` where ``chosen`` is true."""
        slots, _ = self.warps()
        found = np.zeros((self.hi - self.lo) // 32, np.bool_)
        found[slots[np.asarray(chosen, bool)] - self.lo // 32] = True
        spread = np.repeat(found, 32)
        return spread if self.mask is None else spread & self.mask

    def join(self, other: Convoy) -> Convoy:
        """Both together, at this one's instruction."""
        if self.mask is None and other.mask is None:
            if self.hi == other.lo:
                return Convoy(self.pc, self.lo, other.hi)
            if other.hi == self.lo:
                return Convoy(self.pc, other.lo, self.hi)
        lo, hi = min(self.lo, other.lo), max(self.hi, other.hi)
        mask = np.zeros(hi - lo, np.bool_)
        for each in (self, other):
            part = mask[each.lo - lo : each.hi - lo]
            if each.mask is None:
                part[:] = True
            else:
                part |= each.mask
        return Convoy(self.pc, lo, hi, None if mask.all() else mask)
