"""The order in which each scheduler hands out work tiles, as ``(m_block, head, batch)``.

* ``single_tile``: one tile per CTA, block fastest, then head, then batch.
* ``static_persistent``: the same order, dealt out in strides of the grid to CTAs that stay.
* ``lpt``: longest first for causal and windowed masks: the block order is reversed, and heads are
  taken in sections whose K/V fit into a budget of L2, all heads of a section before the next block.
* ``single_tile_varlen``: sequence by sequence; with a mask, sections of heads and reversed blocks
  inside each sequence.
* ``dynamic``: cluster launch control hands out the raw grid, block fastest and reversed under a
  mask, without sections.

* ``dynamic_varlen``: as ``single_tile_varlen``, dealt out by an atomic counter to CTAs that stay.

Splits of a tile's keys are tiles of their own: next to each other per head, but for ``lpt`` and
``single_tile_varlen``, which hand out the first split of everything, then the second.

Source: ``tile_scheduler.py`` of flash-attention at commit 0251105a.
"""

from __future__ import annotations

from collections.abc import Sequence

#: L2 that the schedulers count on for K and V.
L2_BUDGET_BYTES = 50 * 1024 * 1024

Coordinates = tuple[int, int, int]


def lpt_section(seqlen_k: int, bytes_per_key: int) -> int:
    """Heads per section of the longest-first order: a power of two that fits the budget.

    >>> lpt_section(8192, 512), lpt_section(32768, 512), lpt_section(1 << 20, 512)
    (8, 2, 1)
    """
    head = max(1, seqlen_k * bytes_per_key)
    if head > L2_BUDGET_BYTES:
        return 1
    return 1 << ((L2_BUDGET_BYTES // head).bit_length() - 1)


def heads_in_l2(blocks_k: int, block_bytes: int, heads: int) -> int:
    """Heads per section inside one sequence of a variable-length batch: 16, 8, 4, 2 or 1."""
    most = L2_BUDGET_BYTES // max(1, block_bytes)
    for count in (16, 8, 4, 2):
        if blocks_k * count <= most:
            return min(count, heads)
    return 1


def tile_order(
    scheduler: str,
    m_blocks: Sequence[int],
    heads: int,
    *,
    section: int = 1,
    reverse: bool = True,
    heads_per_section: Sequence[int] = (),
) -> list[Coordinates]:
    """Every work tile in the order in which the scheduler hands it out.

    Args:
        scheduler: one of the names above.
        m_blocks: work tiles along the queries, per sequence of the batch.
        heads: heads of the grid.
        section: for ``lpt``, (head, sequence) pairs per section.
        reverse: whether a mask asks for the longest block first (``dynamic`` and varlen).
        heads_per_section: for ``single_tile_varlen``, per sequence.

    Raises:
        ValueError: the scheduler is not known, or ``lpt`` meets sequences of different length.

    >>> tile_order("single_tile", [2, 2], heads=1)
    [(0, 0, 0), (1, 0, 0), (0, 0, 1), (1, 0, 1)]
    """
    batch = len(m_blocks)
    if scheduler in ("single_tile", "static_persistent"):
        return [(m, h, b) for b in range(batch) for h in range(heads) for m in range(m_blocks[b])]
    if scheduler == "dynamic":
        return [
            (m_blocks[b] - 1 - m if reverse else m, h, b)
            for b in range(batch)
            for h in range(heads)
            for m in range(m_blocks[b])
        ]
    if scheduler == "lpt":
        if len(set(m_blocks)) > 1:
            raise ValueError("the lpt scheduler serves sequences of equal length only")
        return _lpt(m_blocks[0], heads, batch, section)
    if scheduler in ("single_tile_varlen", "dynamic_varlen"):
        order = []
        for b, count in enumerate(m_blocks):
            per = heads_per_section[b] if heads_per_section else 1
            order += _varlen(count, heads, b, per, reverse)
        return order
    raise ValueError(f"scheduler {scheduler!r} is not known")


def split_order(
    scheduler: str,
    m_blocks: Sequence[int],
    heads: int,
    splits: Sequence[int],
    *,
    section: int = 1,
    reverse: bool = True,
    heads_per_section: Sequence[int] = (),
) -> list[tuple[int, int, int, int]]:
    """Every work tile as ``(m_block, head, batch, split)``, in the order it is handed out.

    Args:
        splits: per sequence of the batch, into how many parts its keys are cut.
        scheduler, m_blocks, heads, section, reverse, heads_per_section: as :func:`tile_order`.

    >>> split_order("single_tile", [2], heads=1, splits=[2])
    [(0, 0, 0, 0), (1, 0, 0, 0), (0, 0, 0, 1), (1, 0, 0, 1)]
    """
    if all(count == 1 for count in splits) or scheduler in ("lpt", "single_tile_varlen"):
        whole = tile_order(
            scheduler, m_blocks, heads, section=section, reverse=reverse,
            heads_per_section=heads_per_section,
        )  # fmt: skip
        most = max(splits, default=1)
        return [(m, h, b, s) for s in range(most) for m, h, b in whole if s < splits[b]]
    order = []
    for b, blocks in enumerate(m_blocks):
        per = heads_per_section[b] if heads_per_section else 1
        if scheduler == "dynamic_varlen" and splits[b] == 1:
            order += [(m, h, b, 0) for m, h, _ in _varlen(blocks, heads, b, per, reverse)]
            continue
        backwards = reverse and scheduler in ("dynamic", "dynamic_varlen")
        ms = range(blocks - 1, -1, -1) if backwards else range(blocks)
        parts = [(h, s) for h in range(heads) for s in range(splits[b])]
        if scheduler == "dynamic":  # heads are the second dimension of its grid, splits the third
            parts = [(h, s) for s in range(splits[b]) for h in range(heads)]
        order += [(m, h, b, s) for h, s in parts for m in ms]
    return order


def _lpt(blocks: int, heads: int, batch: int, section: int) -> list[Coordinates]:
    order = []
    pairs = heads * batch
    for first in range(0, pairs, section):
        width = min(section, pairs - first)
        for m in reversed(range(blocks)):
            for pair in range(first, first + width):
                order.append((m, pair % heads, pair // heads))
    return order


def _varlen(blocks: int, heads: int, b: int, section: int, reverse: bool) -> list[Coordinates]:
    if not reverse:
        return [(m, h, b) for h in range(heads) for m in range(blocks)]
    order = []
    for first in range(0, heads, section):
        width = min(section, heads - first)
        for m in reversed(range(blocks)):
            order += [(m, h, b) for h in range(first, first + width)]
    return order


def padding_clusters(total_rows: int, tile_rows: int, batch: int, heads: int, tiles: int) -> int:
    """CTAs of a variable-length grid that find no tile: the grid is sized by an upper bound.

    ``floor((rows + batch * (tile - 1)) / tile) * heads`` CTAs are launched for ``tiles`` tiles.
    """
    most = (total_rows + batch * (tile_rows - 1)) // tile_rows
    return max(0, most * heads - tiles)
