"""The fast product: float32 matrix multiplication, and what surrounds it.

Products of 16-bit and 8-bit numbers are exact in float32; only the order of the additions and their
rounding differ from a tensor core. `faithful` has the slow product that rounds as one does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Float32Array = NDArray[np.float32]


def multiply(a: Float32Array, b: Float32Array, c: Float32Array | None = None) -> Float32Array:
    """Return ``a @ b + c``.

    Args:
        a: float32, shape (..., m, k).
        b: float32, shape (..., k, n); may be transposed in memory.
        c: float32, shape (..., m, n), or None for zero.

    Returns:
        float32, shape (..., m, n), a new array.

    >>> a = np.array([[1, 2], [3, 4]], np.float32)
    >>> multiply(a, np.eye(2, dtype=np.float32), a)
    array([[2., 4.],
           [6., 8.]], dtype=float32)
    """
    with np.errstate(all="ignore"):
        d: Float32Array = np.matmul(a, b)
        if c is not None:
            d += c
    return d


def multiply_integers(
    a: NDArray[Any], b: NDArray[Any], c: NDArray[np.int32] | None = None, saturate: bool = False
) -> NDArray[np.int32]:
    """Return ``a @ b + c`` in 32-bit integers (``kind::i8``).

    Args:
        a: values of u8 or s8, any type that holds them, shape (..., m, k), k at most 32.
        b: the same, shape (..., k, n).
        c: int32, shape (..., m, n), or None for zero.
        saturate: stop at the limits of int32 instead of wrapping round.

    >>> multiply_integers(np.int8([[-128]]), np.uint8([[255]]), np.int32([[-(2**31)]]), True)
    array([[-2147483648]], dtype=int32)
    """
    # Sums of up to 256 products of 8-bit numbers stay below 2**24: exact in float32.
    product: NDArray[np.int64] = np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(
        np.int64
    )
    if c is not None:
        product += c
    if saturate:
        product = product.clip(-(2**31), 2**31 - 1)
    return product.astype(np.int32)


def scaled(d: Float32Array, exponent: int) -> Float32Array:
    """Return an accumulator times ``2 ** -exponent`` (``scale-input-d``).

    Args:
        d: float32, any shape.
        exponent: 0 to 15.

    Raises:
        ValueError: the exponent is out of range.

    Source: PTX ISA 9.7.16.10.9 "tcgen05.mma".

    >>> scaled(np.float32([8.0]), 2)
    array([2.], dtype=float32)
    """
    if not 0 <= exponent <= 15:
        raise ValueError(f"scale-input-d must lie in 0 to 15, not {exponent}")
    return d * np.float32(2.0**-exponent)


def disabled_lanes(mask: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return which lanes an MMA leaves alone (``disable-output-lane``).

    Args:
        mask: 32-bit words; bit i of word w is lane 32 w + i. Four words, or eight for a CTA pair,
            of which the last four are taken to be the odd CTA's.

    Returns:
        True where D is not written, shape (32 words,).

    >>> disabled_lanes((0, 2, 0, 0)).nonzero()[0]
    array([33])
    """
    words = np.array(mask, np.uint32)[:, None]
    return (words >> np.arange(32, dtype=np.uint32) & np.uint32(1)).astype(bool).ravel()
