"""A consumer warp: with its three neighbours, 64 rows of Q against all their keys.

Per block S = Q K^T, softmax in registers, O += P V with P in registers. With ``overlap`` Q K^T of
the next block is under way with O += P V of this one, and the softmax of the next block computes
beside it. With ``ping_pong`` the consumers pass a turn around.
"""

from __future__ import annotations

from fa4sim.engine.agent import Steps
from fa4sim.pipelines.fa3.epilogue import Finishing

#: Without overlap the compiler passes the turn behind 36 of 66 exponentials, in the kernel whose
#: mask depends on the row behind 63 (sm_90a, ptxas 13.0).
PASSED_AFTER = {False: 0.5, True: 1.0}


class ConsumerRole(Finishing):
    """One of the four warps of a consumer. ``count`` counts its turns."""

    @property
    def sets_pace(self) -> bool:
        """Whether states are compared when this warp begins a step."""
        return self.number == 0 and self.lane == 0

    def run(self) -> Steps:
        """Per tile: the first block's S, then S of each next block beside PV of the one before."""
        yield from self.start()
        if self.number == self.design.consumers - 1:
            yield from self.pass_turn()  # the first turn is the first consumer's
        while (tile := self.take_tile()) is not None:
            if self.sets_pace:
                self.cluster.at_tile(self)
            self.enter(tile)
            yield from self.wait(self.barrier("load_Q_full"), self.tile + 1, "Q")
            yield from self.first_block()
            while self.step < tile.blocks - 1:
                if self.sets_pace:
                    self.cluster.at_step(self, tile)
                yield from self.next_block()
                self.step += 1
                self.enter(tile)
            yield from self.last_product()
            yield from self.output()
            self.tile += 1
        self.finish()

    def first_block(self) -> Steps:
        """S and P of a tile's first block."""
        yield from self.run_groups("step", "issue", (self.costs.overhead,))
        yield from self.wait_full("K", self.ring)
        yield from self.take_turn()
        yield from self.qk(self.ring, 0)
        yield from self.pass_turn()
        yield from self.wait_products(0, "S")
        yield from self.free("K", self.ring)
        yield from self.softmax(0)
        self.ring += 1

    def softmax(self, ahead: int) -> Steps:
        """S becomes P, with nothing under way that has to be waited for."""
        yield from self.statistics(ahead)
        if self.design.o_waited_early:
            yield from self.mixed(ahead)
        else:
            yield from self.exponentials(ahead)
            if self.step + ahead:
                yield from self.rescale()
            yield from self.keep(ahead)

    def next_block(self) -> Steps:
        """S and P of the next block, and O += P V of this one."""
        yield from self.run_groups("step", "issue", (self.costs.overhead,))
        yield from self.wait_full("K", self.ring, ahead=1)
        yield from self.take_turn()
        yield from self.qk(self.ring, 1)
        if not self.design.overlap:
            yield from self.wait_products(0, "S")
        yield from self.wait_full("V", self.ring - 1)
        early = self.design.o_waited_early
        yield from self.pv(self.ring - 1, among=early and not self.design.overlap)
        if not early:
            yield from self.as_written()
        elif self.design.overlap:
            yield from self.as_compiled()
        else:
            yield from self.as_compiled_without_overlap()
        self.ring += 1

    def as_written(self) -> Steps:
        """The rest of a step in the order of the source."""
        overlap = self.design.overlap
        yield from self.pass_turn()
        yield from self.wait_products(1 if overlap else 0, "S" if overlap else "O")
        yield from self.free("K", self.ring)
        yield from self.statistics(1)
        yield from self.exponentials(1)
        yield from self.wait_products(0, "O")
        yield from self.free("V", self.ring - 1)
        yield from self.rescale()
        yield from self.keep(1)

    def as_compiled(self) -> Steps:
        """The same as the compiler arranges it: what needs only registers moves."""
        yield from self.pass_turn()
        yield from self.wait_products(1, "S")
        yield from self.statistics(1)
        yield from self.free("K", self.ring)
        yield from self.wait_products(0, "O")
        yield from self.free("V", self.ring - 1)
        yield from self.mixed(1)

    def as_compiled_without_overlap(self) -> Steps:
        """Likewise: with S at hand, exponentials move before what follows the products."""
        problem = self.cluster.problem
        passed = PASSED_AFTER[problem.causal or problem.is_local]
        yield from self.statistics(1)
        yield from self.exponentials(1, last=passed)
        yield from self.pass_turn()
        if passed < 1:
            yield from self.exponentials(1, first=passed)
        yield from self.wait_products(0, "O")
        yield from self.free("K", self.ring)
        yield from self.free("V", self.ring - 1)
        yield from self.rescale()
        yield from self.keep(1)

    def last_product(self) -> Steps:
        """O += P V of a tile's last block."""
        yield from self.wait_full("V", self.ring - 1)
        yield from self.pv(self.ring - 1)
        yield from self.wait_products(0, "O")
        yield from self.free("V", self.ring - 1)

    def wait_full(self, tensor: str, ring: int, ahead: int = 0) -> Steps:
        """Wait until K or V, for the block ``ahead`` of this one, has landed in its slot."""
        slots = self.design.kv_stages
        self.block -= ahead
        barrier = self.barrier(f"load_{tensor}_full", ring % slots)
        yield from self.wait(barrier, ring // slots + 1, tensor)
        self.block += ahead

    def take_turn(self) -> Steps:
        """Wait until it is this consumer's turn to start products."""
        if self.design.ping_pong:
            yield from self.sync(f"Scheduler{self.number}", self.count + 1, "turn")
            self.count += 1

    def pass_turn(self) -> Steps:
        """The next consumer's products may follow."""
        if self.design.ping_pong:
            following = (self.number + 1) % self.design.consumers
            self.arrive(f"Scheduler{following}", 0, 32)
            cycles = self.machine.named_barrier_arrive_cycles
            yield from self.spend("pass turn", "issue", cycles, self.number)
