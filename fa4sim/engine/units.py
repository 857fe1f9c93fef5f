"""Execution units as busy-until arithmetic.

Invariant: a unit is free from ``free`` on and has worked ``busy`` cycles so far. A piece of work is
handed over when its warp reaches it, never ahead of time, so pieces of different warps interleave
in the order in which they come.
"""

from __future__ import annotations


class Unit:
    """One unit that does one thing at a time: a shared-memory port, a tensor pipe."""

    __slots__ = ("busy", "free", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.free = 0
        self.busy = 0

    def reserve(self, now: int, cycles: int) -> int:
        """Work for ``cycles`` as soon as the unit is free; returns when it is done."""
        start = self.free if self.free > now else now
        self.free = end = start + cycles
        self.busy += cycles
        return end


class Pressure:
    """Whether the SM's tensor pipe runs just now: everybody else's arithmetic takes longer then.

    ``stolen`` counts, for each sub-partition, tensor cycles that arithmetic has taken away and that
    the pipe has not made up for yet.
    """

    __slots__ = ("running", "stolen")

    def __init__(self) -> None:
        self.running = False
        self.stolen = [0, 0, 0, 0]

    def make_up(self) -> int:
        """Cycles by which the pipe is late on the sub-partition that took most; then none is."""
        late = max(self.stolen)
        if late:
            self.stolen = [0, 0, 0, 0]
        return late


class Group:
    """A group of instructions of one warp: issue slots, and cycles on each unit.

    Beside a running tensor pipe the units take ``factor`` times as long, the group has
    ``pressed_issue`` issue slots, a warp that has nobody beside it takes at least ``lone`` cycles,
    and the pipe loses ``steals`` cycles, or ``steals_shared`` more if two warps' instructions mix.
    """

    __slots__ = (
        *("alu", "fma", "issue", "lone", "mufu", "pressed", "pressed_issue", "steals"),
        "steals_shared",
    )

    def __init__(
        self, issue: int, mufu: int = 0, fma: int = 0, alu: int = 0, *, factor: float = 1.0,
        pressed_issue: float | None = None, lone: float = 0.0, steals: float = 0.0,
        steals_shared: float = 0.0,
    ) -> None:  # fmt: skip
        self.issue = issue
        self.mufu = mufu
        self.fma = fma
        self.alu = alu
        #: (mufu, fma, alu) while the tensor pipe runs.
        self.pressed = (round(mufu * factor), round(fma * factor), round(alu * factor))
        self.pressed_issue = issue if pressed_issue is None else round(pressed_issue)
        self.lone = round(lone)
        self.steals = round(steals)
        self.steals_shared = round(steals_shared)

    def __repr__(self) -> str:
        return f"Group(issue={self.issue}, mufu={self.mufu}, fma={self.fma}, alu={self.alu})"


class SubPartition:
    """A quarter of an SM: one issue slot per cycle before MUFU, FMA and ALU lanes and a TMEM port.

    Warp ``w`` of a CTA lives on sub-partition ``w mod 4``. The four units are kept as plain numbers
    (``mufu_free``, ``mufu_busy``, …), because nothing in a run is done as often as :meth:`run`.
    """

    __slots__ = (
        *("alu_busy", "alu_free", "fma_busy", "fma_free", "index", "issue_busy", "issue_free"),
        *("mufu_busy", "mufu_free", "pressure", "tmem"),
    )

    def __init__(self, index: int, pressure: Pressure) -> None:
        self.index = index
        self.pressure = pressure
        self.issue_free = self.mufu_free = self.fma_free = self.alu_free = 0
        self.issue_busy = self.mufu_busy = self.fma_busy = self.alu_busy = 0
        self.tmem = Unit("tmem")

    def run(self, now: int, group: Group) -> int:
        """Hand one group of independent instructions to the units; returns when all are done."""
        free = self.issue_free
        pressure = self.pressure
        if pressure.running:
            issue = group.pressed_issue
            mufu, fma, alu = group.pressed
            if group.steals:
                pressure.stolen[self.index] += group.steals
            if group.steals_shared and free > now:
                pressure.stolen[self.index] += group.steals_shared
            lone = now + group.lone
        else:
            issue = group.issue
            mufu, fma, alu = group.mufu, group.fma, group.alu
            lone = now
        self.issue_free = end = (free if free > now else now) + issue
        self.issue_busy += issue
        if lone > end:
            end = lone
        if mufu:
            free = self.mufu_free
            self.mufu_free = free = (free if free > now else now) + mufu
            self.mufu_busy += mufu
            if free > end:
                end = free
        if fma:
            free = self.fma_free
            self.fma_free = free = (free if free > now else now) + fma
            self.fma_busy += fma
            if free > end:
                end = free
        if alu:
            free = self.alu_free
            self.alu_free = free = (free if free > now else now) + alu
            self.alu_busy += alu
            if free > end:
                end = free
        return end

    def slots(self, now: int, count: int) -> None:
        """Use ``count`` issue slots for instructions whose time is accounted elsewhere."""
        free = self.issue_free
        self.issue_free = (free if free > now else now) + count
        self.issue_busy += count

    def busy(self) -> dict[str, int]:
        """Cycles each unit has worked so far."""
        return {
            "issue": self.issue_busy,
            "mufu": self.mufu_busy,
            "fma": self.fma_busy,
            "alu": self.alu_busy,
            "tmem": self.tmem.busy,
        }

    def add_busy(self, more: dict[str, int]) -> None:
        """Count work that was not simulated one by one."""
        self.issue_busy += more["issue"]
        self.mufu_busy += more["mufu"]
        self.fma_busy += more["fma"]
        self.alu_busy += more["alu"]
        self.tmem.busy += more["tmem"]

    def state(self, now: int) -> tuple[int, ...]:
        """How long each unit is still busy."""
        return tuple(
            free - now if free > now else 0
            for free in (
                *(self.issue_free, self.mufu_free, self.fma_free, self.alu_free),
                self.tmem.free,
            )
        )
