"""The barriers of the kernel, as `barrier_table` lists them, and what a role does with them.

A *phase* is counted from 0. `wait(stage, n)` waits until phase n is complete; `wait_previous`
waits for the phase before, "the slot may be used for the n-th time", and passes at once for n = 0,
because a fresh mbarrier says of parity 1 that it is complete.

(`loc` and `ip`, which the DSL fills in, hand the caller's line on to the PTX, so that a report
names the line of the role that waits, and not one of this file.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import tcgen05
from cutlass.cutlass_dsl import dsl_user_op

from fa4kernel.forward.barrier_table import EPILOGUE_BARRIER, SOFTMAX_STATS_BARRIER
from fa4kernel.forward.barrier_table import named_table as named_table
from fa4kernel.forward.barrier_table import table as table
from fa4kernel.forward.config import WARP, WARPGROUP, Config


@dataclass(frozen=True)
class Row:
    """A row of mbarriers, one for each stage. Each completes a phase after `arrivals` arrivals."""

    first: Any  # pointer into shared memory, 8 bytes for each mbarrier
    stages: int
    arrivals: int
    pair: bool  # whether two CTAs have one each

    def at(self, stage: Any) -> Any:
        """The pointer to one stage's mbarrier."""
        return self.first + stage

    @dsl_user_op
    def initialise(self, *, loc: Any = None, ip: Any = None) -> None:
        """Make them ready to count, phase 0 being open. For one thread, before all others."""
        for stage in range(self.stages):
            cute.arch.mbarrier_init(self.first + stage, self.arrivals, loc=loc, ip=ip)

    @dsl_user_op
    def wait(self, stage: Any, phase: Any, *, loc: Any = None, ip: Any = None) -> None:
        """Wait until a phase is complete."""
        cute.arch.mbarrier_wait(self.at(stage), phase & 1, loc=loc, ip=ip)

    @dsl_user_op
    def wait_previous(self, stage: Any, phase: Any, *, loc: Any = None, ip: Any = None) -> None:
        """Wait until the phase before is complete: phase - 1 has the parity of phase + 1."""
        cute.arch.mbarrier_wait(self.at(stage), (phase + 1) & 1, loc=loc, ip=ip)

    @dsl_user_op
    def arrive(self, stage: Any, *, loc: Any = None, ip: Any = None) -> None:
        """Arrive in this CTA, once for each thread that calls this."""
        cute.arch.mbarrier_arrive(self.at(stage), loc=loc, ip=ip)

    @dsl_user_op
    def arrive_leader(self, stage: Any, *, loc: Any = None, ip: Any = None) -> None:
        """Arrive where the MMA warp waits: in this CTA; of a pair, in the leader."""
        leader = 0 if self.pair else None
        cute.arch.mbarrier_arrive(self.at(stage), leader, loc=loc, ip=ip)

    @dsl_user_op
    def expect(self, stage: Any, size: int, *, loc: Any = None, ip: Any = None) -> None:
        """Arrive once for the warp, and let the phase wait for `size` bytes of TMA loads, too."""
        with cute.arch.elect_one(loc=loc, ip=ip):
            cute.arch.mbarrier_arrive_and_expect_tx(self.at(stage), size, loc=loc, ip=ip)

    @dsl_user_op
    def arrive_copies(self, stage: Any, *, loc: Any = None, ip: Any = None) -> None:
        """Arrive, once for each thread, when the `cp.async` copies it has started are done."""
        cute.arch.cp_async_mbarrier_arrive_noinc(self.at(stage), loc=loc, ip=ip)

    @dsl_user_op
    def commit(self, stage: Any, *, loc: Any = None, ip: Any = None) -> None:
        """Let the tensor core arrive when the MMAs issued so far by this warp are complete.

        Of MMAs of a pair it arrives in both CTAs.
        """
        mask, group = (0b11, tcgen05.CtaGroup.TWO) if self.pair else (None, tcgen05.CtaGroup.ONE)
        with cute.arch.elect_one(loc=loc, ip=ip):
            tcgen05.commit(self.at(stage), mask, group, loc=loc, ip=ip)


@dataclass(frozen=True)
class Barriers:
    """The mbarriers by name; `None` for those that this kernel does not have."""

    load_Q_full: Row
    load_Q_empty: Row
    load_KV_full: Row
    load_KV_empty: Row
    S_full: Row
    P_full_O_rescaled: Row
    O_full: Row
    softmax_stats_empty: Row
    P_full_lastsplit: Any = None
    O_epi_full: Any = None
    O_epi_empty: Any = None
    load_epi_full: Any = None
    load_epi_empty: Any = None
    tmem_dealloc: Any = None

    @staticmethod
    def place(memory: Any, cfg: Config) -> Barriers:
        """Take room for them from an allocator of shared memory."""
        return Barriers(
            **{
                name: Row(memory.allocate_array(cutlass.Int64, stages), stages, arrivals, cfg.pair)
                for name, (stages, arrivals) in table(cfg).items()
            }
        )

    def rows(self) -> list[Row]:
        """All rows that there are."""
        return [row for row in vars(self).values() if row is not None]


@dsl_user_op
def tmem_ptr_sync(cfg: Config, *, loc: Any = None, ip: Any = None) -> None:
    """Everybody who uses tensor memory meets: at the start for its address, at the end to free."""
    number, threads = named_table(cfg)["TmemPtr"]
    cute.arch.barrier(barrier_id=number, number_of_threads=threads, loc=loc, ip=ip)


@dsl_user_op
def tmem_ptr_arrive(cfg: Config, *, loc: Any = None, ip: Any = None) -> None:
    """Done with tensor memory; the MMA warp will hear of it."""
    number, threads = named_table(cfg)["TmemPtr"]
    cute.arch.barrier_arrive(barrier_id=number, number_of_threads=threads, loc=loc, ip=ip)


@dsl_user_op
def softmax_stats_arrive(warp: Any, *, loc: Any = None, ip: Any = None) -> None:
    """A softmax warp has published its statistics; it does not wait."""
    number = SOFTMAX_STATS_BARRIER + warp
    cute.arch.barrier_arrive(barrier_id=number, number_of_threads=2 * WARP, loc=loc, ip=ip)


@dsl_user_op
def softmax_stats_sync(warp: Any, *, loc: Any = None, ip: Any = None) -> None:
    """The correction warp of the same rows waits for them."""
    number = SOFTMAX_STATS_BARRIER + warp
    cute.arch.barrier(barrier_id=number, number_of_threads=2 * WARP, loc=loc, ip=ip)


@dsl_user_op
def epilogue_sync(*, loc: Any = None, ip: Any = None) -> None:
    """The correction warps meet: O is whole in shared memory."""
    cute.arch.barrier(barrier_id=EPILOGUE_BARRIER, number_of_threads=WARPGROUP, loc=loc, ip=ip)
