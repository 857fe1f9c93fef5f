"""Rounding once, in any direction: the exact error of a sum, and round to odd.

A float64 sum is *rounded to odd* when, if it isn't exact, it is moved to its neighbour with an odd
last bit. Rounding that once more, to a format of at most 51 bits and in any direction, gives what
rounding the exact sum would (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums:
proved algorithms using rounding to odd", IEEE Trans. Computers 57, 2008). Products of two float32
values are exact in float64, so sums are all there is to worry about.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.isa.semantics import Array
from fa4kernel.emulator.tensor.formats import Rounding, encode

_ONE = np.int64(1)


def two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """Add floats and return the rounded sum and its exact error (Knuth).

    The error is NaN where the sum isn't finite.

    >>> [float(v) for v in two_sum(np.float32(1), np.float32(2.0**-30))] == [1.0, 2.0**-30]
    True
    """
    total = np.asarray(x + y)
    y_part = total - x
    return total, np.asarray((x - (total - y_part)) + (y - y_part))


def odd_sum(x: Array, y: Array) -> NDArray[np.float64]:
    """Add float64 arrays, rounding to odd.

    Args:
        x, y: float64 arrays that broadcast together; no sum may overflow.

    Returns:
        float64 array: the exact sum, or the neighbour of it whose last bit is odd.

    >>> float(odd_sum(np.float64(1), np.float64(2.0**-80))) == 1 + 2.0**-52
    True
    """
    total, error = two_sum(x, y)
    bits = total.view(np.int64)
    inexact_even = ((error > 0) | (error < 0)) & ((bits & _ONE) == 0)
    outward = np.where((error > 0) == (total > 0), _ONE, -_ONE)
    odd: NDArray[np.float64] = np.asarray(bits + outward * inexact_even).view(np.float64)
    return odd


def odd_integer(x: NDArray[Any]) -> NDArray[np.float64]:
    """Integers as float64, those too long for it rounded to odd.

    >>> int(odd_integer(np.array(2**62 + 1))) == 2**62 + 2**11
    True
    """
    if x.dtype.itemsize < 8:
        return x.astype(np.float64)
    negative = x < 0
    size = x.astype(np.uint64)
    size = np.where(negative, np.uint64(0) - size, size)
    dropped = size & np.uint64(0x7FF)
    cut = size - dropped | (dropped != 0).astype(np.uint64) << np.uint64(11)
    wide = np.where(size >> np.uint64(53) != 0, cut, size).astype(np.float64)
    return np.where(negative, -wide, wide)


def to_float32(x: Array, mode: str) -> NDArray[np.float32]:
    """Round float64 values to float32; ``mode`` is "rn", "rz", "rm" or "rp".

    >>> float(to_float32(np.array(1 + 2.0**-30), "rp")) == 1 + 2.0**-23
    True
    """
    if mode == "rn":
        return cast("NDArray[np.float32]", np.asarray(x).astype(np.float32))
    return encode(np.asarray(x), "f32", cast("Rounding", mode)).view(np.float32)


def zero_of_sum(total: Array, x: Array, y: Array) -> Array:
    """Give a sum that was rounded down the right zero: -0 unless both terms are +0.

    Source: IEEE 754, 6.3.

    >>> float(zero_of_sum(np.array(0.0), np.array(3.0), np.array(-3.0)))
    -0.0
    """
    minus = (total == 0) & (x == -y) & (np.signbit(x) | np.signbit(y))
    return np.where(minus, total.dtype.type(-0.0), total)
