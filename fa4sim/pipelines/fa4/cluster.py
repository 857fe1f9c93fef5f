"""One CTA, or a pair of them, with everything its warps share.

A :class:`Cluster` is what is simulated in detail: its barriers, its slots and TMEM regions, its
tensor pipe and TMA engines, and one agent per warp of every role. With a CTA pair that is two SMs,
one MMA warp (the leader's) driving both tensor pipes in lock step, and all softmax, correction,
load and epilogue warps of both CTAs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fa4sim.engine.barrier import Barrier
from fa4sim.engine.buffers import Buffer, Shards
from fa4sim.engine.core import Core
from fa4sim.engine.memory import Share, TmaLoad, TmaStore
from fa4sim.engine.tensor import Mma, TensorPipe
from fa4sim.engine.units import Pressure, SubPartition, Unit
from fa4sim.pipelines.fa4.barriers import BarrierSpec, barrier_table, parties_of, waiters_of
from fa4sim.pipelines.fa4.costs import correction_costs, mma_costs, softmax_costs
from fa4sim.pipelines.fa4.faults import check_fault
from fa4sim.pipelines.fa4.tiles import WorkTile
from fa4sim.pipelines.fa4.votes import RescaleVotes
from fa4sim.specs import Design, Machine, Problem

if TYPE_CHECKING:
    from fa4sim.engine.agent import Agent
    from fa4sim.pipelines.fa4.data import Data
    from fa4sim.pipelines.fa4.role import Role


@dataclass(frozen=True)
class Surroundings:
    """What the rest of the GPU does to this cluster.

    ``first_wave`` says that every SM starts at the same moment, without credit towards L2 and HBM;
    ``in_step`` that they stay together (a static persistent grid of equal tiles), so that nobody
    ever runs ahead of its fair share. ``shared`` replaces the fair shares by servers of L2 and HBM
    that all SMs really queue at.
    """

    first_wave: bool = False
    in_step: bool = False
    shared: tuple[Share, Share] | None = None


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


#: Units whose work is counted, in the order of :meth:`Cta.busy`, and how many of each an SM has.
#: The tensor pipe's spans tell all about it.
UNITS = {"mufu": 4, "fma": 4, "alu": 4, "issue": 4, "tmem": 4, "smem": 1}


class Cta:
    """One CTA's shared things: barriers, slots, units. ``rank`` 0 is the leader of a pair."""

    def __init__(self, cluster: Cluster, rank: int, sm: int, number: int) -> None:
        core, machine, design = cluster.core, cluster.machine, cluster.design
        self.cluster = cluster
        self.rank = rank
        self.sm = sm
        self.number = number
        self.pressure = Pressure()
        self.smsps = [SubPartition(i, self.pressure) for i in range(4)]
        self.smem_port = Unit("smem")
        around = cluster.around
        together = around.in_step or around.first_wave
        burst = machine.share_burst_in_step_bytes if together else machine.share_burst_bytes
        self.l2, self.hbm = around.shared or (
            Share(machine.l2_bytes_per_cycle, burst, not around.first_wave),
            Share(machine.hbm_bytes_per_cycle, burst, not around.first_wave),
        )
        width = machine.smem_bytes_per_cycle
        self.tma = TmaLoad(
            core, sm, number, self.smem_port, width, machine.tma_bytes_per_cycle, self.l2, self.hbm
        )
        self.tma_store = TmaStore(
            core, sm, number, self.smem_port, width, machine.tma_store_bytes_per_cycle,
            machine.tma_store_latency_cycles, self.l2, self.hbm,
        )  # fmt: skip
        self.barriers = {
            spec.name: [self._barrier(spec, stage) for stage in range(spec.stages)]
            for spec in cluster.table.values()
            if spec.used
        }
        for fault in design.faults:
            self._break(fault.kind, fault.barrier, fault.stage, fault.role)
        q = design.q_stages
        self.sq = [
            Buffer(core, "Q", f"sQ[{s}]", sm, number, s, "load_Q_full", "load_Q_empty")
            for s in range(q)
        ]
        self.ring = [
            Buffer(core, "KV", f"sKV[{i}]", sm, number, i, "load_KV_full", "load_KV_empty")
            for i in range(design.kv_stages)
        ]
        self.so = [
            Buffer(core, "O", f"sO[{s}]", sm, number, s, "O_epi_full", "O_epi_empty")
            for s in range(q)
        ]
        self.tmem = [TmemStage() for _ in range(q)]
        self.busy_codes = [core.trace.code(f"busy:{unit}") for unit in UNITS]
        self.tmem_allocated = False
        self.tmem_users = 4 * (q + 1)
        self.tmem_users_left = 0

    def share_with(self, active_sms: int) -> None:
        """From now on L2 and HBM are shared by this many SMs (unless all are simulated)."""
        if self.cluster.around.shared is None:
            self.l2.sharers = self.hbm.sharers = active_sms

    # -- how busy its units are ----------------------------------------------------------------

    def busy(self) -> tuple[int, ...]:
        """Cycles each of :data:`UNITS` has worked so far; sub-partitions' units all together."""
        sums = [0, 0, 0, 0, 0]
        for smsp in self.smsps:
            sums[0] += smsp.mufu_busy
            sums[1] += smsp.fma_busy
            sums[2] += smsp.alu_busy
            sums[3] += smsp.issue_busy
            sums[4] += smsp.tmem.busy
        return (*sums, self.smem_port.busy)

    def record_busy(self) -> None:
        """Write them into the trace, as counters."""
        core = self.cluster.core
        now = core.now
        sm, number = self.sm, self.number
        row: list[int] = []
        for code, value in zip(self.busy_codes, self.busy(), strict=True):
            row += (sm, number, code, now, value)
        core.trace.append["counter"](row)

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

    def _barrier(self, spec: BarrierSpec, stage: int) -> Barrier:
        machine = self.cluster.machine
        named = spec.kind == "named"
        return Barrier(
            self.cluster.core, spec.name, stage, self.number, self.sm, spec.count,
            parties_of(spec, stage),
            machine.named_barrier_cycles if named else machine.mbarrier_resume_cycles,
            0 if named else machine.mbarrier_try_wait_cycles,
        )  # fmt: skip

    def _break(self, kind: str, name: str, stage: int | None, role: str | None) -> None:
        """Put a fault into this CTA's barriers."""
        if kind == "swap_slots":
            return
        for barrier in self.barriers[name]:
            if stage is not None and barrier.stage != stage:
                continue
            if kind == "drop_arrival":
                roles = barrier.parties if role is None else (role,)
                barrier.dropped_arrivals |= frozenset(roles)
            elif kind == "drop_wait":
                waiters = self.cluster.waiting_roles(name, barrier.stage)
                barrier.dropped_waits |= frozenset(waiters if role is None else (role,))
            else:
                barrier.expected += 1 if kind == "count_plus_one" else -1
                barrier.pending = barrier.expected


class Cluster:
    """A CTA or a pair in detail: shared state, and the agents that run on it."""

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
        self.core = core
        self.problem = problem
        self.design = design
        self.machine = machine
        self.tiles = list(tiles)
        self.around = around
        self.data = data
        self.table = barrier_table(design)
        for fault in design.faults:
            check_fault(fault, design)
        self.softmax_costs = softmax_costs(problem, design, machine)
        self.correction_costs = correction_costs(problem, design, machine)
        self.mma_costs = mma_costs(problem, design, machine)
        self.votes = RescaleVotes(problem, design, seed)
        self.columns = design.tmem_map(problem.element_bytes)
        self.ctas = [
            Cta(self, rank, first_sm + rank, first_cta + rank) for rank in range(design.cta_group)
        ]
        self.leader = self.ctas[0]
        self.tensor = TensorPipe(
            core,
            [cta.sm for cta in self.ctas],
            first_cta,
            [cta.smem_port for cta in self.ctas],
            [cta.pressure for cta in self.ctas],
            machine.mma_start_cycles,
            machine.mma_start_tmem_cycles,
            machine.mma_commit_cycles + (machine.mma_pair_cycles if design.cta_group == 2 else 0),
        )
        self.agents: list[Agent] = []
        self.swapped = self._swapped_slots()
        #: Tiles that cluster launch control has answered with (or "no more").
        self.answers = 0
        #: Called by the MMA warp as it begins a tile and a step: where states are compared.
        self.at_tile: Callable[[Role], None] = lambda role: None
        self.at_step: Callable[[Role, WorkTile], None] = lambda role, tile: None

    def tile_class(self, tile: WorkTile) -> tuple[object, ...]:
        """What decides how a tile runs: equal classes behave alike, cycle by cycle."""
        blind = tuple(
            self.votes.blind_steps(tile, stage, cta.rank)
            for stage in range(self.design.q_stages)
            for cta in self.ctas
        )
        return (tile.shape, blind)

    def waiting_roles(self, name: str, stage: int) -> tuple[str, ...]:
        """The roles that wait for one stage of a barrier."""
        return waiters_of(self.table[name], stage)

    def _swapped_slots(self) -> dict[int, int]:
        """Ring slots that the reader confuses, if a ``swap_slots`` fault says so."""
        for fault in self.design.faults:
            if fault.kind == "swap_slots":
                first = 0 if fault.stage is None else fault.stage
                second = (first + 2) % self.design.kv_stages
                return {first: second, second: first}
        return {}

    def barrier(self, name: str, stage: int, cta: Cta) -> Barrier:
        """The barrier that CTA ``cta`` uses under this name: the leader's if a pair shares it."""
        owner = self.leader if self.table[name].owner == "leader" else cta
        return owner.barriers[name][stage]

    def is_remote(self, name: str, cta: Cta) -> bool:
        """Whether an arrival by ``cta`` crosses to the other CTA."""
        return cta.rank != 0 and self.table[name].owner == "leader"
