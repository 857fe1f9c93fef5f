"""Which entries of the page table a CTA reads, and where it finds them: in L1, in L2 or in HBM.

The table has one 32-bit page number per page of a sequence. Blocks are worked through from the
last to the first, the rows of a block upwards. A sector of 32 bytes that this CTA has read before
is in L1; another one is in L2, unless nobody has read it (nor its neighbours that HBM delivers with
it). Sequences begin at a sector's beginning, and the heads of a sequence, which read the same
entries, keep in step: all assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from fa4sim.specs import AnyDesign, Machine, Problem

ENTRY_BYTES = 4
SECTOR_BYTES = 32
SECTOR = SECTOR_BYTES // ENTRY_BYTES


@dataclass(frozen=True)
class PageTable:
    """Reads of a table with pages of ``page_size`` tokens for blocks of ``tile_n`` keys.

    ``fetch_entries`` come together from HBM; ``latencies`` are cycles from L1, L2 and HBM.
    """

    page_size: int
    tile_n: int
    fetch_entries: int
    latencies: tuple[int, int, int]

    @classmethod
    def of(cls, problem: Problem, design: AnyDesign, machine: Machine) -> PageTable:
        """The table of a problem that has pages."""
        assert problem.page_size is not None
        in_l2 = machine.load_l2_latency_cycles
        return cls(
            problem.page_size,
            design.tile_n,
            max(SECTOR, machine.hbm_fetch_bytes // ENTRY_BYTES),
            (machine.load_l1_latency_cycles, in_l2, in_l2 + machine.load_hbm_extra_cycles),
        )

    @property
    def period(self) -> int:
        """After so many blocks the reads repeat.

        >>> [PageTable(page, 128, 16, (39, 288, 660)).period for page in (1, 8, 96, 128, 256)]
        [1, 1, 12, 16, 32]
        """
        span = self.page_size * self.fetch_entries
        return span // gcd(span, self.tile_n)

    def latency(self, block: int, rows: range, *, first: bool, from_hbm: bool) -> int:
        """Cycles until the page numbers of ``rows`` of ``block`` are there, 0 if it has no keys.

        Rows of the last block behind the sequence's end count as if they were there.

        Args:
            block: number of the block of keys.
            rows: rows of the block whose entries are read at once; ``rows.start`` rows of it have
                been read already.
            first: nothing of the blocks behind this one has been read.
            from_hbm: nobody has read these entries before.

        >>> table = PageTable(1, 128, 16, (39, 288, 660))
        >>> [table.latency(5, range(r, r + 8), first=False, from_hbm=True) for r in (0, 8, 16)]
        [660, 288, 660]
        """
        start = block * self.tile_n
        low, high = start + rows.start, start + rows.stop
        if block < 0:
            return 0
        new = self._new(start, low, high, first, SECTOR)
        if not new:
            return self.latencies[0]
        if from_hbm and self._new(start, low, high, first, self.fetch_entries):
            return self.latencies[2]
        return self.latencies[1]

    def _new(self, start: int, low: int, high: int, first: bool, unit: int) -> bool:
        """Whether keys from ``low`` to ``high`` of the block at ``start`` touch a new unit."""
        page = self.page_size
        begin, end = low // page // unit, (high - 1) // page // unit
        if low > start:  # of this block, what lies before has been read
            begin = max(begin, (low - 1) // page // unit + 1)
        if not first:  # and so has everything behind it
            end = min(end, (start + self.tile_n) // page // unit - 1)
        return begin <= end


def page_period(problem: Problem, design: AnyDesign, machine: Machine) -> int:
    """After so many blocks what is read of the page table repeats; 1 without pages."""
    return 1 if problem.page_size is None else PageTable.of(problem, design, machine).period
