"""What lies where while a kernel runs: slots of shared memory and columns of tensor memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from fa4kernel.crosscheck.record import Label, Life


@dataclass
class Holding:
    """A tile in a place; ``low`` and ``high`` are bytes or columns, the latter exclusive."""

    tensor: str
    cta: int
    slot: str
    label: Label
    low: int
    high: int
    birth: int
    size: int = 0
    first_use: int = -1
    last_use: int = -1
    death: int = -1
    users: set[int] = field(default_factory=set)

    def use(self, time: int) -> None:
        """It is read."""
        if self.first_use < 0:
            self.first_use = time
        self.last_use = time


class Places:
    """All tiles of a run, dead ones included, and the live one at each place."""

    def __init__(self) -> None:
        self.all: list[Holding] = []
        self._live: dict[tuple[int, str], Holding] = {}

    def put(
        self, tensor: str, cta: int, slot: str, label: Label, extent: tuple[int, int], time: int
    ) -> Holding:
        """A tile begins to fill a place, or another piece of the same tile comes."""
        held = self._live.get((cta, slot))
        if held is not None and (held.tensor, held.label) == (tensor, label):
            held.low, held.high = min(held.low, extent[0]), max(held.high, extent[1])
            return held
        held = Holding(tensor, cta, slot, label, *extent, time)
        self.all.append(held)
        self._live[cta, slot] = held
        return held

    def held(self, cta: int, slot: str) -> Holding | None:
        """What lies in a slot."""
        return self._live.get((cta, slot))

    def at(self, cta: int, address: int, tensors: str) -> Holding | None:
        """The tile of one of these tensors that holds an address: the youngest, of several."""
        found = [
            held
            for (owner, _), held in self._live.items()
            if owner == cta and held.tensor in tensors and held.low <= address < held.high
        ]
        return max(found, key=lambda held: held.birth, default=None)

    def end(self, cta: int, slot: str, time: int) -> None:
        """What lies in a slot is given up."""
        held = self._live.pop((cta, slot), None)
        if held is not None:
            held.death = time

    def lives(self) -> Iterator[Life]:
        """All of them, with offsets from the first byte of their tensor's region in their CTA."""
        base: dict[tuple[int, str], int] = {}
        for held in self.all:
            key = held.cta, region(held.slot)
            base[key] = min(base.get(key, held.low), held.low)
        for held in self.all:
            in_tmem = "[" not in held.slot
            slot = f"columns {held.low}-{held.high - 1}" if in_tmem else held.slot
            yield Life(
                held.tensor, held.cta, slot, held.label, held.birth, held.first_use,
                held.last_use, held.death,
                -1 if in_tmem else held.low - base[held.cta, region(held.slot)],
                -1 if in_tmem else held.size or held.high - held.low,
            )  # fmt: skip


def region(slot: str) -> str:
    """The slots that a slot is one of: of sKV[2] it is sKV."""
    return slot.split("[")[0]
