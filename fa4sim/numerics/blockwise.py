"""Blockwise attention: the kernel's algorithm, rounding where it rounds, without its concurrency.

Softmax needs the maximum and the sum of a whole row, but a row of scores never exists at once. So
each tile of query rows walks over blocks of 128 keys and carries three things per row: a running
maximum, a running sum, and an unnormalised output. When the maximum rises the other two are
rescaled; at the end the output is divided by the sum.

:func:`attention_blockwise` performs, in one thread and in order, what FlashAttention-4 spreads over
its warps. Every operation is one of :mod:`fa4sim.numerics.steps`, which a simulated pipeline calls
as well, on 32 rows of a warp instead of 128 of a tile. Both therefore agree bit for bit, or a
barrier is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np

from fa4sim.numerics import steps
from fa4sim.numerics.exp2 import COEFFICIENTS, emulated_columns
from fa4sim.numerics.formats import (
    BoolArray,
    Float32Array,
    IntArray,
    check_dtype,
    check_float32,
    is_representable,
)
from fa4sim.numerics.inputs import check_inputs
from fa4sim.numerics.masks import NO_MASK, Window, block_steps, row_limits
from fa4sim.numerics.mma import K_STEP
from fa4sim.numerics.mufu import LOG2_E

WARP_ROWS = 32

#: Base-2 logarithm of the largest number of each format that P can have.
LOG2_MAX = {"bf16": 128 + math.log2(1 - 2**-8), "fp16": math.log2(65504)}


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
class _Kernel:
    """What is fixed when the kernel is compiled, plus the two scales."""

    causal: bool
    window: Window | None
    softmax_scale: float
    softcap: float
    scale_log2: np.float32
    dtype: str
    tile_m: int
    tile_n: int
    q_stage: int
    threshold: float
    emulated: BoolArray  # (tile_n,)
    degree: int
    ratio: int  # query heads per key head in a packed tile, else 1
    first_pv_steps: int
    vote_rows: int
    no_keys: bool  # the whole batch has none: the kernel is not launched


@overload
def attention_blockwise(
    q: Float32Array,
    k: Float32Array,
    v: Float32Array,
    *,
    return_stats: Literal[True],
    **options: Any,
) -> tuple[Float32Array, Float32Array, RescaleStats]: ...
@overload
def attention_blockwise(
    q: Float32Array, k: Float32Array, v: Float32Array, **options: Any
) -> tuple[Float32Array, Float32Array]: ...
def attention_blockwise(  # type: ignore[misc]  # the overloads abbreviate the options
    q: Float32Array,
    k: Float32Array,
    v: Float32Array,
    *,
    causal: bool = False,
    window: Window | None = None,
    softmax_scale: float | None = None,
    softcap: float = 0.0,
    sink: Float32Array | None = None,
    seqlens_q: Sequence[int] | None = None,
    seqlens_k: Sequence[int] | None = None,
    dtype: str = "bf16",
    tile_m: int = 128,
    tile_n: int = 128,
    q_stage: int = 2,
    threshold: float = 8.0,
    emulation_freq: int = 16,
    emulation_res: int = 4,
    emulation_start: int = 1,
    emulation_degree: int = 3,
    pack_gqa: bool = False,
    split_pv: float = 0.75,
    rescale_per_warp: bool = True,
    return_stats: bool = False,
) -> tuple[Float32Array, Float32Array] | tuple[Float32Array, Float32Array, RescaleStats]:
    """Compute attention as FlashAttention-4's forward kernel orders and rounds it.

    A work tile is ``q_stage`` tiles of ``tile_m`` rows that visit the same key blocks, from the
    last to the first. For each block, in this order:

    1. S = Q K' over k-steps of 16, low head dims first, each k-step rounded once to float32;
    2. softcap, then the mask, on the steps that need one;
    3. row maximum, and the choice to keep the old one (rise of at most ``threshold``);
    4. exponents by FMA, 2**x (special-function unit or polynomial, by column), rounding to
       ``dtype``;
    5. row sum of the unrounded weights: four chains of packed pairs, then 1 into 0, 3 into 2, 2
       into 0, odd into even;
    6. output rescale, for each warp of 32 rows with an acc_scale below 1;
    7. O += P V over k-steps of 16, first keys first, in two parts: 6 + 2 of 8.

    Finally O times 1 / row sum is rounded to ``dtype``. A tile with no blocks runs one, of zeros,
    with everything masked; a batch without any keys gives zeros at once. Rows past the end are
    computed on zeros and dropped; a stage with only such rows is skipped.

    Args:
        q: float32 array (batch, seqlen_q, heads, head_dim) of ``dtype`` values.
        k: float32 array (batch, seqlen_k, kv_heads, head_dim) of ``dtype`` values.
        v: float32 array (batch, seqlen_k, kv_heads, head_dim_v) of ``dtype`` values.
        causal, window, softmax_scale, softcap, sink, seqlens_q, seqlens_k: as
            :func:`~fa4sim.numerics.attention.attention_float64`; sink is float32.
        dtype: "bf16" or "fp16", of inputs, weights and output.
        tile_m: rows of one tile, a multiple of 32.
        tile_n: keys per block, a multiple of 32; without a polynomial, of 16.
        q_stage: tiles of rows per work tile (the kernel: 2, or 1 for at most 128 rows).
        threshold: rise of the maximum, in powers of two, that is tolerated without a rescale.
        emulation_freq, emulation_res, emulation_start: which columns use the polynomial, see
            :func:`~fa4sim.numerics.exp2.emulated_columns`.
        emulation_degree: degree of the polynomial, 1 to 5.
        pack_gqa: fill a tile with all query heads of one key head: row r is query r // ratio of
            head r % ratio.
        split_pv: share of the keys of a block whose P V runs first, rounded down to 32 keys.
        rescale_per_warp: 32 rows vote together; if False all ``tile_m`` do. Values don't depend on
            it (a row that doesn't need it is multiplied by 1), counts do.
        return_stats: also return :class:`RescaleStats`.

    Returns:
        out: float32 array (batch, seqlen_q, heads, head_dim_v) of ``dtype`` values.
        lse: float32 array (batch, heads, seqlen_q), natural log.
        stats: only if ``return_stats``.

    Raises:
        ValueError: shapes disagree, inputs aren't ``dtype`` values, or an option is out of range.

    Source: flash_attn/cute/flash_fwd_sm100.py and softmax.py; arXiv 2603.05451, section 3.

    >>> rng = np.random.default_rng(0)
    >>> q, k, v = (np.float32(rng.integers(-2, 3, (1, 200, 1, 16))) for _ in range(3))
    >>> out, lse = attention_blockwise(q, k, v, causal=True)
    >>> out.shape, lse.shape
    ((1, 200, 1, 16), (1, 1, 200))
    >>> bool(np.all(out[0, 0, 0] == v[0, 0, 0]))  # the first row sees one key
    True
    """
    for name, array in (("q", q), ("k", k), ("v", v)):
        check_float32(array, name)
    sizes = check_inputs(
        q,
        k,
        v,
        softmax_scale=softmax_scale,
        softcap=softcap,
        sink=sink,
        seqlens_q=seqlens_q,
        seqlens_k=seqlens_k,
    )
    _check_options(
        dtype, tile_m, tile_n, q_stage, threshold, emulation_freq, emulation_degree, split_pv
    )
    kernel = _Kernel(
        causal=causal,
        window=window,
        softmax_scale=sizes.softmax_scale,
        softcap=softcap,
        scale_log2=np.float32(LOG2_E if softcap > 0 else sizes.softmax_scale * LOG2_E),
        dtype=dtype,
        tile_m=tile_m,
        tile_n=tile_n,
        q_stage=q_stage,
        threshold=threshold,
        emulated=emulated_columns(tile_n, emulation_freq, emulation_res, emulation_start),
        degree=emulation_degree,
        ratio=sizes.ratio if pack_gqa else 1,
        first_pv_steps=int(split_pv * tile_n / 32) * 32 // K_STEP,
        vote_rows=WARP_ROWS if rescale_per_warp else tile_m,
        no_keys=max(sizes.seqlens_k, default=0) == 0,
    )
    stats = RescaleStats() if return_stats else None
    sinks = None if sink is None else check_float32(sink, "sink")
    out = np.zeros((sizes.batch, sizes.seqlen_q, sizes.heads, sizes.head_dim_v), dtype=np.float32)
    lse = np.full((sizes.batch, sizes.heads, sizes.seqlen_q), -np.inf, dtype=np.float32)

    for batch, (seqlen_q, seqlen_k) in enumerate(
        zip(sizes.seqlens_q, sizes.seqlens_k, strict=True)
    ):
        for head in range(0, sizes.heads, kernel.ratio):
            heads = slice(head, head + kernel.ratio)
            q_rows = q[batch, :seqlen_q, heads].reshape(-1, sizes.head_dim)
            k_head = k[batch, :seqlen_k, head // sizes.ratio]
            v_head = v[batch, :seqlen_k, head // sizes.ratio]
            for name, array in (("q", q_rows), ("k", k_head), ("v", v_head)):
                _check_representable(array, name, dtype)
            row_sinks = None if sinks is None else np.tile(sinks[heads], seqlen_q)
            o_rows, lse_rows = _attend(q_rows, k_head, v_head, row_sinks, kernel, stats)
            out[batch, :seqlen_q, heads] = o_rows.reshape(seqlen_q, kernel.ratio, sizes.head_dim_v)
            lse[batch, heads, :seqlen_q] = lse_rows.reshape(seqlen_q, kernel.ratio).T
    return (out, lse) if stats is None else (out, lse, stats)


def _attend(
    q_rows: Float32Array,  # (rows, head_dim)
    k_head: Float32Array,  # (seqlen_k, head_dim)
    v_head: Float32Array,  # (seqlen_k, head_dim_v)
    row_sinks: Float32Array | None,  # (rows,)
    kernel: _Kernel,
    stats: RescaleStats | None,
) -> tuple[Float32Array, Float32Array]:
    """Run all tiles of one head, or of one packed group of heads."""
    count = len(q_rows)
    out = np.zeros((count, v_head.shape[1]), dtype=np.float32)
    lse = np.full(count, -np.inf, dtype=np.float32)
    if kernel.no_keys:
        return out, lse if row_sinks is None else row_sinks
    for start in range(0, count, kernel.tile_m):
        rows = np.arange(start, start + kernel.tile_m)
        sink = None if row_sinks is None else _take_rows(row_sinks, start, kernel.tile_m)
        q_tile = _take_rows(q_rows, start, kernel.tile_m)
        o, tile_lse = _attend_tile(q_tile, rows, count, k_head, v_head, sink, kernel, stats)
        end = min(start + kernel.tile_m, count)
        out[start:end], lse[start:end] = o[: end - start], tile_lse[: end - start]
    return out, lse


def _attend_tile(
    q_tile: Float32Array,  # (tile_m, head_dim)
    rows: IntArray,  # (tile_m,) row numbers
    count: int,
    k_head: Float32Array,
    v_head: Float32Array,
    sink: Float32Array | None,
    kernel: _Kernel,
    stats: RescaleStats | None,
) -> tuple[Float32Array, Float32Array]:
    """Run the loop over key blocks for one tile of rows: this is the algorithm."""
    seqlen_q, seqlen_k = count // kernel.ratio, len(k_head)
    mask = (seqlen_q, seqlen_k, kernel.causal, kernel.window, kernel.ratio)
    left, right = row_limits(rows, *mask)
    work_rows = kernel.q_stage * kernel.tile_m  # both stages visit the same blocks
    blocks = block_steps(int(rows[0]) // work_rows, work_rows, kernel.tile_n, *mask)
    pv_steps = kernel.tile_n // K_STEP

    row_max = true_max = np.full(kernel.tile_m, -np.inf, dtype=np.float32)
    row_sum: Float32Array | None = None
    o: Float32Array | None = None
    for n_block, mask_kind in blocks:
        first = o is None
        k_tile = _take_rows(k_head, n_block * kernel.tile_n, kernel.tile_n)
        v_tile = _take_rows(v_head, n_block * kernel.tile_n, kernel.tile_n)

        s = steps.mma_qk(q_tile, k_tile)  # (tile_m, tile_n)
        if kernel.softcap > 0:
            s = steps.score_mod_softcap(s, kernel.softmax_scale, kernel.softcap)
        if mask_kind != NO_MASK:
            first_key = max(n_block, 0) * kernel.tile_n
            s = steps.apply_mask(s, left - first_key, right - first_key)

        block_max = steps.row_max_4chains(s)
        row_max, acc_scale, m_safe = steps.keep_or_rescale(
            row_max, block_max, kernel.scale_log2, kernel.threshold, first
        )
        x = steps.scale_subtract(s, m_safe, kernel.scale_log2)
        p_fp32, p = steps.exp2_convert(x, kernel.emulated, kernel.degree, kernel.dtype)
        row_sum = steps.row_sum_4chains(p_fp32, first, row_sum, acc_scale)

        if o is not None:
            o = _correct(o, acc_scale, kernel.vote_rows)
        o = steps.mma_pv_steps(o, p, v_tile, range(kernel.first_pv_steps), zero_first=first)
        rest = range(kernel.first_pv_steps, pv_steps)
        o = steps.mma_pv_steps(o, p, v_tile, rest, zero_first=False)

        if stats is not None:
            true_max, always, _ = steps.keep_or_rescale(
                true_max, block_max, kernel.scale_log2, 0.0, first
            )
            if not first:
                stats.add(acc_scale, always, rows < count, kernel.vote_rows)

    assert o is not None and row_sum is not None  # block_steps returns at least one step
    inv, lse = steps.finalize(row_sum, row_max, kernel.scale_log2, sink)
    return steps.normalize_output(o, inv, kernel.dtype), lse


def _correct(o: Float32Array, acc_scale: Float32Array, vote_rows: int) -> Float32Array:
    """Rescale the rows of each group that votes for it, and leave the other groups untouched."""
    o = o.copy()
    for start in range(0, len(o), vote_rows):
        group = slice(start, start + vote_rows)
        if steps.rescale_needed(acc_scale[group]):
            o[group] = steps.rescale_output(o[group], acc_scale[group])
    return o


def _take_rows(array: Float32Array, start: int, count: int) -> Float32Array:
    """Return ``count`` rows from ``start`` on, zeros outside the array, as a TMA load does."""
    inside = array[max(start, 0) : max(start + count, 0)]
    if len(inside) == count:
        return inside
    tile = np.zeros((count, *array.shape[1:]), dtype=array.dtype)
    offset = max(-start, 0)
    tile[offset : offset + len(inside)] = inside
    return tile


def _check_options(
    dtype: str,
    tile_m: int,
    tile_n: int,
    q_stage: int,
    threshold: float,
    emulation_freq: int,
    emulation_degree: int,
    split_pv: float,
) -> None:
    check_dtype(dtype)
    if dtype == "fp32":
        raise ValueError("dtype 'fp32' has no tensor-core path here; use 'bf16' or 'fp16'")
    if tile_m < 32 or tile_m % 32:
        raise ValueError(f"tile_m={tile_m} must be a positive multiple of 32 (the kernel: 128)")
    part = 32 if emulation_freq else K_STEP
    if tile_n < part or tile_n % part:
        raise ValueError(f"tile_n={tile_n} must be a positive multiple of {part} (the kernel: 128)")
    if q_stage < 1:
        raise ValueError(f"q_stage={q_stage} must be at least 1 (the kernel: 1 or 2)")
    if not 0 <= threshold < LOG2_MAX[dtype]:
        raise ValueError(
            f"threshold={threshold} must be 0 (always rescale) or more, and below "
            f"{LOG2_MAX[dtype]:.3f}, where P outgrows {dtype}; the kernel uses 8"
        )
    if emulation_degree not in COEFFICIENTS:
        raise ValueError(f"emulation_degree={emulation_degree} must be one of 1 to 5")
    if not 0 <= split_pv <= 1:
        raise ValueError(f"split_pv={split_pv} must be a share between 0 and 1 (the kernel: 0.75)")


def _check_representable(array: Float32Array, name: str, dtype: str) -> None:
    if not is_representable(array, dtype):
        raise ValueError(
            f"{name} holds values that are not {dtype} numbers; round them first, with "
            f"fa4sim.numerics.round_to({name}, {dtype!r})"
        )
