"""One CTA, or a pair of them, with everything its warps share.

A :class:`Cluster` is what is simulated in detail: its barriers, its slots and TMEM regions, its
tensor pipe and TMA engines, and one agent per warp of every role. With a CTA pair that is two SMs,
one MMA warp (the leader's) driving both tensor pipes in lock step, and all softmax, correction,
load and epilogue warps of both CTAs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fa4sim.engine.buffers import Buffer, Shards
from fa4sim.engine.core import Core
from fa4sim.engine.memory import TmaLoad
from fa4sim.engine.tensor import Mma, TensorPipe
from fa4sim.pipelines.common.cluster import BaseCluster, BaseCta, Operation
from fa4sim.pipelines.common.cluster import Surroundings as Surroundings
from fa4sim.pipelines.fa4.barriers import barrier_table, next_tile_barriers
from fa4sim.pipelines.fa4.costs import correction_costs, mma_costs, softmax_costs
from fa4sim.pipelines.fa4.faults import check_fault
from fa4sim.pipelines.fa4.page_table import page_period
from fa4sim.pipelines.fa4.program import program
from fa4sim.pipelines.fa4.tiles import WorkTile
from fa4sim.pipelines.fa4.votes import RescaleVotes
from fa4sim.specs import Design, Machine, Problem

if TYPE_CHECKING:
    from fa4sim.pipelines.common.role import Role
    from fa4sim.pipelines.fa4.data import Data


class TmemStage:
    """The TMEM regions and statistics of one Q stage in one CTA, as tags.

    ``s_full`` is the step whose scores lie in S; ``s_read`` what each softmax warp has read of
    them; ``p_first`` and ``p_last`` what each has written of P; ``o_granted`` for which step each
    correction warp has given O to the MMA; ``o_done`` the last PV that is complete.
    """

    def __init__(self) -> None:
        self.s_full = -1
        self.s_read = Shards()
        self.p_stored = Shards()
        self.p_first = Shards()
        self.p_last = Shards()
        self.o_granted = Shards()
        self.o_read = Shards()
        self.stats_written = Shards()
        self.stats_read = Shards()
        self.so_written = Shards()
        self.o_done = -1
        self.stored = 0
        self.s_birth = self.s_first_use = self.p_birth = self.p_first_use = self.o_birth = 0

    def _of_step(self) -> tuple[Shards, ...]:
        return (
            self.s_read, self.p_stored, self.p_first, self.p_last, self.o_granted,
            self.stats_written, self.stats_read,
        )  # fmt: skip

    def _of_tile(self) -> tuple[Shards, ...]:
        return (self.o_read, self.so_written)

    def shift(self, by_step: int, by_tile: int) -> None:
        """Hold the same things that many steps (as tags) or tiles later."""
        for shards in self._of_step():
            shards.shift(by_step)
        for shards in self._of_tile():
            shards.shift(by_tile)
        self.s_full += by_step if self.s_full >= 0 else 0
        self.o_done += by_step if self.o_done >= 0 else 0

    def state(self, step: int, tile: int, now: int) -> tuple[object, ...]:
        """The tags relative to the step and the tile in hand, and ages at ``now``."""
        singles = tuple(value - step if value >= 0 else -1 for value in (self.s_full, self.o_done))
        return (
            *singles, self.stored, now - self.s_birth,
            now - self.s_first_use if self.s_first_use >= 0 else -1,
            now - self.p_birth, now - self.p_first_use,
            *(shards.state(step) for shards in self._of_step()),
            *(shards.state(tile) for shards in self._of_tile()),
        )  # fmt: skip


class Cta(BaseCta):
    """One CTA's shared things: barriers, slots, TMEM. ``rank`` 0 is the leader of a pair."""

    def __init__(self, cluster: Cluster, rank: int, sm: int, number: int) -> None:
        super().__init__(cluster, rank, sm, number)
        core, design = cluster.core, cluster.design
        self.cluster = cluster
        q = design.q_stages
        self.sq = [
            Buffer(core, "Q", f"sQ[{s}]", sm, number, s, "load_Q_full", "load_Q_empty")
            for s in range(q)
        ]
        self.ring = [
            Buffer(core, "KV", f"sKV[{i}]", sm, number, i, "load_KV_full", "load_KV_empty")
            for i in range(design.kv_stages)
        ]
        self.rings = [self.ring]
        self.so = [
            Buffer(core, "O", f"sO[{s}]", sm, number, s, "O_epi_full", "O_epi_empty")
            for s in range(q)
        ]
        if design.kv_load == "cp_async":
            machine = cluster.machine
            self.cp_async = TmaLoad(
                core, sm, number, self.smem_port, machine.smem_bytes_per_cycle,
                machine.cp_async_bytes_per_cycle, self.l2, self.hbm, "cp_async",
            )  # fmt: skip
            self.receivers.append(self.cp_async)
        self.tmem = [TmemStage() for _ in range(q)]
        self.tmem_allocated = False
        self.tmem_users = 4 * (q + 1)
        self.tmem_users_left = 0

    @property
    def regions(self) -> Sequence[TmemStage]:
        """The TMEM regions of every Q stage."""
        return self.tmem

    # -- lives of tiles in TMEM ----------------------------------------------------------------

    def _life(
        self, tensor: str, tile: int, block: int, stage: int, birth: int, first: int, last: int
    ) -> None:
        core = self.cluster.core
        skipped = core.skipped
        now = core.env.cycle
        start, width = self.cluster.columns[f"{tensor}{stage}"]
        code = core.trace.code
        core.trace.append["life"](
            (self.sm, self.number, code(tensor), tile, block, stage, code("tmem"),
             code(f"columns {start}-{start + width - 1}"), birth + skipped, first + skipped,
             last + skipped, now + skipped)
        )  # fmt: skip

    def record_s(self, stage: int, tile: int, block: int) -> None:
        """All four warps have read S: it may be overwritten (by P, its own upper half)."""
        region = self.tmem[stage]
        now = self.cluster.core.env.cycle
        self._life("S", tile, block, stage, region.s_birth, region.s_first_use, now)

    def record_p(self, mma: Mma) -> None:
        """PV has read P: its columns are free."""
        region = self.tmem[mma.stage]
        now = self.cluster.core.env.cycle
        self._life("P", mma.tile_id, mma.block, mma.stage, region.p_birth, region.p_first_use, now)

    def record_o(self, stage: int, tile: int) -> None:
        """All four correction warps have read the final O."""
        region = self.tmem[stage]
        now = self.cluster.core.env.cycle
        self._life("O", tile, -1, stage, region.o_birth, region.o_birth, now)


class Cluster(BaseCluster):
    """A CTA or a pair in detail: shared state, and the agents that run on it."""

    ring_barriers = ("load_KV_full", "load_KV_empty")

    def __init__(
        self,
        core: Core,
        problem: Problem,
        design: Design,
        machine: Machine,
        tiles: Sequence[WorkTile],
        around: Surroundings,
        first_sm: int = 0,
        first_cta: int = 0,
        seed: int = 0,
        data: Data | None = None,
    ) -> None:
        table = barrier_table(design)
        super().__init__(core, problem, design, machine, table, tiles, around)
        self.design: Design = design
        self.data: Data | None = data
        self.slots_differ = design.uneven_kv_ring
        self.step_period = page_period(problem, design, machine)
        for fault in design.faults:
            check_fault(fault, design)
        self.softmax_costs = softmax_costs(problem, design, machine)
        self.correction_costs = correction_costs(problem, design, machine)
        self.mma_costs = mma_costs(problem, design, machine)
        self.votes = RescaleVotes(problem, design, seed)
        self.columns = design.tmem_map(problem.element_bytes)
        self.ctas: list[Cta] = [
            Cta(self, rank, first_sm + rank, first_cta + rank) for rank in range(design.cta_group)
        ]
        self.leader: Cta = self.ctas[0]
        self.tensor: TensorPipe = TensorPipe(
            core,
            [cta.sm for cta in self.ctas],
            first_cta,
            [cta.smem_port for cta in self.ctas],
            [cta.pressure for cta in self.ctas],
            machine.mma_start_cycles,
            machine.mma_start_tmem_cycles,
            machine.mma_commit_cycles + (machine.mma_pair_cycles if design.cta_group == 2 else 0),
        )
        self.next_tile_barriers = next_tile_barriers(design)
        self.swapped = self._swapped_slots()
        #: Tiles that have been handed out behind the first (or "no more").
        self.answers = 0

    def tile_class(self, tile: WorkTile) -> tuple[object, ...]:
        """What decides how a tile runs: equal classes behave alike, cycle by cycle."""
        blind = tuple(
            self.votes.blind_steps(tile, stage, cta.rank)
            for stage in range(self.design.q_stages)
            for cta in self.ctas
        )
        return (tile.shape, blind)

    def alike(self, tile: WorkTile, low: int, high: int) -> tuple[int, int]:
        """See :class:`BaseCluster`: rescale votes decide besides."""
        blind = max(
            max(self.votes.blind_steps(tile, stage, cta.rank))
            for stage in range(self.design.q_stages)
            for cta in self.ctas
        )
        if blind < high:
            low = max(low, blind + 1)
        elif blind < 1 << 20 or self.data is not None:
            high = low
        if self.design.rescale_threshold == 0:
            high = low  # votes are drawn per step: no two steps need be alike
        return low, high

    def program(self, agent: Role) -> Iterator[Operation]:
        """See :mod:`fa4sim.pipelines.fa4.program`."""
        blocks = [tile.blocks for tile in self.handed]
        leader = agent.home.rank == 0
        return program(self.design, agent.role, blocks, lane=agent.warp % 4, leader=leader)

    def arrivals(self) -> dict[str, int]:
        """Arrivals one warp makes at once, where it is not all 32 threads."""
        return {
            "load_KV_full": 1 if self.design.kv_load == "tma" else 32,
            "load_Q_full": 1 if self.design.q_load == "tma" else 32,
            "P_full_lastsplit": 1,
            "load_epi_full": 1,
            "load_epi_empty": 1,
            "work_info_full": 1,
        }

    def _swapped_slots(self) -> dict[int, int]:
        """Ring slots that the reader confuses, if a ``swap_slots`` fault says so."""
        for fault in self.design.faults:
            if fault.kind == "swap_slots":
                first = 0 if fault.stage is None else fault.stage
                second = (first + 2) % self.design.kv_stages
                return {first: second, second: first}
        return {}
