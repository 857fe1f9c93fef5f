"""What every role does: begin, take the next work tile, arrive on barriers, stop."""

from __future__ import annotations

from typing import Any

from fa4sim.engine.agent import Agent, Steps
from fa4sim.engine.barrier import Barrier
from fa4sim.engine.buffers import tag
from fa4sim.engine.errors import Hazard
from fa4sim.pipelines.common.cluster import BaseCluster, BaseCta
from fa4sim.pipelines.fa4.tiles import WorkTile
from fa4sim.trace import NONE


class Role(Agent):
    """A warp of a forward kernel. Counters that the roles keep:

    ``tile`` work tiles begun before this one, ``step`` blocks of this tile begun before this one,
    ``ring`` tiles taken through a ring, ``count`` phases of the role's own barriers.
    """

    #: As which party this warp counts on barriers that all warps arrive on.
    party = "others"
    #: Whether it does something for every block of a tile.
    in_steps = True

    def __init__(self, cluster: BaseCluster, cta: BaseCta, role: str, warp: int) -> None:
        super().__init__(cluster.core, cta.sm, cta.number, role, warp, cta.smsps[warp % 4])
        self.cluster: Any = cluster
        self.home: Any = cta
        self.machine = cluster.machine
        self.design = cluster.design
        self.ring = 0
        self.count = 0
        #: Tiles handed out so far, those without work included.
        self.handed = 0

    # -- beginning and end of a CTA ------------------------------------------------------------

    def start(self) -> Steps:
        """Barrier initialisation and the CTA's (or the cluster's) first synchronisation."""
        machine = self.machine
        prologue = machine.cta_prologue_cycles
        if self.design.cta_group == 2:
            prologue += machine.cluster_sync_cycles
        yield from self.spend("start", "issue", prologue)
        yield from self.spend("setmaxnreg", "issue", machine.setmaxnreg_cycles)

    def finish(self) -> None:
        """Note when this warp is done."""
        self.died = self.env.cycle + self.core.skipped

    # -- tiles ---------------------------------------------------------------------------------

    def take_tile(self) -> WorkTile | None:
        """The tile whose turn it is, which may be an empty split, or None behind the last."""
        if self.handed < len(self.cluster.handed):
            tile: WorkTile = self.cluster.handed[self.handed]
            self.handed += 1
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
        found: Barrier = self.cluster.barrier(name, stage, self.home)
        return found

    def arrive(
        self, name: str, stage: int, count: int, tx_bytes: int = 0, role: str | None = None
    ) -> None:
        """Arrive now; from the other CTA of a pair the arrival takes its time to cross."""
        barrier = self.barrier(name, stage)
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
        self.handed += by[0]
        self.step += by[1]
        self.ring += by[2]
        self.count += by[3]
        self.waits_done += by[4]
        if self.tile < len(self.cluster.tiles) and self.tile_id != NONE:
            tile = self.cluster.tiles[self.tile]
            self.tile_id = tile.index
            if self.block != NONE:
                self.block -= by[1]
