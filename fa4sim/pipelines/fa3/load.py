"""The load warp: Q, K and V from global memory into shared memory, by TMA.

Per tile: Q of all consumers and K of the last block, then K of each earlier block and V of the
block after it, as the consumers need them; at the end V of the first block. The rings let it run
ahead, into the next tile's K only once the last O has left, because Q comes first.
"""

from __future__ import annotations

from fa4sim.engine.agent import Steps
from fa4sim.engine.buffers import tag
from fa4sim.engine.memory import Load
from fa4sim.pipelines.common.role import Role
from fa4sim.pipelines.fa3.cluster import Cluster, Cta
from fa4sim.pipelines.fa4.load import SWIZZLE_BYTES
from fa4sim.pipelines.fa4.tiles import WorkTile

LOAD_WARP = 0


class Loading(Role):
    """A warp that asks TMA for tiles."""

    def __init__(self, cluster: Cluster, cta: Cta, role: str, warp: int) -> None:
        super().__init__(cluster, cta, role, warp)
        self.cluster: Cluster = cluster
        self.home: Cta = cta
        problem, design = cluster.problem, cluster.design
        self.bytes = {
            "Q": design.consumers * design.q_tile_bytes(problem),
            "K": design.k_tile_bytes(problem),
            "V": design.v_tile_bytes(problem),
        }
        # With the 128-byte swizzle a box is 128 bytes wide, so a tile takes several.
        boxes, v_boxes = (
            -(-dim * problem.element_bytes // SWIZZLE_BYTES)
            for dim in (design.head_dim_padded, design.head_dim_v_padded)
        )
        self.boxes = {"Q": design.consumers * boxes, "K": boxes, "V": v_boxes}

    def send_q(self, tile: WorkTile) -> Steps:
        """Arm the barrier of Q and ask for every consumer's rows."""
        home = self.home
        self.arrive("load_Q_full", 0, 1, self.bytes["Q"])
        for consumer, buffer in enumerate(home.sq):
            if home.so[consumer].claimed:
                guard = "load_Q_empty" if self.design.specialised else "Cta"
                self.hazard(
                    "overwrite_while_read", guard, 0, "tma_store",
                    f"{self.role} writes Q into sQ[{consumer}], which still holds O of the tile "
                    "before",
                )  # fmt: skip
            buffer.begin_fill(self.role, "Q", tag(self.tile, 0), self.tile_id, -1)
        full = self.barrier("load_Q_full")

        def landed(load: Load) -> None:
            for buffer in home.sq:
                buffer.end_fill()
            if self.cluster.data is not None:
                self.cluster.data.fill_q(load)
            full.deliver(load.size)

        size = self.bytes["Q"]
        yield from self.issue("Q", 0, 0, size, landed)

    def send(self, tensor: str, ring: int, step: int, tile: WorkTile) -> Steps:
        """Arm a slot's barrier and ask for K or V of step ``step``; ``ring`` tells the slot."""
        slots = self.design.kv_stages
        slot, wrap = ring % slots, ring // slots
        size = self.bytes[tensor]
        self.arrive(f"load_{tensor}_full", slot, 1, size)
        block = tile.first_block - step
        buffer = (self.home.sk if tensor == "K" else self.home.sv)[slot]
        buffer.begin_fill(self.role, tensor, tag(self.tile, step), self.tile_id, block)
        buffer.wrap = wrap
        full = self.barrier(f"load_{tensor}_full", slot)

        def landed(load: Load) -> None:
            buffer.end_fill()
            if self.cluster.data is not None:
                self.cluster.data.fill_kv(buffer.stage, load)
            full.deliver(load.size)

        hbm = int(size / tile.kv_sharers) if step < tile.hbm_steps else 0
        yield from self.issue(tensor, slot, step, hbm, landed)

    def issue(self, tensor: str, slot: int, step: int, hbm: int, landed) -> Steps:  # type: ignore[no-untyped-def]
        """Hand a tile to the TMA engine (``hbm`` bytes of it from HBM) and spend what it costs."""
        machine = self.machine
        start = self.env.cycle
        latency = machine.tma_l2_latency_cycles - machine.mbarrier_resume_cycles
        if hbm:
            latency += machine.tma_hbm_extra_cycles
        cycles = machine.elect_cycles + machine.mbarrier_arrive_cycles + machine.tma_issue_cycles
        cycles += round((self.boxes[tensor] - 1) * machine.tma_box_cycles)
        block = -1 if tensor == "Q" else self.cluster.tiles[self.tile].first_block - step
        load = Load(
            tensor, slot, self.tile_id, block, self.tile, step, self.bytes[tensor],
            start + latency, hbm, landed,
        )  # fmt: skip
        self.home.tma.push(load)
        self.since = start
        self.smsp.slots(start, 1)
        yield self.env.timeout(cycles)
        self.span("issue", f"issue {tensor}", start, cycles, load.stage)


class LoadRole(Loading):
    """The load warp, in a warpgroup that gives its registers away."""

    def __init__(self, cluster: Cluster, cta: Cta) -> None:
        super().__init__(cluster, cta, "load", LOAD_WARP)

    def run(self) -> Steps:
        """Per tile Q, K of the last block, then K and V of the block after it; the last V."""
        yield from self.start()
        while (tile := self.take_tile()) is not None:
            self.enter(tile)
            self.home.share_with(tile.active_sms)
            yield from self.wait(self.barrier("load_Q_empty"), self.tile, "O has left sQ")
            yield from self.send_q(tile)
            yield from self.fill("K", 0, tile)
            self.step = 1
            while self.step < tile.blocks:
                self.enter(tile)
                yield from self.fill("K", 1, tile)
                yield from self.fill("V", 0, tile)
                self.ring += 1
                self.step += 1
            yield from self.fill("V", 0, tile)
            self.ring += 1
            self.tile += 1
        yield from self.drain()
        self.finish()

    def fill(self, tensor: str, ahead: int, tile: WorkTile) -> Steps:
        """Acquire a slot, ``ahead`` of the ring's place, and send K or V into it."""
        slots = self.design.kv_stages
        ring = self.ring + ahead
        barrier = self.barrier(f"load_{tensor}_empty", ring % slots)
        yield from self.wait(barrier, ring // slots, "slot free")
        # V is one step behind K. A fast-forward may have moved ring and step on in the meantime.
        step = self.step - (1 if tensor == "V" else 0)
        yield from self.send(tensor, self.ring + ahead, step if self.step else 0, tile)

    def drain(self) -> Steps:
        """Before the CTA may end, everything must have been read, and the last O have left."""
        slots = self.design.kv_stages
        for i in range(slots):
            ring = self.ring + i
            for tensor in "KV":
                barrier = self.barrier(f"load_{tensor}_empty", ring % slots)
                yield from self.wait(barrier, ring // slots, "drain")
        yield from self.wait(self.barrier("load_Q_empty"), self.tile, "drain")
