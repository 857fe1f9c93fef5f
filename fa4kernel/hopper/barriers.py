"""Every barrier of the Hopper kernel, in one table.

Names, stages and counts are those of the simulator, and tested equal. What roles do with them is in
`fa4kernel.forward.barriers.Row`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cutlass_dsl import dsl_user_op

from fa4kernel.forward.barriers import Row
from fa4kernel.hopper.config import WARPGROUP, Config

# Named barriers, by their hardware numbers; 0 is the whole CTA's.
SCHEDULER_BARRIER = 1  # and those after it: one for each consumer
EPILOGUE_BARRIER = 4  # likewise


def table(cfg: Config) -> dict[str, tuple[int, int]]:
    """``name -> (stages, arrivals)`` of the mbarriers.

    >>> table(Config())["load_K_empty"]
    (2, 8)
    """
    ring, warps = cfg.kv_stages, 4 * cfg.consumers
    return {
        "load_Q_full": (1, 1),  # the load warp, and the bytes
        "load_Q_empty": (1, cfg.consumers),  # one thread of each consumer
        "load_K_full": (ring, 1),
        "load_K_empty": (ring, warps),  # one thread of each consumer warp
        "load_V_full": (ring, 1),
        "load_V_empty": (ring, warps),
    }


def named_table(cfg: Config) -> dict[str, tuple[int, int]]:
    """``name -> (hardware number, threads)`` of the named barriers."""
    rows = {}
    for consumer in range(cfg.consumers):
        rows[f"Epilogue{consumer}"] = (EPILOGUE_BARRIER + consumer, WARPGROUP)
        if cfg.ping_pong:
            rows[f"Scheduler{consumer}"] = (SCHEDULER_BARRIER + consumer, 2 * WARPGROUP)
    return rows


@dataclass(frozen=True)
class Barriers:
    """The mbarriers by name."""

    load_Q_full: Row
    load_Q_empty: Row
    load_K_full: Row
    load_K_empty: Row
    load_V_full: Row
    load_V_empty: Row

    @staticmethod
    def place(memory: Any, cfg: Config) -> Barriers:
        """Take room for them from an allocator of shared memory."""
        return Barriers(
            **{
                name: Row(memory.allocate_array(cutlass.Int64, stages), stages, arrivals, False)
                for name, (stages, arrivals) in table(cfg).items()
            }
        )

    def rows(self) -> list[Row]:
        """All rows."""
        return list(vars(self).values())


@dsl_user_op
def scheduler_sync(consumer: Any, *, loc: Any = None, ip: Any = None) -> None:
    """A consumer waits for its turn at the tensor core."""
    number = SCHEDULER_BARRIER + consumer
    cute.arch.barrier(barrier_id=number, number_of_threads=2 * WARPGROUP, loc=loc, ip=ip)


@dsl_user_op
def scheduler_arrive(consumer: Any, *, loc: Any = None, ip: Any = None) -> None:
    """Somebody lets a consumer have the next turn."""
    number = SCHEDULER_BARRIER + consumer
    cute.arch.barrier_arrive(barrier_id=number, number_of_threads=2 * WARPGROUP, loc=loc, ip=ip)


@dsl_user_op
def epilogue_sync(consumer: Any, *, loc: Any = None, ip: Any = None) -> None:
    """The warps of a consumer meet: their O is whole in shared memory, or has left it."""
    number = EPILOGUE_BARRIER + consumer
    cute.arch.barrier(barrier_id=number, number_of_threads=WARPGROUP, loc=loc, ip=ip)
