"""The softmax warps: scores in, probabilities out, and the statistics the correction needs.

Two warpgroups, one per Q stage; every thread owns one row. A step reads S from TMEM, finds the row
maximum, tells the correction (as early as possible, per warp), exponentiates in four fragments of
32 columns, hands P over in two parts, and only then, off the critical path, adds up the row sum.

Source: ``softmax_loop`` and ``softmax_step`` of flash_fwd_sm100.py.
"""

from __future__ import annotations

from fa4sim.engine.agent import Steps
from fa4sim.engine.buffers import tag
from fa4sim.engine.units import Group
from fa4sim.pipelines.fa4.cluster import Cluster, Cta
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
        self.arrivals: list[int] = []
        self.exp2_kind = self.kind("mufu", "exp2")

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
        fragments, first = len(costs.fragments), self.first_fragments
        early = self.design.p_store_early
        yield from self.wait(self.barrier("S_full", self.stage), self.count + 1, "S")
        yield from self.read_and_reduce(needs_mask(tile.steps[self.step]))
        yield from self.work("stats", "alu", costs.stats, costs.stats_latency, self.stage)
        if data is not None:
            data.softmax_stats(self, tile)
        before = costs.groups_before_stats if self.step else 0
        self.part = 0
        while self.part < fragments:
            groups = costs.fragments[self.part]
            fenced = self.part + 1 in (first, fragments) or not early
            if self.part == 0:
                if before:
                    yield from self.exp2(groups[:before], 0)
                yield from self.publish(final=False)
                groups = groups[before:]
            yield from self.exp2(groups, costs.exp2_latency if fenced else 0)
            self.part += 1
            if early:
                yield from self.store_p(self.part - 1, self.part, fenced)
                if self.part == first:
                    yield from self.hand_over_first()
        if not early:
            yield from self.store_p(0, first, True)
            yield from self.hand_over_first()
            if fragments > first:
                yield from self.store_p(first, fragments, True)
        if fragments > first:
            yield from self.hand_over_last()

        yield from self.acquire_stats()
        yield from self.groups("row sum", "fma", costs.row_sum)
        yield from self.work("loop", "issue", costs.overhead, stage=self.stage)
        if data is not None:
            data.softmax_sum(self)
        self.count += 1

    # -- the pieces of a step ------------------------------------------------------------------

    def read_and_reduce(self, masked: bool) -> Steps:
        """S from TMEM into registers, 32 columns per load, each reduced as soon as it is there.

        Only some of the loads fit into flight at once: the next is issued when the first has come.
        """
        costs, region, env = self.costs, self.region, self.env
        if region.s_full != self.what:
            self.hazard(
                "read_before_full", "S_full", self.stage, "tensor",
                f"{self.role} reads S[{self.stage}] of block {self.block} before QK has "
                "written it",
            )  # fmt: skip
        if region.s_first_use < 0:
            region.s_first_use = env.cycle
        loads = len(costs.fragments)
        flying = costs.loads_in_flight_masked if masked else costs.loads_in_flight
        reduce = masked or not costs.row_max_by_load
        self.arrivals = [self.load_scores() for _ in range(min(flying, loads))]
        self.part = 0
        while self.part < loads:
            start = self.since = env.cycle
            if self.arrivals[0] > start:
                yield env.timeout(self.arrivals[0] - start)
                self.span("tmem", "read S", start, env.cycle - start, self.stage)
            self.arrivals.pop(0)
            if self.part + flying < loads:
                self.arrivals.append(self.load_scores())
            elif not self.arrivals:
                if self.cluster.data is not None:
                    self.cluster.data.read_scores(self)
                region.s_read.mark(self.lane, self.what)
                if region.s_read.all_at(self.what):
                    self.home.record_s(self.stage, self.tile_id, self.block)
            if costs.softcap:
                yield from self.groups("softcap", "mufu", costs.softcap[self.part : self.part + 1])
            if masked:
                yield from self.groups("mask", "alu", costs.mask[self.part : self.part + 1])
            if reduce:
                yield from self.groups("row max", "alu", costs.row_max[self.part : self.part + 1])
            self.part += 1

    def load_scores(self) -> int:
        """Issue one load of 32 columns; returns when its data will be there."""
        now = self.env.cycle
        self.smsp.slots(now, 1)
        return self.smsp.tmem.reserve(now, self.costs.load_cycles) + self.costs.load_latency

    def groups(self, op: str, unit: str, groups: tuple[Group, ...]) -> Steps:
        """Hand groups of instructions to the units one after the other; one span for all."""
        timeout, run = self.env.timeout, self.smsp.run
        start = now = self.since = self.env.cycle
        busy = 0
        for group in groups:
            end = run(now, group)
            busy += getattr(group, unit)
            if end > now:
                yield timeout(end - now)
                now = end
        self.span(unit, op, start, busy, self.stage)

    def exp2(self, groups: tuple[Group, ...], latency: int) -> Steps:
        """Scale, subtract, exponentiate and convert a fragment of 32 columns, or part of one.

        ``latency`` is what the last results need beyond their units' time, where they are waited
        for; elsewhere the next fragment's instructions hide it.
        """
        timeout, run = self.env.timeout, self.smsp.run
        start = now = self.since = self.env.cycle
        busy = latency
        last = groups[-1]
        for group in groups:
            end = run(now, group)
            busy += group.mufu
            if group is last:
                end += latency
            yield timeout(end - now)
            now = end
        self.record(self.exp2_kind, start, busy, self.stage)

    def store_p(self, first: int, last: int, fenced: bool) -> Steps:
        """Store fragments of P over the upper half of S; behind a fence, wait until they are there.

        Stores are visible to PV only after the fence, but their columns are taken at once.
        """
        costs, count, region = self.costs, last - first, self.region
        if first == 0 and self.what not in region.p_stored.done:
            region.p_birth = self.env.cycle
        if self.cluster.data is not None:
            self.cluster.data.store_p(self, first, last)
        if not fenced:
            now = self.env.cycle
            self.smsp.slots(now, count * costs.store_issue)
            self.smsp.tmem.reserve(now, count * costs.store_cycles)
            return
        yield from self.port(
            "store P", "tmem", self.smsp.tmem, count * costs.store_cycles, costs.store_latency,
            count * costs.store_issue, self.stage,
        )  # fmt: skip
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
        self.arrive(self.stats_name, 0, 32)
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
        now = self.env.cycle
        return (self.part, tuple(max(0, at - now) for at in self.arrivals))
