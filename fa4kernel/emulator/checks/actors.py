"""Which warps a convoy consists of, and whether they act as a whole or by one of their lanes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.checks.clocks import LONE, WHOLE, Index
from fa4kernel.emulator.machine.convoy import Convoy

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine


@dataclass(slots=True)
class Warps:
    """The warps of a convoy.

    Attributes:
        slots: which, in rising order.
        part: whether a warp acts as a whole or by one lane, see :mod:`clocks`; one value for all or
            one for each.
    """

    slots: Index
    part: Any

    def of(self, chosen: NDArray[np.bool_]) -> Warps:
        """Some of them."""
        part = self.part if not isinstance(self.part, np.ndarray) else self.part[chosen]
        return Warps(self.slots[chosen], part)


def warps_of(machine: Machine, convoy: Convoy) -> Warps:
    """The warps of a convoy.

    A single lane (of several that live) acts alone; other parts of a warp count as the whole,
    since the lanes that are missing most often are those that such a lane left behind.
    """
    slots, _ = convoy.warps()
    if convoy.mask is None:
        return Warps(slots, WHOLE)
    lone = convoy.lanes_per_warp() == 1
    if not np.count_nonzero(lone):
        return Warps(slots, WHOLE)
    lone &= machine.alive.reshape(-1, 32)[slots].sum(axis=1) > 1
    if lone.all():
        return Warps(slots, LONE)
    return Warps(slots, np.where(lone, LONE, WHOLE) if np.count_nonzero(lone) else WHOLE)


@dataclass(slots=True)
class Entries:
    """Lanes of a convoy that do the same, put together: one row for each warp, or for each lane.

    Attributes:
        warps: the warps.
        row: for each entry, which of the warps it belongs to.
        lane: for each entry, the position of (one of) its lanes among those of the convoy.
        lanes: how many lanes each entry stands for.
    """

    warps: Warps
    row: Index
    lane: Index
    lanes: Index

    @property
    def slots(self) -> Index:
        """The warp of each entry."""
        return self.warps.slots[self.row]

    @property
    def part(self) -> Any:
        """Whose clock counts, for each entry."""
        part = self.warps.part
        return part if not isinstance(part, np.ndarray) else part[self.row]


def entries(machine: Machine, convoy: Convoy, *values: NDArray[Any]) -> Entries:
    """Entries of a convoy: warps whose lanes all have the same values, else lanes.

    Args:
        values: arrays with a value for each lane of the convoy.
    """
    warps = warps_of(machine, convoy)
    number = len(warps.slots)
    rows = np.arange(number)
    if convoy.mask is None:
        if all((v.reshape(number, 32) == v[::32, None]).all() for v in values):
            return Entries(warps, rows, 32 * rows, np.full(number, 32))
        counts = np.full(number, 32)
    else:
        counts = convoy.lanes_per_warp()
        first = np.cumsum(counts) - counts
        spread = np.repeat(rows, counts)
        if len(spread) == number or all((v == v[first][spread]).all() for v in values):
            return Entries(warps, rows, first, counts)
    spread = np.repeat(rows, counts)
    return Entries(warps, spread, np.arange(len(spread)), np.ones(len(spread), np.intp))


def part_of(warps: Warps, slots: Index) -> Any:
    """Whose clock counts for these of the warps: one value for all or one for each."""
    if not isinstance(warps.part, np.ndarray):
        return warps.part
    return warps.part[np.searchsorted(warps.slots, slots)]
