"""MUFU: the special-function unit's 2**x, log2, tanh and 1/x, modelled reproducibly.

The GPU computes these four with small tables and returns results that are close, not exact. Here
each is evaluated in float64 with nothing but IEEE additions, multiplications, divisions and bit
shifts, in a fixed order, and then rounded to float32. Such operations give the same bits on every
platform, NumPy version and memory layout; ``np.exp2`` and friends don't.

The model is therefore *better* than the hardware, by known amounts:

========  ========================  ============================  =====================
function  instruction               model                         hardware's own error
========  ========================  ============================  =====================
2**x      ``ex2.approx.ftz.f32``    correctly rounded (6.0e-8)    1.4e-7 relative
log2 x    ``lg2.approx.ftz.f32``    correctly rounded             2**-22 (near 1: absolute)
1/x       ``rcp.approx.ftz.f32``    correctly rounded             1 ulp
tanh x    ``tanh.approx.f32``       correctly rounded             2**-11 relative
========  ========================  ============================  =====================

("Correctly rounded" up to the float64 error of a few 1e-16, that is but for about one input in a
hundred million.) The hardware's 2**x error is that of FlashAttention-4, arXiv 2603.05451, Table 2;
the others are the PTX ISA's.
"""

from __future__ import annotations

import numpy as np

from fa4sim.numerics.formats import Float32Array, Float64Array

LN2 = 0.6931471805599453
LOG2_E = 1.4426950408889634

_SMALLEST_NORMAL = np.float32(2.0**-126)
_FLOOR_TO_INTEGER = 1.5 * 2.0**52  # added and subtracted, it rounds a float64 to an integer


def _taylor_of_exp2(degree: int) -> tuple[float, ...]:
    """Return the coefficients ln(2)**k / k! of 2**r, for k up to ``degree``."""
    terms = [1.0]
    for k in range(1, degree + 1):
        terms.append(terms[-1] * LN2 / k)
    return tuple(terms)


_EXP2_TERMS = _taylor_of_exp2(12)  # truncation error 1.7e-16 on [-1/2, 1/2]


def exp2_float64(x: Float64Array) -> Float64Array:
    """Compute 2**x in float64 to about 3e-16, with the same bits on every platform.

    Split x into an integer n and a rest r in [-1/2, 1/2], sum the series for 2**r, and add n to the
    exponent bits.

    Args:
        x: float64 array, any shape; values outside [-1000, 1000] are taken as the nearer end.

    Returns:
        float64 array of the same shape; NaN stays NaN.

    >>> exp2_float64(np.array([-1.0, 0.0, 0.5, 10.0]))
    array([5.00000000e-01, 1.00000000e+00, 1.41421356e+00, 1.02400000e+03])
    """
    bounded = np.clip(x, -1000.0, 1000.0)
    shifted = bounded + _FLOOR_TO_INTEGER  # the low mantissa bits now hold n
    rest = bounded - (shifted - _FLOOR_TO_INTEGER)
    power = np.full_like(rest, _EXP2_TERMS[-1])
    for term in reversed(_EXP2_TERMS[:-1]):
        power *= rest
        power += term
    bits = (np.asarray(shifted).view(np.int64) << 52) + np.asarray(power).view(np.int64)
    return np.where(np.isnan(bounded), np.nan, bits.view(np.float64))


def ex2_mufu(x: Float32Array) -> Float32Array:
    """Compute 2**x as the special-function unit does.

    -inf gives +0, +inf and x >= 128 give +inf, NaN gives NaN. ``ftz``: results below 2**-126, the
    smallest normal float32, are flushed to +0 (so x < -126 gives +0); a subnormal x counts as 0.

    Args:
        x: float32 array, any shape, in powers of two.

    Returns:
        float32 array of the same shape.

    Source: PTX ISA, ``ex2.approx.ftz.f32``; used by flash_attn/cute/softmax.py for most elements.

    >>> ex2_mufu(np.array([0.0, -1.0, 0.5, -np.inf, -126.5], dtype=np.float32))
    array([1.       , 0.5      , 1.4142135, 0.       , 0.       ],
          dtype=float32)
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        power = exp2_float64(np.asarray(x).astype(np.float64)).astype(np.float32)
    return np.where(power < _SMALLEST_NORMAL, np.float32(0), power)


def lg2_mufu(x: Float32Array) -> Float32Array:
    """Compute log2(x) as the special-function unit does.

    0 (and subnormals, which ``ftz`` flushes) give -inf, negative values NaN, +inf gives +inf.

    Args:
        x: float32 array, any shape.

    Returns:
        float32 array of the same shape.

    Source: PTX ISA, ``lg2.approx.ftz.f32``; used for the LSE in flash_attn/cute/flash_fwd_sm100.py.

    >>> lg2_mufu(np.array([8.0, 1.0, 3.0, 0.0], dtype=np.float32))
    array([3.       , 0.       , 1.5849625,      -inf], dtype=float32)
    """
    x = np.asarray(x)
    special = ~((x >= _SMALLEST_NORMAL) & (x < np.inf))  # zero, subnormal, negative, inf, NaN
    mantissa, exponent = np.frexp(np.where(special, np.float32(1), x).astype(np.float64))
    low = mantissa < 0.7071067811865476
    mantissa = np.where(low, mantissa * 2.0, mantissa)  # in [sqrt(1/2), sqrt(2))
    z = (mantissa - 1.0) / (mantissa + 1.0)
    z_squared = z * z
    series = np.full_like(z, 1.0 / 23.0)
    for odd in range(21, 0, -2):  # atanh(z) / z = 1 + z**2 / 3 + z**4 / 5 + ...
        series *= z_squared
        series += 1.0 / odd
    log2 = ((exponent - low) + z * series * (2.0 * LOG2_E)).astype(np.float32)
    outside = np.where(np.abs(x) < _SMALLEST_NORMAL, np.float32(-np.inf), np.float32(np.nan))
    outside = np.where(x == np.inf, np.float32(np.inf), outside)
    return np.where(special, outside, log2)


def rcp_mufu(x: Float32Array) -> Float32Array:
    """Compute 1/x as the special-function unit does.

    Args:
        x: float32 array, any shape; 0 and subnormals give an infinity of their sign.

    Returns:
        float32 array of the same shape; results below 2**-126 are flushed to 0.

    Source: PTX ISA, ``rcp.approx.ftz.f32``.

    >>> rcp_mufu(np.array([3.0, 256.0], dtype=np.float32))
    array([0.33333334, 0.00390625], dtype=float32)
    """
    with np.errstate(divide="ignore", over="ignore"):
        x = np.asarray(x)
        inverse = np.float32(1) / _flush(x)
    return _flush(inverse)


def tanh_mufu(x: Float32Array) -> Float32Array:
    """Compute tanh(x) as the special-function unit does.

    Args:
        x: float32 array, any shape.

    Returns:
        float32 array of the same shape.

    Source: PTX ISA, ``tanh.approx.f32``; used by the softcap of flash_attn/cute/utils.py.

    >>> tanh_mufu(np.array([0.0, 0.001, 0.5, -np.inf], dtype=np.float32))
    array([ 0.0000000e+00,  9.9999970e-04,  4.6211717e-01, -1.0000000e+00],
          dtype=float32)
    """
    wide = np.clip(np.asarray(x).astype(np.float64), -20.0, 20.0)  # beyond, +-1 to the last bit
    power = exp2_float64(wide * (2.0 * LOG2_E))
    square = wide * wide
    near_zero = wide * (1.0 + square * (-1 / 3 + square * (2 / 15 + square * (-17 / 315))))
    with np.errstate(under="ignore"):
        result = np.where(np.abs(wide) < 0.01, near_zero, (power - 1.0) / (power + 1.0))
        return result.astype(np.float32)


def _flush(x: Float32Array) -> Float32Array:
    """Replace subnormals by a zero of their sign (``ftz``)."""
    return np.where(np.abs(x) < _SMALLEST_NORMAL, np.copysign(np.float32(0), x), x)
