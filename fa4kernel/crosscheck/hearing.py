"""Hears what the warps and the units of a simulated cluster do, in the order of their doing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from fa4kernel.crosscheck.record import Arrival, Label, Record, Source, Warp, mma_text
from fa4sim.engine.memory import Load
from fa4sim.engine.tensor import Commit, Mma
from fa4sim.pipelines.fa4.cluster import Cluster, Cta
from fa4sim.pipelines.fa4.tiles import WorkTile, first_row, kv_head_of


class Ear:
    """Hears what the warps of a cluster do, in the order in which they do it.

    It stands in the place of :attr:`Core.log`, before the queues of the units, and around waits.
    The block of a tile that sees no key is called ``empty_block``.
    """

    def __init__(self, cluster: Cluster, record: Record, empty_block: int = -1) -> None:
        self.cluster = cluster
        self.empty_block = empty_block
        self.core = cluster.core
        self.record = record
        self.warps = {
            agent.key: Warp(agent.cta, agent.role, agent.warp % 4) for agent in cluster.agents
        }
        self.arrived: dict[tuple[Warp, str, int], list[Source]] = defaultdict(list)
        self.landed: list[tuple[int, str, int, Arrival]] = []
        self.last_mma: str | None = None
        for cta in cluster.ctas:
            self._hear_loads(cta)
            self._hear_stores(cta)
        self._hear_mmas()
        for agent in cluster.agents:
            self._hear_waits(agent)

    # -- barriers ------------------------------------------------------------------------------

    def append(self, entry: tuple[str, str, str, int]) -> None:
        """An operation on a barrier, as the roles write it into the log."""
        key, what, barrier, stage = entry
        warp = self.warps[key]
        self.record.did(warp, what, f"{barrier}[{stage}]", (), self.core.now)
        if what == "commit":
            text = self.last_mma or "no MMA"
            self.arrived[warp, barrier, stage].append((text, self._times(text)))
        elif what != "wait":
            self.arrived[warp, barrier, stage].append(self.record.here(warp))

    def _times(self, text: str) -> int:
        """Which execution of an MMA run was queued last: they complete in order."""
        return self.queued[text] - 1

    def _hear_waits(self, agent: Any) -> None:
        original, warp = agent.wait, self.warps[agent.key]

        def wait(barrier: Any, phase: int, reason: str, log: bool = True) -> Any:
            before = len(self.record.warps.get(warp, ()))
            yield from original(barrier, phase, reason, log)
            operations = self.record.warps.get(warp, [])
            on = f"{barrier.name}[{barrier.stage}]"
            for operation in reversed(operations[max(0, before - 1) :]):
                if operation.what in ("wait", "sync") and operation.on == on:
                    operation.end, operation.phase = self.core.now, phase
                    break

        agent.wait = wait

    # -- units ---------------------------------------------------------------------------------

    def _hear_loads(self, cta: Cta) -> None:
        original = cta.tma.push
        loaders = [a for a in self.cluster.agents if a.role == "load" and a.cta == cta.number]
        warp = self.warps[loaders[0].key]  # of several it is the first that tells TMA
        for each in loaders:
            if hasattr(each, "copy"):
                self._hear_copies(cta, each)
            if self.cluster.design.q_load == "cp_async":
                self._hear_rows_of_q(cta, each)

        def push(load: Load) -> None:
            self.record.amounts["bytes loaded"] += load.size
            if load.tensor == "Q" and self.cluster.design.q_load == "cp_async":
                return original(load)
            slot = f"sQ[{load.stage}]" if load.tensor == "Q" else f"sKV[{load.stage}]"
            label = self.load_label(cta, load)
            self.record.did(warp, f"load {load.tensor}", slot, label, self.core.now)
            return original(load)

        cta.tma.push = push  # type: ignore[method-assign]

    def _hear_copies(self, cta: Cta, agent: Any) -> None:
        """What a load warp copies row by row."""
        original, warp = agent.copy, self.warps[agent.key]

        def copy(tensor: str, tile: WorkTile, piece: Any, last: bool) -> Any:
            slot = agent.ring % agent.design.kv_stages
            label = self.kv_label(self.cluster.tiles[agent.tile], agent.block)
            self.record.did(warp, f"load {tensor}", f"sKV[{slot}]", label, self.core.now)
            rows = piece.rows * agent.costs.row_groups
            self.record.amounts["bytes loaded"] += rows * agent.costs.row_bytes[tensor]
            yield from original(tensor, tile, piece, last)

        agent.copy = copy

    def _hear_rows_of_q(self, cta: Cta, agent: Any) -> None:
        """That a load warp copies rows of Q."""
        original, warp = agent.issue, self.warps[agent.key]

        def issue(tensor: str, stage: int, *more: Any) -> Any:
            if tensor == "Q":
                label = self.q_label(self.cluster.tiles[agent.tile], stage, cta)
                self.record.did(warp, "load Q", f"sQ[{stage}]", label, self.core.now)
            yield from original(tensor, stage, *more)

        agent.issue = issue

    def _hear_stores(self, cta: Cta) -> None:
        original = cta.tma_store.push

        def push(
            size: int, tile: int, stage: int, done: Callable[[], None], *written: int | None
        ) -> None:
            warp = next(
                w for w in self.warps.values() if w.role == "epilogue" and w.cta == cta.number
            )
            label = self.q_label(self._numbered(tile), stage, cta)
            self.record.did(warp, "store O", f"sO[{stage}]", label, self.core.now)
            self.record.amounts["bytes stored"] += size
            original(size, tile, stage, done, *written)

        cta.tma_store.push = push  # type: ignore[assignment, method-assign]

    def _hear_mmas(self) -> None:
        cluster = self.cluster
        original = cluster.tensor.push
        leader = cluster.leader
        warp = Warp(leader.number, "mma", 0)
        self.queued: dict[str, int] = defaultdict(int)

        def push(item: Mma | Commit) -> None:
            if isinstance(item, Mma):
                what = self.mma_name(item)
                on = f"S{item.stage}" if item.op == "QK" else f"O{item.stage}"
                label = self.s_label(cluster.tiles[item.tile], item.stage, leader, item.block)
                self.record.did(warp, what, on, label, self.core.now)
                self.last_mma = mma_text(what, label, leader.number)
                self.queued[self.last_mma] += 1
                self._count_flops(item)
            original(item)

        cluster.tensor.push = push  # type: ignore[method-assign]

    def _count_flops(self, item: Mma) -> None:
        design, problem = self.cluster.design, self.cluster.problem
        depth = 32 // problem.element_bytes
        width = design.tile_n if item.op == "QK" else design.head_dim_v_padded
        flops = 2 * design.tile_m * width * depth * item.steps * design.cta_group
        self.record.amounts[f"{item.op} FLOPs"] += flops

    def mma_name(self, item: Mma) -> str:
        """QK, or which part of PV."""
        if item.op == "QK":
            return "QK"
        return "PV rest" if item.first_step else "PV first"

    # -- names ---------------------------------------------------------------------------------

    def _numbered(self, tile_id: int) -> WorkTile:
        return next(tile for tile in self.cluster.tiles if tile.index == tile_id)

    def q_label(self, tile: WorkTile, stage: int, cta: Cta) -> Label:
        """Label of a Q tile, and of the O made from it."""
        return tile.batch, tile.head, first_row(self.cluster.design, tile, stage, cta.rank)

    def s_label(self, tile: WorkTile, stage: int, cta: Cta, block: int) -> Label:
        """Label of an S or P tile."""
        return (*self.q_label(tile, stage, cta), block if block >= 0 else self.empty_block)

    def load_label(self, cta: Cta, load: Load) -> Label:
        """Label of what a load brings."""
        tile = self.cluster.tiles[load.tile]
        if load.tensor == "Q":
            return self.q_label(tile, load.stage, cta)
        return self.kv_label(tile, load.block)

    def kv_label(self, tile: WorkTile, block: int) -> Label:
        """Label of a K or V tile."""
        head = kv_head_of(self.cluster.problem, self.cluster.design, tile.head)
        return tile.batch, head, block if block >= 0 else self.empty_block
