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
    """A warp of FA4's forward kernel. Its counters are :class:`fa4sim.pipelines.common.role`'s."""

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
        """The next work tile, or None; with a dynamic scheduler, wait for its coordinates."""
        cluster = self.cluster
        if self.design.scheduler == "dynamic" and self.tile:
            yield from self.wait(self.barrier("clc_full"), self.tile, "next tile")
            if cluster.answers < self.tile:
                self.hazard(
                    "read_before_full", "clc_full", 0, "clc",
                    f"{self.role} reads the next tile's coordinates before they are there",
                )  # fmt: skip
            yield from self.spend("read tile", "issue", self.machine.smem_latency_cycles)
            self.arrive("clc_empty", 0, 32, role=self.party)
        return self.take_tile()
