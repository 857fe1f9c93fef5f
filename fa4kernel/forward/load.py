"""The load warp: Q, K and V from global memory into shared memory, by TMA.

Per tile: K of the last block, Q0, Q1, V of the last block, then K and V of every earlier block.
K and V take turns in one ring of slots, which lets the warp run ahead, into the next tile, too. In
a pair each CTA loads its half of every K and V tile; the leader's barriers count the bytes of both.
"""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Constexpr, Int32

from fa4kernel.forward import tiles
from fa4kernel.forward.arguments import Arguments
from fa4kernel.forward.barriers import Barriers
from fa4kernel.forward.config import TILE
from fa4kernel.forward.memory import SharedMemory, element_type


@cute.jit
def run(
    cfg: Constexpr, a: Arguments, memory: SharedMemory, barriers: Barriers, rank: Int32
) -> None:
    """Load everything that this CTA's tiles need."""
    turn = Int32(0)  # of the ring, over all tiles
    for nth in cutlass.range(tiles.count(cfg, a), unroll=1):
        tile = tiles.tile(cfg, a, nth)
        sequence = tile.batch if cutlass.const_expr(not cfg.varlen_k) else Int32(0)
        kv_head = tile.head if cutlass.const_expr(cfg.pack_gqa) else tile.head // cfg.group
        # A pair splits a K tile by its rows, a V tile by its columns.
        k = a.k.boxes((cfg.k_rows, cfg.head_dim), 0, tile.start_k, kv_head, sequence)
        v = a.v.boxes((TILE, cfg.v_columns), rank, tile.start_k, kv_head, sequence)

        load_kv(cfg, a.k, k, tile.first * cfg.cta_group + rank, turn, memory, barriers, rank, True)
        for stage in cutlass.range_constexpr(cfg.q_stages):
            load_q(cfg, a, tile, stage, nth, memory, barriers, rank)
        load_kv(cfg, a.v, v, tile.first, turn + 1, memory, barriers, rank, False)
        turn += 2
        for step in cutlass.range(1, tile.blocks, unroll=1):
            block = tile.first - step
            load_kv(cfg, a.k, k, block * cfg.cta_group + rank, turn, memory, barriers, rank, True)
            load_kv(cfg, a.v, v, block, turn + 1, memory, barriers, rank, False)
            turn += 2
        if cutlass.const_expr(cfg.load_epi):
            barriers.load_epi_full.wait(0, nth)  # O has left the memory where Q is to go
            with cute.arch.elect_one():
                barriers.load_epi_empty.arrive(0)
    drain(cfg, turn, tiles.count(cfg, a), barriers)


@cute.jit
def load_kv(
    cfg: Constexpr,
    moved: Any,
    boxes: Any,
    box: Int32,
    turn: Int32,
    memory: SharedMemory,
    barriers: Barriers,
    rank: Int32,
    is_k: Constexpr,
) -> None:
    """Wait until the slot whose turn it is has been read, and ask TMA to fill it."""
    slot, wrap = turn % cfg.kv_stages, turn // cfg.kv_stages
    barriers.load_KV_empty.wait_previous(slot, wrap)
    if rank == 0:
        size = cfg.k_bytes if cutlass.const_expr(is_k) else cfg.v_bytes
        barriers.load_KV_full.expect(slot, size * cfg.cta_group)
    if cutlass.const_expr(cfg.uneven_kv_ring and is_k):
        if slot == 0:  # this large tile reaches into what slot 1 held on the wrap before
            barriers.load_KV_empty.wait_previous(1, wrap)
    tile, source = moved.split(moved.place(memory.slot(slot, wrap), element_type(cfg)), boxes)
    cute.copy(moved.copy, source[None, box], tile, tma_bar_ptr=barriers.load_KV_full.at(slot))


@cute.jit
def load_q(
    cfg: Constexpr,
    a: Arguments,
    tile: tiles.Tile,
    stage: Constexpr,
    nth: Int32,
    memory: SharedMemory,
    barriers: Barriers,
    rank: Int32,
) -> None:
    """Wait until the previous tile's Q[stage] has been read, and ask TMA for this one's."""
    sequence = tile.batch if cutlass.const_expr(not cfg.varlen_q) else Int32(0)
    row = (0, tile.start_q) if cutlass.const_expr(cfg.ratio > 1) else tile.start_q
    boxes = a.q.boxes((TILE, cfg.head_dim), 0, row, tile.head, sequence)
    barriers.load_Q_empty.wait_previous(stage, nth)
    if rank == 0:
        barriers.load_Q_full.expect(stage, cfg.q_bytes * cfg.cta_group)
    box = tiles.first_row(cfg, tile, stage, rank) // TILE
    target, source = a.q.split(a.q.place(memory.q(stage), element_type(cfg)), boxes)
    cute.copy(a.q.copy, source[None, box], target, tma_bar_ptr=barriers.load_Q_full.at(stage))


@cute.jit
def drain(cfg: Constexpr, turn: Int32, count: Int32, barriers: Barriers) -> None:
    """Before the CTA may end, every slot and the last Q must have been given up."""
    for _ in cutlass.range_constexpr(cfg.kv_stages):
        barriers.load_KV_empty.wait_previous(turn % cfg.kv_stages, turn // cfg.kv_stages)
        turn += 1
    barriers.load_Q_empty.wait_previous(cfg.q_stages - 1, count)
