"""Number formats: what fits in 16 or 8 bits, and how a float32 is rounded to fit.

Every array in this package is a float32 array. "A bf16 array" means a float32 array whose values
all happen to be representable in bfloat16; nothing else changes hands, so NumPy needs no bfloat16
type. The formats split their bits differently:

=====  ====  ========  ========  =============  ==============
name   sign  exponent  fraction  spacing at 1   largest finite
=====  ====  ========  ========  =============  ==============
e4m3   1     4         3         2**-3          448
e5m2   1     5         2         2**-2          57344
bf16   1     8         7         2**-7          3.39e38
fp16   1     5         10        2**-10         65504
fp32   1     8         23        2**-23         3.40e38
=====  ====  ========  ========  =============  ==============

bf16 is the upper half of a float32, so rounding to it is integer arithmetic on the bits: add just
under half of the lower 16 bits, plus one if the kept half is odd, and cut. A carry runs into the
exponent by itself, which is also how the largest values become infinity. The two 8-bit formats are
in :mod:`fa4sim.numerics.fp8`.

The kernel rounds with ``cvt.rn.bf16x2.f32`` and ``cvt.rn.f16x2.f32`` (PTX ISA, "cvt"): to nearest,
ties to even, subnormals kept, overflow to infinity, NaN to the canonical 0x7fff. To 8 bits it
rounds with ``cvt.rn.satfinite``, whose overflow is the largest finite value.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from fa4sim.numerics import fp8

DType = Literal["bf16", "fp16", "fp32", "e4m3", "e5m2"]
Float32Array: TypeAlias = NDArray[np.float32]
Float64Array: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
IntArray: TypeAlias = NDArray[np.int64]

FP8_DTYPES = tuple(fp8.FORMATS)
"""Names of the 8-bit formats."""

EPSILON: dict[str, float] = {
    **{"bf16": 2.0**-7, "fp16": 2.0**-10, "fp32": 2.0**-23},
    **{name: 2.0**-form.fraction for name, form in fp8.FORMATS.items()},
}
"""Spacing of the format's values just above 1 (twice the largest relative rounding error)."""

LARGEST: dict[str, float] = {
    "bf16": (2.0 - 2.0**-7) * 2.0**127,
    "fp16": 65504.0,
    "fp32": (2.0 - 2.0**-23) * 2.0**127,
    **{name: form.largest for name, form in fp8.FORMATS.items()},
}
"""Largest finite value of the format."""

_CANONICAL_NAN16 = np.uint16(0x7FFF)


def check_dtype(dtype: object) -> None:
    """Refuse a format name this package doesn't know.

    Args:
        dtype: format name.

    Raises:
        ValueError: ``dtype`` is not one of those in :data:`DType`.

    >>> check_dtype("fp8")
    Traceback (most recent call last):
        ...
    ValueError: dtype 'fp8' is not known; use one of 'bf16', 'fp16', 'fp32', 'e4m3', 'e5m2'
    """
    if not isinstance(dtype, str) or dtype not in get_args(DType):
        known = ", ".join(repr(name) for name in get_args(DType))
        raise ValueError(f"dtype {dtype!r} is not known; use one of {known}")


def check_float32(x: Float32Array, name: str) -> Float32Array:
    """Return ``x`` unchanged if it is a float32 array, so that nothing is rounded in silence.

    Args:
        x: array, any shape.
        name: what to call it in the error.

    Raises:
        ValueError: ``x`` has another element type.

    >>> check_float32(np.zeros(2), "x")
    Traceback (most recent call last):
        ...
    ValueError: x has dtype float64, but float32 is needed; convert it with x.astype(np.float32)
    """
    x = np.asarray(x)
    if x.dtype != np.float32:
        raise ValueError(
            f"{name} has dtype {x.dtype}, but float32 is needed; "
            f"convert it with {name}.astype(np.float32)"
        )
    return x


def round_to(x: Float32Array, dtype: str) -> Float32Array:
    """Round float32 values to the nearest values of a format, ties to even.

    Args:
        x: float32 array, any shape.
        dtype: "bf16", "fp16", "e4m3", "e5m2" or "fp32" (a plain copy).

    Returns:
        float32 array of the same shape whose values are representable in ``dtype``. What is too
        large becomes infinity in 16 bits and the largest finite value in 8.

    Raises:
        ValueError: ``x`` is not float32, or ``dtype`` is not known.

    Source: PTX ISA, ``cvt.rn``, for 8 bits ``cvt.rn.satfinite``.

    >>> x = np.array([1.00390625, 1.01171875, 7e4, -1e-50], dtype=np.float32)
    >>> round_to(x, "bf16")  # the first two lie halfway between neighbours
    array([ 1.000000e+00,  1.015625e+00,  7.014400e+04, -0.000000e+00],
          dtype=float32)
    >>> round_to(x, "fp16")
    array([ 1.0039062,  1.0117188,        inf, -0.       ], dtype=float32)
    >>> round_to(x, "e4m3")
    array([  1.,   1., 448.,  -0.], dtype=float32)
    """
    check_dtype(dtype)
    x = check_float32(x, "x")
    if dtype == "fp32":
        return x.copy()
    if dtype in fp8.FORMATS:
        return fp8.round8(x, fp8.FORMATS[dtype])
    return from_bits16(to_bits16(x, dtype), dtype)


def to_bits16(x: Float32Array, dtype: str) -> NDArray[np.uint16]:
    """Round float32 values to a 16-bit format and return its bit patterns.

    Args:
        x: float32 array, any shape.
        dtype: "bf16" or "fp16".

    Returns:
        uint16 array of the same shape.

    Raises:
        ValueError: ``x`` is not float32, or ``dtype`` is not a 16-bit format.

    Source: PTX ISA, ``cvt.rn`` (NaN becomes 0x7fff).

    >>> [hex(b) for b in to_bits16(np.array([1, -2, np.nan], dtype=np.float32), "bf16")]
    ['0x3f80', '0xc000', '0x7fff']
    """
    _check_16bit(dtype)
    shape = np.shape(x)
    x = np.ascontiguousarray(check_float32(x, "x"))
    if dtype == "fp16":
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            bits = x.astype(np.float16).view(np.uint16)
    else:
        wide = x.view(np.uint32)
        rounded = (wide >> np.uint32(16)) & np.uint32(1)  # 1 where the kept half is odd
        rounded += np.uint32(0x7FFF)
        rounded += wide
        bits = (rounded >> np.uint32(16)).astype(np.uint16)
    is_nan = np.isnan(x)
    if is_nan.any():
        bits = np.where(is_nan, _CANONICAL_NAN16, bits)
    return bits.reshape(shape)


def from_bits16(bits: NDArray[np.uint16], dtype: str) -> Float32Array:
    """Return the float32 values that 16-bit patterns stand for (always exact).

    Args:
        bits: uint16 array, any shape.
        dtype: "bf16" or "fp16".

    Returns:
        float32 array of the same shape.

    Raises:
        ValueError: ``bits`` is not uint16, or ``dtype`` is not a 16-bit format.

    >>> from_bits16(np.array([0x3F80, 0x4049], dtype=np.uint16), "bf16")
    array([1.      , 3.140625], dtype=float32)
    """
    _check_16bit(dtype)
    bits = np.asarray(bits)
    if bits.dtype != np.uint16:
        raise ValueError(f"bits has dtype {bits.dtype}, but uint16 is needed")
    if dtype == "fp16":
        return bits.view(np.float16).astype(np.float32)
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def to_bits8(x: Float32Array, dtype: str) -> NDArray[np.uint8]:
    """Round float32 values to an 8-bit format and return its bit patterns.

    Args:
        x: float32 array, any shape.
        dtype: "e4m3" or "e5m2".

    Returns:
        uint8 array of the same shape.

    Raises:
        ValueError: ``x`` is not float32, or ``dtype`` is not an 8-bit format.

    Source: PTX ISA, ``cvt.rn.satfinite`` (NaN becomes 0x7f, infinities the largest finite value).

    >>> [hex(b) for b in to_bits8(np.array([1, -2, 1e9, np.nan], dtype=np.float32), "e4m3")]
    ['0x38', '0xc0', '0x7e', '0x7f']
    """
    return fp8.encode(check_float32(x, "x"), _format8(dtype))


def from_bits8(bits: NDArray[np.uint8], dtype: str) -> Float32Array:
    """Return the float32 values that 8-bit patterns stand for (always exact).

    Args:
        bits: uint8 array, any shape.
        dtype: "e4m3" (0x7f and 0xff are NaN, there is no infinity) or "e5m2" (as IEEE 754).

    Returns:
        float32 array of the same shape.

    Raises:
        ValueError: ``bits`` is not uint8, or ``dtype`` is not an 8-bit format.

    >>> from_bits8(np.array([0x01, 0x38, 0x7E, 0x7F], dtype=np.uint8), "e4m3")
    array([1.953125e-03, 1.000000e+00, 4.480000e+02,          nan],
          dtype=float32)
    """
    form = _format8(dtype)
    bits = np.asarray(bits)
    if bits.dtype != np.uint8:
        raise ValueError(f"bits has dtype {bits.dtype}, but uint8 is needed")
    return fp8.decode(bits, form)


def is_representable(x: Float32Array, dtype: str) -> bool:
    """Say whether every value of a float32 array fits a format without rounding.

    Args:
        x: float32 array, any shape. NaN counts as representable, in e5m2 infinity too.
        dtype: "bf16", "fp16", "fp32", "e4m3" or "e5m2".

    Raises:
        ValueError: ``x`` is not float32, or ``dtype`` is not known.

    >>> is_representable(np.array([0.5, 1.0], dtype=np.float32), "bf16")
    True
    >>> is_representable(np.array([0.1], dtype=np.float32), "bf16")
    False
    """
    rounded = round_to(x, dtype)
    if dtype == "e5m2":
        rounded = np.where(np.isinf(x), x, rounded)
    return bool(np.array_equal(rounded, x, equal_nan=True))


def _check_16bit(dtype: str) -> None:
    check_dtype(dtype)
    if dtype not in ("bf16", "fp16"):
        raise ValueError(f"dtype {dtype!r} is not a 16-bit format; use 'bf16' or 'fp16'")


def _format8(dtype: str) -> fp8.Format8:
    check_dtype(dtype)
    if dtype not in fp8.FORMATS:
        raise ValueError(f"dtype {dtype!r} is not an 8-bit format; use 'e4m3' or 'e5m2'")
    return fp8.FORMATS[dtype]
