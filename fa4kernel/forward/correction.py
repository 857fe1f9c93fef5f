"""The correction warps: rescale O when a maximum has grown, and finish it at the end.

Warp w looks after rows 32 w to 32 w + 31 of both Q tiles in turn. It hears from each softmax warp
through a named barrier of 64 threads, reads the 32 factors, and rescales O only if one is below 1.
The order in which it lets the softmax warps overwrite their statistics (stage 1 after handling
stage 0, and the other way round) keeps the two softmaxes half a step apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Constexpr, Float32, Int32

from fa4kernel.forward import exp2, output, tiles, tmem
from fa4kernel.forward.arguments import Arguments
from fa4kernel.forward.barriers import (
    Barriers,
    epilogue_sync,
    softmax_stats_sync,
    tmem_ptr_arrive,
    tmem_ptr_sync,
)  # fmt: skip
from fa4kernel.forward.config import TILE, Config
from fa4kernel.forward.memory import SharedMemory, load_shared, o_column

CHUNK = 16  # columns of O that are in registers at a time
INFINITY = float("inf")
LOG2_E = 1.4426950408889634
LN_2 = 0.6931471805599453


@dataclass(frozen=True)
class Place:
    """What a correction thread knows of its place."""

    cfg: Config
    row: Any  # of the tile, 0 to 127
    warp: Any  # 0 to 3
    tmem: Any  # pointer to tensor memory


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
    """Correct and finish all of this CTA's tiles."""
    tmem_ptr_sync(cfg)
    base = cute.arch.retrieve_tmem_ptr(Float32, 16, memory.tmem_address)
    me = Place(cfg, thread % TILE, warp % 4, base)
    last = cfg.q_stages - 1
    if cutlass.const_expr(cfg.split):
        write_nothing(me, a)

    for stage in cutlass.range_constexpr(cfg.q_stages):
        barriers.P_full_O_rescaled.arrive_leader(stage)  # O is free
    for nth in cutlass.range(tiles.count(cfg, a), unroll=1):
        tile = tiles.tile(cfg, a, nth)
        # The first block of a tile overwrites O: there is nothing to rescale.
        softmax_stats_sync(me.warp)
        barriers.softmax_stats_empty.arrive(0)
        if cutlass.const_expr(cfg.q_stages == 2):
            softmax_stats_sync(4 + me.warp)
        for _ in cutlass.range(1, tile.blocks, unroll=1):
            for stage in cutlass.range_constexpr(cfg.q_stages):
                softmax_stats_sync(4 * stage + me.warp)
                factor = load_shared(memory.factor(stage, me.row))
                if cute.arch.vote_any_sync(factor < 1.0):
                    rescale(me, stage, factor)
                barriers.P_full_O_rescaled.arrive_leader(stage)
                barriers.softmax_stats_empty.arrive(last - stage)
        if cutlass.const_expr(cfg.q_stages == 2):
            barriers.softmax_stats_empty.arrive(1)
        for stage in cutlass.range_constexpr(cfg.q_stages):
            finish(me, a, tile, stage, nth, memory, barriers, rank)
        if cutlass.const_expr(cfg.load_epi and cfg.epilogue == "correction"):
            barriers.load_epi_empty.wait_previous(0, nth)
            cute.arch.fence_proxy("async.shared", space="cta")  # where threads read, TMA will write
            cute.arch.sync_warp()
            with cute.arch.elect_one():
                barriers.load_epi_full.arrive(0)
    if cutlass.const_expr(cfg.epilogue == "tma"):
        barriers.O_epi_empty.wait_previous(last, tiles.count(cfg, a))
    tmem_ptr_arrive(cfg)


@cute.jit
def write_nothing(me: Place, a: Arguments) -> None:
    """If this CTA's split got no key: say so, for the kernel that combines."""
    if tiles.given(me.cfg, a) > 0:
        tile = tiles.tile(me.cfg, a, Int32(0))
        if tile.blocks == 0:
            output.nothing(me.cfg, a, tile, me.row)


@cute.jit
def rescale(me: Place, stage: Constexpr, factor: Float32) -> None:
    """O[stage] *= factor, chunk by chunk: a row of O does not fit into the registers at once."""
    place = me.tmem + o_column(me.cfg, stage)
    for column in cutlass.range_constexpr(0, me.cfg.head_dim_v, CHUNK):
        values = tmem.load(place + column, CHUNK, me.row)
        tmem.wait_load()
        scale(values, factor)
        tmem.store(place + column, CHUNK, me.row, values)
    tmem.wait_store()
    tmem.fence_before()


def scale(values: Any, factor: Any) -> None:
    """In place, two at a time."""
    for i in range(0, CHUNK, 2):
        pair = values[i], values[i + 1]
        values[i], values[i + 1] = cute.arch.mul_packed_f32x2(pair, (factor, factor))


@cute.jit
def finish(
    me: Place,
    a: Arguments,
    tile: tiles.Tile,
    stage: Constexpr,
    nth: Int32,
    memory: SharedMemory,
    barriers: Barriers,
    rank: Int32,
) -> None:
    """O[stage] divided by the sum, rounded, into shared memory or on to global memory; LSE."""
    cfg = me.cfg
    row = tiles.first_row(cfg, tile, stage, rank) + me.row
    softmax_stats_sync(4 * stage + me.warp)
    scale_log2 = tiles.scale_log2(cfg, a, tile)
    total, top = load_shared(memory.factor(stage, me.row)), Float32(0.0)
    if cutlass.const_expr(cfg.lse or cfg.sink):
        top = load_shared(memory.maximum(stage, me.row))
    barriers.softmax_stats_empty.arrive(stage)
    if cutlass.const_expr(cfg.sink):
        head = tiles.query_head(cfg, tile, row)
        if cutlass.const_expr(not cfg.split):
            total, top = with_sink(cfg, a, head, scale_log2, total, top)
        else:
            if tiles.split_index() == 0:  # the sum has one sink, however many share the keys
                total, top = with_sink(cfg, a, head, scale_log2, total, top)
    inverse = Float32(1.0)
    if total > 0.0:  # a row that sees nothing, or NaN: leave O as it is
        inverse = cute.arch.rcp_approx(total)
    if cutlass.const_expr(cfg.descale):
        inverse = inverse * tiles.descale(cfg, a, a.v_descale, tile)

    barriers.O_full.wait(stage, nth)
    tmem.fence_after()
    if cutlass.const_expr(cfg.epilogue == "tma"):
        barriers.O_epi_empty.wait_previous(stage, nth)
    place, target = me.tmem + o_column(cfg, stage), output.tile(cfg, memory, stage)
    for column in cutlass.range_constexpr(0, cfg.head_dim_v, CHUNK):
        values = tmem.load(place + column, CHUNK, me.row)
        tmem.wait_load()
        scale(values, inverse)
        output.to_shared(cfg, values, target, me.row, column // CHUNK)
    tmem.fence_before()
    if cutlass.const_expr(cfg.epilogue == "tma"):
        cute.arch.fence_proxy("async.shared", space="cta")  # what threads wrote, TMA will read
        barriers.P_full_O_rescaled.arrive_leader(stage)  # O is free for the next tile
        barriers.O_epi_full.arrive(stage)
    else:
        epilogue_sync()
        first = tiles.first_row(cfg, tile, stage, rank)
        output.to_global(cfg, a, tile, target, me.row, first)
        barriers.P_full_O_rescaled.arrive_leader(stage)
    if cutlass.const_expr(cfg.lse):
        output.write_lse(cfg, a, tile, row, log_sum(cfg, scale_log2, total, top))


@cute.jit
def with_sink(
    cfg: Constexpr, a: Arguments, head: Int32, scale: Float32, total: Float32, top: Float32
) -> tuple[Float32, Float32]:
    """Sum and maximum with one more score, the head's sink, that takes part in no product."""
    sink = cute.make_tensor(a.sink + head, cute.make_layout(1))[0] * LOG2_E
    if top == -INFINITY:  # the row sees no key
        top, total = sink / scale, Float32(2.0**cfg.max_offset)
        if sink == -INFINITY:
            total = Float32(0.0)
    else:
        total += exp2.on_mufu(sink - top * scale + float(cfg.max_offset))
    return total, top


@cute.jit
def log_sum(cfg: Constexpr, scale: Float32, total: Float32, top: Float32) -> Float32:
    """The natural logarithm of the sum of the exponentials of the scores."""
    lse = Float32(-INFINITY)
    there = total != 0.0 if cutlass.const_expr(cfg.split) else total > 0.0
    if there:  # of splits, NaN is handed on to the whole
        lse = (top * scale + cute.math.log2(total, fastmath=True) - float(cfg.max_offset)) * LN_2
    return lse
