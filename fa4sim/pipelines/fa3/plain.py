"""A plain FlashAttention-2 on Hopper: every warpgroup does everything, nothing is specialised.

K and V have one slot each: V of a block is on its way while its S is computed, K of the next block
while its softmax and PV are. Before a slot is overwritten all warps of the CTA meet. Products are
waited for as soon as they are issued. One warp asks TMA for the tiles.
"""

from __future__ import annotations

from fa4sim.engine.agent import Steps
from fa4sim.pipelines.fa3.consumer import ConsumerRole
from fa4sim.pipelines.fa4.tiles import WorkTile


class PlainRole(ConsumerRole):
    """One of the four warps of a warpgroup. ``count`` counts meetings of the CTA."""

    def run(self) -> Steps:
        """Per tile: Q and the first K, then block after block, then the output."""
        yield from self.start()
        while (tile := self.take_tile()) is not None:
            if self.sets_pace:
                self.cluster.at_tile(self)
                self.home.share_with(tile.active_sms)
            self.enter(tile)
            if self.sets_pace:
                yield from self.send_q(tile)
                yield from self.send("K", self.ring, 0, tile)
            yield from self.wait(self.barrier("load_Q_full"), self.tile + 1, "Q")
            while self.step < tile.blocks:
                if self.sets_pace and self.step < tile.blocks - 1:
                    self.cluster.at_step(self, tile)
                yield from self.block_in_hand(tile)
                self.step += 1
                self.ring += 1
                self.enter(tile)
            self.step -= 1
            self.enter(tile)
            yield from self.output()
            yield from self.meet("O has left sQ")
            self.tile += 1
        self.finish()

    def block_in_hand(self, tile: WorkTile) -> Steps:
        """S, softmax and O += P V of one block, with the loads that may go beside them."""
        yield from self.run_groups("step", "issue", (self.costs.overhead,))
        yield from self.wait_full("K", self.ring)
        yield from self.meet("V read")
        if self.sets_pace:
            yield from self.send("V", self.ring, self.step, tile)
        yield from self.qk(self.ring, 0)
        yield from self.wait_products(0, "S")
        self.give_up("K", 0)
        yield from self.wait_full("V", self.ring)
        yield from self.meet("K read")
        if self.sets_pace and self.step < tile.blocks - 1:
            yield from self.send("K", self.ring + 1, self.step + 1, tile)
        yield from self.softmax(0)
        yield from self.pv(self.ring)
        yield from self.wait_products(0, "O")
        self.give_up("V", 0)

    def meet(self, reason: str) -> Steps:
        """__syncthreads: all warps of the CTA."""
        yield from self.sync("Cta", self.count + 1, reason)
        self.count += 1
