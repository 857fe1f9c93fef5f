"""Tile: the loop over key blocks for one tile of rows, the algorithm itself.

:func:`attend_tile` takes 128 rows of q and all keys of one head; :mod:`fa4sim.numerics.blockwise`
cuts a call into such tiles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fa4sim.numerics import steps
from fa4sim.numerics.formats import BoolArray, Float32Array
from fa4sim.numerics.masks import NO_MASK, block_steps, row_limits
from fa4sim.numerics.options import Options


@dataclass
class RescaleStats:
    """Counts of output rescales, by vote and by row; the first block of a tile has no vote.

    Attributes:
        votes: votes taken (warps times blocks after the first).
        rescales: votes that led to a rescale.
        rescales_always: votes that would have, had the true maximum always been taken.
        row_steps: rows times blocks after the first, rows of the problem only.
        row_rescales: of these, how many had acc_scale < 1.
        row_rescales_always: how many would have had.
    """

    votes: int = 0
    rescales: int = 0
    rescales_always: int = 0
    row_steps: int = 0
    row_rescales: int = 0
    row_rescales_always: int = 0

    @property
    def rescales_skipped(self) -> int:
        """Votes that led to no rescale."""
        return self.votes - self.rescales

    def add(
        self, acc_scale: Float32Array, always: Float32Array, is_row: BoolArray, group: int
    ) -> None:
        """Count one step of a tile.

        Args:
            acc_scale: float32 array (m,), as used.
            always: float32 array (m,), as it would be with threshold 0.
            is_row: bool array (m,), False for rows past the end of the sequence.
            group: rows that vote together; divides m.

        >>> stats = RescaleStats()
        >>> stats.add(np.float32([1, 1]), np.float32([1, 0.5]), np.array([True, True]), group=2)
        >>> stats.rescales, stats.rescales_always, stats.rescales_skipped
        (0, 1, 1)
        """
        for start in range(0, len(acc_scale), group):
            warp = slice(start, start + group)
            self.votes += 1
            self.rescales += steps.rescale_needed(acc_scale[warp])
            self.rescales_always += steps.rescale_needed(always[warp])
        self.row_steps += int(is_row.sum())
        self.row_rescales += int((is_row & (acc_scale < 1)).sum())
        self.row_rescales_always += int((is_row & (always < 1)).sum())


@dataclass(frozen=True)
class Head:
    """What is the same for all tiles of one head, or of one packed group of heads.

    Attributes:
        k, v: float32 arrays (seqlen_k, head_dim) and (seqlen_k, head_dim_v).
        rows: rows of q, packed ones if heads are packed.
        ratio: query heads per key head in a packed tile, else 1.
        scale_log2: softmax_scale * log2(e), times the descales of q and k (log2(e) after a
            softcap).
        softmax_scale: multiplies the scores before a softcap, with the descales.
        v_descale: multiplies the output.
        emulated: bool array (tile_n,), columns that use the polynomial.
    """

    k: Float32Array
    v: Float32Array
    rows: int
    ratio: int
    scale_log2: np.float32
    softmax_scale: np.float32
    v_descale: np.float32
    emulated: BoolArray


def attend_tile(
    q_tile: Float32Array,
    first_row: int,
    head: Head,
    options: Options,
    sink: Float32Array | None = None,
    split: int = 0,
    stats: RescaleStats | None = None,
) -> tuple[Float32Array, Float32Array] | None:
    """Run the loop over key blocks for one tile of rows.

    Args:
        q_tile: float32 array (tile_m, head_dim), zeros past the end.
        first_row: number of its first row within the head.
        head: keys, values and scales.
        options: of the call.
        sink: float32 array (tile_m,), a logit per row; only split 0 counts it.
        split: which of ``options.num_splits`` ranges of key blocks.
        stats: counts rescales here.

    Returns:
        out: float32 array (tile_m, head_dim_v) of ``options.out_dtype`` values.
        lse: float32 array (tile_m,).
        None if the split has no blocks: nothing is computed, nothing is written.
    """
    rows = np.arange(first_row, first_row + options.tile_m)
    mask = (head.rows // head.ratio, len(head.k), options.causal, options.window, head.ratio)
    left, right = row_limits(rows, *mask)
    work_rows = options.q_stage * options.tile_m  # both stages visit the same blocks
    m_block, splits = first_row // work_rows, options.num_splits
    blocks = block_steps(m_block, work_rows, options.tile_n, *mask, split=split, num_splits=splits)
    first_part, rest = options.pv_steps
    threshold, offset, k_step = options.tolerated, options.offset, options.k_step

    row_max = true_max = np.full(options.tile_m, -np.inf, dtype=np.float32)
    row_sum: Float32Array | None = None
    o: Float32Array | None = None
    for n_block, mask_kind in blocks:
        first = o is None
        k_tile = take_rows(head.k, n_block * options.tile_n, options.tile_n)
        v_tile = take_rows(head.v, n_block * options.tile_n, options.tile_n)

        s = steps.mma_qk(q_tile, k_tile, k_step)  # (tile_m, tile_n)
        if options.softcap > 0:
            s = steps.score_mod_softcap(s, float(head.softmax_scale), options.softcap)
        if mask_kind != NO_MASK:
            first_key = max(n_block, 0) * options.tile_n
            s = steps.apply_mask(s, left - first_key, right - first_key)

        block_max = steps.row_max_4chains(s)
        row_max, acc_scale, m_safe = steps.keep_or_rescale(
            row_max, block_max, head.scale_log2, threshold, first
        )
        x = steps.scale_subtract(s, m_safe, head.scale_log2, offset)
        p_fp32, p = steps.exp2_convert(x, head.emulated, options.emulation_degree, options.dtype)
        row_sum = steps.row_sum_4chains(p_fp32, first, row_sum, acc_scale)

        if o is not None:
            o = _correct(o, acc_scale, options.vote_rows)
        o = steps.mma_pv_steps(o, p, v_tile, first_part, first, k_step)
        o = steps.mma_pv_steps(o, p, v_tile, rest, False, k_step)

        if stats is not None:
            true_max, always, _ = steps.keep_or_rescale(
                true_max, block_max, head.scale_log2, 0.0, first
            )
            if not first:
                stats.add(acc_scale, always, rows < head.rows, options.vote_rows)

    if o is None or row_sum is None:
        return None
    inv, lse = steps.finalize(
        row_sum, row_max, head.scale_log2, sink if split == 0 else None, offset, head.v_descale
    )
    return steps.normalize_output(o, inv, options.out_dtype), lse


def _correct(o: Float32Array, acc_scale: Float32Array, vote_rows: int) -> Float32Array:
    """Rescale the rows of each group that votes for it, and leave the other groups untouched."""
    o = o.copy()
    for start in range(0, len(o), vote_rows):
        group = slice(start, start + vote_rows)
        if steps.rescale_needed(acc_scale[group]):
            o[group] = steps.rescale_output(o[group], acc_scale[group])
    return o


def take_rows(array: Float32Array, start: int, count: int) -> Float32Array:
    """Return ``count`` rows from ``start`` on, zeros outside the array, as a TMA load does.

    >>> take_rows(np.float32([[1], [2], [3]]), 2, 2).ravel()
    array([3., 0.], dtype=float32)
    """
    inside = array[max(start, 0) : max(start + count, 0)]
    if len(inside) == count:
        return inside
    tile = np.zeros((count, *array.shape[1:]), dtype=array.dtype)
    offset = max(-start, 0)
    tile[offset : offset + len(inside)] = inside
    return tile
