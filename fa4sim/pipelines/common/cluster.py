"""One CTA, or a pair of them, as every pipeline needs it.

A pipeline derives its own cluster and CTA, which add tiles in shared memory, a tensor pipe, costs
and roles. What the fast-forward and the diagnosis ask of a cluster is declared here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from fa4sim.engine.barrier import Barrier
from fa4sim.engine.buffers import Buffer
from fa4sim.engine.core import Core
from fa4sim.engine.memory import Share, TmaLoad, TmaStore
from fa4sim.engine.tensor import TensorQueue
from fa4sim.engine.units import Pressure, SubPartition, Unit
from fa4sim.pipelines.fa4.barriers import BarrierSpec, parties_of, waiters_of
from fa4sim.pipelines.fa4.tiles import WorkTile
from fa4sim.specs import AnyDesign, Machine, Problem

if TYPE_CHECKING:
    from fa4sim.engine.agent import Agent
    from fa4sim.pipelines.common.role import Role

Operation = tuple[str, str, int]

#: Units whose work is counted, in the order of :meth:`BaseCta.busy`, and how many of each an SM
#: has. The tensor pipe's spans tell all about it.
UNITS = {"mufu": 4, "fma": 4, "alu": 4, "issue": 4, "tmem": 4, "smem": 1}


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


class Region(Protocol):
    """What a CTA holds of one Q stage outside shared memory: TMEM columns, or registers."""

    o_birth: int

    def shift(self, by_step: int, by_tile: int) -> None:
        """Hold the same things that many steps (as tags) or tiles later."""

    def state(self, step: int, tile: int, now: int) -> tuple[object, ...]:
        """The tags relative to the step and the tile in hand, and ages at ``now``."""


class BaseCta:
    """One CTA's shared things: barriers, slots, units. ``rank`` 0 is the leader of a pair."""

    def __init__(self, cluster: BaseCluster, rank: int, sm: int, number: int) -> None:
        core, machine, design = cluster.core, cluster.machine, cluster.design
        self._cluster = cluster
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
            Share(machine.hbm_rate(design.kv_load), burst, not around.first_wave),
        )
        width = machine.smem_bytes_per_cycle
        self.tma = TmaLoad(
            core, sm, number, self.smem_port, width, machine.tma_bytes_per_cycle, self.l2, self.hbm
        )
        #: Whatever brings tiles into shared memory; a pipeline may add to them.
        self.receivers = [self.tma]
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
        #: Slots that are used in turn; all rings of a CTA are equally long and turn together.
        self.rings: list[list[Buffer]] = []
        self.sq: list[Buffer] = []
        self.so: list[Buffer] = []
        self.busy_codes = [core.trace.code(f"busy:{unit}") for unit in UNITS]

    @property
    def regions(self) -> Sequence[Region]:
        """What it holds of every Q stage."""
        raise NotImplementedError

    def share_with(self, active_sms: int) -> None:
        """From now on L2 and HBM are shared by this many SMs (unless all are simulated)."""
        if self._cluster.around.shared is None:
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
        core = self._cluster.core
        now = core.now
        sm, number = self.sm, self.number
        row: list[int] = []
        for code, value in zip(self.busy_codes, self.busy(), strict=True):
            row += (sm, number, code, now, value)
        core.trace.append["counter"](row)

    # -- barriers ------------------------------------------------------------------------------

    def _barrier(self, spec: BarrierSpec, stage: int) -> Barrier:
        machine = self._cluster.machine
        named = spec.kind == "named"
        return Barrier(
            self._cluster.core, spec.name, stage, self.number, self.sm, spec.count,
            parties_of(spec, stage),
            self.named_barrier_cycles(spec.count) if named else machine.mbarrier_resume_cycles,
            0 if named else machine.mbarrier_try_wait_cycles,
        )  # fmt: skip

    def named_barrier_cycles(self, threads: int) -> int:
        """From the last arrival on a named barrier of so many threads to its waiters."""
        return self._cluster.machine.named_barrier_cycles

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
                waiters = self._cluster.waiting_roles(name, barrier.stage)
                barrier.dropped_waits |= frozenset(waiters if role is None else (role,))
            else:
                barrier.expected += 1 if kind == "count_plus_one" else -1
                barrier.pending = barrier.expected


class BaseCluster(ABC):
    """A CTA or a pair in detail: shared state, and the agents that run on it."""

    #: Barriers whose stage is a slot of a ring.
    ring_barriers: tuple[str, ...] = ()
    #: Whether the slots of a ring differ, so that it matters which comes next.
    slots_differ = False
    #: Two steps can only be alike if they are a multiple of this many apart.
    step_period = 1
    ctas: Sequence[Any]
    tensor: TensorQueue

    def __init__(
        self, core: Core, problem: Problem, design: AnyDesign, machine: Machine,
        table: Mapping[str, BarrierSpec], tiles: Sequence[WorkTile], around: Surroundings,
    ) -> None:  # fmt: skip
        self.core = core
        self.problem = problem
        self.design: Any = design
        self.machine = machine
        self.table = table
        #: Tiles as they are handed out, and of these the ones with work, which warps count.
        self.handed = list(tiles)
        self.tiles = [tile for tile in tiles if tile.blocks]
        self.around = around
        self.data: Any = None
        self.agents: list[Agent] = []
        #: Called as a tile and a step begin, by the role that sets the pace: states are compared.
        self.at_tile: Callable[[Role], None] = lambda role: None
        self.at_step: Callable[[Role, WorkTile], None] = lambda role, tile: None

    def hand_out(self, tile: WorkTile) -> None:
        """Another tile for this cluster."""
        self.handed.append(tile)
        if tile.blocks:
            self.tiles.append(tile)

    # -- what pipelines differ in --------------------------------------------------------------

    @abstractmethod
    def tile_class(self, tile: WorkTile) -> tuple[object, ...]:
        """What decides how a tile runs: equal classes behave alike, cycle by cycle."""

    @abstractmethod
    def alike(self, tile: WorkTile, low: int, high: int) -> tuple[int, int]:
        """Of the steps ``[low, high)``, masked alike, those that behave alike in all else."""

    @abstractmethod
    def program(self, agent: Role) -> Iterator[Operation]:
        """The barrier operations of one warp over all tiles, in order."""

    @abstractmethod
    def arrivals(self) -> Mapping[str, int]:
        """Arrivals one warp makes at once, by barrier, where it is not all 32 threads."""

    # -- barriers ------------------------------------------------------------------------------

    def waiting_roles(self, name: str, stage: int) -> tuple[str, ...]:
        """The roles that wait for one stage of a barrier."""
        return waiters_of(self.table[name], stage)

    def barrier(self, name: str, stage: int, cta: BaseCta) -> Barrier:
        """The barrier that CTA ``cta`` uses under this name: the leader's if a pair shares it."""
        owner = self.ctas[0] if self.table[name].owner == "leader" else cta
        found: Barrier = owner.barriers[name][stage]
        return found

    def is_remote(self, name: str, cta: BaseCta) -> bool:
        """Whether an arrival by ``cta`` crosses to the other CTA."""
        return cta.rank != 0 and self.table[name].owner == "leader"
