"""The epilogue warp: O from shared memory to global memory, by TMA store."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Constexpr, Int32

from fa4kernel.forward import tiles
from fa4kernel.forward.arguments import Arguments
from fa4kernel.forward.barriers import Barriers
from fa4kernel.forward.config import TILE
from fa4kernel.forward.memory import SharedMemory, output_type


@cute.jit
def run(
    cfg: Constexpr, a: Arguments, memory: SharedMemory, barriers: Barriers, rank: Int32
) -> None:
    """Store every O tile, and give its place back once it has been read."""
    for nth in cutlass.range(tiles.count(cfg, a), unroll=1):
        tile = tiles.tile(cfg, a, nth)
        sequence = tiles.result_sequence(cfg, a, tile)
        boxes = a.o.boxes((TILE, cfg.head_dim_v), 0, 0, tile.head, sequence)
        for stage in cutlass.range_constexpr(cfg.q_stages):
            barriers.O_epi_full.wait(stage, nth)
            box = tiles.first_row(cfg, tile, stage, rank) // TILE
            source, target = a.o.split(a.o.place(memory.o(stage), output_type(cfg)), boxes)
            cute.copy(a.o.copy, source, target[None, box])
            cute.arch.cp_async_bulk_commit_group()
        for stage in cutlass.range_constexpr(cfg.q_stages):
            younger = cfg.q_stages - 1 - stage
            cute.arch.cp_async_bulk_wait_group(younger, read=True)
            barriers.O_epi_empty.arrive(stage)
        if cutlass.const_expr(cfg.load_epi):
            barriers.load_epi_empty.wait_previous(0, nth)
            with cute.arch.elect_one():
                barriers.load_epi_full.arrive(0)
