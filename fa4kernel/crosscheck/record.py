"""What one run did, in words that a simulated pipeline and an emulated kernel share.

A :class:`Record` is made from either side (:mod:`simulated`, :mod:`watching`); the parts of the
cross-check compare two of them. Tiles go by what they hold, not by when they came: a Q, S, P or O
tile by ``(sequence, head, first row)``, a K or V tile by ``(sequence, K/V head, block)``, and S
and P by both. Barriers, roles, slots and TMEM regions go by the simulator's names. Times are
cycles on one side and ticks on the other, and only ever compared within one side.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Label = tuple[int, ...]
#: CTA that owns it, name, stage.
Place = tuple[int, str, int]
#: Who arrived: an operation of a warp, or what a unit did; both by number (the n-th such).
Source = tuple["Warp | str", int]


class Warp(NamedTuple):
    """A warp: ``lane`` is its number within its warpgroup of four."""

    cta: int
    role: str
    lane: int

    def __str__(self) -> str:
        return f"{self.role} warp {self.lane} of CTA {self.cta}"


@dataclass
class Operation:
    """One thing that a warp did, in program order.

    ``what`` is wait, arrive, sync or commit on a barrier, or the data it touched: ``read S``,
    ``write P``, ``QK``, ``load K`` …; ``on`` the barrier, slot or region with its stage; ``label``
    the tile, () where there is none. ``begin`` and ``end`` are times: of a wait, the end is when
    it was over. ``phase`` is how many phases a wait needs to be complete, -1 otherwise.
    """

    what: str
    on: str
    label: Label = ()
    begin: int = 0
    end: int = 0
    phase: int = -1

    @property
    def key(self) -> tuple[str, str, Label]:
        """What is compared with the other side."""
        return self.what, self.on, self.label

    def __str__(self) -> str:
        tile = f" of tile {self.label}" if self.label else ""
        return f"{self.what} {self.on}{tile}"


@dataclass(frozen=True)
class Arrival:
    """Arrivals on a barrier, or bytes that landed; ``phase`` phases were complete before it."""

    phase: int
    count: int
    tx_bytes: int
    by: str
    source: Source
    time: int


@dataclass
class BarrierUse:
    """One stage of a barrier: ``count`` arrivals (threads, of a named barrier) complete a phase."""

    kind: str
    count: int
    completions: int = 0
    waiters: set[str] = field(default_factory=set)
    arrivals: list[Arrival] = field(default_factory=list)

    def parties(self) -> list[dict[str, int]]:
        """Who makes how many arrivals in a complete phase; one entry if all phases agree."""
        return self._different("count")

    def tx_bytes(self) -> list[int]:
        """Transaction bytes of each complete phase, 0 if it has none."""
        sums = Counter[int]()
        for arrival in self.arrivals:
            sums[arrival.phase] += arrival.tx_bytes
        return [sums[phase] for phase in range(self.completions)]

    def left_over(self) -> dict[str, int]:
        """Arrivals in the phase that never completed."""
        made = Counter[str]()
        for arrival in self.arrivals:
            if arrival.phase >= self.completions and arrival.count:
                made[arrival.by] += arrival.count
        return dict(made)

    def _different(self, what: str) -> list[dict[str, int]]:
        phases = [Counter[str]() for _ in range(self.completions)]
        for arrival in self.arrivals:
            if arrival.phase < self.completions and getattr(arrival, what):
                phases[arrival.phase][arrival.by] += getattr(arrival, what)
        found: list[dict[str, int]] = []
        for phase in phases:
            if dict(phase) not in found:
                found.append(dict(phase))
        return found


@dataclass(frozen=True)
class Life:
    """A tile in one place: ``slot`` is a slot of shared memory or a range of TMEM columns.

    ``offset`` and ``size`` are bytes from the start of the tensor's region, -1 in TMEM. Uses are
    those by MMAs, loads of TMEM and stores to global memory.
    """

    tensor: str
    cta: int
    slot: str
    label: Label
    birth: int
    first_use: int
    last_use: int
    death: int
    offset: int = -1
    size: int = -1

    @property
    def key(self) -> tuple[str, Label, int, int]:
        """What is compared with the other side."""
        return self.tensor, self.label, self.offset, self.size

    def __str__(self) -> str:
        where = f" at byte {self.offset}, {self.size} bytes" if self.offset >= 0 else ""
        return f"{self.tensor} tile {self.label} in {self.slot} of CTA {self.cta}{where}"


@dataclass
class Record:
    """A run: barriers, the operations of every warp, what units did, lives of tiles, amounts.

    ``done`` is when a unit completed what its text says (``load K (0, 0, 3) to sKV[1] of CTA 0``),
    each time that it did;
    ``amounts`` counts work; ``scores`` holds each S tile, (128, 128) float32, by CTA and label;
    ``roles`` are what warps are called, by number; ``never_used`` name and count of mbarriers that
    were initialised and nothing else, by CTA; ``faults`` contradictions found while reading the
    run, in words.
    """

    who: str
    clock: str
    barriers: dict[Place, BarrierUse] = field(default_factory=dict)
    warps: dict[Warp, list[Operation]] = field(default_factory=dict)
    done: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    lives: list[Life] = field(default_factory=list)
    amounts: Counter[str] = field(default_factory=Counter)
    scores: dict[tuple[int, Label], NDArray[np.float32]] = field(default_factory=dict)
    roles: dict[int, str] = field(default_factory=dict)
    never_used: dict[int, list[tuple[str, int]]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    # -- writing -------------------------------------------------------------------------------

    def did(self, warp: Warp, what: str, on: str, label: Label, time: int) -> Operation:
        """Write down what a warp did; the same once more is the same operation going on."""
        operations = self.warps.setdefault(warp, [])
        if what not in SYNCHRONISING and operations and operations[-1].key == (what, on, label):
            operations[-1].end = time
        else:
            operations.append(Operation(what, on, label, time, time))
        return operations[-1]

    def here(self, warp: Warp) -> Source:
        """The operation that a warp is at."""
        return warp, len(self.warps[warp]) - 1

    def completed(self, text: str, time: int) -> Source:
        """Write down that a unit has done what the text says."""
        self.done[text].append(time)
        return text, len(self.done[text]) - 1


#: What warps do that is about barriers, and is told every time.
SYNCHRONISING = frozenset({"wait", "arrive", "sync", "commit"})


def load_text(tensor: str, label: Label, slot: str, cta: int) -> str:
    """What a TMA load does, as its key in :attr:`Record.done`."""
    return f"load {tensor} {label} to {slot} of CTA {cta}"


def mma_text(what: str, label: Label, cta: int) -> str:
    """What a run of MMAs does, as its key in :attr:`Record.done`."""
    return f"{what} {label} of CTA {cta}"
