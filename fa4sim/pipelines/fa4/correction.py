"""The correction warps: rescale O when a maximum has grown, and finish it at the end.

Warp w looks after rows 32 w to 32 w + 31 of both stages in turn. It hears from each softmax warp
through a named barrier of 64 threads, reads the 32 factors, and rescales O in TMEM only if one of
them is below 1. The order in which it lets the softmax warps overwrite their statistics (stage 1
after handling stage 0, and the other way round) keeps the two softmaxes half a step apart.

Source: ``correction_loop``, ``correction_rescale`` and ``correction_epilogue`` of
flash_fwd_sm100.py.
"""

from __future__ import annotations

from fa4sim.engine.agent import Steps
from fa4sim.engine.buffers import tag
from fa4sim.pipelines.fa4.cluster import Cluster, Cta
from fa4sim.pipelines.fa4.role import Role
from fa4sim.pipelines.fa4.tiles import WorkTile


class CorrectionRole(Role):
    """One of the four correction warps."""

    sees_empty = True
    party = "correction"

    def __init__(self, cluster: Cluster, cta: Cta, warp: int) -> None:
        super().__init__(cluster, cta, "correction", 8 + warp)
        self.lane = warp
        self.costs = cluster.correction_costs
        self.stage = 0
        self.part = 0
        self.epilogues = 0
        self.arrivals: list[int] = []
        self.in_kernel_epilogue = cluster.design.epilogue == "correction"

    def run(self) -> Steps:
        """Hear, correct and release per step; finish O per tile."""
        stages = self.design.q_stages
        yield from self.start()
        yield from self.use_tmem()
        for stage in range(stages):
            self.home.tmem[stage].o_granted.mark(self.lane, tag(0, 0))
            yield from self.arrive_o(stage)
        while (tile := (yield from self.next_tile())) is not None:
            if tile.blocks:
                yield from self.correct_tile(tile)
            elif self.cluster.data is not None:
                self.cluster.data.write_nothing(self, tile)
            yield from self.spend("write LSE", "issue", self.costs.lse_cycles)
            self.tile += 1 if tile.blocks else 0
            if self.in_kernel_epilogue and "load_epi_full" in self.home.barriers:
                yield from self.wait(self.barrier("load_epi_empty"), self.handed - 1, "load ready")
                self.arrive("load_epi_full", 0, 1)
        if not self.in_kernel_epilogue:
            last = stages - 1
            yield from self.wait(self.barrier("O_epi_empty", last), self.tile, "drain")
        self.leave_tmem()
        self.finish()

    def correct_tile(self, tile: WorkTile) -> Steps:
        """Every step of a tile, and its end."""
        stages = self.design.q_stages
        self.enter(tile)
        yield from self.hear(0)
        yield from self.release_stats(0)
        if stages == 2:
            yield from self.hear(1)
        self.count += 1
        self.step = 1
        while self.step < tile.blocks:
            self.enter(tile)
            self.stage = 0
            while self.stage < stages:
                yield from self.correct(self.stage, tile)
                yield from self.release_stats(stages - 1 - self.stage)
                self.stage += 1
            self.count += 1
            self.step += 1
        if stages == 2:
            yield from self.release_stats(1)
        self.stage = 0
        while self.stage < stages:
            yield from self.finish_stage(self.stage, tile)
            self.stage += 1
        self.count += 1

    def hear(self, stage: int) -> Steps:
        """Wait for this warp's partner in softmax ``stage`` (bar.sync of 64 threads)."""
        name = f"SoftmaxStatsW{4 * stage + self.lane}"
        yield from self.sync(name, self.count + 1, "stats")

    def release_stats(self, stage: int) -> Steps:
        """Let softmax ``stage`` overwrite its statistics (all 32 threads arrive)."""
        self.arrive("softmax_stats_empty", stage, 32)
        yield from self.spend("arrive", "issue", self.machine.mbarrier_arrive_cycles, stage)

    def arrive_o(self, stage: int) -> Steps:
        """Give O[stage] to the MMA warp."""
        self.arrive("P_full_O_rescaled", stage, 32)
        yield from self.spend("arrive", "issue", self.machine.mbarrier_arrive_cycles, stage)

    def correct(self, stage: int, tile: WorkTile) -> Steps:
        """Read the factors of one step; rescale O if a lane needs it; give O back."""
        costs = self.costs
        region = self.home.tmem[stage]
        yield from self.hear(stage)
        self.check_stats(stage, self.what)
        yield from self.spend("read factor", "smem", costs.read_cycles, stage)
        data = self.cluster.data
        if data is not None:
            vote = data.vote(self, stage)
        else:
            vote = self.cluster.votes.rescales(tile, self.step, stage, self.home.rank, self.lane)
        region.stats_read.mark(self.lane, self.what)
        if vote:
            yield from self.rescale(stage)
            if data is not None:
                data.rescale(self, stage)
        region.o_granted.mark(self.lane, self.what)
        yield from self.arrive_o(stage)

    def rescale(self, stage: int) -> Steps:
        """O[stage] *= factor, sixteen columns at a time through registers."""
        costs, smsp, env = self.costs, self.smsp, self.env
        if self.home.tmem[stage].o_done != self.what - 1:
            self.hazard(
                "tmem_alias", f"SoftmaxStatsW{4 * stage + self.lane}", 0, "tensor",
                f"correction rescales O[{stage}] while PV of the step before still adds to it",
            )  # fmt: skip
        group = costs.rescale_group
        start = now = self.since = env.cycle
        self.part = 0
        while self.part < costs.chunks:
            # Load, multiply, store: the next load is issued only behind this store.
            end = smsp.tmem.reserve(now, costs.rescale_load) + costs.rescale_latency
            yield env.timeout(end - now)
            now = env.cycle
            # So few instructions slip in between those of other warps rather than queue.
            smsp.run(now, group)
            yield env.timeout(group.issue)
            now = env.cycle
            smsp.tmem.reserve(now, costs.rescale_store)
            self.part += 1
        self.span("tmem", "rescale O", start, now - start, stage)
        yield from self.spend("rescale O", "tmem", self.machine.tmem_store_latency_cycles, stage)

    def finish_stage(self, stage: int, tile: WorkTile) -> Steps:
        """Normalise O[stage] and write it to sO; with no TMA store, on to global memory."""
        costs, smsp, env = self.costs, self.smsp, self.env
        region = self.home.tmem[stage]
        yield from self.hear(stage)
        what = tag(self.tile, tile.blocks)
        self.check_stats(stage, what)
        yield from self.spend("final scale", "smem", costs.final_scalar, stage)
        if self.cluster.data is not None:
            self.cluster.data.read_final(self, stage)
        region.stats_read.mark(self.lane, tag(self.tile, tile.blocks))
        yield from self.release_stats(stage)
        yield from self.wait(self.barrier("O_full", stage), self.tile + 1, "O")
        if not self.in_kernel_epilogue:
            yield from self.wait(self.barrier("O_epi_empty", stage), self.tile, "sO free")
        what = tag(self.tile, tile.blocks)  # a fast-forward may have moved the tile on
        if region.o_done != what - 1:
            self.hazard(
                "read_before_full", "O_full", stage, "tensor",
                f"correction reads O[{stage}] before the last PV has finished",
            )  # fmt: skip
        buffer = self.home.so[stage]
        if buffer.holds != tag(self.tile, 0):
            buffer.begin_fill("correction", "O", tag(self.tile, 0), self.tile_id, -1)
        group = costs.final_group
        start = now = self.since = env.cycle
        flying = min(costs.loads_in_flight, costs.final_chunks)
        self.arrivals = [self.load_o() for _ in range(flying)]
        self.part = 0
        while self.part < costs.final_chunks:
            ready = self.arrivals.pop(0)
            if ready > now:
                yield env.timeout(ready - now)
                now = env.cycle
            if self.part + costs.loads_in_flight < costs.final_chunks:
                self.arrivals.append(self.load_o())
            # Four warps write at once, so each store takes four turns at the port.
            self.home.smem_port.reserve(now, costs.final_smem)
            end = smsp.run(now, group)
            end = max(end, now + 4 * costs.final_smem)
            yield env.timeout(end - now)
            now = env.cycle
            self.part += 1
        self.span("tmem", "write O", start, now - start, stage)
        yield from self.spend("fence", "issue", self.machine.proxy_fence_cycles, stage)
        if self.cluster.data is not None:
            self.cluster.data.write_o(self, stage)
        region.so_written.mark(self.lane, tag(self.tile, 0))
        if region.so_written.all_at(tag(self.tile, 0)):
            buffer.end_fill()
        if self.in_kernel_epilogue:
            yield from self.store_o(stage, tile)
        region.o_granted.mark(self.lane, tag(self.tile + 1, 0))
        region.o_read.mark(self.lane, tag(self.tile, 0))
        if region.o_read.all_at(tag(self.tile, 0)):
            self.home.record_o(stage, self.tile_id)
        yield from self.arrive_o(stage)
        if not self.in_kernel_epilogue:
            self.arrive("O_epi_full", stage, 32)
            yield from self.spend("arrive", "issue", self.machine.mbarrier_arrive_cycles, stage)

    def load_o(self) -> int:
        """Issue the load of one chunk of O; returns when its data will be there."""
        now = self.env.cycle
        self.smsp.slots(now, 1)
        return self.smsp.tmem.reserve(now, self.costs.final_port) + self.costs.final_latency

    def store_o(self, stage: int, tile: WorkTile) -> Steps:
        """Without TMA: once all four warps have written sO, copy it out through registers.

        All of it is read; rows past the end are not written.
        """
        costs, env = self.costs, self.env
        region = self.home.tmem[stage]
        buffer = self.home.so[stage]
        self.epilogues += 1
        yield from self.sync("Epilogue", self.epilogues, "sO whole")
        what = tag(self.tile, 0)
        if late := region.so_written.behind(what):
            self.hazard(
                "read_before_full", "Epilogue", 0, f"correction warps {late}",
                f"correction warp {self.lane} copies sO[{stage}] before warps {late} wrote it",
            )  # fmt: skip
        start = now = self.since = env.cycle
        home = self.home
        read = costs.gmem_smem * self.machine.smem_bytes_per_cycle
        # Rows of all four warps are interleaved in each chunk, so all write the same part of it.
        size = read * tile.rows_of(self.design, stage, home.rank) // self.design.tile_m
        self.part = 0
        while self.part < costs.gmem_chunks:
            end = home.smem_port.reserve(now, costs.gmem_smem)
            if size:
                sent = now + round(size * 4 / self.machine.tma_store_bytes_per_cycle)
                end = max(end, sent, home.l2.take(now, size))
                if not tile.o_to_l2:
                    end = max(end, home.hbm.take(now, size))
            end += costs.gmem_latency
            self.smsp.slots(now, 12)
            yield env.timeout(end - now)
            now = env.cycle
            self.part += 1
        self.span("smem", "store O", start, now - start, stage)
        if self.cluster.data is not None:
            self.cluster.data.store_o(self.home, stage, self.tile, self.lane)
        # A fast-forward may have moved the tile on.
        if buffer.claimed and buffer.holds == tag(self.tile, 0):
            buffer.begin_use()
            buffer.end_use()
            region.stored += 1
            if region.stored == 4:
                region.stored = 0
                buffer.release()

    def check_stats(self, stage: int, what: int) -> None:
        """The partner must have written the statistics that are about to be read."""
        if self.home.tmem[stage].stats_written.done[self.lane] != what:
            index = 4 * stage + self.lane
            self.hazard(
                "read_before_full", f"SoftmaxStatsW{index}", 0, f"softmax{stage}",
                f"correction warp {self.lane} reads statistics of stage {stage} that softmax "
                "has not written yet",
            )  # fmt: skip

    def tally(self) -> list[int]:
        """See :meth:`Role.tally`."""
        return [*super().tally(), self.epilogues]

    def advance(self, by: list[int]) -> None:
        """See :meth:`Role.advance`."""
        super().advance(by)
        self.epilogues += by[5]

    def counters(self) -> tuple[object, ...]:
        """See :meth:`Agent.counters`."""
        now = self.env.cycle
        return (self.stage, self.part, tuple(max(0, at - now) for at in self.arrivals))
