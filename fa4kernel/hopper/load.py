"""The load warp: Q, K and V from global memory into shared memory, by TMA.

Per tile: Q for every consumer and K of the last block, then K of each earlier block and V of the
block after it, as the consumers need them; at the end V of the first block.
"""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Constexpr, Int32

from fa4kernel.forward import tiles
from fa4kernel.forward.arguments import Arguments
from fa4kernel.forward.memory import element_type
from fa4kernel.hopper.barriers import Barriers
from fa4kernel.hopper.config import LOAD_STAMPS, ROWS
from fa4kernel.hopper.memory import SharedMemory
from fa4kernel.hopper.stamps import stamp


@cute.jit
def run(cfg: Constexpr, a: Arguments, memory: SharedMemory, barriers: Barriers) -> None:
    """Load everything that this CTA's tiles need."""
    turn = Int32(0)  # of both rings, over all tiles
    for nth in cutlass.range(tiles.count(cfg, a), unroll=1):
        tile = tiles.tile(cfg, a, nth)
        kv_head = tile.head // cfg.group
        k = a.k.boxes((cfg.tile_n, cfg.head_dim), 0, 0, kv_head, tile.batch)
        v = a.v.boxes((cfg.tile_n, cfg.head_dim_v), 0, 0, kv_head, tile.batch)

        load_q(cfg, a, tile, nth, memory, barriers)
        load_kv(cfg, a, "K", k, tile.first, turn, memory, barriers)
        for step in cutlass.range(1, tile.blocks, unroll=1):
            load_kv(cfg, a, "K", k, tile.first - step, turn + 1, memory, barriers)
            load_kv(cfg, a, "V", v, tile.first - step + 1, turn, memory, barriers)
            turn += 1
        load_kv(cfg, a, "V", v, tile.first - tile.blocks + 1, turn, memory, barriers)
        turn += 1
    # Before the CTA may end, everything must have been read.
    for _ in cutlass.range_constexpr(cfg.kv_stages):
        slot, wrap = turn % cfg.kv_stages, turn // cfg.kv_stages
        barriers.load_K_empty.wait_previous(slot, wrap)
        barriers.load_V_empty.wait_previous(slot, wrap)
        turn += 1
    barriers.load_Q_empty.wait_previous(0, tiles.count(cfg, a))


@cute.jit
def load_q(
    cfg: Constexpr,
    a: Arguments,
    tile: tiles.Tile,
    nth: Int32,
    memory: SharedMemory,
    barriers: Barriers,
) -> None:
    """Wait until the previous tile's O has left, and ask TMA for this one's Q."""
    boxes = a.q.boxes((ROWS, cfg.head_dim), 0, 0, tile.head, tile.batch)
    barriers.load_Q_empty.wait_previous(0, nth)
    barriers.load_Q_full.expect(0, cfg.consumers * 2 * ROWS * cfg.head_dim)
    for consumer in cutlass.range_constexpr(cfg.consumers):
        target = a.q.place(memory.q(consumer), element_type(cfg))
        target, source = a.q.split(target, boxes)
        box = tile.m_block * cfg.consumers + consumer
        cute.copy(a.q.copy, source[None, box], target, tma_bar_ptr=barriers.load_Q_full.at(0))


@cute.jit
def load_kv(
    cfg: Constexpr,
    a: Arguments,
    tensor: Constexpr,
    boxes: Any,
    block: Int32,
    turn: Int32,
    memory: SharedMemory,
    barriers: Barriers,
) -> None:
    """Wait until the slot whose turn it is has been read, and ask TMA to fill it with K or V."""
    slot, wrap = turn % cfg.kv_stages, turn // cfg.kv_stages
    if cutlass.const_expr(tensor == "K"):
        moved, place, size = a.k, memory.k(slot), cfg.k_bytes
        full, empty = barriers.load_K_full, barriers.load_K_empty
    else:
        moved, place, size = a.v, memory.v(slot), cfg.v_bytes
        full, empty = barriers.load_V_full, barriers.load_V_empty
    empty.wait_previous(slot, wrap)
    mark(cfg, a, turn, f"{tensor} free")
    full.expect(slot, size)
    target, source = moved.split(moved.place(place, element_type(cfg)), boxes)
    cute.copy(moved.copy, source[None, block], target, tma_bar_ptr=full.at(slot))
    mark(cfg, a, turn, f"{tensor} asked")


def mark(cfg: Any, a: Arguments, turn: Any, what: str) -> None:
    """Write down that a phase has ended."""
    thread, _, _ = cute.arch.thread_idx()
    stamps = a.stamps, a.stamp_turns, 1 + cfg.consumers
    stamp(cfg, stamps, 0, thread, turn, LOAD_STAMPS[what])
