"""Combine: from the partial results of several splits to the result of the whole.

Split i brings a normalised output O_i and lse_i = log(sum of its exponentials). With M the largest
lse, the whole is

    out = sum(w_i * O_i),   w_i = exp(lse_i - M) / sum(exp(lse_j - M)),   lse = M + log(sum(...)).

A split that saw no key has lse -inf, hence weight 0, and its output is *not read* into the sum: the
attention kernel never wrote it, so it may hold anything.

:func:`combine` follows the combine kernel's order: 32 threads (16 for head dims up to 64) share a
row's splits, each sums its own from the first to the last, and five (four) exchanges with the
thread at distance 16, 8, 4, 2, 1 sum them all; then the outputs are added in order of splits. A
split whose log-sum-exp is NaN makes the row 0 with lse NaN. The attention kernel itself never
writes a NaN there: a row whose sum is NaN gets lse -inf, so **a NaN in one split disappears when
others saw keys**, while without splits it would have been seen.

Source: flash_attn/cute/flash_fwd_combine.py.
"""

from __future__ import annotations

import numpy as np

from fa4sim.numerics.fma import fma32
from fa4sim.numerics.formats import Float32Array, Float64Array, check_float32, round_to
from fa4sim.numerics.inputs import FloatArray
from fa4sim.numerics.mufu import LN2, LOG2_E, ex2_mufu, lg2_mufu
from fa4sim.numerics.splits import MOST_SPLITS

_ZERO, _ONE, _MINUS_INF = np.float32(0), np.float32(1), np.float32(-np.inf)


def combine(
    partial_out: Float32Array, partial_lse: Float32Array, dtype: str = "bf16"
) -> tuple[Float32Array, Float32Array]:
    """Combine partial results as the combine kernel orders and rounds it.

    Products and sums round separately, as in the kernel's PTX (whose plain ``mul`` and ``add`` the
    assembler may fuse); the logarithm is correctly rounded here and approximate on the GPU.

    Args:
        partial_out: float32 array (splits, batch, seqlen_q, heads, head_dim_v).
        partial_lse: float32 array (splits, batch, heads, seqlen_q), natural log, -inf where a
            split saw nothing; there ``partial_out`` may hold anything.
        dtype: of the output, "bf16", "fp16" or "fp32".

    Returns:
        ``out``, a float32 array (batch, seqlen_q, heads, head_dim_v) of ``dtype`` values, 0 where
        no split saw anything; and ``lse``, a float32 array (batch, heads, seqlen_q), -inf there.

    Raises:
        ValueError: shapes disagree, element types aren't float32, or there are too many splits.

    Source: flash_attn/cute/flash_fwd_combine.py, steps 4 to 7 of ``kernel``.

    >>> out = np.float32([1, 3, np.nan]).reshape(3, 1, 1, 1, 1)
    >>> lse = np.float32([0, 0, -np.inf]).reshape(3, 1, 1, 1)
    >>> combine(out, lse)
    (array([[[[2.]]]], dtype=float32), array([[[0.6931472]]], dtype=float32))
    """
    _check_shapes(partial_out, partial_lse)
    check_float32(partial_out, "partial_out")
    check_float32(partial_lse, "partial_lse")
    lanes = 32 if partial_out.shape[-1] > 64 else 16
    scale, lse = _weights(partial_lse, lanes)
    out = np.zeros(partial_out.shape[1:], dtype=np.float32)
    for part, weight in zip(partial_out, scale.swapaxes(-1, -2), strict=True):
        used = (weight > 0)[..., None]  # (batch, seqlen_q, heads, 1)
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            out += np.where(used, weight[..., None] * part, _ZERO)
    return round_to(out, dtype), lse


def _weights(partial_lse: Float32Array, lanes: int) -> tuple[Float32Array, Float32Array]:
    """Return each split's weight (splits, batch, heads, seqlen_q) and the whole's lse."""
    log2_e = np.float32(LOG2_E)
    row_max: Float32Array = np.fmax.reduce(partial_lse, axis=0)
    safe_max = np.where(row_max == _MINUS_INF, _ZERO, row_max)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore", under="ignore"):
        scale = ex2_mufu(np.multiply(partial_lse, log2_e) - np.multiply(safe_max, log2_e))
        total = _lane_sum(scale, lanes)
        lse = fma32(lg2_mufu(total), np.float32(LN2), row_max)
        inverse = np.where((total == 0) | np.isnan(total), _ZERO, _ONE / total)
        return np.asarray(scale * inverse), lse


def _lane_sum(scale: Float32Array, lanes: int) -> Float32Array:
    """Sum over the splits: lane l takes l, l + lanes, ...; then a butterfly over the lanes."""
    splits, *shape = scale.shape
    rounds = -(-splits // lanes)
    padded = np.zeros((rounds * lanes, *shape), dtype=np.float32)
    padded[:splits] = scale
    total = np.zeros((lanes, *shape), dtype=np.float32)
    for turn in padded.reshape(rounds, lanes, *shape):
        total += turn
    while len(total) > 1:  # lanes at this distance hold the same sum afterwards: keep one half
        half = len(total) // 2
        total = total[:half] + total[half:]
    return np.asarray(total[0])


def combine_float64(
    partial_out: FloatArray, partial_lse: FloatArray
) -> tuple[Float64Array, Float64Array]:
    """Combine partial results in float64: the definition, against which :func:`combine` is held.

    Args:
        partial_out: float array (splits, batch, seqlen_q, heads, head_dim_v).
        partial_lse: float array (splits, batch, heads, seqlen_q), natural log.

    Returns:
        ``out``, a float64 array (batch, seqlen_q, heads, head_dim_v), and ``lse``, a float64 array
        (batch, heads, seqlen_q).

    Raises:
        ValueError: shapes disagree, or there are too many splits.

    >>> out = np.array([1.0, 4.0]).reshape(2, 1, 1, 1, 1)
    >>> lse = np.log([2.0, 1.0]).reshape(2, 1, 1, 1)
    >>> combine_float64(out, lse)  # two thirds of 1, one third of 4; log(3)
    (array([[[[2.]]]]), array([[[1.09861229]]]))
    """
    _check_shapes(partial_out, partial_lse)
    lse = np.asarray(partial_lse, dtype=np.float64)
    row_max = np.max(lse, axis=0)
    safe_max = np.where(row_max == -np.inf, 0.0, row_max)
    weight = np.exp(lse - safe_max)  # (splits, batch, heads, seqlen_q)
    total = weight.sum(axis=0)
    share = (weight / np.where(total == 0, 1.0, total)).swapaxes(-1, -2)[..., None]
    part = np.where(share > 0, np.asarray(partial_out, dtype=np.float64), 0.0)
    with np.errstate(divide="ignore"):
        return np.sum(share * part, axis=0), safe_max + np.log(total)


def _check_shapes(partial_out: FloatArray, partial_lse: FloatArray) -> None:
    for name, array in (("partial_out", partial_out), ("partial_lse", partial_lse)):
        if not isinstance(array, np.ndarray):
            raise ValueError(f"{name} is a {type(array).__name__}, but a NumPy array is needed")
    if partial_out.ndim != 5 or partial_lse.ndim != 4:
        raise ValueError(
            f"partial_out {partial_out.shape} must be (splits, batch, seqlen_q, heads, head_dim_v) "
            f"and partial_lse {partial_lse.shape} (splits, batch, heads, seqlen_q)"
        )
    splits, batch, seqlen_q, heads, _ = partial_out.shape
    if partial_lse.shape != (splits, batch, heads, seqlen_q):
        raise ValueError(
            f"partial_lse has shape {partial_lse.shape}, but partial_out {partial_out.shape} needs "
            f"{(splits, batch, heads, seqlen_q)}: (splits, batch, heads, seqlen_q)"
        )
    if not 1 <= splits <= MOST_SPLITS:
        raise ValueError(f"there are {splits} splits; the combine kernel takes 1 to {MOST_SPLITS}")
