"""Where the keys of a block lie in K and V: in one piece, or in pages by a page table.

The table has a row for each sequence, and in it the numbers of its pages in their order. A page
has `page_size` keys of all K/V heads. Pages of one block's size are boxes for TMA, and a block is a
page. Of other pages each key is looked up by itself; keys that are not there have page 0, and are
not read.
"""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Constexpr, Int32, Int64

from fa4kernel.forward.arguments import Arguments
from fa4kernel.forward.config import TILE, Config
from fa4kernel.forward.gather import Team
from fa4kernel.forward.tiles import Tile

NOWHERE = -1  # the page of a sequence that has no key: TMA finds none there, and brings zeros


@cute.jit
def locate(cfg: Constexpr, a: Arguments, tile: Tile, block: Int32, team: Team) -> Any:
    """Where a block's keys lie; K and V share the answer.

    Returns:
        For TMA the number of the sequence or page among the boxes of K and V. For threads that
        copy, the tokens of the rows whose addresses this thread computes.
    """
    if cutlass.const_expr(cfg.kv_load == "cp_async"):
        return [token(a, tile, block * TILE + row) for row in team.rows()]
    elif cutlass.const_expr(cfg.paged):
        page = Int32(NOWHERE)
        if block * TILE < tile.seqlen_k:
            page = entry(a, tile, block)
        return page
    else:
        return tile.batch if cutlass.const_expr(not cfg.varlen_k) else Int32(0)


@cute.jit
def token(a: Arguments, tile: Tile, key: Int32) -> Int32:
    """Which token of K and V a key of the tile's sequence is; 0 for keys that are not there."""
    found = Int32(0)
    if key < tile.seqlen_k:
        size = a.pages.page_size
        found = entry(a, tile, key // size) * size + key % size
    return found


def entry(a: Arguments, tile: Tile, nth: Any) -> Any:
    """The tile's sequence's `nth` page."""
    place = a.pages.table + (Int64(tile.batch) * a.pages.width + nth)
    return cute.make_tensor(place, cute.make_layout(1))[0]


def address(cfg: Config, a: Arguments, tile: Tile, token: Any, is_k: bool) -> Any:
    """Where the row of K or V of a token and the tile's K/V head begins, in global memory."""
    rows = a.k if is_k else a.v
    kv_heads = a.sizes.heads if cfg.pack_gqa else a.sizes.heads // cfg.group
    row = Int64(token) * kv_heads + kv_head(cfg, tile)
    return rows.iterator.toint() + row * (cute.size(rows) * cfg.element_bytes)


def kv_head(cfg: Config, tile: Tile) -> Any:
    """The K/V head of a tile."""
    return tile.head if cfg.pack_gqa else tile.head // cfg.group
