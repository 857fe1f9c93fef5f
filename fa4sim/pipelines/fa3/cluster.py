"""One CTA of the Hopper kernel: rings, registers of its consumers, tensor cores.

A consumer's accumulators live in its own registers, so no barrier guards them; what is tracked of
them is which step they belong to, for the trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fa4sim.engine.buffers import Buffer, Shards
from fa4sim.engine.core import Core
from fa4sim.engine.wgmma import WgmmaPipe
from fa4sim.pipelines.common.cluster import BaseCluster, BaseCta, Operation, Surroundings
from fa4sim.pipelines.fa3.barriers import barrier_table
from fa4sim.pipelines.fa3.costs import pv_costs, qk_costs, row_costs
from fa4sim.pipelines.fa3.program import program
from fa4sim.pipelines.fa4.faults import check_fault
from fa4sim.pipelines.fa4.tiles import WorkTile
from fa4sim.specs import HopperDesign, Machine, Problem

if TYPE_CHECKING:
    from fa4sim.pipelines.common.role import Role
    from fa4sim.pipelines.fa3.data import Data


class Registers:
    """What the threads of one consumer hold, as tags: S of a step, P of a step, O of a tile.

    ``s_full`` is the step whose scores are complete; ``p_kept`` for which step each warp has
    rounded its part of P; ``o_stored`` for which tile each has written O.
    """

    def __init__(self) -> None:
        self.s_full = -1
        self.p_kept = Shards()
        self.o_written = Shards()
        self.s_birth = self.s_first_use = self.p_birth = self.p_first_use = self.o_birth = 0

    def shift(self, by_step: int, by_tile: int) -> None:
        """Hold the same things that many steps (as tags) or tiles later."""
        self.p_kept.shift(by_step)
        self.o_written.shift(by_tile)
        self.s_full += by_step if self.s_full >= 0 else 0

    def state(self, step: int, tile: int, now: int) -> tuple[object, ...]:
        """The tags relative to the step and the tile in hand, and ages at ``now``."""
        return (
            self.s_full - step if self.s_full >= 0 else -1,
            self.p_kept.state(step), self.o_written.state(tile),
            now - self.s_birth, now - self.s_first_use, now - self.p_birth, now - self.p_first_use,
        )  # fmt: skip


class Cta(BaseCta):
    """The CTA's shared memory and the registers of its consumers."""

    def __init__(self, cluster: Cluster, sm: int, number: int) -> None:
        super().__init__(cluster, 0, sm, number)
        core, design = cluster.core, cluster.design
        self.cluster = cluster
        consumers = range(design.consumers)
        empty = "load_{}_empty" if design.specialised else "Cta"

        def slot(tensor: str, name: str, stage: int) -> Buffer:
            full = f"load_{tensor}_full"
            return Buffer(core, tensor, name, sm, number, stage, full, empty.format(tensor))

        self.sq = [slot("Q", f"sQ[{c}]", c) for c in consumers]
        self.so = [
            Buffer(core, "O", f"sO[{c}]", sm, number, c, f"Epilogue{c}", f"Epilogue{c}")
            for c in consumers
        ]
        self.sk, self.sv = (
            [slot(tensor, f"s{tensor}[{i}]", i) for i in range(design.kv_stages)]
            for tensor in ("K", "V")
        )
        self.rings = [self.sk, self.sv]
        self.registers = [Registers() for _ in consumers]

    @property
    def regions(self) -> Sequence[Registers]:
        """The registers of every consumer."""
        return self.registers

    def named_barrier_cycles(self, threads: int) -> int:
        """From the last arrival on a named barrier of so many threads to its waiters.

        On an H200 31.5 cycles with 64 threads and 45.5 with 512: one for each further warp.
        """
        return super().named_barrier_cycles(threads) + threads // 32 - 2

    def record(
        self, tensor: str, tile: int, block: int, consumer: int, birth: int, first: int, last: int
    ) -> None:
        """The life of what a consumer held in registers, which ends now."""
        core = self.cluster.core
        skipped = core.skipped
        code = core.trace.code
        core.trace.append["life"](
            (self.sm, self.number, code(tensor), tile, block, consumer, code("registers"),
             code(f"r{tensor}[{consumer}]"), birth + skipped, first + skipped, last + skipped,
             core.env.cycle + skipped)
        )  # fmt: skip


class Cluster(BaseCluster):
    """A CTA in detail: what its warps share, and the agents that run on it."""

    def __init__(
        self, core: Core, problem: Problem, design: HopperDesign, machine: Machine,
        tiles: Sequence[WorkTile], around: Surroundings, first_sm: int = 0, first_cta: int = 0,
        data: Data | None = None,
    ) -> None:  # fmt: skip
        table = barrier_table(design)
        super().__init__(core, problem, design, machine, table, tiles, around)
        self.design: HopperDesign = design
        self.ring_barriers = tuple(name for name in table if name.startswith(("load_K", "load_V")))
        self.data: Data | None = data
        for fault in design.faults:
            check_fault(fault, design, table)
        self.qk_costs = qk_costs(problem, design, machine)
        self.pv_costs = pv_costs(problem, design, machine)
        self.row_costs = row_costs(problem, design, machine)
        self.cta = Cta(self, first_sm, first_cta)
        self.ctas = [self.cta]
        self.tensor: WgmmaPipe = WgmmaPipe(
            core, first_sm, first_cta, design.consumers, self.cta.smem_port, self.cta.pressure,
            machine.mma_issue_cycles, machine.wgmma_queue_steps, machine.mma_commit_cycles,
        )  # fmt: skip

    def tile_class(self, tile: WorkTile) -> tuple[object, ...]:
        """See :class:`BaseCluster`."""
        return (tile.shape,)

    def alike(self, tile: WorkTile, low: int, high: int) -> tuple[int, int]:
        """See :class:`BaseCluster`: O is rescaled in every step, so nothing else decides."""
        return low, high

    def program(self, agent: Role) -> Iterator[Operation]:
        """See :mod:`fa4sim.pipelines.fa3.program`."""
        blocks = [tile.blocks for tile in self.tiles]
        return program(self.design, agent.role, blocks, lane=agent.warp % 4)

    def arrivals(self) -> dict[str, int]:
        """Arrivals one warp makes at once: an elected lane's on mbarriers."""
        return {name: 1 for name, spec in self.table.items() if spec.kind == "mbarrier"}
