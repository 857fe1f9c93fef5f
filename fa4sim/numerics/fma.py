"""Fused multiply-add: ``a * b + c`` in float32 with a single rounding.

A GPU's FMA multiplies exactly, adds exactly, and rounds once. NumPy has no such operation, but
float64 is almost wide enough to stand in for it:

- the product of two float32 values has at most 48 significant bits, so it is *exact* in float64;
- the float64 sum is rounded to 53 bits, and converting it to float32 rounds a second time.

Two roundings can differ from one only when the first lands exactly on a midpoint between two
float32 values, where the second no longer knows on which side the true sum was. Those cases can be
seen in the bits (the 29 that float32 drops read 1000...0), and for them the error of the sum, which
is itself a float64, tells the side: the sum is moved to its *odd* neighbour on that side ("round
to odd": Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
rounding to odd", IEEE Trans. Computers 57, 2008). So the result here is always the single-rounded
one, and costs little more than the plain float64 expression.
"""

from __future__ import annotations

import numpy as np

from fa4sim.numerics.formats import Float32Array, Float64Array

_DROPPED_BITS = np.int64((1 << 29) - 1)
_MIDPOINT = np.int64(1 << 28)
_SMALLEST_NORMAL = 2.0**-126


def fma32(
    a: Float32Array | np.float32, b: Float32Array | np.float32, c: Float32Array | np.float32
) -> Float32Array:
    """Compute ``a * b + c`` in float32 with one rounding, as an FMA instruction does.

    Args:
        a, b, c: float32 arrays or scalars that broadcast together.

    Returns:
        float32 array of the broadcast shape; subnormal results are kept.

    Source: PTX ISA, ``fma.rn.f32``.

    >>> a = np.float32(1 + 2**-12)
    >>> fma32(a, a, np.float32(-1))  # the square has 25 bits; all but the first survive
    array(0.00048834, dtype=float32)
    >>> float(fma32(a, a, np.float32(-1))) == 2.0**-11 + 2.0**-24
    True
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        product = np.asarray(a, dtype=np.float64) * np.asarray(b, dtype=np.float64)  # exact
        addend = np.asarray(c, dtype=np.float64)
        total = np.asarray(product + addend)
        result = np.asarray(total.astype(np.float32))
        at_midpoint = (total.view(np.int64) & _DROPPED_BITS) == _MIDPOINT
        suspect = at_midpoint | (np.abs(total) < _SMALLEST_NORMAL)
        if suspect.any():
            product = np.broadcast_to(product, total.shape)[suspect]
            addend = np.broadcast_to(addend, total.shape)[suspect]
            result[suspect] = _round_to_odd(product, addend, total[suspect]).astype(np.float32)
    return result


def _round_to_odd(x: Float64Array, y: Float64Array, total: Float64Array) -> Float64Array:
    """Replace rounded sums by their odd-bit neighbours wherever the sum was not exact."""
    y_part = total - x
    error = (x - (total - y_part)) + (y - y_part)  # exact: Knuth's two-sum
    is_even = (total.view(np.int64) & 1) == 0
    neighbour = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where((error != 0) & is_even, neighbour, total)
