"""Blockwise attention: the kernel's algorithm, rounding where it rounds, without its concurrency.

Softmax needs the maximum and the sum of a whole row, but a row of scores never exists at once. So
each tile of query rows walks over blocks of 128 keys and carries three things per row: a running
maximum, a running sum, and an unnormalised output. When the maximum rises the other two are
rescaled; at the end the output is divided by the sum.

:func:`attention_blockwise` performs, in one thread and in order, what FlashAttention-4 spreads over
its warps. Every operation is one of :mod:`fa4sim.numerics.steps`, which a simulated pipeline calls
as well, on 32 rows of a warp instead of 128 of a tile. Both therefore agree bit for bit, or a
barrier is wrong.

**8-bit inputs** take four things more. Three *descales*, for each sequence and key head, say what
q, k and v were divided by to make them fit: those of q and k multiply the scale of the scores, that
of v the final factor. And P, whose largest entry is 1, is multiplied by 2**8 before it is rounded,
to use all of e4m3's numbers up to 448; the row sum, of P before rounding, is larger by the same
factor, which cancels in the output and is taken out of the log-sum-exp.
:mod:`fa4sim.numerics.saturation` shows what happens if it is multiplied by more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, overload

import numpy as np

from fa4sim.numerics.combining import combine
from fa4sim.numerics.formats import Float32Array, check_float32, is_representable
from fa4sim.numerics.inputs import (
    Descales,
    Sizes,
    check_descales,
    check_inputs,
)
from fa4sim.numerics.masks import Window
from fa4sim.numerics.mufu import LOG2_E
from fa4sim.numerics.options import Options
from fa4sim.numerics.scales import check_scales
from fa4sim.numerics.tile import Head, RescaleStats, attend_tile, take_rows


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
    q_descale: Float32Array | None = None,
    k_descale: Float32Array | None = None,
    v_descale: Float32Array | None = None,
    tile_m: int = 128,
    tile_n: int = 128,
    q_stage: int = 2,
    threshold: float | None = None,
    max_offset: float | None = None,
    emulation_freq: int | None = None,
    emulation_res: int = 4,
    emulation_start: int = 1,
    emulation_degree: int = 3,
    pack_gqa: bool = False,
    split_pv: float = 0.75,
    rescale_per_warp: bool = True,
    num_splits: int = 1,
    allow_saturation: bool = False,
    return_stats: bool = False,
) -> tuple[Float32Array, Float32Array] | tuple[Float32Array, Float32Array, RescaleStats]:
    """Compute attention as FlashAttention-4's forward kernel orders and rounds it.

    A work tile is ``q_stage`` tiles of ``tile_m`` rows that visit the same key blocks, from the
    last to the first. For each block, in this order:

    1. S = Q K' over k-steps of 16 (8-bit inputs: 32), low head dims first, each k-step rounded once
       to float32;
    2. softcap, then the mask, on the steps that need one;
    3. row maximum, and the choice to keep the old one (rise of at most ``threshold``);
    4. exponents by FMA, plus ``max_offset``, 2**x (special-function unit or polynomial, by column),
       rounding to ``dtype``;
    5. row sum of the unrounded weights: four chains of packed pairs, then 1 into 0, 3 into 2, 2
       into 0, odd into even;
    6. output rescale, for each warp of 32 rows with an acc_scale below 1;
    7. O += P V over k-steps, first keys first, in two parts: 6 + 2 of 8 (8-bit inputs: 3 + 1 of 4).

    Finally O times v_descale / row sum is rounded to ``dtype``, for 8-bit inputs to bf16. A tile
    with no blocks runs one, of zeros, with everything masked; a batch without any keys gives zeros
    at once. Rows past the end are computed on zeros and dropped; a stage with only such rows is
    skipped. With splits, see :func:`attention_partials`, the results are combined.

    Args:
        q: float32 array (batch, seqlen_q, heads, head_dim) of ``dtype`` values.
        k: float32 array (batch, seqlen_k, kv_heads, head_dim) of ``dtype`` values.
        v: float32 array (batch, seqlen_k, kv_heads, head_dim_v) of ``dtype`` values.
        causal, window, softmax_scale, softcap, sink, seqlens_q, seqlens_k: as
            :func:`~fa4sim.numerics.attention.attention_float64`; sink is float32.
        dtype: "bf16", "fp16", "e4m3" or "e5m2", of inputs and weights.
        q_descale, k_descale, v_descale: float32 arrays (batch, kv_heads), positive, for 8-bit
            inputs: the true q is q * q_descale. None for 1.
        tile_m: rows of one tile, a multiple of 32.
        tile_n: keys per block, a multiple of 32; without a polynomial, of a k-step.
        q_stage: tiles of rows per work tile (the kernel: 2, or 1 for at most 128 rows).
        threshold: rise of the maximum, in powers of two, that is tolerated without a rescale; None
            for the kernel's, 8 (8-bit inputs: 0).
        max_offset: P is multiplied by 2**max_offset; None for the kernel's, 0 (8-bit inputs: 8).
        emulation_freq, emulation_res, emulation_start: which columns use the polynomial, see
            :func:`~fa4sim.numerics.exp2.emulated_columns`; the first is None for 16, but 8 for
            8-bit inputs with a causal mask and a head_dim of 128.
        emulation_degree: degree of the polynomial, 1 to 5.
        pack_gqa: fill a tile with all query heads of one key head: row r is query r // ratio of
            head r % ratio.
        split_pv: share of the keys of a block whose P V runs first, rounded down to 32 keys.
        rescale_per_warp: 32 rows vote together; if False all ``tile_m`` do. Values don't depend on
            it (a row that doesn't need it is multiplied by 1), counts do.
        num_splits: parts that the keys are divided into, 1 to 256.
        allow_saturation: let threshold and max_offset exceed what ``dtype`` can hold.
        return_stats: also return :class:`RescaleStats`.

    Returns:
        out: float32 array (batch, seqlen_q, heads, head_dim_v) of ``dtype`` (or bf16) values.
        lse: float32 array (batch, heads, seqlen_q), natural log.
        stats: only if ``return_stats``.

    Raises:
        ValueError: shapes disagree, inputs aren't ``dtype`` values, an option is out of range, or
            P could outgrow ``dtype``.

    Source: flash_attn/cute/flash_fwd_sm100.py and softmax.py; arXiv 2603.05451, section 3.

    >>> rng = np.random.default_rng(0)
    >>> q, k, v = (np.float32(rng.integers(-2, 3, (1, 200, 1, 16))) for _ in range(3))
    >>> out, lse = attention_blockwise(q, k, v, causal=True)
    >>> out.shape, lse.shape
    ((1, 200, 1, 16), (1, 1, 200))
    >>> bool(np.all(out[0, 0, 0] == v[0, 0, 0]))  # the first row sees one key
    True
    >>> eighths = np.full((1, 1), 0.125, dtype=np.float32)
    >>> fp8, _ = attention_blockwise(q, k, v, causal=True, dtype="e4m3", v_descale=eighths)
    >>> bool(np.all(fp8[0, 0, 0] == v[0, 0, 0] / 8))
    True
    """
    options = Options(
        causal=causal,
        window=window,
        softmax_scale=softmax_scale,
        softcap=softcap,
        dtype=dtype,
        tile_m=tile_m,
        tile_n=tile_n,
        q_stage=q_stage,
        threshold=threshold,
        max_offset=max_offset,
        emulation_freq=emulation_freq,
        emulation_res=emulation_res,
        emulation_start=emulation_start,
        emulation_degree=emulation_degree,
        pack_gqa=pack_gqa,
        split_pv=split_pv,
        rescale_per_warp=rescale_per_warp,
        num_splits=num_splits,
        allow_saturation=allow_saturation,
    )
    stats = RescaleStats() if return_stats else None
    descales = (q_descale, k_descale, v_descale)
    lengths = (seqlens_q, seqlens_k)
    outs, lses = _partials(q, k, v, options, sink, descales, lengths, stats)
    if num_splits > 1 and k.shape[1] > 0:
        out, lse = combine(outs, lses, options.final_dtype)
    else:
        out, lse = outs[0], lses[0]
    return (out, lse) if stats is None else (out, lse, stats)


def attention_partials(
    q: Float32Array,
    k: Float32Array,
    v: Float32Array,
    *,
    num_splits: int,
    sink: Float32Array | None = None,
    seqlens_q: Sequence[int] | None = None,
    seqlens_k: Sequence[int] | None = None,
    q_descale: Float32Array | None = None,
    k_descale: Float32Array | None = None,
    v_descale: Float32Array | None = None,
    **options: Any,
) -> tuple[Float32Array, Float32Array]:
    """Compute each split's share of attention: what :func:`~fa4sim.numerics.combine` puts together.

    Each tile divides the key blocks *it* visits, see :func:`~fa4sim.numerics.split_range`. Only
    split 0 counts a sink, and only if it has blocks: a tile that visits none at all (causal rows
    before the first key) loses it, as in the kernel.

    Args:
        q, k, v, sink, seqlens_q, seqlens_k, q_descale, k_descale, v_descale: as
            :func:`attention_blockwise`.
        num_splits: parts, 1 to 256.
        options: further options of :func:`attention_blockwise`.

    Returns:
        partial_out: float32 array (num_splits, batch, seqlen_q, heads, head_dim_v), normalised by
            the split's own sum and not rounded; NaN where a split is empty and the kernel writes
            nothing.
        partial_lse: float32 array (num_splits, batch, heads, seqlen_q), -inf there and where a row
            saw no key (whose output is 0).

    Raises:
        ValueError: as :func:`attention_blockwise`.

    Source: flash_attn/cute/flash_fwd_sm100.py, ``is_split_kv``.

    >>> q, k, v = (np.ones((1, n, 1, 16), dtype=np.float32) for n in (1, 200, 200))
    >>> out, lse = attention_partials(q, k, v, num_splits=3, softmax_scale=1e-6)
    >>> [round(float(x), 3) for x in np.exp(lse).ravel()]  # keys seen: two blocks, three splits
    [128.002, 72.001, 0.0]
    >>> out[:, 0, 0, 0, 0]
    array([ 1.,  1., nan], dtype=float32)
    """
    chosen = Options(**options, num_splits=num_splits)
    descales = (q_descale, k_descale, v_descale)
    return _partials(q, k, v, chosen, sink, descales, (seqlens_q, seqlens_k), None)


def _partials(
    q: Float32Array,
    k: Float32Array,
    v: Float32Array,
    options: Options,
    sink: Float32Array | None,
    descales: tuple[Float32Array | None, Float32Array | None, Float32Array | None],
    lengths: tuple[Sequence[int] | None, Sequence[int] | None],
    stats: RescaleStats | None,
) -> tuple[Float32Array, Float32Array]:
    """Return outputs and log-sum-exps of all splits; with one, those of the whole."""
    for name, array in (("q", q), ("k", k), ("v", v)):
        check_float32(array, name)
    sizes = check_inputs(
        q,
        k,
        v,
        softmax_scale=options.softmax_scale,
        softcap=options.softcap,
        sink=sink,
        seqlens_q=lengths[0],
        seqlens_k=lengths[1],
    )
    checked = check_descales(*descales, sizes, options.dtype)
    check_scales(sizes.softmax_scale, options.softcap, checked.q, checked.k)
    sinks = None if sink is None else check_float32(sink, "sink")
    splits, no_keys = options.num_splits, max(sizes.seqlens_k, default=0) == 0
    shape = (splits, sizes.batch, sizes.seqlen_q, sizes.heads, sizes.head_dim_v)
    out = np.full(shape, np.nan if splits > 1 else 0, dtype=np.float32)
    lse = np.full((splits, sizes.batch, sizes.heads, sizes.seqlen_q), -np.inf, dtype=np.float32)
    if no_keys:  # the kernel is not launched
        for batch, seqlen_q in enumerate(sizes.seqlens_q):
            out[0, batch, :seqlen_q] = 0
            lse[0, batch, :, :seqlen_q] = -np.inf if sinks is None else sinks[:, None]
        return out, lse
    for batch, heads, q_rows, head in _heads(q, k, v, options, sizes, checked):
        seqlen_q, count = sizes.seqlens_q[batch], heads.stop - heads.start
        row_sinks = None if sinks is None else np.tile(sinks[heads], seqlen_q)
        for split in range(splits):
            for start in range(0, len(q_rows), options.tile_m):
                tile = take_rows(q_rows, start, options.tile_m)
                tile_sink = None
                if row_sinks is not None:
                    tile_sink = take_rows(row_sinks, start, options.tile_m)
                result = attend_tile(tile, start, head, options, tile_sink, split, stats)
                if result is None:
                    continue
                end = min(start + options.tile_m, len(q_rows))
                query, member = np.divmod(np.arange(start, end), count)
                member += heads.start
                out[split, batch, query, member] = result[0][: end - start]
                lse[split, batch, member, query] = result[1][: end - start]
    return out, lse


def _heads(
    q: Float32Array,
    k: Float32Array,
    v: Float32Array,
    options: Options,
    sizes: Sizes,
    descales: Descales,
) -> Iterator[tuple[int, slice, Float32Array, Head]]:
    """Go through the heads, or packed groups: batch, query heads, rows of q, and the rest."""
    ratio = sizes.ratio if options.pack_gqa else 1
    scale = np.float32(sizes.softmax_scale)
    scale_log2 = np.float32(LOG2_E if options.softcap > 0 else sizes.softmax_scale * LOG2_E)
    emulated = options.emulated(sizes.head_dim)
    for batch, (seqlen_q, seqlen_k) in enumerate(
        zip(sizes.seqlens_q, sizes.seqlens_k, strict=True)
    ):
        for first in range(0, sizes.heads, ratio):
            heads, kv_head = slice(first, first + ratio), first // sizes.ratio
            q_rows = q[batch, :seqlen_q, heads].reshape(-1, sizes.head_dim)
            k_head, v_head = k[batch, :seqlen_k, kv_head], v[batch, :seqlen_k, kv_head]
            for name, array in (("q", q_rows), ("k", k_head), ("v", v_head)):
                _check_representable(array, name, options.dtype)
            qk = descales.q[batch, kv_head] * descales.k[batch, kv_head]
            yield (
                batch,
                heads,
                q_rows,
                Head(
                    k=k_head,
                    v=v_head,
                    rows=len(q_rows),
                    ratio=ratio,
                    scale_log2=scale_log2 if options.softcap > 0 else scale_log2 * qk,
                    softmax_scale=scale * qk,
                    v_descale=descales.v[batch, kv_head],
                    emulated=emulated,
                ),
            )


def _check_representable(array: Float32Array, name: str, dtype: str) -> None:
    if not is_representable(array, dtype):
        raise ValueError(
            f"{name} holds values that are not {dtype} numbers; round them first, with "
            f"fa4sim.numerics.round_to({name}, {dtype!r})"
        )
