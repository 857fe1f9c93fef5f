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


class SubPartition:
    """A quarter of an SM: one issue slot per cycle before MUFU, FMA and ALU lanes and a TMEM port.

    Warp ``w`` of a CTA lives on sub-partition ``w mod 4``.
    """

    __slots__ = ("alu", "fma", "index", "issue", "mufu", "tmem")

    def __init__(self, index: int) -> None:
        self.index = index
        self.issue = Unit("issue")
        self.mufu = Unit("mufu")
        self.fma = Unit("fma")
        self.alu = Unit("alu")
        self.tmem = Unit("tmem")

    def run(self, now: int, issue: int, mufu: int = 0, fma: int = 0, alu: int = 0) -> int:
        """Hand one group of independent instructions to the units; returns when all are done."""
        unit = self.issue
        start = unit.free if unit.free > now else now
        unit.free = end = start + issue
        unit.busy += issue
        if mufu:
            unit = self.mufu
            start = unit.free if unit.free > now else now
            unit.free = start = start + mufu
            unit.busy += mufu
            if start > end:
                end = start
        if fma:
            unit = self.fma
            start = unit.free if unit.free > now else now
            unit.free = start = start + fma
            unit.busy += fma
            if start > end:
                end = start
        if alu:
            unit = self.alu
            start = unit.free if unit.free > now else now
            unit.free = start = start + alu
            unit.busy += alu
            if start > end:
                end = start
        return end

    def units(self) -> tuple[Unit, ...]:
        """All units of this sub-partition."""
        return (self.issue, self.mufu, self.fma, self.alu, self.tmem)
