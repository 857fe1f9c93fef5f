"""Splits: how the keys of a tile are divided among CTAs, and how many parts there should be.

With one query per sequence there is one work tile per sequence and key head, and a B200 has 148
SMs. Split-KV gives the key blocks of a tile to several CTAs: each computes attention over its range
as if there were no other keys, and writes a *partial* output, normalised by its own sum, with its
own log-sum-exp. A second kernel puts them together (:mod:`fa4sim.numerics.combining`).

A tile that visits blocks n_min to n_max - 1 in ``num_splits`` parts gives each
ceil((n_max - n_min) / num_splits) blocks, from the first to the last. So the last parts may get
fewer, or none: an *empty* part does nothing but write a log-sum-exp of -inf.

Sources: flash_attn/cute/block_info.py (``get_n_block_min_max``) and flash_attn/cute/interface.py
(``num_splits_heuristic``, ``_get_fwd_config``).
"""

from __future__ import annotations

import math

from fa4sim.numerics.scales import is_whole

MOST_SPLITS = 256
"""The combine kernel takes no more (flash_attn/cute/interface.py, ``_flash_attn_fwd_combine``)."""
HEURISTIC_MOST_SPLITS = 128
"""The heuristic asks for no more (flash_attn/cute/interface.py, ``_get_fwd_config``)."""
FEWEST_BLOCKS = 5
"""With fewer key blocks the heuristic doesn't split."""


def split_range(
    n_min: int, n_max: int, split: int, num_splits: int, blocks_per_split: int | None = None
) -> tuple[int, int]:
    """Return the blocks (first, end) of one split; it is empty if first >= end.

    Args:
        n_min, n_max: blocks of the whole tile, n_min to n_max - 1; none if n_max <= n_min.
        split: which split, 0 to ``num_splits`` - 1.
        num_splits: parts; 1 leaves the range as it is.
        blocks_per_split: blocks of each part, or None to divide evenly. A fixed number makes the
            result independent of ``num_splits`` (``seqlen_k_per_split`` of the kernel).

    Raises:
        ValueError: ``split`` or ``num_splits`` is out of range, or the parts don't reach the end.

    >>> [split_range(0, 9, split, 4) for split in range(4)]
    [(0, 3), (3, 6), (6, 9), (9, 9)]
    """
    check_split(split, num_splits)
    if num_splits == 1:
        return n_min, n_max
    blocks = max(0, n_max - n_min)
    each = -(-blocks // num_splits) if blocks_per_split is None else blocks_per_split
    if blocks_per_split is not None and (each < 1 or each * num_splits < blocks):
        raise ValueError(
            f"blocks_per_split={blocks_per_split} in {num_splits} splits don't cover the {blocks} "
            f"blocks of this tile; use at least {max(1, -(-blocks // num_splits))}"
        )
    first = n_min + split * each
    return first, min(first + each, n_max)


def num_splits_heuristic(
    total_m_blocks: int, sms: int, n_blocks: int, max_splits: int = HEURISTIC_MOST_SPLITS
) -> int:
    """Return how many splits fill the machine: as many as there are SMs for each work tile.

    Args:
        total_m_blocks: work tiles of the call, batch * kv_heads * tiles of the longest sequence.
            0 (an empty batch, or no queries) gives 1.
        sms: streaming multiprocessors.
        n_blocks: key blocks of the longest sequence; with 4 or fewer there is no split.
        max_splits: upper limit.

    Returns:
        1 to ``max_splits``. (The kernel's function returns 0 if there are more tiles than SMs, and
        its caller takes that for 1.)

    Raises:
        ValueError: a count is negative, or ``sms`` or ``max_splits`` is below 1.

    Source: flash_attn/cute/interface.py, ``num_splits_heuristic``.

    >>> num_splits_heuristic(total_m_blocks=8, sms=148, n_blocks=512)
    18
    >>> num_splits_heuristic(0, 148, 512), num_splits_heuristic(200, 148, 512)
    (1, 1)
    """
    if total_m_blocks < 0 or n_blocks < 0:
        raise ValueError(
            f"total_m_blocks={total_m_blocks} and n_blocks={n_blocks} must not be negative"
        )
    if sms < 1 or max_splits < 1:
        raise ValueError(f"sms={sms} and max_splits={max_splits} must be at least 1")
    if n_blocks < FEWEST_BLOCKS or total_m_blocks == 0:
        return 1
    return max(1, min(sms // total_m_blocks, max_splits, n_blocks))


def choose_num_splits(
    *,
    batch: int,
    kv_heads: int,
    rows: int,
    seqlen_k: int,
    sms: int,
    window: tuple[int | None, int | None] = (None, None),
    tile_m: int = 128,
    tile_n: int = 128,
) -> int:
    """Return the number of splits that the kernel takes for a call with ``num_splits=0``.

    A window (but not a causal mask) shortens what the heuristic takes for the length.

    Args:
        batch: sequences.
        kv_heads: key heads, also if heads are not packed.
        rows: rows of the longest sequence: queries, times query heads per key head if packed.
        seqlen_k: keys of the longest sequence.
        sms: streaming multiprocessors.
        window: (left, right) in keys as resolved by :func:`~fa4sim.numerics.resolve_window`.
        tile_m, tile_n: rows of a query tile and keys of a block.

    Raises:
        ValueError: a size is negative, or a tile has no rows or keys.

    Source: flash_attn/cute/interface.py, ``_get_fwd_config``: equal head dims. A side of the window
    that is 0 counts as unbounded, there as here.

    >>> choose_num_splits(batch=1, kv_heads=8, rows=4, seqlen_k=65536, sms=148)
    18
    >>> choose_num_splits(batch=1, kv_heads=8, rows=4, seqlen_k=65536, sms=148, window=(1024, 0))
    18
    >>> choose_num_splits(batch=1, kv_heads=8, rows=4, seqlen_k=65536, sms=148, window=(100, 50))
    1
    """
    sizes = {"batch": batch, "kv_heads": kv_heads, "rows": rows, "seqlen_k": seqlen_k}
    for name, size in sizes.items():
        if size < 0:
            raise ValueError(f"{name}={size} must not be negative")
    if tile_m < 1 or tile_n < 1:
        raise ValueError(f"tile_m={tile_m} and tile_n={tile_n} must be at least 1")
    left, right = window
    loaded = seqlen_k
    is_causal = left is None and right == 0
    if not is_causal and (left is not None or right is not None):
        loaded = max(0, min(seqlen_k, (right or seqlen_k) + (left or seqlen_k) + 1 + tile_m))
    work_rows = tile_m * (2 if rows > tile_m else 1)
    total_m_blocks = batch * kv_heads * math.ceil(rows / work_rows)
    return num_splits_heuristic(total_m_blocks, sms, math.ceil(loaded / tile_n))


def check_split(split: int, num_splits: int) -> None:
    """Refuse a number of splits, or a split, that there isn't.

    Raises:
        ValueError: ``num_splits`` is not 1 to 256, or ``split`` not 0 to ``num_splits`` - 1.

    >>> check_split(3, 3)
    Traceback (most recent call last):
        ...
    ValueError: split=3 must be 0 to 2, one of num_splits=3
    """
    for name, number in (("num_splits", num_splits), ("split", split)):
        if not is_whole(number):
            raise ValueError(f"{name}={number!r} must be a whole number")
    if not 1 <= num_splits <= MOST_SPLITS:
        raise ValueError(
            f"num_splits={num_splits} must be 1 to {MOST_SPLITS}; the combine kernel takes no more"
        )
    if not 0 <= split < num_splits:
        raise ValueError(f"split={split} must be 0 to {num_splits - 1}, one of {num_splits=}")
