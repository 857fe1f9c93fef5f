"""What every role of FA4 does besides: share TMEM, fetch tiles from cluster launch control."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from simpy.events import Event

from fa4sim.engine.agent import Steps
from fa4sim.pipelines.common.role import Role as AnyRole
from fa4sim.pipelines.fa4.cluster import Cluster, Cta
from fa4sim.pipelines.fa4.tiles import WorkTile
from fa4sim.specs import Design


class Role(AnyRole):
    """A warp of FA4's forward kernel. Its counters are :class:`fa4sim.pipelines.common.role`'s.

    ``sees_empty`` says whether it has something to do for a split without keys.
    """

    sees_empty = False

    def start(self) -> Steps:
        """As every warp; then, with a batch of variable length, find the first tile."""
        yield from super().start()
        if self.cluster.handed:
            yield from self.spend("find tile", "issue", self.cluster.handed[0].lookup_cycles)

    def __init__(self, cluster: Cluster, cta: Cta, role: str, warp: int) -> None:
        super().__init__(cluster, cta, role, warp)
        self.cluster: Cluster = cluster
        self.home: Cta = cta
        self.design: Design = cluster.design

    def use_tmem(self) -> Steps:
        """Wait for the TMEM address; nobody may touch TMEM before it has been allocated."""
        yield from self.sync("TmemPtr", 1, "TMEM address")
        if not self.home.tmem_allocated:
            self.hazard(
                "read_before_full", "TmemPtr", 0, "mma",
                f"{self.role} uses TMEM before the MMA warp has allocated it",
            )  # fmt: skip

    def leave_tmem(self) -> None:
        """Say that this warp is done with TMEM."""
        self.home.tmem_users_left += 1
        self.note("arrive", "TmemPtr", 0)
        self.barrier("TmemPtr").arrive(self.role, self.warp, self.cta, 32)

    def next_tile(self) -> Generator[Event, Any, WorkTile | None]:
        """The next tile, or None; with a dynamic scheduler, wait for its coordinates.

        Splits without keys are passed over by roles that have nothing to do for them.
        """
        cluster = self.cluster
        while True:
            if self.design.is_dynamic and self.handed:
                full, empty = cluster.next_tile_barriers
                yield from self.wait(self.barrier(full), self.handed, "next tile")
                if cluster.answers < self.handed:
                    self.hazard(
                        "read_before_full", full, 0, "clc" if full == "clc_full" else "scheduler",
                        f"{self.role} reads the next tile's coordinates before they are there",
                    )  # fmt: skip
                yield from self.spend("read tile", "issue", self.machine.smem_latency_cycles)
                self.arrive(empty, 0, 32, role=self.party)
            tile = self.take_tile()
            if tile is None or tile.blocks or self.sees_empty:
                return tile
