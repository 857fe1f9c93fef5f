"""The softmax warps: scores in, probabilities out, and the statistics that the correction needs.

Two warpgroups, one per Q tile; every thread owns one row. A step reads its row of S, finds the
maximum, tells the correction as early as possible by how much O must shrink, exponentiates in four
fragments of 32 columns, hands P over in two parts, and only then, off the critical path, adds up.

Scores are used in base 2: 2^((s - max) * scale_log2) needs no multiplication by log2(e) of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Constexpr, Float32, Int32

from fa4kernel.forward import exp2, tiles, tmem
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
class Row:
    """What a softmax thread knows of its row and its place."""

    cfg: Config
    stage: Any
    row: Any  # of the tile, 0 to 127
    warp: Any  # 0 to 7
    scores: Any  # pointer to S in tensor memory
    probabilities: Any  # pointer to P
    scale: Any  # scale_log2


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
    me = Row(cfg, stage, row, warp, scores, probabilities, a.scale_log2)

    step = Int32(0)  # blocks so far: the phase of S_full
    acquired = Int32(0)  # how often the statistics' place was acquired
    for nth in cutlass.range(tiles.count(cfg, a), unroll=1):
        tile = tiles.tile(cfg, a, nth)
        token = (tiles.first_row(cfg, tile, stage, rank) + row) // cfg.ratio
        right, left = limits(cfg, a, tile, token)
        barriers.softmax_stats_empty.wait_previous(stage, acquired)
        acquired += 1

        top, total = Float32(-INFINITY), Float32(0.0)
        block = tile.first
        last = block - tile.blocks
        top, total = softmax_step(
            me, memory, barriers, step, acquired, block, right, left, top, total, True, True
        )
        step, acquired, block = step + 1, acquired + 1, block - 1
        masked = max(block - max(tile.right - 1, last), 0)
        for _ in cutlass.range(masked, unroll=1):
            top, total = softmax_step(
                me, memory, barriers, step, acquired, block, right, left, top, total, True, False
            )
            step, acquired, block = step + 1, acquired + 1, block - 1
        open_blocks = max(block - max(tile.left - 1, last), 0)
        for _ in cutlass.range(open_blocks, unroll=1):
            top, total = softmax_step(
                me, memory, barriers, step, acquired, block, right, left, top, total, False, False
            )
            step, acquired, block = step + 1, acquired + 1, block - 1
        if cutlass.const_expr(cfg.window_left):
            for _ in cutlass.range(block - last, unroll=1):
                top, total = softmax_step(
                    me, memory, barriers, step, acquired, block, right, left, top, total, True,
                    False,
                )  # fmt: skip
                step, acquired, block = step + 1, acquired + 1, block - 1

        store_shared(memory.factor(stage, row), total)
        if cutlass.const_expr(cfg.lse or cfg.sink):
            store_shared(memory.maximum(stage, row), top)
        softmax_stats_arrive(warp)
    barriers.softmax_stats_empty.wait_previous(stage, acquired)
    tmem_ptr_arrive(cfg)


@cute.jit
def limits(cfg: Constexpr, a: Arguments, tile: tiles.Tile, token: Int32) -> tuple[Int32, Int32]:
    """Keys that a row sees: from `left` to before `right`."""
    diagonal = token + tile.seqlen_k - tile.seqlen_q
    right, left = tile.seqlen_k, Int32(0)
    if cutlass.const_expr(cfg.window_right):
        right = min(right, diagonal + 1 + a.sizes.window_right)
    if cutlass.const_expr(cfg.window_left):
        left = max(left, diagonal - a.sizes.window_left)
    return right, left


@cute.jit
def softmax_step(
    me: Row,
    memory: SharedMemory,
    barriers: Barriers,
    step: Int32,
    acquired: Int32,
    block: Int32,
    right: Int32,
    left: Int32,
    top: Float32,
    total: Float32,
    masked: Constexpr,
    first: Constexpr,
) -> tuple[Float32, Float32]:
    """One block of one row: S in, P out. Returns the new maximum and the new sum.

    Args:
        step, acquired: phases of S_full and of softmax_stats_empty.
        block: number of the block of keys.
        right, left: keys that the row sees.
        top, total: maximum and sum so far.
        masked, first: whether keys may be out of sight; whether this is the tile's first block.
    """
    cfg, stage = me.cfg, me.stage
    barriers.S_full.wait(stage, step)
    tmem.fence_after()
    scores = load_scores(me)
    if cutlass.const_expr(masked):
        mask(cfg, scores, right - block * TILE, left - block * TILE)

    highest = maximum(scores, top)
    factor, top, shift = rescaling(cfg, highest, top, me.scale, first)
    if cutlass.const_expr(not first):
        store_shared(memory.factor(stage, me.row), factor)
    softmax_stats_arrive(me.warp)

    for fragment in cutlass.range_constexpr(TILE // FRAGMENT):
        exponentiate(cfg, scores[fragment], fragment, me.scale, shift)
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

    barriers.softmax_stats_empty.wait_previous(stage, acquired)
    return top, row_sum(scores, total * factor, first)


def load_scores(me: Row) -> list[Any]:
    """The row's 128 scores as four fragments in registers."""
    columns = range(0, TILE, FRAGMENT)
    scores = [tmem.load(me.scores + column, FRAGMENT, me.row) for column in columns]
    tmem.wait_load()
    return scores


def mask(cfg: Config, scores: list[Any], right: Any, left: Any) -> None:
    """Scores of keys that the row does not see become -infinity."""
    for number, fragment in enumerate(scores):
        for i in range(FRAGMENT):
            column = number * FRAGMENT + i
            seen = right > column
            if cfg.window_left:
                seen = seen & (left <= column)
            fragment[i] = cutlass.select_(seen, fragment[i], Float32(-INFINITY))


def maximum(scores: list[Any], top: Any) -> Any:
    """The row's maximum: four chains of three-input maxima, so that none waits for another."""
    chains = [fragment[0] for fragment in scores]
    for i in range(1, FRAGMENT - 1, 2):
        chains = [max3(c, f[i], f[i + 1]) for c, f in zip(chains, scores, strict=True)]
    chains = [cute.arch.fmax(c, f[FRAGMENT - 1]) for c, f in zip(chains, scores, strict=True)]
    return max3(max3(chains[0], chains[1], top), chains[2], chains[3])


def max3(a: Any, b: Any, c: Any) -> Any:
    """The largest of three, by one instruction."""
    return cute.arch.inline_ptx(
        "max.f32 {$w0}, {$r0}, {$r1}, {$r2};", write_only_types=[Float32], read_only_args=[a, b, c]
    )


@cute.jit
def rescaling(
    cfg: Constexpr, highest: Float32, top: Float32, scale: Float32, first: Constexpr
) -> tuple[Float32, Float32, Float32]:
    """Whether to move to the new maximum: factor for O and the sum, maximum in use, shift.

    As long as the maximum has grown by less than 2^threshold, the old one serves: P may exceed 1,
    O needs no rescaling, and the final division puts everything right.
    """
    factor, shift = Float32(0.0), highest
    if highest == -INFINITY:  # nothing seen so far: any finite shift gives P = 0
        shift = Float32(0.0)
    if cutlass.const_expr(first):
        top = highest
    else:
        exponent = (top - shift) * scale
        factor = exp2.on_mufu(exponent)
        if exponent >= -cfg.rescale_threshold:
            factor, shift = Float32(1.0), top
        else:
            top = highest
    return factor, top, shift * scale


def exponentiate(cfg: Config, fragment: Any, number: int, scale: Any, shift: Any) -> None:
    """In place: 2^(s * scale - shift), on the MUFU or, for some columns, on the FMA units."""
    for i in range(0, FRAGMENT, 2):
        pair = cute.arch.fma_packed_f32x2(
            (fragment[i], fragment[i + 1]), (scale, scale), (-shift, -shift)
        )
        if cfg.emulated(number, i):
            pair = exp2.on_fma(pair, cfg.exp2_degree)
        else:
            pair = exp2.on_mufu(pair[0]), exp2.on_mufu(pair[1])
        fragment[i], fragment[i + 1] = pair


def store_probabilities(me: Row, fragment: Any, number: int) -> None:
    """A fragment of P, rounded to 16 bits, over the upper half of S."""
    rounded = cute.make_rmem_tensor(FRAGMENT, element_type(me.cfg))
    rounded.store(fragment.load().to(element_type(me.cfg)))
    words = FRAGMENT // 2
    place = me.probabilities + number * words
    tmem.store(place, words, me.row, cute.recast_tensor(rounded, Float32))


def row_sum(scores: list[Any], total: Any, first: bool) -> Any:
    """`total` plus the row's P, not rounded: four chains of two-wide additions."""
    chains = [(fragment[0], fragment[1]) for fragment in scores]
    if not first:
        chains[0] = cute.arch.add_packed_f32x2(chains[0], (total, 0.0))
    for i in range(2, FRAGMENT, 2):
        chains = [
            cute.arch.add_packed_f32x2(chain, (fragment[i], fragment[i + 1]))
            for chain, fragment in zip(chains, scores, strict=True)
        ]
    while len(chains) > 1:
        chains = [
            cute.arch.add_packed_f32x2(a, b) for a, b in zip(chains[::2], chains[1::2], strict=True)
        ]
    return chains[0][0] + chains[0][1]
