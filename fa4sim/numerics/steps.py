"""Steps: the arithmetic of one softmax step, one function per operation.

A tile of FlashAttention-4 repeats, for each key block:

1. ``S = Q K'`` in k-steps of 16 (8 bits: 32)                :func:`mma_qk`
2. perhaps a softcap, perhaps a mask                         :func:`score_mod_softcap`,
                                                             :func:`apply_mask`
3. the block's row maximum                                   :func:`row_max_4chains`
4. keep the old maximum, or take the new one and rescale O   :func:`keep_or_rescale`
5. ``x = S * scale - max * scale`` (FMA)                     :func:`scale_subtract`
6. ``P = 2**x``, rounded to the input format                 :func:`exp2_convert`
7. the row sum, of P *before* rounding                       :func:`row_sum_4chains`
8. ``O = O * acc_scale`` if any lane of a warp asks for it   :func:`rescale_needed`,
                                                             :func:`rescale_output`
9. ``O += P V`` in two parts, 6 + 2 k-steps (8 bits: 3 + 1)  :func:`mma_pv_steps`

and ends with :func:`finalize` and :func:`normalize_output`. Everything is float32 with one rounding
per operation, in the kernel's order.

**Rows are independent.** Each function treats its rows alike and separately, so a warp's 32 rows
give the same bits as 128 rows at once. A simulated pipeline calls these functions per warp and
:mod:`fa4sim.numerics.blockwise` per tile, and the two must agree bit for bit.

Sources: flash_attn/cute/softmax.py (``SoftmaxSm100``), flash_attn/cute/utils.py (``fmax_reduce``,
``fadd_reduce``), flash_attn/cute/flash_fwd_sm100.py; FlashAttention-4, arXiv 2603.05451, section 3.
"""

from __future__ import annotations

import numpy as np

from fa4sim.numerics.exp2 import ex2_mixed
from fa4sim.numerics.fma import fma32
from fa4sim.numerics.formats import BoolArray, Float32Array, IntArray, round_to
from fa4sim.numerics.mma import mma_pv_steps, mma_qk, mma_qk_steps
from fa4sim.numerics.mufu import LN2, LOG2_E, ex2_mufu, lg2_mufu, rcp_mufu, tanh_mufu

__all__ = [
    "apply_mask",
    "exp2_convert",
    "finalize",
    "keep_or_rescale",
    "mma_pv_steps",
    "mma_qk",
    "mma_qk_steps",
    "normalize_output",
    "rescale_needed",
    "rescale_output",
    "row_max_4chains",
    "row_sum_4chains",
    "scale_subtract",
    "score_mod_softcap",
]

_ONE = np.float32(1)
_ZERO = np.float32(0)
_MINUS_INF = np.float32(-np.inf)


def score_mod_softcap(s: Float32Array, softmax_scale: float, softcap: float) -> Float32Array:
    """Scale the scores and cap them: softcap * tanh(s * softmax_scale / softcap).

    The scores come out scaled, so the steps that follow use scale_log2 = log2(e).

    Args:
        s: float32 array (m, n), unscaled scores.
        softmax_scale: multiplies the scores.
        softcap: largest magnitude of a result, positive.

    Returns:
        float32 array (m, n).

    Raises:
        ValueError: ``softcap`` is not positive.

    Source: flash_attn/cute/utils.py, ``create_softcap_scoremod``. The hardware's tanh is off by up
    to 2**-11; this one is correctly rounded.

    >>> score_mod_softcap(np.array([[1.0, 1000.0]], dtype=np.float32), 0.5, 20.0)
    array([[ 0.49989584, 20.        ]], dtype=float32)
    """
    if not 0 < softcap < np.inf:
        raise ValueError(f"softcap={softcap} must be positive and finite")
    cap = np.float32(softcap)
    return cap * tanh_mufu(s * np.float32(softmax_scale) / cap)


def apply_mask(s: Float32Array, left: IntArray, right: IntArray) -> Float32Array:
    """Keep each row's scores in columns [left, right) and set the others to -inf.

    Args:
        s: float32 array (m, n).
        left, right: int arrays (m,), limits in the block's own columns, that is
            :func:`~fa4sim.numerics.masks.row_limits` less ``max(n_block, 0) * tile_n``. They may
            lie outside 0 to n.

    Returns:
        float32 array (m, n).

    Raises:
        ValueError: the limits don't have one entry per row.

    Source: flash_attn/cute/mask.py, ``apply_mask_sm100``.

    >>> apply_mask(np.ones((2, 4), dtype=np.float32), np.array([0, 1]), np.array([2, 9]))
    array([[  1.,   1., -inf, -inf],
           [-inf,   1.,   1.,   1.]], dtype=float32)
    """
    left, right = np.asarray(left), np.asarray(right)
    if left.shape != s.shape[:1] or right.shape != s.shape[:1]:
        raise ValueError(
            f"left {left.shape} and right {right.shape} must have one entry per row of {s.shape}"
        )
    column = np.arange(s.shape[1])
    keep = (column >= left[:, None]) & (column < right[:, None])
    return np.where(keep, s, _MINUS_INF)


def row_max_4chains(s: Float32Array) -> Float32Array:
    """Return each row's maximum.

    The kernel runs four independent chains of three-operand ``max``, for latency; a maximum doesn't
    depend on the order, so none is imitated. NaN is ignored, as ``max.f32`` does, and a maximum of
    -0 is returned as +0 (which leaves every later result as it is).

    Args:
        s: float32 array (m, n).

    Returns:
        float32 array (m,).

    Source: flash_attn/cute/utils.py, ``fmax_reduce``.

    >>> row_max_4chains(np.array([[1, 3, np.nan], [-np.inf] * 3], dtype=np.float32))
    array([  3., -inf], dtype=float32)
    """
    return np.asarray(np.fmax.reduce(s, axis=1) + _ZERO)


def keep_or_rescale(
    m_old: Float32Array | None,
    block_max: Float32Array,
    scale_log2: np.float32,
    threshold: float,
    first: bool,
) -> tuple[Float32Array, Float32Array, Float32Array]:
    """Decide, row by row, between the old maximum and the new one.

    The exact choice of maximum doesn't matter to softmax: any reference close to it avoids
    overflow. So while the true maximum has risen by at most ``threshold`` (in powers of two), the
    old one is kept and O needs no rescaling; weights may then reach 2**threshold.

    Args:
        m_old: float32 array (m,), the maximum in use; not read if ``first``, and may then be None.
        block_max: float32 array (m,), row maximum of this block.
        scale_log2: softmax_scale * log2(e), positive.
        threshold: 8.0 in the kernel for 16-bit inputs, 0 for 8-bit ones; 0 always takes the true
            maximum.
        first: first block of the tile.

    Returns:
        m_new: float32 (m,), the maximum in use from now on; -inf if nothing was seen yet.
        acc_scale: float32 (m,), multiplies O and the row sum: 1 if kept, 0 in the first block,
        else ``2**((m_old - m_new) * scale_log2)``.
        m_safe: float32 (m,), m_new with -inf replaced by 0, for :func:`scale_subtract`.

    Raises:
        ValueError: ``m_old`` is missing after the first block.

    Source: flash_attn/cute/softmax.py, ``update_row_max``; arXiv 2603.05451, section 3.

    >>> old, new = np.float32([1, 1, -np.inf]), np.float32([5, 50, 2])
    >>> m_new, acc_scale, _ = keep_or_rescale(old, new, np.float32(1), threshold=8.0, first=False)
    >>> m_new.tolist(), acc_scale.tolist() == [1.0, 2.0**-49, 0.0]
    ([1.0, 50.0, 2.0], True)
    """
    if first:
        m_safe = np.where(block_max == _MINUS_INF, _ZERO, block_max)
        return block_max, np.zeros_like(block_max), m_safe
    if m_old is None:
        raise ValueError("m_old=None: the old maximum is needed after the first block")
    m_new = np.fmax(m_old, block_max)
    m_safe = np.where(m_new == _MINUS_INF, _ZERO, m_new)
    with np.errstate(over="ignore", invalid="ignore"):
        exponent = (m_old - m_safe) * scale_log2
    acc_scale = ex2_mufu(exponent)
    if threshold > 0:
        keep = exponent >= np.float32(-threshold)
        m_new = np.where(keep, m_old, m_new)
        m_safe = np.where(keep, m_old, m_safe)
        acc_scale = np.where(keep, _ONE, acc_scale)
    return m_new, acc_scale, m_safe


def scale_subtract(
    s: Float32Array, m_safe: Float32Array, scale_log2: np.float32, offset: float = 0.0
) -> Float32Array:
    """Turn scores into exponents: s * scale_log2 + (offset - m_safe * scale_log2), by FMA.

    Args:
        s: float32 array (m, n), -inf where masked.
        m_safe: float32 array (m,), finite row maximum.
        scale_log2: softmax_scale * log2(e).
        offset: added to every exponent; 0 for 16-bit inputs, 8 for FP8.

    Returns:
        float32 array (m, n), powers of two.

    Source: flash_attn/cute/softmax.py, ``scale_subtract_rowmax``.

    >>> s = np.array([[2.0, -np.inf]], dtype=np.float32)
    >>> scale_subtract(s, np.float32([3]), np.float32(0.5))
    array([[-0.5, -inf]], dtype=float32)
    """
    with np.errstate(over="ignore", invalid="ignore"):
        bias = np.float32(offset) - m_safe * np.float32(scale_log2)
    return fma32(s, np.float32(scale_log2), bias[:, None])


def exp2_convert(
    x: Float32Array, mask: BoolArray, degree: int = 3, dtype: str = "bf16"
) -> tuple[Float32Array, Float32Array]:
    """Compute P = 2**x, and P rounded for the next product.

    Args:
        x: float32 array (m, n), powers of two.
        mask: bool array (n,), columns that use the polynomial, as from
            :func:`~fa4sim.numerics.exp2.emulated_columns`.
        degree: degree of that polynomial.
        dtype: "bf16", "fp16", "e4m3" or "e5m2"; in 8 bits what is too large saturates.

    Returns:
        p_fp32: float32 (m, n), for the row sum.
        p_rounded: float32 (m, n) of ``dtype`` values, for P V.

    Raises:
        ValueError: ``mask`` doesn't fit, or ``degree`` or ``dtype`` is unknown.

    Source: flash_attn/cute/softmax.py, ``apply_exp2_convert``.

    >>> p, p16 = exp2_convert(np.float32([[0.5, 0.5]]), np.array([False, True]))
    >>> p, p16
    (array([[1.4142135, 1.414104 ]], dtype=float32), array([[1.4140625, 1.4140625]], dtype=float32))
    """
    p_fp32 = ex2_mixed(x, mask, degree)
    return p_fp32, round_to(p_fp32, dtype)


def row_sum_4chains(
    p_fp32: Float32Array,
    first: bool,
    row_sum: Float32Array | None = None,
    acc_scale: Float32Array | None = None,
) -> Float32Array:
    """Add a block's weights to each row's sum, in the kernel's order.

    Four chains run over the row, each holding a packed pair (even and odd columns): chain c adds
    columns 8i + 2c and 8i + 2c + 1 for i = 0, 1, ... The old sum times acc_scale enters chain 0
    first, in its even half. At the end chain 1 is added to 0 and 3 to 2, then 2 to 0, then the odd
    half to the even one. Every addition rounds to float32.

    Args:
        p_fp32: float32 array (m, n), weights before rounding; n is a multiple of 8.
        first: first block of the tile; the next two arguments are not read.
        row_sum: float32 array (m,), the sum so far.
        acc_scale: float32 array (m,), from :func:`keep_or_rescale`.

    Returns:
        float32 array (m,).

    Raises:
        ValueError: n is not a multiple of 8, or the old sum is missing.

    Source: flash_attn/cute/utils.py, ``fadd_reduce``; flash_attn/cute/softmax.py,
    ``update_row_sum``.

    >>> p = np.ones((1, 32), dtype=np.float32)
    >>> row_sum_4chains(p, first=False, row_sum=np.float32([64]), acc_scale=np.float32([0.5]))
    array([64.], dtype=float32)
    """
    rows, n = p_fp32.shape
    if n % 8 or n == 0:
        raise ValueError(f"p_fp32 has {n} columns; the four chains need a multiple of 8")
    pairs = p_fp32.reshape(rows, n // 8, 4, 2)
    chains = pairs[:, 0].copy()  # (rows, chain, even or odd)
    if not first:
        if row_sum is None or acc_scale is None:
            raise ValueError("row_sum and acc_scale are needed after the first block")
        chains[:, 0, 0] += row_sum * acc_scale
    for i in range(1, n // 8):
        chains += pairs[:, i]
    chains[:, 0] += chains[:, 1]
    chains[:, 2] += chains[:, 3]
    chains[:, 0] += chains[:, 2]
    return np.asarray(chains[:, 0, 0] + chains[:, 0, 1])


def rescale_needed(acc_scale: Float32Array) -> bool:
    """Say whether a warp must rescale O: some lane's acc_scale is below 1.

    Args:
        acc_scale: float32 array (lanes,), one entry per row of the warp.

    Source: flash_attn/cute/flash_fwd_sm100.py, ``correction_loop``.

    >>> rescale_needed(np.float32([1, 1])), rescale_needed(np.float32([1, 0.25]))
    (False, True)
    """
    return bool(np.any(acc_scale < _ONE))


def rescale_output(acc: Float32Array, acc_scale: Float32Array) -> Float32Array:
    """Multiply each row of the output accumulator by its acc_scale, in float32.

    Args:
        acc: float32 array (m, head_dim_v).
        acc_scale: float32 array (m,).

    Returns:
        float32 array (m, head_dim_v).

    Source: flash_attn/cute/flash_fwd_sm100.py, ``correction_rescale``.

    >>> rescale_output(np.ones((1, 2), dtype=np.float32), np.float32([0.5]))
    array([[0.5, 0.5]], dtype=float32)
    """
    with np.errstate(invalid="ignore", under="ignore"):
        return np.asarray(acc * acc_scale[:, None])


def finalize(
    row_sum: Float32Array,
    row_max: Float32Array,
    scale_log2: np.float32,
    sink: Float32Array | None = None,
    max_offset: float = 0.0,
    v_descale: float | np.float32 = 1.0,
) -> tuple[Float32Array, Float32Array]:
    """Close a tile: the factor that normalises each row of O, and its log-sum-exp.

    A row whose sum is 0 (it saw nothing) or NaN gets the factor 1 and lse -inf: zeros stay zeros,
    NaN stays NaN. A sink adds 2**(sink * log2(e) - row_max * scale_log2 + max_offset) to the sum;
    if the row saw nothing, the sink takes the place of its maximum. The reciprocal and the
    logarithm are correctly rounded here and approximate on the GPU; products and sums round
    separately.

    Args:
        row_sum: float32 array (m,).
        row_max: float32 array (m,), -inf if the row saw nothing.
        scale_log2: softmax_scale * log2(e) (log2(e) after a softcap).
        sink: float32 array (m,), one logit per row, or None.
        max_offset: offset used in :func:`scale_subtract`; the sum is 2**max_offset times too
            large for it, as O is, and the log-sum-exp is corrected.
        v_descale: what v was divided by when it was quantised; multiplies the factor.

    Returns:
        inv: float32 array (m,), multiplies O.
        lse: float32 array (m,), natural log.

    Source: flash_attn/cute/flash_fwd_sm100.py, ``correction_loop``.

    >>> finalize(np.float32([4, 0]), np.float32([0, -np.inf]), np.float32(1))
    (array([0.25, 1.  ], dtype=float32), array([1.3862944,      -inf], dtype=float32))
    """
    scale_log2, offset, log2_e = np.float32(scale_log2), np.float32(max_offset), np.float32(LOG2_E)
    with np.errstate(over="ignore", invalid="ignore"):
        if sink is not None:
            sink = np.asarray(sink, dtype=np.float32)
            unseen = row_max == _MINUS_INF
            own_weight = ex2_mufu(sink * log2_e - row_max * scale_log2 + offset)
            row_sum = np.where(unseen, np.float32(2.0**max_offset), row_sum + own_weight)
            row_max = np.where(unseen, sink * (log2_e / scale_log2), row_max)
        empty = (row_sum == 0) | np.isnan(row_sum)
        inv = rcp_mufu(np.where(empty, _ONE, row_sum)) * np.float32(v_descale)
        lse = (row_max * scale_log2 + (lg2_mufu(row_sum) - offset)) * np.float32(LN2)
    return inv, np.where(empty, _MINUS_INF, lse)


def normalize_output(acc: Float32Array, inv: Float32Array, dtype: str = "bf16") -> Float32Array:
    """Multiply each row of the accumulator by its factor and round to the output format.

    Args:
        acc: float32 array (m, head_dim_v).
        inv: float32 array (m,), from :func:`finalize`.
        dtype: "bf16", "fp16" or "fp32".

    Returns:
        float32 array (m, head_dim_v) of ``dtype`` values.

    Raises:
        ValueError: ``dtype`` is not known.

    Source: flash_attn/cute/flash_fwd_sm100.py, ``correction_epilogue``.

    >>> normalize_output(np.ones((1, 1), dtype=np.float32), np.float32([1 / 3]))
    array([[0.33398438]], dtype=float32)
    """
    return round_to(rescale_output(acc, inv), dtype)
