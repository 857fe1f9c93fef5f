"""Which tiles read the page table alike: those need to be simulated once."""

from __future__ import annotations

from fa4sim.pipelines.fa4.page_table import PageTable
from fa4sim.pipelines.fa4.paged_costs import paged_costs
from fa4sim.pipelines.fa4.tiles import WorkTile
from fa4sim.specs import AnyDesign, Design, Machine, Problem


class PagePhases:
    """Gives tiles their ``page_phase``, and the same one to tiles whose reads take as long.

    A tile of fewer blocks than the pattern of reads has may miss where the pattern changes. What
    it reads then takes as long, read by read, as what another tile of it reads that begins
    elsewhere. Longer tiles see all of the pattern.
    """

    def __init__(self, problem: Problem, design: AnyDesign, machine: Machine) -> None:
        self.table: PageTable | None = None
        self.rows: tuple[range, ...] = (range(1),)
        if problem.page_size is None or not isinstance(design, Design):
            return
        self.table = PageTable.of(problem, design, machine)
        if design.kv_load == "cp_async":
            self.rows = paged_costs(problem, design, machine).table_rows
        self._of_place: dict[tuple[int, int, int], int] = {}
        self._of_reads: dict[tuple[int, int, tuple[int, ...]], int] = {}

    def of(self, tile: WorkTile) -> int:
        """Where in the pattern the tile's last block stands, or a tile that reads alike."""
        if self.table is None or not tile.steps:
            return 0
        phase = tile.steps[-1].n_block % self.table.period
        if tile.blocks >= self.table.period:
            return phase
        from_hbm = min(tile.hbm_steps, tile.blocks)
        place = (phase, tile.blocks, from_hbm)
        if place not in self._of_place:
            reads = (tile.blocks, from_hbm, self.reads(tile))
            self._of_place[place] = self._of_reads.setdefault(reads, phase)
        return self._of_place[place]

    def reads(self, tile: WorkTile) -> tuple[int, ...]:
        """The latency of every read of the page table, in order."""
        assert self.table is not None
        return tuple(
            self.table.latency(
                each.n_block, rows, first=step == 0, from_hbm=step < tile.hbm_steps
            )
            for step, each in enumerate(tile.steps)
            for rows in self.rows
        )  # fmt: skip
