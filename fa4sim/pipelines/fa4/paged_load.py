"""Loading K and V from pages: page numbers first, then TMA, or cp.async row by row.

Where a page is a block, the load warp reads one page number per block before K and uses it for V
too. Elsewhere all load warps read page numbers once per block, compute the address of every row
and copy it, 16 bytes a thread; each warp's threads arrive on the slot's barrier when what they have
asked for is there.

Source: ``load`` and ``load_KV`` of flash_fwd_sm100.py, and ``paged_kv.py``.
"""

from __future__ import annotations

from collections.abc import Callable

from fa4sim.engine.agent import Steps
from fa4sim.engine.memory import Load
from fa4sim.pipelines.fa4.cluster import Cluster, Cta
from fa4sim.pipelines.fa4.load import LoadRole
from fa4sim.pipelines.fa4.page_table import SECTOR_BYTES, PageTable
from fa4sim.pipelines.fa4.paged_costs import Piece, paged_costs
from fa4sim.pipelines.fa4.tiles import WorkTile


class PagedLoadRole(LoadRole):
    """A load warp that must know where a block lies: pages of a block, by TMA."""

    def __init__(self, cluster: Cluster, cta: Cta, warp: int, rank: int = 0) -> None:
        super().__init__(cluster, cta, warp, rank)
        self.table = PageTable.of(cluster.problem, cluster.design, cluster.machine)
        #: Engine time at which the page number in hand is there.
        self.known_at = 0

    def counters(self) -> tuple[object, ...]:
        """Where in the repeating pattern of reads it stands, and what it still waits for."""
        return (self.block % self.table.period, max(0, self.known_at - self.env.cycle))

    def read_latency(self, tile: WorkTile, rows: range) -> int:
        """Cycles until the page numbers of some rows of the block in hand are there."""
        return self.table.latency(
            self.block, rows, first=self.step == 0, from_hbm=self.step < tile.hbm_steps
        )

    def load_kv(self, tensor: str, tile: WorkTile) -> Steps:
        """As ever, but ask for the page number before K."""
        if tensor == "K":
            latency = self.read_latency(tile, range(1))
            self.smsp.slots(self.env.cycle, 1)
            self.known_at = self.env.cycle + latency
        yield from super().load_kv(tensor, tile)

    def issue(
        self, tensor: str, stage: int, size: int, hbm: int, landed: Callable[[Load], None],
        sent: int | None = None,
    ) -> Steps:  # fmt: skip
        """As ever, when the page number has come."""
        if tensor == "K":
            yield from self.spend("page number", "issue", self.known_at - self.env.cycle)
        yield from super().issue(tensor, stage, size, hbm, landed, sent)


class RowLoadRole(PagedLoadRole):
    """One of the load warps that copy K and V row by row."""

    def __init__(self, cluster: Cluster, cta: Cta, warp: int, rank: int = 0) -> None:
        super().__init__(cluster, cta, warp, rank)
        self.rank = rank
        self.costs = paged_costs(cluster.problem, cluster.design, cluster.machine)
        self.latency = cluster.machine.cp_async_latency_cycles
        self.latency -= cluster.machine.mbarrier_resume_cycles

    def load_kv(self, tensor: str, tile: WorkTile) -> Steps:
        """Acquire the next slot of the ring and copy this warp's rows of a tile into it."""
        if tensor == "K":
            yield from self.read_table(tile)
        stages = self.design.kv_stages
        slot, wrap = self.ring % stages, self.ring // stages
        yield from self.wait(self.barrier("load_KV_empty", slot), wrap, "slot free")
        # A fast-forward may have moved the ring on while this warp waited.
        slot, wrap = self.ring % stages, self.ring // stages
        if self.design.uneven_kv_ring and tensor == "K" and slot == 0 and wrap % 2 == 0:
            yield from self.wait(self.barrier("load_KV_empty", 1), wrap, "neighbour free")
            wrap = self.ring // stages
        self.claim(tensor, slot, wrap, tile)
        if self.costs.pointers is not None:
            yield from self.work(
                "addresses", "issue", self.costs.pointers, self.costs.pointer_latency
            )
        pieces = self.costs.pieces[tensor]
        for number, piece in enumerate(pieces, 1):
            yield from self.copy(tensor, tile, piece, last=number == len(pieces))
        yield from self.work(f"arrive for {tensor}", "issue", self.costs.last)
        self.ring += 1

    def read_table(self, tile: WorkTile) -> Steps:
        """Read page numbers, turn by turn: each stands until its number has come."""
        for rows in self.costs.table_rows:
            latency = self.costs.table_latency + self.read_latency(tile, rows)
            yield from self.work("page numbers", "issue", self.costs.table, latency)

    def claim(self, tensor: str, slot: int, wrap: int, tile: WorkTile) -> None:
        """The first warp that comes begins to fill the slot; the others join it."""
        buffer = self.home.ring[slot]
        if buffer.claimed and buffer.filling and buffer.holds == self.what:
            return
        self.check_neighbours(slot, wrap, tensor, tile)
        buffer.begin_fill("load", tensor, self.what, self.tile_id, self.block, parts=self.loaders)
        buffer.wrap = wrap

    def copy(self, tensor: str, tile: WorkTile, piece: Piece, last: bool) -> Steps:
        """Issue the copies of some rows; behind the last ones the threads' arrival.

        Rows behind the sequence's end count as if they were copied, as they do with TMA.
        """
        start = self.since = self.env.cycle
        end = max(
            self.smsp.run(start, piece.group), start + piece.port_cycles, start + piece.chain_cycles
        )
        yield self.env.timeout(end - start)
        slot = self.ring % self.design.kv_stages  # a fast-forward may have moved the ring on
        self.span("issue", f"issue {tensor}", start, end - start, slot)
        rows = piece.rows * self.costs.row_groups
        size = rows * self.costs.row_bytes[tensor]
        sectors = -(-self.costs.row_bytes[tensor] // SECTOR_BYTES)
        hbm = int(size / tile.kv_sharers) if self.step < tile.hbm_steps else 0
        latency = self.latency + (self.machine.tma_hbm_extra_cycles if hbm else 0)
        self.home.cp_async.push(
            Load(
                tensor, slot, self.tile_id, self.block, self.tile, self.step, size, end + latency,
                hbm, self.arrival(tensor, slot) if last else _nothing,
                rows * sectors * SECTOR_BYTES,
            )
        )  # fmt: skip

    def arrival(self, tensor: str, slot: int) -> Callable[[Load], None]:
        """What happens when this warp's last copies for a slot are there."""
        buffer = self.home.ring[slot]
        full = self.barrier("load_KV_full", slot)
        self.note("arrive", "load_KV_full", slot)

        def landed(load: Load) -> None:
            buffer.end_fill()
            if self.cluster.data is not None and not buffer.filling:
                self.cluster.data.fill_kv(self.home, buffer.stage, load)
            full.arrive("load", self.warp, self.cta, 32)

        return landed


def _nothing(_load: Load) -> None:
    """A piece has landed that others follow."""
