"""The load warps: Q, K and V from global memory into shared memory.

Per tile: K of the last block, Q0, Q1, V of the last block, then K and V of every earlier block.
K and V take turns in one ring of slots, which lets the warps run ahead, into the next tile, too. In
a pair each CTA loads its half of every K and V tile; the leader's barriers count the bytes of both.

One warp is enough for TMA, which moves a tile at a time. Rows that do not lie as TMA wants them
(`gather`, `pages`) are copied by all threads of the load warps, each of which arrives for its own.
Whatever TMA moves is the first warp's alone: no phase waits for the others, so they could
miss one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Constexpr, Int32

from fa4kernel.forward import gather, pages, tiles
from fa4kernel.forward.arguments import Arguments
from fa4kernel.forward.barriers import Barriers
from fa4kernel.forward.config import TILE, WARP, Config
from fa4kernel.forward.memory import SharedMemory, element_type


@dataclass(frozen=True)
class Place:
    """What a load thread knows of its place."""

    cfg: Config
    a: Arguments
    memory: SharedMemory
    barriers: Barriers
    rank: Any
    warp: Any
    thread: Any  # of the threads that load, from 0

    def team(self, *columns: int) -> gather.Team:
        """The threads that copy rows of so many columns."""
        widths = tuple(self.cfg.element_bytes * each for each in columns)
        return gather.team(WARP * len(self.cfg.load_warps), widths, self.thread)

    @property
    def is_alone(self) -> bool:
        """Whether one warp loads everything."""
        return len(self.cfg.load_warps) == 1

    @property
    def is_first(self) -> Any:
        """Whether this is the warp that talks to TMA."""
        return self.warp == self.cfg.load_warps.start

    @property
    def kv_team(self) -> gather.Team:
        """The threads that copy K and V."""
        return self.team(self.cfg.head_dim, self.cfg.head_dim_v)


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
    """Load everything that this CTA's tiles need."""
    me = Place(cfg, a, memory, barriers, rank, warp, thread - WARP * cfg.load_warps.start)
    turn = Int32(0)  # of the ring, over all tiles
    for nth in cutlass.range(tiles.count(cfg, a), unroll=1):
        tile = tiles.tile(cfg, a, nth)
        at = pages.locate(cfg, a, tile, tile.first, me.kv_team)
        load_kv(me, tile, tile.first, at, turn, True)
        for stage in cutlass.range_constexpr(cfg.q_stages):
            load_q(me, tile, stage, nth)
        load_kv(me, tile, tile.first, at, turn + 1, False)
        turn += 2
        for step in cutlass.range(1, tile.blocks, unroll=1):
            block = tile.first - step
            at = pages.locate(cfg, a, tile, block, me.kv_team)
            load_kv(me, tile, block, at, turn, True)
            load_kv(me, tile, block, at, turn + 1, False)
            turn += 2
        if cutlass.const_expr(cfg.load_epi):
            barriers.load_epi_full.wait(0, nth)  # O has left the memory where Q is to go
            with cute.arch.elect_one():
                barriers.load_epi_empty.arrive(0)
    drain(me, turn, tiles.count(cfg, a))


@cute.jit
def load_kv(
    me: Place, tile: tiles.Tile, block: Int32, at: Any, turn: Int32, is_k: Constexpr
) -> None:
    """Wait until the slot whose turn it is has been read, and fill it with K or V of a block."""
    if cutlass.const_expr(me.cfg.kv_load == "cp_async"):
        copy_kv(me, tile, block, at, turn, is_k)
    elif cutlass.const_expr(me.is_alone):
        move_kv(me, tile, block, at, turn, is_k)
    else:
        if me.is_first:
            move_kv(me, tile, block, at, turn, is_k)


@cute.jit
def move_kv(
    me: Place, tile: tiles.Tile, block: Int32, at: Int32, turn: Int32, is_k: Constexpr
) -> None:
    """By TMA; for one warp. A pair splits a K tile by its rows, a V tile by its columns."""
    cfg, barriers, rank = me.cfg, me.barriers, me.rank
    slot, wrap = turn % cfg.kv_stages, turn // cfg.kv_stages
    barriers.load_KV_empty.wait_previous(slot, wrap)
    if rank == 0:
        size = cfg.k_bytes if cutlass.const_expr(is_k) else cfg.v_bytes
        barriers.load_KV_full.expect(slot, size * cfg.cta_group)
    wait_neighbour(me, slot, wrap, is_k)
    if cutlass.const_expr(is_k):
        moved, shape, column = me.a.k, (cfg.k_rows, cfg.head_dim), 0
        box = (0 if cutlass.const_expr(cfg.paged) else block * cfg.cta_group) + rank
    else:
        moved, shape, column = me.a.v, (TILE, cfg.v_columns), rank
        box = Int32(0) if cutlass.const_expr(cfg.paged) else block
    boxes = moved.boxes(shape, column, tile.start_k, pages.kv_head(cfg, tile), at)
    target = moved.place(me.memory.slot(slot, wrap), element_type(cfg))
    target, source = moved.split(target, boxes)
    cute.copy(moved.copy, source[None, box], target, tma_bar_ptr=barriers.load_KV_full.at(slot))


@cute.jit
def copy_kv(
    me: Place, tile: tiles.Tile, block: Int32, at: Any, turn: Int32, is_k: Constexpr
) -> None:
    """By threads; keys beyond the sequence's last become zeros."""
    cfg, barriers = me.cfg, me.barriers
    slot, wrap = turn % cfg.kv_stages, turn // cfg.kv_stages
    barriers.load_KV_empty.wait_previous(slot, wrap)
    wait_neighbour(me, slot, wrap, is_k)
    width = cfg.element_bytes * (cfg.head_dim if cutlass.const_expr(is_k) else cfg.head_dim_v)
    gather.copy(
        me.kv_team,
        me.memory.slot(slot, wrap).toint(),
        (width, width),
        [pages.address(cfg, me.a, tile, token, is_k) for token in at],
        tile.seqlen_k - block * TILE,
    )
    barriers.load_KV_full.arrive_copies(slot)


@cute.jit
def wait_neighbour(me: Place, slot: Int32, wrap: Int32, is_k: Constexpr) -> None:
    """Of the uneven ring: a large tile in slot 0 reaches into what slot 1 held before."""
    if cutlass.const_expr(me.cfg.uneven_kv_ring and is_k):
        if slot == 0:
            me.barriers.load_KV_empty.wait_previous(1, wrap)


@cute.jit
def load_q(me: Place, tile: tiles.Tile, stage: Constexpr, nth: Int32) -> None:
    """Wait until the previous tile's Q[stage] has been read, and fetch this one's."""
    if cutlass.const_expr(me.cfg.q_load == "cp_async"):
        copy_q(me, tile, stage, nth)
    elif cutlass.const_expr(me.is_alone):
        move_q(me, tile, stage, nth)
    else:
        if me.is_first:
            move_q(me, tile, stage, nth)


@cute.jit
def move_q(me: Place, tile: tiles.Tile, stage: Constexpr, nth: Int32) -> None:
    """By TMA; for one warp."""
    cfg, barriers, q = me.cfg, me.barriers, me.a.q
    sequence = tile.batch if cutlass.const_expr(not cfg.varlen_q) else Int32(0)
    row = (0, tile.start_q) if cutlass.const_expr(cfg.ratio > 1) else tile.start_q
    boxes = q.boxes((TILE, cfg.head_dim), 0, row, tile.head, sequence)
    barriers.load_Q_empty.wait_previous(stage, nth)
    if me.rank == 0:
        barriers.load_Q_full.expect(stage, cfg.q_bytes * cfg.cta_group)
    box = tiles.first_row(cfg, tile, stage, me.rank) // TILE
    target, source = q.split(q.place(me.memory.q(stage), element_type(cfg)), boxes)
    cute.copy(q.copy, source[None, box], target, tma_bar_ptr=barriers.load_Q_full.at(stage))


@cute.jit
def copy_q(me: Place, tile: tiles.Tile, stage: Constexpr, nth: Int32) -> None:
    """By threads; rows beyond the head's last become zeros."""
    cfg, barriers = me.cfg, me.barriers
    barriers.load_Q_empty.wait_previous(stage, nth)
    team, width = me.team(cfg.head_dim), cfg.element_bytes * cute.size(me.a.q)
    first = tiles.first_row(cfg, tile, stage, me.rank)
    starts = [tiles.array_row(cfg, me.a, tile, first + row) for row in team.rows()]
    gather.copy(
        team,
        me.memory.q(stage).toint(),
        (cfg.element_bytes * cfg.head_dim, width),
        [me.a.q.iterator.toint() + start * width for start in starts],
        tile.seqlen_q * cfg.ratio - first,
    )
    barriers.load_Q_full.arrive_copies(stage)


@cute.jit
def drain(me: Place, turn: Int32, count: Int32) -> None:
    """Before the CTA may end, every slot and the last Q must have been given up.

    As ever, a warp waits for what it has loaded.
    """
    cfg = me.cfg
    if cutlass.const_expr(me.is_alone or cfg.kv_load == "cp_async"):
        drain_kv(me, turn)
    else:
        if me.is_first:
            drain_kv(me, turn)
    if cutlass.const_expr(me.is_alone or cfg.q_load == "cp_async"):
        me.barriers.load_Q_empty.wait_previous(cfg.q_stages - 1, count)
    else:
        if me.is_first:
            me.barriers.load_Q_empty.wait_previous(cfg.q_stages - 1, count)


@cute.jit
def drain_kv(me: Place, turn: Int32) -> None:
    """Wait until every slot of the ring has been given up."""
    stages = me.cfg.kv_stages
    for _ in cutlass.range_constexpr(stages):
        me.barriers.load_KV_empty.wait_previous(turn % stages, turn // stages)
        turn += 1
