"""The product of raw operands in either arithmetic, for MMAs whose results live in registers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.tensor import faithful, formats, mma

#: The kind of MMA that multiplies each type, for the rounding model.
KINDS = {"f16": "f16", "bf16": "f16", "tf32": "tf32", "e4m3": "f8f6f4", "e5m2": "f8f6f4"}
#: Bytes along K of one step of the rounding model.
STEP = 32


def product(
    a: NDArray[Any],
    b: NDArray[Any],
    types: tuple[str, str, str],
    c: NDArray[Any] | None = None,
    *,
    architecture: faithful.Architecture | None = None,
    saturate: bool = False,
) -> NDArray[Any]:
    """Return ``a @ b + c``.

    Args:
        a: bits of A, shape (..., m, k); values, if integers or float64.
        b: bits of B, shape (..., k, n).
        types: of A, B and D: "f16", "bf16", "tf32", "e4m3", "e5m2" with "f32" or "f16"; "s8", "u8"
            with "s32"; "f64".
        c: values of C: float32 (also for "f16"), int32 or float64; None for zero.
        architecture: round as its tensor cores do; None for the fast float32 product. With less
            than 32 bytes along K, zeros are added.
        saturate: integers stop at the limits of int32.

    Returns:
        Values of D, shape (..., m, n): float32 (not yet rounded to "f16" in the fast arithmetic),
        int32 or float64.

    >>> product(np.uint16([[0x3F80]]), np.uint16([[0x4000]]), ("bf16", "bf16", "f32"))
    array([[2.]], dtype=float32)
    """
    if types[2] == "f64":
        found: NDArray[np.float64] = np.matmul(a, b)
        return found if c is None else found + c
    if types[2] == "s32":
        return mma.multiply_integers(a, b, c, saturate)
    if architecture is None:
        return mma.multiply(formats.decode(a, types[0]), formats.decode(b, types[1]), c)
    rest = -a.shape[-1] % (STEP // a.itemsize)
    if rest:
        still = [(0, 0)] * (a.ndim - 2)
        a = np.pad(a, [*still, (0, 0), (0, rest)])
        b = np.pad(b, [*still, (0, rest), (0, 0)])
    return faithful.multiply(a, b, types, c, KINDS[types[0]], architecture)
