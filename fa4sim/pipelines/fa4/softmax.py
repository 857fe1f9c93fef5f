"""The softmax warps: scores in, probabilities out, and the statistics the correction needs.

Two warpgroups, one per Q stage; every thread owns one row. A step reads S from TMEM, finds the row
maximum, tells the correction (as early as possible, per warp), exponentiates in four fragments of
32 columns, hands P over in two parts, and only then, off the critical path, adds up the row sum.

Source: ``softmax_loop`` and ``softmax_step`` of flash_fwd_sm100.py.
"""

from __future__ import annotations

from fa4sim.engine.agent import Steps
from fa4sim.engine.buffers import tag
from fa4sim.pipelines.fa4.cluster import Cluster, Cta
from fa4sim.pipelines.fa4.costs import Group
from fa4sim.pipelines.fa4.role import Role
from fa4sim.pipelines.fa4.tiles import WorkTile, needs_mask
from fa4sim.specs import FRAGMENT


class SoftmaxRole(Role):
    """One of the four warps of softmax0 or softmax1: rows 32 w to 32 w + 31 of its stage."""

    def __init__(self, cluster: Cluster, cta: Cta, stage: int, warp: int) -> None:
        super().__init__(cluster, cta, f"softmax{stage}", 4 * stage + warp)
        self.party = f"softmax{stage}"
        self.stage = stage
        self.lane = warp
        self.costs = cluster.softmax_costs
        self.stats_name = f"SoftmaxStatsW{4 * stage + warp}"
        self.region = cta.tmem[stage]
        self.first_fragments = cluster.design.p_first_columns // FRAGMENT
        self.acquired = 0
        self.part = 0

    def run(self) -> Steps:
        """One softmax step per K/V block, and the final sum per tile."""
        yield from self.start()
        yield from self.use_tmem()
        while (tile := (yield from self.next_tile())) is not None:
            self.enter(tile)
            yield from self.acquire_stats()
            while self.step < tile.blocks:
                self.enter(tile)
                yield from self.softmax_step(tile)
                self.step += 1
            yield from self.publish(final=True)
            self.tile += 1
        yield from self.acquire_stats()
        self.leave_tmem()
        self.finish()

    def softmax_step(self, tile: WorkTile) -> Steps:
        """S in, P out; the row sum only after P has been handed over."""
        costs = self.costs
        data = self.cluster.data
        masked = needs_mask(tile.steps[self.step])
        yield from self.wait(self.barrier("S_full", self.stage), self.count + 1, "S")
        yield from self.read_scores()
        if costs.softcap:
            yield from self.groups("softcap", "mufu", costs.softcap)
        if masked:
            yield from self.groups("mask", "alu", costs.mask)
        if masked or not costs.row_max_by_load:
            yield from self.groups("row max", "alu", costs.row_max)
        group = costs.stats
        yield from self.work(
            "stats", "alu", group.issue, mufu=group.mufu, fma=group.fma, alu=group.alu,
            latency=costs.stats_latency, stage=self.stage,
        )  # fmt: skip
        if data is not None:
            data.softmax_stats(self, tile)
        yield from self.publish(final=False)

        early = self.design.p_store_early
        fragments = len(costs.fragments)
        first = self.first_fragments
        self.part = 0
        while self.part < fragments:
            yield from self.exp2(costs.fragments[self.part])
            self.part += 1
            if early:
                yield from self.store_p(self.part - 1, self.part)
                if self.part == first:
                    yield from self.hand_over_first()
        if not early:
            yield from self.store_p(0, first)
            yield from self.hand_over_first()
            if fragments > first:
                yield from self.store_p(first, fragments)
        if fragments > first:
            yield from self.hand_over_last()

        yield from self.acquire_stats()
        yield from self.groups("row sum", "fma", costs.row_sum)
        group = costs.overhead
        yield from self.work("loop", "issue", group.issue, alu=group.alu, stage=self.stage)
        if data is not None:
            data.softmax_sum(self)
        self.count += 1

    # -- the pieces of a step ------------------------------------------------------------------

    def read_scores(self) -> Steps:
        """S from TMEM into registers, all columns before any arithmetic."""
        costs, region = self.costs, self.region
        if region.s_full != self.what:
            self.hazard(
                "read_before_full", "S_full", self.stage, "tensor",
                f"{self.role} reads S[{self.stage}] of block {self.block} before QK has "
                "written it",
            )  # fmt: skip
        if region.s_first_use < 0:
            region.s_first_use = int(self.env.now)
        yield from self.port(
            "read S", "tmem", self.smsp.tmem, costs.load_cycles, costs.load_latency,
            costs.load_issue, self.stage,
        )  # fmt: skip
        if self.cluster.data is not None:
            self.cluster.data.read_scores(self)
        region.s_read.mark(self.lane, self.what)
        if region.s_read.all_at(self.what):
            self.home.record_s(self.stage, self.tile_id, self.block)

    def groups(self, op: str, unit: str, groups: tuple[Group, ...]) -> Steps:
        """Hand groups of instructions to the units one after the other; one span for all."""
        env, smsp = self.env, self.smsp
        start = now = int(env.now)
        busy = 0
        for group in groups:
            end = smsp.run(now, group.issue, group.mufu, group.fma, group.alu)
            busy += getattr(group, unit)
            if end > now:
                yield env.timeout(end - now)
                now = int(env.now)
        self.span(unit, op, start, busy, self.stage)

    def exp2(self, groups: tuple[Group, ...]) -> Steps:
        """Scale, subtract, exponentiate and convert one fragment of 32 columns."""
        env, run = self.env, self.smsp.run
        start = now = int(env.now)
        busy = 0
        last = groups[-1]
        for group in groups:
            end = run(now, group.issue, group.mufu, group.fma, group.alu)
            busy += group.mufu
            if group is last:
                end += self.costs.exp2_latency
            yield env.timeout(end - now)
            now = int(env.now)
        self.span("mufu", "exp2", start, busy + self.costs.exp2_latency, self.stage)

    def store_p(self, first: int, last: int) -> Steps:
        """Store fragments of P over the upper half of S and wait until they are there."""
        costs, count = self.costs, last - first
        if first == 0 and self.what not in self.region.p_stored.done:
            self.region.p_birth = int(self.env.now)
        yield from self.port(
            "store P", "tmem", self.smsp.tmem, count * costs.store_cycles, costs.store_latency,
            count * costs.store_issue, self.stage,
        )  # fmt: skip
        if self.cluster.data is not None:
            self.cluster.data.store_p(self, first, last)
        region = self.region
        region.p_stored.mark(self.lane, self.what)
        if last >= self.first_fragments:
            region.p_first.mark(self.lane, self.what)
        if last == len(costs.fragments):
            region.p_last.mark(self.lane, self.what)

    def hand_over_first(self) -> Steps:
        """Tell the MMA warp that the first part of P is there (all 128 threads arrive)."""
        self.arrive("P_full_O_rescaled", self.stage, 32)
        yield from self.spend("arrive P", "issue", self.machine.mbarrier_arrive_cycles, self.stage)

    def hand_over_last(self) -> Steps:
        """Tell it that the rest is there too (one elected lane per warp)."""
        self.arrive("P_full_lastsplit", self.stage, 1)
        machine = self.machine
        yield from self.spend(
            "arrive P", "issue", machine.elect_cycles + machine.mbarrier_arrive_cycles, self.stage
        )

    # -- statistics ----------------------------------------------------------------------------

    def publish(self, final: bool) -> Steps:
        """Write this step's factor (or the final sum and maximum) and signal the correction."""
        region, lane = self.region, self.lane
        if final:
            self.step = len(self.cluster.tiles[self.tile].steps)
        if self.step:
            if region.stats_written.done[lane] != region.stats_read.done[lane]:
                self.hazard(
                    "overwrite_while_read", "softmax_stats_empty", self.stage, "correction",
                    f"{self.role} overwrites the statistics of warp {lane} that the correction "
                    "has not read",
                )  # fmt: skip
            region.stats_written.mark(lane, tag(self.tile, self.step))
            if self.cluster.data is not None:
                self.cluster.data.write_stats(self, final)
        self.barrier(self.stats_name).arrive(self.role, self.warp, 32)
        yield from self.spend(
            "arrive stats", "issue", self.machine.named_barrier_arrive_cycles, self.stage
        )

    def acquire_stats(self) -> Steps:
        """Wait until the correction has read the statistics published last."""
        barrier = self.barrier("softmax_stats_empty", self.stage)
        yield from self.wait(barrier, self.acquired, "stats read")
        self.acquired += 1

    # -- fast-forward --------------------------------------------------------------------------

    def tally(self) -> list[int]:
        """See :meth:`Role.tally`."""
        return [*super().tally(), self.acquired]

    def advance(self, by: list[int]) -> None:
        """See :meth:`Role.advance`."""
        super().advance(by)
        self.acquired += by[5]

    def counters(self) -> tuple[object, ...]:
        """See :meth:`Agent.counters`."""
        return (self.part,)
