"""The softmax warps: scores in, probabilities out, and the statistics that the correction needs.

Two warpgroups, one per Q tile; every thread owns one row. A step reads its row of S, finds the
maximum, tells the correction as early as possible by how much O must shrink, exponentiates in four
fragments of 32 columns, hands P over in two parts, and only then, off the critical path, adds up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import cutlass
import cutlass.cute as cute
from cutlass import Constexpr, Float32, Int32

from fa4kernel.forward import rows, tiles, tmem
from fa4kernel.forward.arguments import Arguments
from fa4kernel.forward.barriers import (
    Barriers,
    softmax_stats_arrive,
    tmem_ptr_arrive,
    tmem_ptr_sync,
)  # fmt: skip
from fa4kernel.forward.config import FRAGMENT, TILE, Config
from fa4kernel.forward.memory import (
    SharedMemory,
    element_type,
    p_column,
    s_column,
    store_shared,
)  # fmt: skip

INFINITY = float("inf")


@dataclass(frozen=True)
class Place:
    """What a softmax thread knows of its place."""

    cfg: Config
    memory: SharedMemory
    barriers: Barriers
    stage: Any
    row: Any  # of the tile, 0 to 127
    warp: Any  # 0 to 7
    scores: Any  # pointer to S in tensor memory
    probabilities: Any  # pointer to P
    scale: Any  # scale_log2


class State(NamedTuple):
    """Where the softmax of a row has got to."""

    step: Int32  # blocks so far, over all tiles: the phase of S_full
    acquired: Int32  # how often the place of the statistics was acquired
    block: Int32  # number of the next block of keys
    top: Float32  # maximum of the tile's scores so far
    total: Float32  # sum of the exponentials


@cute.jit
def run(
    cfg: Constexpr,
    a: Arguments,
    memory: SharedMemory,
    barriers: Barriers,
    rank: Int32,
    warp: Int32,
    thread: Int32,
) -> None:
    """The softmax of this warpgroup's Q tiles."""
    stage, row = warp // 4, thread % TILE
    tmem_ptr_sync(cfg)
    base = cute.arch.retrieve_tmem_ptr(Float32, 16, memory.tmem_address)
    scores, probabilities = base + s_column(stage), base + p_column(stage)
    me = Place(cfg, memory, barriers, stage, row, warp, scores, probabilities, a.scale_log2)

    now = State(Int32(0), Int32(0), Int32(0), Float32(0.0), Float32(0.0))
    for nth in cutlass.range(tiles.count(cfg, a), unroll=1):
        tile = tiles.tile(cfg, a, nth)
        here = replace(me, scale=tiles.scale_log2(cfg, a, tile))
        sight = limits(cfg, a, tile, (tiles.first_row(cfg, tile, stage, rank) + row) // cfg.ratio)
        barriers.softmax_stats_empty.wait_previous(stage, now.acquired)
        now = State(
            now.step, now.acquired + 1, tile.first, Float32(-INFINITY), Float32(0.0)
        )  # fmt: skip
        # Blocks from the last to the first: the one in which the keys may end, those that the right
        # edge of the mask may cut, those that every row sees whole, those that the left edge may.
        end = tile.first - tile.blocks
        now = softmax_step(here, now, sight, True, True)
        if cutlass.const_expr(cfg.window_right):
            for _ in cutlass.range(now.block - max(tile.right - 1, end), unroll=1):
                now = softmax_step(here, now, sight, True, False)
        for _ in cutlass.range(now.block - max(tile.left - 1, end), unroll=1):
            now = softmax_step(here, now, sight, False, False)
        if cutlass.const_expr(cfg.window_left):
            for _ in cutlass.range(now.block - end, unroll=1):
                now = softmax_step(here, now, sight, True, False)

        store_shared(memory.factor(stage, row), now.total)
        if cutlass.const_expr(cfg.lse or cfg.sink):
            store_shared(memory.maximum(stage, row), now.top)
        softmax_stats_arrive(warp)
    barriers.softmax_stats_empty.wait_previous(stage, now.acquired)
    tmem_ptr_arrive(cfg)


@cute.jit
def limits(cfg: Constexpr, a: Arguments, tile: tiles.Tile, token: Int32) -> tuple[Int32, Int32]:
    """Keys that a row sees, from and to."""
    diagonal = token + tile.seqlen_k - tile.seqlen_q
    left, right = Int32(0), tile.seqlen_k
    if cutlass.const_expr(cfg.window_right):
        right = min(right, diagonal + 1 + a.sizes.window_right)
    if cutlass.const_expr(cfg.window_left):
        left = max(left, diagonal - a.sizes.window_left)
    return left, right


@cute.jit
def softmax_step(
    me: Place, now: State, sight: tuple[Int32, Int32], masked: Constexpr, first: Constexpr
) -> State:
    """One block of one row: S in, P out.

    Args:
        me, now: the thread's place and state.
        sight: keys that the row sees, from and to.
        masked, first: whether some may be out of sight; whether this is the tile's first block.
    """
    cfg, stage, barriers = me.cfg, me.stage, me.barriers
    barriers.S_full.wait(stage, now.step)
    tmem.fence_after()
    scores = load_scores(me)
    if cutlass.const_expr(masked):
        rows.mask(cfg, scores, sight, now.block)

    highest = rows.maximum(scores, now.top)
    factor, top, shift = rows.rescaling(cfg, highest, now.top, me.scale, first)
    if cutlass.const_expr(not first):
        store_shared(me.memory.factor(stage, me.row), factor)
    softmax_stats_arrive(me.warp)  # as early as possible: the correction may begin

    for fragment in cutlass.range_constexpr(TILE // FRAGMENT):
        rows.exponentiate(cfg, scores[fragment], fragment, me.scale, shift)
        store_probabilities(me, scores[fragment], fragment)
        if cutlass.const_expr((fragment + 1) * FRAGMENT == cfg.p_first_columns):
            tmem.wait_store()
            tmem.fence_before()
            barriers.P_full_O_rescaled.arrive_leader(stage)
    if cutlass.const_expr(cfg.p_first_columns < TILE):
        tmem.wait_store()
        tmem.fence_before()
        cute.arch.sync_warp()
        with cute.arch.elect_one():
            barriers.P_full_lastsplit.arrive_leader(stage)

    if cutlass.const_expr(cfg.is_fp8):  # there are too few registers to keep the row any longer
        total = rows.row_sum(scores, now.total * factor, first)
        barriers.softmax_stats_empty.wait_previous(stage, now.acquired)
    else:
        barriers.softmax_stats_empty.wait_previous(stage, now.acquired)
        total = rows.row_sum(scores, now.total * factor, first)
    return State(now.step + 1, now.acquired + 1, now.block - 1, top, total)


def load_scores(me: Place) -> list[Any]:
    """The row's 128 scores as four fragments in registers."""
    columns = range(0, TILE, FRAGMENT)
    scores = [tmem.load(me.scores + column, FRAGMENT, me.row) for column in columns]
    tmem.wait_load()
    return scores


def store_probabilities(me: Place, fragment: Any, number: int) -> None:
    """A fragment of P, rounded to 16 or 8 bits, over the upper half of S."""
    rounded = cute.make_rmem_tensor(FRAGMENT, element_type(me.cfg))
    rounded.store(fragment.load().to(element_type(me.cfg)))
    words = FRAGMENT * me.cfg.element_bytes // 4
    place = me.probabilities + number * words
    tmem.store(place, words, me.row, cute.recast_tensor(rounded, Float32))
