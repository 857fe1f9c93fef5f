"""O and LSE on their way out: registers → shared memory → global memory."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Constexpr, Float32, Int32, Int64

from fa4kernel.forward.arguments import Arguments, tile_layout
from fa4kernel.forward.config import TILE, Config
from fa4kernel.forward.memory import SharedMemory, output_type
from fa4kernel.forward.tiles import (
    Tile,
    array_row,
    first_row,
    query_head,
    result_sequence,
    split_index,
)

INFINITY = float("inf")
VECTOR_BYTES = 16  # of one access


def tile(cfg: Config, memory: SharedMemory, stage: Any) -> Any:
    """O[stage] in shared memory: (128, head_dim_v), in the swizzled slabs that TMA expects."""
    dtype = output_type(cfg)
    layout = tile_layout(dtype, TILE, cfg.head_dim_v)
    pointer = cute.recast_ptr(memory.o(stage), layout.inner, dtype)
    return cute.make_tensor(pointer, layout.outer)


def to_shared(cfg: Config, values: Any, target: Any, row: Any, chunk: int) -> None:
    """16 float32 of a row, rounded to O's type, into shared memory."""
    columns = cute.size(values)
    rounded = cute.make_rmem_tensor(columns, output_type(cfg))
    rounded.store(values.load().to(output_type(cfg)))
    cute.autovec_copy(rounded, cute.local_tile(target, (1, columns), (row, chunk))[0, None])


@cute.jit
def to_global(
    cfg: Constexpr, a: Arguments, tile: Tile, source: Any, thread: Int32, first: Int32
) -> None:
    """A tile of O, 16 bytes a thread and turn, neighbours side by side; rows beyond Sq are not."""
    vector = cutlass.const_expr(VECTOR_BYTES // cfg.out_bytes)
    per_row = cute.size(a.out) // vector
    for turn in cutlass.range(per_row, unroll=1):  # unrolled, its addresses take all registers
        piece = turn * TILE + thread
        row, column = piece // per_row, piece % per_row
        if (first + row) // cfg.ratio < tile.seqlen_q:
            start = _array_row(cfg, a, tile, first + row) * cute.size(a.out)
            target = a.out.iterator + (start + column * vector)
            to = cute.make_tensor(target.align(VECTOR_BYTES), cute.make_layout(vector))
            cute.autovec_copy(cute.local_tile(source, (1, vector), (row, column))[0, None], to)


def _array_row(cfg: Config, a: Arguments, tile: Tile, row: Any) -> Any:
    """The number of a row in O, or in partial O, which has that of one split after the other's."""
    number = array_row(cfg, a, tile, row)
    if cfg.split:
        sequences = 1 if cfg.varlen_q else a.sizes.batch
        of_a_split = Int64(a.total_q) * sequences * (a.sizes.heads * cfg.ratio)
        number = number + split_index() * of_a_split
    return number


@cute.jit
def write_lse(cfg: Constexpr, a: Arguments, tile: Tile, row: Int32, value: Float32) -> None:
    """LSE of a row of the tile's head; of rows beyond Sq there is none."""
    token = row // cfg.ratio
    if token < tile.seqlen_q:
        token = token + tile.start_q
        head = query_head(cfg, tile, row)
        heads = a.sizes.heads * cfg.ratio
        line = result_sequence(cfg, a, tile) * heads + head
        place = a.lse + (Int64(line) * a.total_q + token)
        cute.make_tensor(place, cute.make_layout(1))[0] = value


@cute.jit
def nothing(cfg: Constexpr, a: Arguments, tile: Tile, row: Int32) -> None:
    """A split without keys has LSE -inf, by which it is left out. There is no partial O."""
    for stage in cutlass.range_constexpr(cfg.q_stages):
        write_lse(cfg, a, tile, first_row(cfg, tile, stage, 0) + row, Float32(-INFINITY))
