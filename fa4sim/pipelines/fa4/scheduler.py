"""The scheduler warp of the dynamic persistent designs: gets tiles while others work on one.

It asks cluster launch control, whose answer is the next tile's coordinates; or, with a batch of
variable length, it takes a number from a counter in global memory and finds out whose tile that is.
Every warp reads the coordinates when it gets there, and says so, before the slot is written again.

Source: ``scheduler_warp`` of flash_fwd_sm100.py; ``ClcSchedulerState`` and
``DynamicPersistentVarlenScheduler`` of tile_scheduler.py.
"""

from __future__ import annotations

from collections.abc import Callable

from fa4sim.engine.agent import Steps
from fa4sim.pipelines.fa4.cluster import Cluster, Cta
from fa4sim.pipelines.fa4.lookup import lookup_cycles
from fa4sim.pipelines.fa4.role import Role
from fa4sim.pipelines.fa4.tiles import WorkTile

ASK = "ask for a tile"

#: Issue slots for the four words of a tile's coordinates.
STORES = 8


class SchedulerRole(Role):
    """Warp 15. Only the leader's asks; a pair's other one only reads the answers."""

    sees_empty = True

    def __init__(
        self, cluster: Cluster, cta: Cta, warp: int, fetch: Callable[[], WorkTile | None]
    ) -> None:
        super().__init__(cluster, cta, "scheduler", warp)
        self.fetch = fetch

    def run(self) -> Steps:
        """While a tile is worked on, ask for the next."""
        yield from self.start()
        while (tile := (yield from self.next_tile())) is not None:
            if self.design.scheduler == "dynamic_varlen":
                yield from self.take_number(tile)
            elif self.home.rank == 0:
                yield from self.ask()
            self.tile += 1 if tile.blocks else 0
        self.finish()

    def ask(self) -> Steps:
        """Request the next tile into the response slot of every CTA."""
        known = self.handed
        yield from self.wait(self.barrier("clc_empty"), known - 1, "slot read")
        cluster = self.cluster
        tile = self.fetch()

        def answered() -> None:
            if tile is not None and len(cluster.handed) == known:
                cluster.hand_out(tile)
            cluster.answers += 1
            for cta in cluster.ctas:
                cta.barriers["clc_full"][0].arrive("clc", self.warp, self.cta, 1)

        self.note("request", "clc_full", 0)
        self.core.later(self.machine.clc_fetch_cycles, answered, ("clc", self.key))
        yield from self.spend(ASK, "issue", self.machine.tma_issue_cycles)

    def take_number(self, before: WorkTile) -> Steps:
        """Add one to the counter, find the tile of that number, write down its coordinates."""
        cluster, machine = self.cluster, self.machine
        full, empty = cluster.next_tile_barriers
        tile = self.fetch()
        yield from self.spend(ASK, "issue", machine.global_atomic_cycles + machine.shuffle_cycles)
        batch = cluster.problem.batch if tile is None else tile.batch
        cycles = lookup_cycles(
            cluster.problem, cluster.design, machine, batch, min(before.batch, batch)
        )
        yield from self.spend("find tile", "issue", cycles)
        yield from self.wait(self.barrier(empty), self.handed - 1, "slot read")
        if tile is not None and len(cluster.handed) == self.handed:
            cluster.hand_out(tile)
        cluster.answers += 1
        yield from self.spend("write tile", "issue", machine.elect_cycles + STORES)
        self.arrive(full, 0, 1)


class IdleRole(Role):
    """A warp without work that still has to read and acknowledge every tile."""

    def __init__(self, cluster: Cluster, cta: Cta, warp: int) -> None:
        super().__init__(cluster, cta, "idle", warp)

    def run(self) -> Steps:
        """Read and acknowledge every tile."""
        yield from self.start()
        while (tile := (yield from self.next_tile())) is not None:
            self.tile += 1 if tile.blocks else 0
        self.finish()
