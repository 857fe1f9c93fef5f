"""The epilogue warp: O from shared memory to global memory, by TMA store.

Source: ``epilogue_s2g`` of flash_fwd_sm100.py.
"""

from __future__ import annotations

from fa4sim.engine.agent import Steps
from fa4sim.engine.buffers import tag
from fa4sim.pipelines.fa4.cluster import Cluster, Cta
from fa4sim.pipelines.fa4.role import Role
from fa4sim.pipelines.fa4.tiles import WorkTile


class EpilogueRole(Role):
    """The warp that stores O: one bulk group per stage, released in order."""

    sees_empty = True

    def __init__(self, cluster: Cluster, cta: Cta, warp: int) -> None:
        super().__init__(cluster, cta, "epilogue", warp)
        self.o_bytes = cluster.design.o_tile_bytes(cluster.problem)

    def run(self) -> Steps:
        """Store both stages of every tile, then release them in order."""
        yield from self.start()
        while (tile := (yield from self.next_tile())) is not None:
            if tile.blocks:
                yield from self.store_tile(tile)
                self.tile += 1
            self.count += 1
            if "load_epi_full" in self.home.barriers:
                yield from self.wait(self.barrier("load_epi_empty"), self.count - 1, "load ready")
                self.arrive("load_epi_full", 0, 1)
        self.finish()

    def store_tile(self, tile: WorkTile) -> Steps:
        """Store every stage, then wait until the stores have read them."""
        stages = range(self.design.q_stages)
        for stage in stages:
            yield from self.wait(self.barrier("O_epi_full", stage), self.tile + 1, "O in sO")
            yield from self.store(stage, tile)
        for stage in stages:
            event = self.home.tma_store.pending_above(stages[-1] - stage)
            if event is not None:
                yield from self.stand(event, "tma_store", "store reads sO", stage)
            self.arrive("O_epi_empty", stage, 32)
            yield from self.spend("arrive", "issue", self.machine.mbarrier_arrive_cycles, stage)

    def store(self, stage: int, tile: WorkTile) -> Steps:
        """Issue one bulk store and commit its group."""
        home = self.home
        region, buffer = home.tmem[stage], home.so[stage]
        what = tag(self.tile, 0)
        if late := region.so_written.behind(what):
            self.hazard(
                "read_before_full", "O_epi_full", stage, f"correction warps {late}",
                f"epilogue stores sO[{stage}] before correction warps {late} have written it",
            )  # fmt: skip
        buffer.begin_use()
        number = self.tile

        def read() -> None:
            buffer.end_use()
            buffer.release()
            if self.cluster.data is not None:
                self.cluster.data.store_o(home, stage, number)

        # Rows past the end are read out of shared memory and dropped.
        rows = tile.rows_of(self.design, stage, home.rank)
        written = self.o_bytes * rows // self.design.tile_m
        home.tma_store.push(
            self.o_bytes, self.tile_id, stage, read, written, 0 if tile.o_to_l2 else written
        )
        machine = self.machine
        row = self.design.head_dim_v_padded * self.design.o_element_bytes(self.cluster.problem)
        cycles = machine.tma_issue_cycles + round((row / 128 - 1) * machine.tma_box_cycles)
        yield from self.spend("issue O", "issue", max(1, cycles), stage)
