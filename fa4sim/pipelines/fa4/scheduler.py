"""The scheduler warp of the dynamic persistent design: asks cluster launch control for tiles.

While the other warps work on a tile it fetches the next one's coordinates; every warp reads them
when it gets there, and says so, before the slot is written again.

Source: ``scheduler_warp`` of flash_fwd_sm100.py and ``ClcSchedulerState`` of tile_scheduler.py.
"""

from __future__ import annotations

from collections.abc import Callable

from fa4sim.engine.agent import Steps
from fa4sim.pipelines.fa4.cluster import Cluster, Cta
from fa4sim.pipelines.fa4.role import Role
from fa4sim.pipelines.fa4.tiles import WorkTile


class SchedulerRole(Role):
    """Warp 15. Only the leader's asks; a pair's other one only reads the answers."""

    def __init__(
        self, cluster: Cluster, cta: Cta, warp: int, fetch: Callable[[], WorkTile | None]
    ) -> None:
        super().__init__(cluster, cta, "scheduler", warp)
        self.fetch = fetch

    def run(self) -> Steps:
        """While a tile is worked on, ask for the next."""
        yield from self.start()
        while (yield from self.next_tile()) is not None:
            if self.home.rank == 0:
                yield from self.ask()
            self.tile += 1
        self.finish()

    def ask(self) -> Steps:
        """Request the next tile into the response slot of every CTA."""
        yield from self.wait(self.barrier("clc_empty"), self.tile, "slot read")
        cluster = self.cluster
        tile = self.fetch()

        def answered() -> None:
            if tile is not None and len(cluster.tiles) == self.tile:
                cluster.tiles.append(tile)
            cluster.answers += 1
            for cta in cluster.ctas:
                cta.barriers["clc_full"][0].arrive("clc", self.warp, self.cta, 1)

        self.note("request", "clc_full", 0)
        self.core.later(self.machine.clc_fetch_cycles, answered, ("clc", self.key))
        yield from self.spend("ask for a tile", "issue", self.machine.tma_issue_cycles)


class IdleRole(Role):
    """A warp without work that still has to read and acknowledge every tile."""

    def __init__(self, cluster: Cluster, cta: Cta, warp: int) -> None:
        super().__init__(cluster, cta, "idle", warp)

    def run(self) -> Steps:
        """Read and acknowledge every tile."""
        yield from self.start()
        while (yield from self.next_tile()) is not None:
            self.tile += 1
        self.finish()
