"""What ``cp.reduce.async.bulk`` does to an element: add, min, max, inc, dec, and, or, xor."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.tensor import formats

Reduction = Literal["add", "min", "max", "inc", "dec", "and", "or", "xor"]

_FLOATS = ("f16", "bf16", "f32", "f32_ftz", "f64")
_NAN = {"f16": 0x7FFF, "f32": 0x7FFFFFFF, "f32_ftz": 0x7FFFFFFF}
_BITWISE = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
_ARITHMETIC = {"add": np.add, "min": np.minimum, "max": np.maximum}
_FLOATING = {"add": np.add, "min": np.fmin, "max": np.fmax}


def reduced(old: NDArray[Any], new: NDArray[Any], dtype: str, operation: Reduction) -> NDArray[Any]:
    """Return ``old`` combined with ``new``, element by element.

    Args:
        old: what is in memory, any shape, in the container of ``dtype``.
        new: what the copy brings, same shape and type.
        dtype: element type of `fa4kernel.emulator.tensor.tensor_map.ELEMENT_TYPES`.
        operation: the reduction. Integers wrap; f16 and bf16 sums are rounded to nearest, ties to
            even, subnormals kept; minimum and maximum prefer a number to a NaN.

    Raises:
        ValueError: the type has no such reduction.

    Source: PTX ISA, "cp.reduce.async.bulk" and "red" (inc, dec). The bits of NaNs are an H200's.

    >>> reduced(np.uint32([0, 5, 9]), np.uint32([7, 7, 7]), "u32", "inc")
    array([1, 6, 0], dtype=uint32)
    """
    if dtype in _FLOATS and operation in _FLOATING:
        with np.errstate(all="ignore"):
            if dtype == "bf16":
                values = _FLOATING[operation](
                    formats.decode(old, "bf16"), formats.decode(new, "bf16")
                )
                return formats.encode(values, "bf16")
            result: NDArray[Any] = _FLOATING[operation](old, new)
            if dtype == "f64" and operation == "add":
                result = np.where(np.isnan(old), old, result)
            elif dtype != "f64":
                nan = np.array(_NAN[dtype], f"u{result.itemsize}").view(result.dtype)
                result = np.where(np.isnan(result), nan, result)
            return result
    if dtype in ("u32", "s32", "u64", "s64"):
        if operation in _BITWISE:
            return np.asarray(_BITWISE[operation](old, new))
        if operation in _ARITHMETIC:
            return np.asarray(_ARITHMETIC[operation](old, new))
        if dtype == "u32" and operation == "inc":
            return np.where(old >= new, np.uint32(0), old + np.uint32(1))
        if dtype == "u32" and operation == "dec":
            return np.where((old == 0) | (old > new), new, old - np.uint32(1))
    raise ValueError(f"element type {dtype!r} has no reduction {operation!r}")
