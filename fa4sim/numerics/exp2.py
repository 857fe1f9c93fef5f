"""exp2: powers of two on two units at once.

The special-function unit computes 16 powers of two per cycle and SM, and on Blackwell that is as
slow as the two matrix products of the same tile. FlashAttention-4 therefore computes a share of
them with ordinary arithmetic (Cody and Waite's method). For 2**x with x <= 127:

1. clamp x to at least -127;
2. add 1.5 * 2**23 rounding *down*: the float32 spacing there is 1, so the low bits of the sum hold
   the integer floor(x);
3. subtract it again (exact) and subtract the result from x: a fraction in [0, 1];
4. a short polynomial of the fraction gives 2**fraction in [1, 2];
5. shift the integer into the exponent field and add it to the polynomial's bits: that multiplies
   by 2**floor(x).

Since x = -inf is clamped to -127, whose fraction is 0, its result is exactly +0: the bits of 1.0
are 127 << 23, and adding -127 << 23 leaves nothing. Masked scores need no special case.

Which elements go which way is fixed at compile time: pairs of columns at a regular stride inside
the middle fragments of a row (:func:`emulated_columns`).

Sources: FlashAttention-4, arXiv 2603.05451, section 3 and Table 2; flash_attn/cute/utils.py
(``POLY_EX2``, ``ex2_emulation_2``) and flash_attn/cute/softmax.py (``apply_exp2_convert``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fa4sim.numerics.fma import fma32
from fa4sim.numerics.formats import BoolArray, Float32Array, round_to, to_bits16
from fa4sim.numerics.mufu import ex2_mufu, exp2_float64

COEFFICIENTS: dict[int, tuple[float, ...]] = {
    1: (1.0, 0.922497093677520751953125),
    2: (1.0, 0.6657850742340087890625, 0.330107033252716064453125),
    3: (1.0, 0.695146143436431884765625, 0.227564394474029541015625, 0.077119089663028717041015625),
    4: (
        1.0,
        0.693042695522308349609375,
        0.2412912547588348388671875,
        0.052225358784198760986328125,
        0.013434938155114650726318359375,
    ),
    5: (
        1.0,
        0.693151414394378662109375,
        0.24016360938549041748046875,
        0.055802188813686370849609375,
        0.00901452265679836273193359375,
        0.00186810153536498546600341796875,
    ),
}
"""Degree -> c0, c1, ... of 2**r on [0, 1], as published in flash_attn/cute/utils.py."""

_CLAMP = np.float32(-127.0)
_MAGIC = np.float32(1.5 * 2.0**23)


def ex2_poly(x: Float32Array, degree: int = 3) -> Float32Array:
    """Compute 2**x by clamp, floor, polynomial and exponent shift, bit for bit as the kernel does.

    Every operation is a float32 operation with one rounding (the Horner steps are
    :func:`~fa4sim.numerics.fma.fma32`). -inf and NaN give exactly +0, because the clamp is a PTX
    ``max`` that returns the other operand for a NaN. Between -127 and -126 the bits are those of a
    subnormal, but their value isn't 2**x; the kernel doesn't care, as such weights vanish.
    x > 127 is outside the method's range and gives garbage, as on the GPU; a softmax never goes
    above its rescale threshold of 8.

    Args:
        x: float32 array, any shape, in powers of two, at most 127.
        degree: polynomial degree, 1 to 5; the kernel uses 3.

    Returns:
        float32 array of the same shape.

    Raises:
        ValueError: ``degree`` is not 1 to 5.

    Source: flash_attn/cute/utils.py, ``ex2_emulation_2``.

    >>> ex2_poly(np.array([0.0, 0.5, -1.5, -np.inf], dtype=np.float32))
    array([1.      , 1.414104, 0.353526, 0.      ], dtype=float32)
    """
    if degree not in COEFFICIENTS:
        raise ValueError(f"degree {degree!r} has no polynomial; use one of {sorted(COEFFICIENTS)}")
    clamped = np.fmax(np.asarray(x), _CLAMP)
    whole_bits = np.asarray(_add_magic_round_down(clamped))
    fraction = clamped - (whole_bits - _MAGIC)  # the inner difference is exact
    *lower, highest = (np.float32(c) for c in COEFFICIENTS[degree])
    power = np.full_like(fraction, highest)
    for coefficient in reversed(lower):
        power = fma32(power, fraction, coefficient)
    exponent = whole_bits.view(np.uint32) << np.uint32(23)
    bits: NDArray[np.uint32] = exponent + power.view(np.uint32)
    return bits.view(np.float32)


def _add_magic_round_down(x: Float32Array) -> Float32Array:
    """Add 1.5 * 2**23 rounding toward -inf (``add.rm.f32``), for x in [-127, 127].

    Between 2**23 and 2**24 float32 values are the integers, so rounding the exact sum down gives
    the magic number plus floor(x); both steps below are exact.
    """
    return _MAGIC + np.floor(x)


def emulated_columns(
    n: int, freq: int, res: int = 4, start_fragment: int = 1, fragment: int = 32
) -> BoolArray:
    """Say which of a row's n columns take the polynomial rather than the special-function unit.

    Columns come in fragments of 32. In fragment j, columns k and k + 1 (k even, counted inside the
    fragment) are emulated when ``k mod freq >= freq - res`` and ``start_fragment <= j < last``; the
    last fragment never is. The pattern doesn't depend on the mask or on the block.

    Args:
        n: columns of a tile, a multiple of ``fragment``.
        freq: period in columns; 0 emulates nothing.
        res: emulated columns per period.
        start_fragment: first fragment with emulation.
        fragment: columns per fragment, even.

    Returns:
        bool array (n,), True where emulated.

    Raises:
        ValueError: a size is negative, or ``n`` is not a multiple of ``fragment``.

    Source: flash_attn/cute/softmax.py, ``apply_exp2_convert``.

    >>> mask = emulated_columns(128, freq=16)
    >>> float(mask.mean())
    0.125
    >>> np.flatnonzero(mask)[:8]
    array([44, 45, 46, 47, 60, 61, 62, 63])
    """
    if freq == 0 and n > 0:
        return np.zeros(n, dtype=np.bool_)
    if fragment <= 0 or fragment % 2 or n <= 0 or n % fragment:
        raise ValueError(
            f"n={n} is not a positive multiple of fragment={fragment} (an even number); "
            "the kernel's tiles have 64 or 128 columns and fragments of 32"
        )
    if freq < 0 or res < 0 or start_fragment < 0:
        raise ValueError(
            f"freq={freq}, res={res}, start_fragment={start_fragment} must not be negative"
        )
    column = np.arange(n)
    fragment_index = column // fragment
    pair = column % fragment // 2 * 2
    in_pattern = pair % freq >= freq - res
    eligible = (fragment_index >= start_fragment) & (fragment_index < n // fragment - 1)
    return in_pattern & eligible


def ex2_mixed(x: Float32Array, emulated: BoolArray, degree: int = 3) -> Float32Array:
    """Compute 2**x with the polynomial in some columns and the special-function unit in the rest.

    Args:
        x: float32 array (..., n), in powers of two.
        emulated: bool array (n,), as from :func:`emulated_columns`.
        degree: polynomial degree, 1 to 5.

    Returns:
        float32 array of the same shape.

    Raises:
        ValueError: ``emulated`` doesn't have one entry per column, or ``degree`` is unknown.

    Source: flash_attn/cute/softmax.py, ``apply_exp2_convert``.

    >>> ex2_mixed(np.array([[0.5, 0.5]], dtype=np.float32), np.array([False, True]))
    array([[1.4142135, 1.414104 ]], dtype=float32)
    """
    x = np.asarray(x)
    emulated = np.asarray(emulated, dtype=np.bool_)
    if emulated.shape != x.shape[-1:]:
        raise ValueError(
            f"emulated has shape {emulated.shape}, but x of shape {x.shape} needs {x.shape[-1:]}"
        )
    if not emulated.any():
        return ex2_mufu(x)
    power = np.empty(x.shape, dtype=np.float32)
    power[..., emulated] = ex2_poly(x[..., emulated], degree)
    power[..., ~emulated] = ex2_mufu(x[..., ~emulated])
    return power


@dataclass(frozen=True)
class ErrorRow:
    """How well one way of computing 2**x does on fractions in [0, 1).

    Attributes:
        method: "MUFU" or "degree n".
        fp32_error: largest relative error of the float32 result.
        bf16_error: largest relative error after rounding that result to bf16.
        bf16_equal: share of inputs whose bf16 result is the MUFU's own.
        bf16_within_one_ulp: share of inputs whose bf16 result is at most one bf16 value away.
    """

    method: str
    fp32_error: float
    bf16_error: float
    bf16_equal: float
    bf16_within_one_ulp: float


def polynomial_error_table(bits: int = 18, degrees: tuple[int, ...] = (3, 4, 5)) -> list[ErrorRow]:
    """Measure the error of 2**x on all fractions k / 2**bits, as FlashAttention-4's Table 2 does.

    The published maxima (arXiv 2603.05451, Table 2), float32 and after bf16 rounding:
    MUFU 1.41e-7 and 3.89e-3; degree 3 8.77e-5 and 3.90e-3; degree 4 3.05e-6 and 3.89e-3;
    degree 5 1.44e-7 and 3.89e-3. The polynomials are reproduced here; the MUFU row is the model's
    (half a float32 spacing, 5.96e-8), which is better than the hardware's. The paper adds that
    degree 3 is within one bf16 spacing of MUFU on 99 % of inputs; here it is *equal* on 99.0 % and
    one spacing away on the rest.

    Args:
        bits: fractions are the multiples of 2**-bits, 1 to 23.
        degrees: polynomial degrees to list after the MUFU.

    Returns:
        One :class:`ErrorRow` for the MUFU, then one per degree.

    Raises:
        ValueError: ``bits`` is not 1 to 23, or a degree is unknown.

    >>> for row in polynomial_error_table(bits=12):
    ...     print(f"{row.method:9} {row.fp32_error:.1e} {row.bf16_error:.2e}")
    MUFU      5.8e-08 3.88e-03
    degree 3  8.8e-05 3.90e-03
    degree 4  3.0e-06 3.88e-03
    degree 5  1.4e-07 3.88e-03
    """
    if not 1 <= bits <= 23:
        raise ValueError(f"bits={bits} must be 1 to 23, so that every k / 2**bits is a float32")
    x = np.arange(2**bits, dtype=np.float32) * np.float32(2.0**-bits)
    exact = exp2_float64(x.astype(np.float64))
    mufu = ex2_mufu(x)
    methods = {"MUFU": mufu} | {f"degree {degree}": ex2_poly(x, degree) for degree in degrees}
    rows = []
    for method, power in methods.items():
        ulps = np.abs(to_bits16(power, "bf16").astype(int) - to_bits16(mufu, "bf16").astype(int))
        rows.append(
            ErrorRow(
                method,
                fp32_error=float(np.max(np.abs(power / exact - 1.0))),
                bf16_error=float(np.max(np.abs(round_to(power, "bf16") / exact - 1.0))),
                bf16_equal=float(np.mean(ulps == 0)),
                bf16_within_one_ulp=float(np.mean(ulps <= 1)),
            )
        )
    return rows
