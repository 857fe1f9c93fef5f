"""The load warp: Q, K and V from global memory into shared memory, by TMA.

Per tile: K of the last block, Q0, Q1, V of the last block, then K and V of every earlier block.
The ring lets it run ahead, into the next tile too. In a pair each CTA's load warp brings its own
half of every K and V tile; the bytes of both count on the leader's barrier, which only the leader
arms.

Source: ``load`` of flash_fwd_sm100.py.
"""

from __future__ import annotations

from collections.abc import Callable

from fa4sim.engine.agent import Steps
from fa4sim.engine.buffers import tag
from fa4sim.engine.memory import Load
from fa4sim.pipelines.fa4.barriers import load_warps
from fa4sim.pipelines.fa4.cluster import Cluster, Cta
from fa4sim.pipelines.fa4.role import Role
from fa4sim.pipelines.fa4.tiles import WorkTile

#: Width of the widest swizzle, and so of a TMA box.
SWIZZLE_BYTES = 128


class LoadRole(Role):
    """One load warp (with cp.async Q and one Q tile: one of four).

    Whatever TMA brings is the first warp's alone: the others neither issue it nor wait for slots.
    """

    sees_empty = True

    def __init__(self, cluster: Cluster, cta: Cta, warp: int, rank: int = 0) -> None:
        super().__init__(cluster, cta, "load", warp)
        self.first = rank == 0
        self.loaders = load_warps(cluster.design)
        self.loads_q = self.first or cluster.design.q_load == "cp_async"
        self.loads_kv = self.in_steps = self.first or cluster.design.kv_load == "cp_async"
        problem, design = cluster.problem, cluster.design
        self.k_bytes = design.k_tile_bytes(problem)
        self.v_bytes = design.v_tile_bytes(problem)
        self.q_bytes = design.q_tile_bytes(problem)
        # With the 128-byte swizzle a box is 128 bytes wide, so a tile takes several.
        row, v_row = (
            dim * problem.element_bytes
            for dim in (design.head_dim_padded, design.head_dim_v_padded // design.cta_group)
        )
        self.boxes = {
            "Q": -(-row // SWIZZLE_BYTES), "K": -(-row // SWIZZLE_BYTES),
            "V": -(-v_row // SWIZZLE_BYTES),
        }  # fmt: skip

    def run(self) -> Steps:
        """K, Q0, Q1, V of the last block, then K and V of every earlier one."""
        yield from self.start()
        tile = yield from self.next_tile()
        while tile is not None:
            if tile.blocks:
                yield from self.load_tile(tile)
                self.tile += 1
            self.count += 1
            tile = yield from self.next_tile()
            if "load_epi_full" in self.home.barriers:
                yield from self.wait(self.barrier("load_epi_full"), self.count, "O has left sQ")
                self.arrive("load_epi_empty", 0, 1)
        yield from self.tail()
        self.finish()

    def load_tile(self, tile: WorkTile) -> Steps:
        """Everything that one tile needs."""
        self.enter(tile)
        self.home.share_with(tile.active_sms)
        if self.loads_kv:
            yield from self.load_kv("K", tile)
        if self.loads_q:
            for stage in range(self.design.q_stages):
                yield from self.load_q(stage, tile)
        if not self.loads_kv:
            return
        yield from self.load_kv("V", tile)
        self.step = 1
        while self.step < tile.blocks:
            self.enter(tile)
            yield from self.load_kv("K", tile)
            yield from self.load_kv("V", tile)
            self.step += 1

    def tail(self) -> Steps:
        """Before the CTA may end, all that this warp has loaded must have been read."""
        stages = self.design.kv_stages
        for i in range(stages if self.loads_kv else 0):
            slot = (self.ring + i) % stages
            phase = (self.ring + i) // stages
            yield from self.wait(self.barrier("load_KV_empty", slot), phase, "drain")
        if self.loads_q:
            yield from self.drain_q()

    def drain_q(self) -> Steps:
        """The last Q tile must have been read."""
        last = self.design.q_stages - 1
        yield from self.wait(self.barrier("load_Q_empty", last), self.tile, "drain")
        if self.design.q_load == "tma" and self.home.rank == 0:
            # The kernel waits by acquiring once more, which arms a phase that never completes.
            self.arrive("load_Q_full", last, 1, self.q_bytes * self.design.cta_group)

    def load_kv(self, tensor: str, tile: WorkTile) -> Steps:
        """Acquire the next slot of the ring and send one K or V tile into it."""
        stages = self.design.kv_stages
        slot, wrap = self.ring % stages, self.ring // stages
        yield from self.wait(self.barrier("load_KV_empty", slot), wrap, "slot free")
        # A fast-forward may have moved the ring on while this warp waited.
        slot, wrap = self.ring % stages, self.ring // stages
        size = self.k_bytes if tensor == "K" else self.v_bytes
        if self.home.rank == 0:
            self.arrive("load_KV_full", slot, 1, size * self.design.cta_group)
        if self.design.uneven_kv_ring and tensor == "K" and slot == 0 and wrap % 2 == 0:
            # This large tile reaches into what slot 1 held on the wrap before.
            yield from self.wait(self.barrier("load_KV_empty", 1), wrap, "neighbour free")
            wrap = self.ring // stages
        buffer = self.home.ring[slot]
        self.check_neighbours(slot, wrap, tensor, tile)
        buffer.begin_fill("load", tensor, self.what, self.tile_id, self.block)
        buffer.wrap = wrap
        full = self.barrier("load_KV_full", slot)

        def landed(load: Load) -> None:
            buffer.end_fill()
            if self.cluster.data is not None:
                self.cluster.data.fill_kv(self.home, buffer.stage, load)
            full.deliver(load.size)

        hbm = int(size / tile.kv_sharers) if self.step < tile.hbm_steps else 0
        yield from self.issue(tensor, slot, size, hbm, landed)
        self.ring += 1

    def load_q(self, stage: int, tile: WorkTile) -> Steps:
        """Acquire sQ[stage] and fetch its rows: by TMA, or by cp.async where rows don't tile."""
        yield from self.wait(self.barrier("load_Q_empty", stage), self.tile, "sQ free")
        buffer = self.home.sq[stage]
        full = self.barrier("load_Q_full", stage)
        what = tag(self.tile, 0)
        by_tma = self.design.q_load == "tma"
        if self.first:
            self.check_output(stage)
            if by_tma and self.home.rank == 0:
                self.arrive("load_Q_full", stage, 1, self.q_bytes * self.design.cta_group)
            parts = 1 if by_tma else self.loaders
            buffer.begin_fill("load", "Q", what, self.tile_id, -1, parts)
        size = self.q_bytes if by_tma else self.q_bytes // self.loaders

        def landed(load: Load) -> None:
            buffer.end_fill()
            if self.cluster.data is not None and not buffer.filling:
                self.cluster.data.fill_q(self.home, stage, load)
            if by_tma:
                full.deliver(load.size)
            else:
                full.arrive("load", self.warp, self.cta, 32)

        rows = tile.rows_of(self.design, stage, self.home.rank)
        sent = size * rows // self.design.tile_m
        yield from self.issue("Q", stage, size, sent, landed, sent)
        if not by_tma:
            self.note("arrive", "load_Q_full", stage)  # it counts when the rows are there

    def check_output(self, stage: int) -> None:
        """Where sO shares sQ's memory, the previous tile's O must have been stored."""
        if self.design.overlap_o_q and self.home.so[stage].claimed:
            self.hazard(
                "overwrite_while_read", "load_epi_full", 0, "tma_store",
                f"load writes Q into sQ[{stage}], which still holds O of the tile before",
            )  # fmt: skip

    def issue(
        self, tensor: str, stage: int, size: int, hbm: int, landed: Callable[[Load], None],
        sent: int | None = None,
    ) -> Steps:  # fmt: skip
        """Hand a tile to the TMA engine and spend what it costs.

        ``hbm`` of its bytes come from HBM; ``sent`` of them are sent at all (all, if not given).
        """
        machine = self.machine
        start = self.env.cycle
        latency = machine.tma_l2_latency_cycles - machine.mbarrier_resume_cycles
        if hbm:
            latency += machine.tma_hbm_extra_cycles
        boxes = self.boxes[tensor]
        cycles = machine.elect_cycles + machine.mbarrier_arrive_cycles + machine.tma_issue_cycles
        cycles += round((boxes - 1) * machine.tma_box_cycles)
        if tensor == "Q" and self.design.q_load == "cp_async":
            # One 16-byte copy a lane: rows of the tile times 16-byte pieces, 32 at a time.
            cycles = 4 * (size // 16 // 32)
        load = Load(
            tensor, stage, self.tile_id, self.block, self.tile, self.step, size, start + latency,
            hbm, landed, sent,
        )  # fmt: skip
        self.home.tma.push(load)
        self.since = start
        self.smsp.slots(start, 1)
        yield self.env.timeout(cycles)
        self.span("issue", f"issue {tensor}", start, cycles, load.stage)

    def check_neighbours(self, slot: int, wrap: int, tensor: str, tile: WorkTile) -> None:
        """In the uneven ring a slot overlaps its neighbours of the wrap before."""
        if not self.design.uneven_kv_ring:
            return
        slots = self.design.ring_slots(self.cluster.problem)
        low, size = slots[slot][wrap % 2]
        for other, places in enumerate(slots):
            buffer = self.home.ring[other]
            if other == slot or not buffer.claimed:
                continue
            start, length = places[buffer.wrap % 2]
            if start < low + size and low < start + length:
                self.hazard(
                    "overwrite_while_read", "load_KV_empty", other, "tensor",
                    f"load writes {tensor} into sKV[{slot}], whose bytes {low} to {low + size} "
                    f"overlap {buffer.tensor} of block {buffer.block} still held in sKV[{other}]",
                )  # fmt: skip
