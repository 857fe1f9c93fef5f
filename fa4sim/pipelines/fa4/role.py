"""What every role does: start, fetch the next work tile, arrive on barriers, stop."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from simpy.events import Event

from fa4sim.engine.agent import Agent, Steps
from fa4sim.engine.barrier import Barrier
from fa4sim.engine.buffers import tag
from fa4sim.engine.errors import Hazard
from fa4sim.pipelines.fa4.cluster import Cluster, Cta
from fa4sim.pipelines.fa4.tiles import WorkTile
from fa4sim.trace import NONE


class Role(Agent):
    """A warp of the forward kernel. Counters that the roles keep:

    ``tile`` work tiles begun before this one, ``step`` blocks of this tile begun before this one,
    ``ring`` K/V tiles taken through the ring, ``count`` phases of the role's own barriers.
    """

    #: As which party this warp counts on barriers that all warps arrive on.
    party = "others"

    def __init__(self, cluster: Cluster, cta: Cta, role: str, warp: int) -> None:
        super().__init__(cluster.core, cta.sm, cta.number, role, warp, cta.smsps[warp % 4])
        self.cluster = cluster
        self.home = cta
        self.machine = cluster.machine
        self.design = cluster.design
        self.ring = 0
        self.count = 0

    # -- beginning and end of a CTA ------------------------------------------------------------

    def start(self) -> Steps:
        """Barrier initialisation and the CTA's (or the cluster's) first synchronisation."""
        machine = self.machine
        prologue = machine.cta_prologue_cycles
        if self.design.cta_group == 2:
            prologue += machine.cluster_sync_cycles
        yield from self.spend("start", "issue", prologue)
        yield from self.spend("setmaxnreg", "issue", machine.setmaxnreg_cycles)

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

    def finish(self) -> None:
        """Note when this warp is done."""
        self.died = self.env.cycle + self.core.skipped

    # -- tiles ---------------------------------------------------------------------------------

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
        if self.tile < len(cluster.tiles):
            tile: WorkTile = cluster.tiles[self.tile]
            self.tile_id = tile.index
            self.step = 0
            return tile
        self.tile_id = self.block = NONE
        return None

    def enter(self, tile: WorkTile) -> None:
        """Note which block this step works on."""
        self.block = tile.first_block - self.step

    @property
    def what(self) -> int:
        """The tag of the step in hand."""
        return tag(self.tile, self.step)

    # -- barriers ------------------------------------------------------------------------------

    def barrier(self, name: str, stage: int = 0) -> Barrier:
        """The barrier of this name that this CTA uses (a pair's shared one is the leader's)."""
        return self.cluster.barrier(name, stage, self.home)

    def arrive(
        self, name: str, stage: int, count: int, tx_bytes: int = 0, role: str | None = None
    ) -> None:
        """Arrive now; from the other CTA of a pair the arrival takes its time to cross."""
        barrier = self.cluster.barrier(name, stage, self.home)
        who = role or self.role
        self.note("arrive", name, stage)
        if self.cluster.is_remote(name, self.home):
            warp = self.warp
            self.core.later(
                self.machine.mbarrier_remote_cycles,
                lambda: barrier.arrive(who, warp, self.cta, count, tx_bytes),
                ("remote", self.key, name, stage),
            )
        else:
            barrier.arrive(who, self.warp, self.cta, count, tx_bytes)

    def sync(self, name: str, phase: int, reason: str, count: int = 32) -> Steps:
        """bar.sync: arrive with ``count`` threads and wait for phase ``phase`` of a named barrier.

        A dropped wait drops the whole instruction, as it would in the kernel.
        """
        barrier = self.barrier(name)
        if self.role in barrier.dropped_waits:
            return
        self.note("sync", name, 0)
        barrier.arrive(self.role, self.warp, self.cta, count)
        yield from self.wait(barrier, phase, reason, log=False)

    def note(self, what: str, barrier: str, stage: int) -> None:
        """Write an operation into the log, if one is kept."""
        if self.core.log is not None:
            self.core.log.append((self.key, what, barrier, stage))

    def hazard(self, kind: str, barrier: str, stage: int, other: str, text: str) -> None:
        """Report that a region is not in the state this role relies on."""
        self.core.report(
            Hazard(kind, barrier, stage, self.cta, self.role, other, self.tile_id, self.block,
                   self.core.now, text)
        )  # fmt: skip

    # -- fast-forward --------------------------------------------------------------------------

    def tally(self) -> list[int]:
        """The counters that grow along a run, in a fixed order."""
        return [self.tile, self.step, self.ring, self.count, self.waits_done]

    def advance(self, by: list[int]) -> None:
        """Add to every counter of :meth:`tally`."""
        self.tile += by[0]
        self.step += by[1]
        self.ring += by[2]
        self.count += by[3]
        self.waits_done += by[4]
        if self.tile < len(self.cluster.tiles) and self.tile_id != NONE:
            tile = self.cluster.tiles[self.tile]
            self.tile_id = tile.index
            if self.block != NONE:
                self.block -= by[1]
