"""Work tiles: which rows of which head a CTA works on, and against which blocks of keys.

A work tile is one Q tile per stage (of a pair, per stage and CTA). Its blocks of 128 keys are taken
from the last to the first: the last ones are those that a mask or the end of the keys cuts, and
they come first. If keys are split, as many CTAs as there are splits share a tile's blocks, each
taking as many that follow each other; the last ones may get none.

Causal and windows are aligned at the bottom right: row i of Sq sees key i + Sk - Sq and what the
window grants around it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cutlass
import cutlass.cute as cute
from cutlass import Constexpr, Float32, Int32, Int64

from fa4kernel.forward.arguments import Arguments, Sizes
from fa4kernel.forward.config import TILE, Config

L2_BYTES = 50 * 1024 * 1024  # that the schedulers count on for K and V


class Tile(NamedTuple):
    """A work tile, the same for all roles."""

    m_block: Int32  # number along the rows of its head
    head: Int32  # of the grid: a query head, or a K/V head if query heads are packed
    batch: Int32
    seqlen_q: Int32
    seqlen_k: Int32
    start_q: Int32  # first token of the sequence in Q and O: 0, or from cu_seqlens_q
    start_k: Int32
    first: Int32  # number of the block that comes first
    blocks: Int32  # how many there are, at least 1; of a split that gets none 0
    right: Int32  # blocks >= this one end beyond what some row sees to the right
    left: Int32  # blocks < this one begin before what some row sees to the left


@cute.jit
def count(cfg: Constexpr, a: Arguments) -> Int32:
    """How many work tiles this CTA, or pair, has."""
    mine = given(cfg, a)
    if cutlass.const_expr(cfg.split):
        if mine > 0:
            mine = min(mine, tile(cfg, a, Int32(0)).blocks)
    return mine


@cute.jit
def given(cfg: Constexpr, a: Arguments) -> Int32:
    """How many tiles this CTA, or pair, is given; its split may get none of their keys."""
    mine = Int32(1)
    if cutlass.const_expr(cfg.scheduler == "static_persistent"):
        cluster, clusters = _cluster(cfg)
        total = a.sizes.m_blocks * a.sizes.heads * a.sizes.batch
        mine = (total - cluster + clusters - 1) // clusters
    elif cutlass.const_expr(cfg.scheduler == "single_tile_varlen"):
        batch, _, _ = _find(cfg, a)
        if batch == a.sizes.batch:  # more CTAs are launched than there are tiles
            mine = Int32(0)
    return mine


@cute.jit
def tile(cfg: Constexpr, a: Arguments, nth: Int32) -> Any:
    """The `nth` work tile of this CTA or pair."""
    cluster, clusters = _cluster(cfg)
    sizes = a.sizes
    if cutlass.const_expr(cfg.scheduler == "single_tile_varlen"):
        batch, linear, blocks = _find(cfg, a)
        m_block, head = _in_sequence(cfg, sizes, linear, blocks)
        return _located(cfg, a, m_block, head, batch)
    elif cutlass.const_expr(cfg.scheduler == "lpt"):
        m_block, head, batch = _longest_first(sizes, cluster)
        return _located(cfg, a, m_block, head, batch)
    else:
        linear = cluster + nth * clusters
        m_block, pair = linear % sizes.m_blocks, linear // sizes.m_blocks
        return _located(cfg, a, m_block, pair % sizes.heads, pair // sizes.heads)


@cute.jit
def _longest_first(sizes: Sizes, linear: Int32) -> tuple[Int32, Int32, Int32]:
    """Longest first: sections of heads whose K and V share L2; in each, the last rows first."""
    pairs = sizes.heads * sizes.batch
    first = linear // (sizes.section * sizes.m_blocks) * sizes.section
    width = min(sizes.section, pairs - first)
    within = linear - first * sizes.m_blocks
    pair = first + within % width
    return sizes.m_blocks - 1 - within // width, pair % sizes.heads, pair // sizes.heads


@cute.jit
def _find(cfg: Constexpr, a: Arguments) -> tuple[Int32, Int32, Int32]:
    """The sequence in which this CTA's tile lies, the tile's number in it, its m-blocks.

    All tiles of a sequence, of all heads, come before those of the next.
    """
    linear, _ = _cluster(cfg)
    batch, blocks = Int32(0), Int32(0)
    _, seqlen = _sequence(a.cu_seqlens_q, batch, a.sizes.seqlen_q)
    blocks = _m_blocks(cfg, seqlen)
    while batch < a.sizes.batch and linear >= blocks * a.sizes.heads:
        linear -= blocks * a.sizes.heads
        batch += 1
        if batch < a.sizes.batch:
            _, seqlen = _sequence(a.cu_seqlens_q, batch, a.sizes.seqlen_q)
            blocks = _m_blocks(cfg, seqlen)
    return batch, linear, blocks


@cute.jit
def _in_sequence(cfg: Constexpr, sizes: Sizes, linear: Int32, blocks: Int32) -> tuple[Int32, Int32]:
    """m-block and head of a sequence's tile: head by head; or, masked, longest first.

    How many heads share L2 is judged as if there were as many keys as queries.
    """
    m_block, head = linear % blocks, linear // blocks
    if cutlass.const_expr(cfg.masked):
        block_bytes = cfg.tile_n * cfg.element_bytes * (cfg.head_dim + cfg.head_dim_v)
        blocks_k = blocks * cfg.tile_rows // cfg.ratio // cfg.tile_n
        section = Int32(1)
        for width in cutlass.range_constexpr(1, 5):
            if blocks_k << width <= L2_BYTES // block_bytes:
                section = Int32(1 << width)
        section = min(section, sizes.heads)
        first = linear // (section * blocks) * section
        width_here = min(section, sizes.heads - first)
        within = linear - first * blocks
        m_block, head = blocks - 1 - within // width_here, first + within % width_here
    return m_block, head


@cute.jit
def _located(cfg: Constexpr, a: Arguments, m_block: Int32, head: Int32, batch: Int32) -> Any:
    """A tile, and what follows from where it is."""
    start_q, seqlen_q = _sequence(a.cu_seqlens_q, batch, a.sizes.seqlen_q)
    start_k, seqlen_k = _sequence(a.cu_seqlens_k, batch, a.sizes.seqlen_k)
    if cutlass.const_expr(a.seqused_k is not None):
        seqlen_k = cute.make_tensor(a.seqused_k + batch, cute.make_layout(1))[0]
    low, high = Int32(0), cute.ceil_div(seqlen_k, cfg.tile_n)
    right, left = high, Int32(0)
    # Tokens of the tile's first row, and one beyond its last; the diagonal adds Sk - Sq.
    diagonal = seqlen_k - seqlen_q
    first = m_block * cfg.tile_rows // cfg.ratio + diagonal
    last = ((m_block + 1) * cfg.tile_rows + cfg.ratio - 1) // cfg.ratio + diagonal
    if cutlass.const_expr(cfg.window_right):
        high = min(high, cute.ceil_div(max(last + a.sizes.window_right, 0), cfg.tile_n))
        right = max(first + a.sizes.window_right, 0) // cfg.tile_n
    if cutlass.const_expr(cfg.window_left):
        low = max(first - a.sizes.window_left, 0) // cfg.tile_n
        left = cute.ceil_div(max(last - a.sizes.window_left, 0), cfg.tile_n)
    if cutlass.const_expr(cfg.split):
        low, high = _part(cfg, low, high)
    else:  # a tile whose rows see no key works through one block, all of which is masked
        high = max(high, low + 1)
    right, left = max(right, low), max(left, low)
    return Tile(
        m_block,
        head,
        batch,
        seqlen_q,
        seqlen_k,
        start_q,
        start_k,
        high - 1,
        high - low,
        right,
        left,
    )


@cute.jit
def _part(cfg: Constexpr, low: Int32, high: Int32) -> tuple[Int32, Int32]:
    """The blocks of this CTA's split among those from `low` to before `high`.

    The sink belongs to the first split, even if no row sees any key.
    """
    _, splits, _ = cute.arch.grid_dim()
    share = cute.ceil_div(max(high - low, 0), splits)
    start = low + split_index() * share
    end = max(min(start + share, high), start)
    if cutlass.const_expr(cfg.sink):
        if split_index() == 0:
            end = max(end, start + 1)
    return start, end


@cute.jit
def _sequence(cu_seqlens: Any, batch: Int32, longest: Int32) -> tuple[Int32, Int32]:
    """Where a sequence begins, and its length."""
    start, length = Int32(0), longest
    if cutlass.const_expr(cu_seqlens is not None):
        places = cute.make_tensor(cu_seqlens + batch, cute.make_layout(2))
        start = places[0]
        length = places[1] - start
    return start, length


@cute.jit
def scale_log2(cfg: Constexpr, a: Arguments, tile: Tile) -> Float32:
    """By what the tile's scores are multiplied, log2(e) included."""
    scale = a.scale_log2
    if cutlass.const_expr(cfg.descale):
        scale = scale * descale(cfg, a, a.q_descale, tile) * descale(cfg, a, a.k_descale, tile)
    return scale


def descale(cfg: Config, a: Arguments, factors: Any, tile: Tile) -> Any:
    """The tile's factor among those of all sequences and K/V heads."""
    kv_heads = a.sizes.heads * cfg.ratio // cfg.group
    kv_head = tile.head * cfg.ratio // cfg.group
    return cute.make_tensor(factors + (tile.batch * kv_heads + kv_head), cute.make_layout(1))[0]


def _m_blocks(cfg: Config, seqlen_q: Any) -> Any:
    """Work tiles along the rows of a head."""
    return cute.ceil_div(seqlen_q * cfg.ratio, cfg.tile_rows)


def _cluster(cfg: Config) -> tuple[Any, Any]:
    """This CTA's or pair's number, and how many there are; one of each of their splits.

    The splits of a head and sequence follow each other as CTAs are started. Only where tiles have
    an order of their own, with the longest first, all tiles come before those of the next split.
    """
    cta, _, layer = cute.arch.block_idx()
    ctas, _, layers = cute.arch.grid_dim()
    if cfg.split and cfg.scheduler == "single_tile":
        return cta + ctas * layer, ctas * layers
    return cta // cfg.cta_group, ctas // cfg.cta_group


def split_index() -> Any:
    """The number of this CTA's split."""
    _, split, _ = cute.arch.block_idx()
    return split


def result_sequence(cfg: Config, a: Arguments, tile: Tile) -> Any:
    """The number of the tile's sequence in O and LSE, which have those of one split after another.

    All tokens of a batch of variable length are one sequence there.
    """
    sequence, sequences = (Int32(0), 1) if cfg.varlen_q else (tile.batch, a.sizes.batch)
    return sequence + split_index() * sequences if cfg.split else sequence


def query_head(cfg: Config, tile: Tile, row: Any) -> Any:
    """The query head to which a row belongs."""
    return tile.head * cfg.ratio + row % cfg.ratio


def array_row(cfg: Config, a: Arguments, tile: Tile, row: Any) -> Any:
    """The number of a row of the tile's head in Q or O, rows of columns being counted (Int64)."""
    token = tile.start_q + row // cfg.ratio
    if not cfg.varlen_q:
        token = token + tile.batch * a.sizes.seqlen_q
    return Int64(token) * (a.sizes.heads * cfg.ratio) + query_head(cfg, tile, row)


def first_row(cfg: Config, tile: Tile, stage: Any, rank: Any) -> Any:
    """First row of a stage's Q tile within its head; rows of packed heads counted one by one."""
    return ((tile.m_block * cfg.q_stages + stage) * cfg.cta_group + rank) * TILE
