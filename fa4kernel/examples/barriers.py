"""mbarriers, as the example kernels use them: rows of them in shared memory, used in turns.

An mbarrier counts. A phase of it is complete when as many arrivals have come as it was initialised
for, and as many bytes as it was told to expect; then the next phase begins. Who waits names the
phase by its last bit only, its parity (PTX ISA, "mbarrier").

A ring of slots is guarded by two rows: `full[slot]` completes when a slot has been written,
`empty[slot]` when it has been read. Turn 0, 1, 2, ... of the ring goes to slot `turn % slots`, and
is phase number `turn // slots` of the slot's barriers: the turn alone tells everything.

(`loc` and `ip`, which the DSL fills in, hand the caller's line on to the PTX, so that a report says
`full.wait(block)` and not a line of this file.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import tcgen05
from cutlass.cutlass_dsl import dsl_user_op


@dataclass(frozen=True)
class Barriers:
    """A row of mbarriers, each of which completes a phase after `arrivals` arrivals."""

    first: Any  # pointer into shared memory, 8 bytes for each barrier
    count: int
    arrivals: int

    @staticmethod
    def place(memory: Any, count: int, arrivals: int) -> Barriers:
        """Take room for them from an allocator of shared memory."""
        return Barriers(memory.allocate_array(cutlass.Int64, count), count, arrivals)

    def at(self, turn: Any) -> Any:
        """The pointer to the barrier whose turn it is."""
        return self.first + turn % self.count

    @dsl_user_op
    def initialise(self, *, loc: Any = None, ip: Any = None) -> None:
        """Make them ready to count, phase 0 being open. For one thread, before all others."""
        for index in range(self.count):
            cute.arch.mbarrier_init(self.first + index, self.arrivals, loc=loc, ip=ip)

    @dsl_user_op
    def wait(self, turn: Any, *, previous: bool = False, loc: Any = None, ip: Any = None) -> None:
        """Wait until this turn's phase is complete; or the phase before it: the slot may be reused.

        A first turn has none before it and passes at once, because a fresh barrier says of parity 1
        that it is complete.
        """
        phase = turn // self.count
        parity = (phase + 1 if previous else phase) % 2  # phase − 1 has the parity of phase + 1
        cute.arch.mbarrier_wait(self.at(turn), parity, loc=loc, ip=ip)

    @dsl_user_op
    def arrive(self, turn: Any, *, loc: Any = None, ip: Any = None) -> None:
        """Arrive, once for each thread that calls this."""
        cute.arch.mbarrier_arrive(self.at(turn), loc=loc, ip=ip)

    @dsl_user_op
    def expect(self, turn: Any, size: int, *, loc: Any = None, ip: Any = None) -> None:
        """Arrive once for the warp, and let the phase wait for `size` bytes of TMA loads, too."""
        with cute.arch.elect_one(loc=loc, ip=ip):
            cute.arch.mbarrier_arrive_and_expect_tx(self.at(turn), size, loc=loc, ip=ip)

    @dsl_user_op
    def commit(self, turn: Any, *, pair: bool = False, loc: Any = None, ip: Any = None) -> None:
        """Let the tensor core arrive when the MMAs issued so far by this warp are complete.

        Of MMAs of a CTA pair it arrives in both CTAs: at this barrier and at the peer's.
        """
        mask, group = (0b11, tcgen05.CtaGroup.TWO) if pair else (None, tcgen05.CtaGroup.ONE)
        with cute.arch.elect_one(loc=loc, ip=ip):
            tcgen05.commit(self.at(turn), mask, group, loc=loc, ip=ip)
