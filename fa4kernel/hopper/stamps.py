"""Stamps: when each step of each role was done, in cycles of the multiprocessor's own clock.

A kernel compiled with `trace` writes a number of the clock (`%clock`, 32 bits) at the end of every
phase, one thread of each role, to a place that the step alone decides: nothing is counted, and no
order is imposed. Clocks of different multiprocessors have nothing to do with each other.
"""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Int32, Int64

from fa4kernel.hopper.config import STAMPS


def stamp(cfg: Any, stamps: Any, actor: Any, thread: Any, turn: Any, kind: int) -> None:
    """Write down that a phase has ended.

    Args:
        cfg: says whether to.
        stamps: pointer to int32 (CTA, actor, turn, kind), and how many turns there is room for.
        actor: 0 for the load warp, 1 and up for the consumers.
        thread: of the actor; the first one writes.
        turn: of the rings, over all tiles.
        kind: number of the phase, see `config.STAMPS`.
    """
    if cfg.trace:
        _write(stamps, actor, thread, turn, kind)


@cute.jit
def _write(stamps: Any, actor: Int32, thread: Int32, turn: Int32, kind: cutlass.Constexpr) -> None:
    pointer, turns, actors = stamps
    if thread == 0:
        if turn < turns:
            cta, _, _ = cute.arch.block_idx()
            row = (Int64(cta) * actors + actor) * turns + turn
            now = Int32(cute.arch.clock())
            place = pointer + (row * len(STAMPS) + kind)
            cute.make_tensor(place, cute.make_layout(1))[0] = now
