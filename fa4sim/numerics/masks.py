"""Masks: which keys a query row may see, and which key blocks a tile must visit.

Queries and keys are aligned at their *ends* (bottom-right): query i of Sq sits at key position
i + Sk - Sq. From there a row sees an interval of keys, never anything more complicated:

- **causal**: everything up to its own position;
- **window (left, right)**: from ``left`` keys before its position to ``right`` keys after it;
  ``None`` leaves that side unbounded. -1 does *not* mean unbounded;
- **neither**: all keys.

So a mask is two numbers per row, ``[left, right)``. The kernel never builds a matrix: a softmax
thread owns one row, turns the two limits into four 32-bit words, and keeps or drops each score.

Key blocks run from the last to the first. Only the ends of the range can be cut by a limit, so the
kernel splits the loop into four kinds of step and masks only where it must:

==================  =============================================================
kind                what the step applies
==================  =============================================================
``seqlen+mask``     the first step: length limit Sk, and the row limits, if any
``mask``            row limits (blocks that the right limits may cut)
``none``            nothing
``left-window``     row limits (blocks that the left limits may cut)
==================  =============================================================

With grouped-query *packing*, a tile's row r is query r // ratio of head r % ratio, where ratio is
the number of query heads per key head; limits and ranges follow the query, not the row.

Sources: flash_attn/cute/mask.py (``apply_mask_sm100``), flash_attn/cute/block_info.py and
flash_attn/cute/interface.py (``_resolve_causal_local_window``).
"""

from __future__ import annotations

import operator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fa4sim.numerics.formats import BoolArray, IntArray
from fa4sim.numerics.splits import split_range

Window: TypeAlias = tuple[int | None, int | None]

SEQLEN_AND_MASK = "seqlen+mask"
MASK = "mask"
NO_MASK = "none"
LEFT_WINDOW = "left-window"


class BlockStep(NamedTuple):
    """One step of a tile's loop: which key block, and the kind of masking it needs."""

    n_block: int
    kind: str


def resolve_window(causal: bool = False, window: Window | None = None) -> Window:
    """Reduce causal and window to one pair (left, right), as the kernel's interface does.

    Causal sets right to 0. A pair whose sum is negative is dropped. (None, 0) *is* causal; any
    other bounded pair makes attention local; (None, None) masks nothing.

    Args:
        causal: causal masking.
        window: (left, right) in keys, each a whole number or None; None for no window.

    Raises:
        ValueError: ``window`` is not a pair of whole numbers or None.

    Source: flash_attn/cute/interface.py, ``_resolve_causal_local_window``.

    >>> resolve_window(causal=True), resolve_window(causal=True, window=(64, 3))
    ((None, 0), (64, 0))
    >>> resolve_window(window=(64, "3"))
    Traceback (most recent call last):
        ...
    ValueError: window=(64, '3') must be a pair (left, right) of whole numbers or None
    """
    left: int | None = None
    right: int | None = None
    if window is not None:
        try:
            left, right = (None if side is None else operator.index(side) for side in window)
        except (TypeError, ValueError):
            raise ValueError(
                f"window={window!r} must be a pair (left, right) of whole numbers or None"
            ) from None
    if causal:
        right = 0
    if left is not None and right is not None and left + right < 0:
        left, right = None, (0 if causal else None)
    return left, right


def row_limits(
    rows: ArrayLike,
    seqlen_q: int,
    seqlen_k: int,
    causal: bool = False,
    window: Window | None = None,
    ratio: int = 1,
) -> tuple[IntArray, IntArray]:
    """Return the interval [left, right) of keys that each row sees.

    Args:
        rows: row numbers (m,) within the sequence; packed rows if ``ratio`` > 1.
        seqlen_q, seqlen_k: lengths in tokens.
        causal, window: the mask, see :func:`resolve_window`.
        ratio: query heads per key head in a packed tile, 1 if not packed.

    Returns:
        left, right: int64 arrays (m,) in key coordinates, between 0 and ``seqlen_k``; a row with
        left >= right sees nothing.

    Raises:
        ValueError: a length is negative, ``ratio`` is below 1, or the window is malformed.

    Source: flash_attn/cute/mask.py, ``apply_mask_sm100``.

    >>> row_limits([0, 1, 2], seqlen_q=3, seqlen_k=5, causal=True)
    (array([0, 0, 0]), array([3, 4, 5]))
    >>> row_limits([0, 1, 2], seqlen_q=3, seqlen_k=5, window=(1, 1))
    (array([1, 2, 3]), array([4, 5, 5]))
    """
    _check_sizes(seqlen_q, seqlen_k, ratio)
    window_left, window_right = resolve_window(causal, window)
    position = np.asarray(rows, dtype=np.int64) // ratio + (seqlen_k - seqlen_q)
    left = np.zeros_like(position)
    right = np.full_like(position, seqlen_k)
    if window_left is not None:
        left = np.clip(position - window_left, 0, seqlen_k)
    if window_right is not None:
        right = np.clip(position + window_right + 1, 0, seqlen_k)
    return left, right


def mask_matrix(
    seqlen_q: int,
    seqlen_k: int,
    causal: bool = False,
    window: Window | None = None,
    ratio: int = 1,
) -> BoolArray:
    """Return the whole mask as a matrix, for references and pictures.

    Args:
        seqlen_q, seqlen_k: lengths in tokens.
        causal, window: the mask, see :func:`resolve_window`.
        ratio: query heads per key head if rows are packed.

    Returns:
        bool array (seqlen_q * ratio, seqlen_k), True where the row sees the key.

    Raises:
        ValueError: as :func:`row_limits`.

    >>> mask_matrix(2, 4, causal=True).astype(int)
    array([[1, 1, 1, 0],
           [1, 1, 1, 1]])
    """
    left, right = row_limits(np.arange(seqlen_q * ratio), seqlen_q, seqlen_k, causal, window, ratio)
    key = np.arange(seqlen_k)
    return (key >= left[:, None]) & (key < right[:, None])


def block_range(
    m_block: int,
    tile_rows: int,
    tile_n: int,
    seqlen_q: int,
    seqlen_k: int,
    causal: bool = False,
    window: Window | None = None,
    ratio: int = 1,
    split: int = 0,
    num_splits: int = 1,
) -> tuple[int, int]:
    """Return (n_min, n_max): the tile visits key blocks n_max - 1 down to n_min.

    The range serves all rows of the work tile, so with two 128-row stages the upper stage also
    visits the last diagonal block, where it is wholly masked. n_max can be 0 or less (rows before
    the first key), and n_min can reach n_max; the tile then still runs one step, see
    :func:`block_steps`.

    Args:
        m_block: index of the work tile.
        tile_rows: rows of a work tile, q_stage * 128 in the kernel.
        tile_n: keys per block.
        seqlen_q, seqlen_k: lengths in tokens.
        causal, window: the mask, see :func:`resolve_window`.
        ratio: query heads per key head if rows are packed.
        split, num_splits: which part of the range, see :func:`~fa4sim.numerics.split_range`.

    Raises:
        ValueError: a size is out of range or the window is malformed.

    Source: flash_attn/cute/block_info.py, ``get_n_block_min_max``.

    >>> block_range(0, 256, 128, seqlen_q=1024, seqlen_k=1024, causal=True)
    (0, 2)
    >>> block_range(2, 256, 128, seqlen_q=1024, seqlen_k=1024, window=(100, 0))
    (3, 6)
    """
    _check_tiles(m_block, tile_rows, tile_n)
    _check_sizes(seqlen_q, seqlen_k, ratio)
    window_left, window_right = resolve_window(causal, window)
    first, end = _tile_positions(m_block, tile_rows, seqlen_q, seqlen_k, ratio)
    n_min, n_max = 0, _ceil_div(seqlen_k, tile_n)
    if window_right is not None:
        n_max = min(n_max, _ceil_div(end + window_right, tile_n))
    if window_left is not None:
        n_min = max((first - window_left) // tile_n, 0)
    return split_range(n_min, n_max, split, num_splits)


def block_steps(
    m_block: int,
    tile_rows: int,
    tile_n: int,
    seqlen_q: int,
    seqlen_k: int,
    causal: bool = False,
    window: Window | None = None,
    ratio: int = 1,
    split: int = 0,
    num_splits: int = 1,
) -> list[BlockStep]:
    """Return a tile's steps in processing order, each with its kind of masking.

    A tile without blocks still runs one step, at block n_max - 1. If that is negative the loads lie
    outside the tensors and bring zeros, and the mask, which takes the block for number 0, removes
    every score. A *split* without blocks runs none.

    Args:
        m_block, tile_rows, tile_n, seqlen_q, seqlen_k, causal, window, ratio, split, num_splits: as
            :func:`block_range`.

    Returns:
        :class:`BlockStep` objects, at least one without splits; the kinds are listed at the head of
        this module.

    Raises:
        ValueError: as :func:`block_range`.

    Source: flash_attn/cute/flash_fwd_sm100.py, ``softmax_loop``.

    >>> for step in block_steps(1, 256, 128, seqlen_q=512, seqlen_k=512, causal=True):
    ...     print(step.n_block, step.kind)
    3 seqlen+mask
    2 mask
    1 none
    0 none
    """
    mask = (seqlen_q, seqlen_k, causal, window, ratio)
    n_min, n_max = block_range(m_block, tile_rows, tile_n, *mask, split, num_splits)
    if num_splits > 1 and n_min >= n_max:
        return []
    window_left, window_right = resolve_window(causal, window)
    first, end = _tile_positions(m_block, tile_rows, seqlen_q, seqlen_k, ratio)
    right_edge = n_max  # blocks from here up may be cut by a right limit
    if window_left is not None or window_right is not None:
        right_edge = max(n_min, (first + (window_right or 0)) // tile_n)
    left_edge = n_min  # blocks below may be cut by a left limit
    if window_left is not None:
        left_edge = max(n_min, _ceil_div(end - window_left, tile_n))

    steps = [BlockStep(n_max - 1, SEQLEN_AND_MASK)]
    for n_block in range(n_max - 2, n_min - 1, -1):
        if n_block >= right_edge:
            steps.append(BlockStep(n_block, MASK))
        elif n_block >= left_edge:
            steps.append(BlockStep(n_block, NO_MASK))
        else:
            steps.append(BlockStep(n_block, LEFT_WINDOW))
    return steps


def _tile_positions(
    m_block: int, tile_rows: int, seqlen_q: int, seqlen_k: int, ratio: int
) -> tuple[int, int]:
    """Return the key positions of a work tile's first query and of the query after its last."""
    offset = seqlen_k - seqlen_q
    first = m_block * tile_rows // ratio
    end = _ceil_div((m_block + 1) * tile_rows, ratio)
    return first + offset, end + offset


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def _check_sizes(seqlen_q: int, seqlen_k: int, ratio: int) -> None:
    if seqlen_q < 0 or seqlen_k < 0:
        raise ValueError(f"seqlen_q={seqlen_q}, seqlen_k={seqlen_k} must not be negative")
    if ratio < 1:
        raise ValueError(f"ratio={ratio} must be at least 1 (query heads per key head)")


def _check_tiles(m_block: int, tile_rows: int, tile_n: int) -> None:
    if m_block < 0 or tile_rows < 1 or tile_n < 1:
        raise ValueError(
            f"m_block={m_block} must not be negative, tile_rows={tile_rows} and "
            f"tile_n={tile_n} must be positive"
        )
