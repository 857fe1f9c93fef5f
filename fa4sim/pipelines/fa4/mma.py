"""The MMA warp: both GEMMs, issued by one lane, in an order that keeps the tensor pipe fed.

Per tile: QK of both stages on the first K; then for every further block PV and QK of stage 0, PV
and QK of stage 1; at the end the last PV pair. QK of the next block needs no wait of its own for S:
it follows PV of this block in the same in-order queue, and that PV waited for a P that exists only
once S had been read.

Source: ``mma`` of flash_fwd_sm100.py. Runs in the leader CTA of a pair only.
"""

from __future__ import annotations

from collections.abc import Callable

from fa4sim.engine.agent import Steps
from fa4sim.engine.buffers import Buffer, tag
from fa4sim.engine.errors import Hazard
from fa4sim.engine.tensor import Commit, Mma
from fa4sim.pipelines.fa4.cluster import Cluster, Cta
from fa4sim.pipelines.fa4.role import Role


class MmaRole(Role):
    """The warp that issues every tcgen05.mma and commit."""

    def __init__(self, cluster: Cluster, cta: Cta, warp: int) -> None:
        super().__init__(cluster, cta, "mma", warp)
        self.costs = cluster.mma_costs
        self.two_parts = self.costs.pv_first < self.costs.pv_steps

    def run(self) -> Steps:
        """QK pair, then PV and QK of each stage in turn, then the last PV pair."""
        stages = range(self.design.q_stages)
        last = stages[-1]
        yield from self.start()
        yield from self.allocate()
        while (tile := (yield from self.next_tile())) is not None:
            self.cluster.at_tile(self)
            self.enter(tile)
            for stage in stages:
                yield from self.wait(self.barrier("load_Q_full", stage), self.tile + 1, "Q")
                if stage == 0:
                    yield from self.wait_kv(self.ring)
                yield from self.qk(stage, self.ring, 0)
            self.free_kv(self.ring)
            self.ring += 1
            while self.step < tile.blocks - 1:
                self.cluster.at_step(self, tile)
                v, k = self.ring, self.ring + 1
                yield from self.wait_kv(v)
                for stage in stages:
                    yield from self.pv(stage, v)
                    if stage == last:
                        self.free_kv(v)
                    if stage == 0:
                        yield from self.wait_kv(k, ahead=1)
                    yield from self.qk(stage, k, 1)
                self.free_kv(k)
                self.ring += 2
                self.count += 1
                self.step += 1
                self.enter(tile)
            for stage in stages:
                self.free_q(stage)
            yield from self.wait_kv(self.ring)
            for stage in stages:
                yield from self.pv(stage, self.ring)
                self.commit("O_full", stage)
            self.free_kv(self.ring)
            self.ring += 1
            self.count += 1
            self.tile += 1
        yield from self.end()
        self.finish()

    def allocate(self) -> Steps:
        """Allocate all of TMEM and publish its address."""
        yield from self.spend("allocate TMEM", "issue", self.machine.tmem_allocate_cycles)
        self.home.tmem_allocated = True
        yield from self.sync("TmemPtr", 1, "TMEM address")

    def end(self) -> Steps:
        """Free TMEM once every warp that uses it has said that it is done; a pair, both CTAs."""
        yield from self.sync("TmemPtr", 2, "all done with TMEM")
        yield from self.wait_for_peer()
        for cta in self.cluster.ctas:
            if cta.tmem_users_left < cta.tmem_users:
                self.hazard(
                    "overwrite_while_read", "TmemPtr" if cta is self.home else "tmem_dealloc", 0,
                    "softmax, correction",
                    f"mma frees TMEM while warps of CTA {cta.number} still use it",
                )  # fmt: skip
        yield from self.spend("free TMEM", "issue", self.machine.tmem_allocate_cycles)

    def wait_for_peer(self) -> Steps:
        """In a pair, tell the other CTA's MMA warp that this CTA is done, and hear the same."""
        if self.design.cta_group == 1:
            return
        (peer,) = (cta for cta in self.cluster.ctas if cta is not self.home)
        barrier = peer.barriers["tmem_dealloc"][0]
        self.note("arrive", "tmem_dealloc", 0)
        self.core.later(
            self.machine.mbarrier_remote_cycles,
            lambda: barrier.arrive("peer_mma", self.warp, self.cta, 32),
            ("remote", self.key, "tmem_dealloc"),
        )
        yield from self.wait(self.barrier("tmem_dealloc"), 1, "peer done with TMEM")

    # -- one GEMM ------------------------------------------------------------------------------

    def wait_kv(self, ring: int, ahead: int = 0) -> Steps:
        """Wait for ring entry ``ring``, which belongs to the block ``ahead``, to have landed."""
        stages = self.design.kv_stages
        slot, wrap = ring % stages, ring // stages
        self.block -= ahead
        yield from self.wait(self.barrier("load_KV_full", slot), wrap + 1, "K/V")
        self.block += ahead

    def slot(self, ring: int) -> int:
        """The slot of ring entry ``ring`` (the wrong one, if a fault says so)."""
        slot = ring % self.design.kv_stages
        return self.cluster.swapped.get(slot, slot)

    def qk(self, stage: int, ring: int, ahead: int) -> Steps:
        """S[stage] = Q[stage] K^T for the step ``ahead`` of the one in hand; commit S_full."""
        costs = self.costs
        yield from self.issue(
            "QK", stage, ring, ahead, 0, costs.qk_steps, costs.qk_cycles, costs.qk_smem,
            self.begin_qk, self.finish_qk,
        )  # fmt: skip
        self.commit("S_full", stage)

    def pv(self, stage: int, ring: int) -> Steps:
        """O[stage] += P[stage] V, in two runs if P comes in two parts."""
        costs = self.costs
        phase = self.count + 1
        yield from self.wait(self.barrier("P_full_O_rescaled", stage), phase, "P, O")
        yield from self.issue(
            "PV", stage, ring, 0, 0, costs.pv_first, costs.pv_cycles, costs.pv_smem,
            self.begin_pv, self.finish_pv,
        )  # fmt: skip
        if self.two_parts:
            yield from self.wait(self.barrier("P_full_lastsplit", stage), phase, "rest of P")
            yield from self.issue(
                "PV", stage, ring, 0, costs.pv_first, costs.pv_steps - costs.pv_first,
                costs.pv_cycles, costs.pv_smem, self.begin_pv, self.finish_pv,
            )  # fmt: skip

    def issue(
        self,
        op: str,
        stage: int,
        ring: int,
        ahead: int,
        first: int,
        steps: int,
        cycles: int,
        smem: int,
        begin: Callable[[Mma], None],
        finish: Callable[[Mma], None],
    ) -> Steps:
        """Queue a run of k-steps and spend what issuing them costs."""
        machine = self.machine
        if not first:
            for cta in self.cluster.ctas:
                cta.record_busy()
        # A run that follows a wait begins a little later than one that follows another run.
        lead = self.costs.resume if op == "PV" or (stage == 0 and ahead) else 0
        ready = self.env.cycle + lead + machine.mma_issue_cycles
        self.cluster.tensor.push(
            Mma(op, stage, self.slot(ring), self.tile_id, self.block - ahead, self.tile,
                self.step + ahead, ready, first, steps, cycles, smem, op == "PV", begin,
                finish)
        )  # fmt: skip
        self.block -= ahead
        yield from self.spend(
            f"issue {op}", "issue", lead + steps * machine.mma_issue_cycles, stage
        )
        self.block += ahead

    # -- commits -------------------------------------------------------------------------------

    def commit(self, name: str, stage: int) -> None:
        """tcgen05.commit: arrive on this barrier, in every CTA, when all MMAs so far are done."""
        barriers = [self.cluster.barrier(name, stage, cta) for cta in self.cluster.ctas]

        def land() -> None:
            for barrier in barriers:
                barrier.arrive("tensor", self.warp, self.cta, 1)

        self.note("commit", name, stage)
        self.cluster.tensor.push(Commit(land, barriers[0]))

    def free_kv(self, ring: int) -> None:
        """Commit that gives a ring slot back to the load warps."""
        slot = ring % self.design.kv_stages
        self._release("load_KV_empty", slot, [(cta, cta.ring[slot]) for cta in self.cluster.ctas])

    def free_q(self, stage: int) -> None:
        """Commit that gives sQ[stage] back to the load warps."""
        self._release("load_Q_empty", stage, [(cta, cta.sq[stage]) for cta in self.cluster.ctas])

    def _release(self, name: str, stage: int, held: list[tuple[Cta, Buffer]]) -> None:
        barriers = [self.cluster.barrier(name, stage, cta) for cta in self.cluster.ctas]

        def land() -> None:
            for (cta, buffer), barrier in zip(held, barriers, strict=True):
                buffer.release()
                if self.cluster.data is not None:
                    self.cluster.data.poison(cta, buffer)
                barrier.arrive("tensor", self.warp, self.cta, 1)

        self.note("commit", name, stage)
        self.cluster.tensor.push(Commit(land, barriers[0]))

    # -- what the tensor pipe finds when it gets there -----------------------------------------

    def begin_qk(self, mma: Mma) -> None:
        """QK starts: Q and K must be there, S and P given up."""
        what = tag(mma.tile, mma.step)
        for cta in self.cluster.ctas:
            cta.sq[mma.stage].check("tensor", "Q", tag(mma.tile, 0), mma.tile_id, -1)
            cta.ring[mma.slot].check("tensor", "K", what, mma.tile_id, mma.block)
            cta.sq[mma.stage].begin_use()
            cta.ring[mma.slot].begin_use()
            region = cta.tmem[mma.stage]
            before = region.s_full
            if before >= 0:
                if late := region.s_read.behind(before):
                    self._pipe_hazard(
                        "overwrite_while_read", "P_full_O_rescaled", mma, cta,
                        f"softmax{mma.stage} warps {late}",
                        f"QK overwrites S[{mma.stage}] before warps {late} of "
                        f"softmax{mma.stage} have read it",
                    )  # fmt: skip
                if region.o_done != before:
                    self._pipe_hazard(
                        "tmem_alias", "P_full_O_rescaled", mma, cta, "tensor",
                        f"QK overwrites P[{mma.stage}] before PV has read it",
                    )  # fmt: skip

    def finish_qk(self, mma: Mma) -> None:
        """QK is done: S holds this step."""
        now = self.env.cycle
        for cta in self.cluster.ctas:
            cta.sq[mma.stage].end_use()
            cta.ring[mma.slot].end_use()
            region = cta.tmem[mma.stage]
            region.s_full = tag(mma.tile, mma.step)
            region.s_birth = now
            region.s_first_use = -1
            if self.cluster.data is not None:
                self.cluster.data.qk(cta, mma)

    def begin_pv(self, mma: Mma) -> None:
        """PV starts: V, this part of P and O must be there."""
        what = tag(mma.tile, mma.step)
        first = mma.first_step == 0
        last = mma.first_step + mma.steps == self.costs.pv_steps
        for cta in self.cluster.ctas:
            cta.ring[mma.slot].check("tensor", "V", what, mma.tile_id, mma.block)
            cta.ring[mma.slot].begin_use()
            region = cta.tmem[mma.stage]
            if first:
                if late := region.p_first.behind(what):
                    self._pipe_hazard(
                        "read_before_full", "P_full_O_rescaled", mma, cta,
                        f"softmax{mma.stage} warps {late}",
                        f"PV reads P[{mma.stage}] before warps {late} have stored its first part",
                    )  # fmt: skip
                if late := region.o_granted.behind(what):
                    self._pipe_hazard(
                        "overwrite_while_read", "P_full_O_rescaled", mma, cta,
                        f"correction warps {late}",
                        f"PV accumulates into O[{mma.stage}] before correction warps {late} "
                        "have rescaled or read it",
                    )  # fmt: skip
                if region.p_first_use < region.p_birth:
                    region.p_first_use = self.env.cycle
            if last and (late := region.p_last.behind(what)):
                guard = "P_full_lastsplit" if self.two_parts else "P_full_O_rescaled"
                self._pipe_hazard(
                    "read_before_full", guard, mma, cta, f"softmax{mma.stage} warps {late}",
                    f"PV reads the end of P[{mma.stage}] before warps {late} have stored it",
                )  # fmt: skip

    def finish_pv(self, mma: Mma) -> None:
        """PV is done: O has this step, P may be overwritten."""
        last = mma.first_step + mma.steps == self.costs.pv_steps
        for cta in self.cluster.ctas:
            cta.ring[mma.slot].end_use()
            if self.cluster.data is not None:
                self.cluster.data.pv(cta, mma)
            if last:
                region = cta.tmem[mma.stage]
                region.o_done = tag(mma.tile, mma.step)
                cta.record_p(mma)
                if mma.step == 0:
                    region.o_birth = self.env.cycle

    def _pipe_hazard(
        self, kind: str, barrier: str, mma: Mma, cta: Cta, other: str, text: str
    ) -> None:
        self.core.report(
            Hazard(kind, barrier, mma.stage, cta.number, "tensor", other, mma.tile_id, mma.block,
                   self.core.now, text)
        )  # fmt: skip


class PeerMmaRole(MmaRole):
    """The MMA warp of a pair's second CTA: it allocates, frees, and says when its CTA is done."""

    def run(self) -> Steps:
        """Allocate, wait for the end of both CTAs, free."""
        yield from self.start()
        yield from self.allocate()
        while (yield from self.next_tile()) is not None:
            self.tile += 1
            if not self.design.is_dynamic:
                self.tile = len(self.cluster.tiles)
        yield from self.sync("TmemPtr", 2, "all done with TMEM")
        yield from self.wait_for_peer()
        yield from self.spend("free TMEM", "issue", self.machine.tmem_allocate_cycles)
        self.finish()
