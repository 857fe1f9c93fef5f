"""O and LSE on their way out: registers → shared memory, in the place of Q → global memory."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Constexpr, Float32, Int32, Int64

from fa4kernel.forward.arguments import Arguments
from fa4kernel.forward.memory import element_type
from fa4kernel.forward.tiles import Tile
from fa4kernel.hopper import rows
from fa4kernel.hopper.barriers import epilogue_sync
from fa4kernel.hopper.config import ROWS
from fa4kernel.hopper.tensor_core import pv_mma

INFINITY = float("inf")
LN_2 = 0.6931471805599453


@cute.jit
def finish(me: Any, a: Arguments, tile: Tile, token: Int32, now: Any) -> None:
    """Divide O by the sums, store it, write LSE."""
    cfg = me.cfg
    inverses = []
    for half in cutlass.range_constexpr(2):
        total = rows.over_lanes(now[4 + half])
        inverse = Float32(1.0)
        if total > 0.0:  # a row that sees nothing, or NaN: leave O as it is
            inverse = cute.arch.rcp_approx(total)
        inverses.append(inverse)
        if cutlass.const_expr(cfg.lse):
            write_lse(cfg, a, tile, token + 8 * half, now[2 + half], total, me.thread)
    rows.scale_rows(me.output, inverses)
    to_shared(me, a)
    cute.arch.fence_proxy("async.shared", space="cta")
    epilogue_sync(me.consumer)
    if me.thread < 32:
        boxes = a.o.boxes((ROWS, cfg.head_dim_v), 0, 0, tile.head, tile.batch)
        source = a.o.place(me.memory.q(me.consumer), element_type(cfg))
        source, target = a.o.split(source, boxes)
        cute.copy(a.o.copy, source, target[None, tile.m_block * cfg.consumers + me.consumer])
        cute.arch.cp_async_bulk_commit_group()
        cute.arch.cp_async_bulk_wait_group(0, read=True)
        with cute.arch.elect_one():
            me.barriers.load_Q_empty.arrive(0)


def to_shared(me: Any, a: Arguments) -> None:
    """O, rounded to 16 bits, over this consumer's Q, four 8 × 8 matrices at a time."""
    dtype = element_type(me.cfg)
    rounded = cute.make_rmem_tensor_like(me.output, dtype)
    rounded.store(me.output.load().to(dtype))
    atom = cute.make_copy_atom(cute.nvgpu.warp.StMatrix8x8x16bOp(False, 4), dtype)
    copy = cute.make_tiled_copy_C(atom, pv_mma(me.cfg)).get_slice(me.thread)
    target = a.o.place(me.memory.q(me.consumer), dtype)
    cute.copy(atom, copy.retile(rounded), copy.partition_D(target))


@cute.jit
def write_lse(
    cfg: Constexpr,
    a: Arguments,
    tile: Tile,
    token: Int32,
    top: Float32,
    total: Float32,
    thread: Int32,
) -> None:
    """LSE of a row, by the first of the four threads that share it."""
    if thread % 4 == 0 and token < tile.seqlen_q:
        lse = Float32(-INFINITY)
        if total > 0.0:
            lse = (top * a.scale_log2 + cute.math.log2(total, fastmath=True)) * LN_2
        line = tile.batch * a.sizes.heads + tile.head
        place = a.lse + (Int64(line) * a.total_q + token)
        cute.make_tensor(place, cute.make_layout(1))[0] = lse
