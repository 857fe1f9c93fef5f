"""Quantise: from real numbers to 8 bits and a factor, and what that costs.

An 8-bit format spans few powers of two (e4m3: 2**-9 to 448), so q, k and v are divided by a
*descale* first, one for each sequence and key head, and the kernel multiplies it back: those of q
and k into the scale of the scores, that of v into the output. The common choice takes the largest
magnitude to the format's largest number (:func:`amax_descale`); many engines leave it at 1.

Within the format's normal numbers the error of an element is at most 1/16 of it (e4m3; e5m2: 1/8),
*whatever the descale*. A descale matters only at the two ends: elements below 2**-6 lose precision
and then vanish, elements above 448 saturate. That is why e4m3 on normal inputs doesn't care, and
why one channel that is much larger than the others costs little, unlike in integer formats.
:mod:`fa4sim.numerics.quantization` measures it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4sim.numerics.formats import (
    FP8_DTYPES,
    LARGEST,
    Float32Array,
    Float64Array,
    check_float32,
    round_to,
)
from fa4sim.numerics.inputs import FloatArray
from fa4sim.numerics.scales import check_positive, is_whole


def amax_descale(x: FloatArray, dtype: str, kv_heads: int | None = None) -> Float32Array:
    """Return the descales that take the largest magnitude to the format's largest number.

    Args:
        x: float array (batch, seqlen, heads, head_dim).
        dtype: "e4m3" or "e5m2".
        kv_heads: the query heads of a group share a descale; None for as many as ``x`` has.

    Returns:
        float32 array (batch, kv_heads), 1 where all elements are 0.

    Raises:
        ValueError: ``dtype`` has not 8 bits, heads don't make whole groups, ``x`` is no such array
            or not finite, or its largest magnitude needs a descale that float32 doesn't hold.

    >>> amax_descale(np.array([[[[3.5], [-896.0]]]]), "e4m3")  # two heads
    array([[0.0078125, 2.       ]], dtype=float32)
    """
    _check_fp8(dtype)
    _check_array(x)
    batch, seqlen, heads, dim = x.shape
    groups = heads if kv_heads is None else kv_heads
    if not is_whole(groups) or groups < 1 or heads % groups:
        raise ValueError(f"kv_heads={kv_heads} must divide the {heads} heads of this array")
    grouped = np.abs(x).reshape(batch, seqlen, groups, heads // groups, dim)
    largest = grouped.max(axis=(1, 3, 4), initial=0.0)
    if not np.isfinite(largest).all():
        raise ValueError("x holds NaN or infinity, so it has no largest magnitude to scale by")
    with np.errstate(over="ignore"):
        descale = (largest / LARGEST[dtype]).astype(np.float32)
    if np.isinf(descale).any():
        raise ValueError(
            f"x holds {largest.max():.1e}, whose descale is too large for float32; scale x down"
        )
    return np.where(descale > 0, descale, np.float32(1))


def quantize(x: FloatArray, descale: Float32Array, dtype: str) -> Float32Array:
    """Divide by the descales and round to an 8-bit format; what is too large saturates.

    Args:
        x: float array (batch, seqlen, heads, head_dim).
        descale: float32 array (batch, kv_heads); query heads of a group share one.
        dtype: "e4m3" or "e5m2".

    Returns:
        float32 array of ``dtype`` values, of the shape of ``x``.

    Raises:
        ValueError: ``dtype`` has not 8 bits, or ``descale`` doesn't fit.

    >>> quantize(np.array([[[[3.5], [-896.0]]]]), np.float32([[0.5, 1.0]]), "e4m3").ravel()
    array([   7., -448.], dtype=float32)
    """
    _check_fp8(dtype)
    with np.errstate(over="ignore"):  # what becomes infinite saturates
        return round_to((x / _per_head(descale, x)).astype(np.float32), dtype)


def dequantize(x: Float32Array, descale: Float32Array) -> Float64Array:
    """Multiply by the descales: the numbers that a kernel's 8-bit inputs stand for, in float64.

    Args:
        x: float32 array (batch, seqlen, heads, head_dim).
        descale: float32 array (batch, kv_heads).

    Raises:
        ValueError: ``descale`` doesn't fit.

    >>> dequantize(np.float32([[[[7.0], [-448.0]]]]), np.float32([[0.5]])).ravel()
    array([   3.5, -224. ])
    """
    return x.astype(np.float64) * _per_head(descale, x)


def _per_head(descale: Float32Array, x: NDArray[Any]) -> Float64Array:
    """Descales in float64, shaped to multiply an array (batch, seqlen, heads, head_dim)."""
    _check_array(x)
    descale = check_float32(descale, "descale")
    batch, _, heads, _ = x.shape
    fits = descale.ndim == 2 and len(descale) == batch and descale.shape[1] > 0
    if not fits or heads % descale.shape[1]:
        raise ValueError(
            f"descale has shape {descale.shape}, but an array {x.shape} needs {batch} sequences "
            f"and a number of key heads that divides {heads}"
        )
    check_positive("descale", descale)
    repeated = descale.astype(np.float64).repeat(heads // descale.shape[1], axis=1)
    return np.asarray(repeated[:, None, :, None])


def _check_array(x: NDArray[Any]) -> None:
    is_array = isinstance(x, np.ndarray)
    if not is_array or x.ndim != 4 or not np.issubdtype(x.dtype, np.floating):
        what = (
            f"has shape {x.shape} and dtype {x.dtype}" if is_array else f"is a {type(x).__name__}"
        )
        raise ValueError(f"x {what}, but a float array (batch, seqlen, heads, head_dim) is needed")


def _check_fp8(dtype: str) -> None:
    if dtype not in FP8_DTYPES:
        raise ValueError(f"dtype {dtype!r} has not 8 bits; use 'e4m3' or 'e5m2'")
