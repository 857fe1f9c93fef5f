"""The number formats of tensor cores: raw bits to float32 and back.

A format is a sign bit, `exponent` bits with a bias and `fraction` bits. Below the smallest normal
number the spacing stays constant (subnormals). What the topmost exponent means differs: infinities
and NaNs as IEEE 754 has them (f16, bf16, tf32, f32, e5m2), a single NaN and no infinity (e4m3), or
nothing special at all (the 4- and 6-bit formats).

=====  ========  ========  ====  ==========  =======================================
name   exponent  fraction  bias  largest     kept in
=====  ========  ========  ====  ==========  =======================================
f32    8         23        127   3.4e38      uint32
tf32   8         10        127   3.4e38      uint32, the low 13 bits ignored
bf16   8         7         127   3.39e38     uint16
f16    5         10        15    65504       uint16
e5m2   5         2         15    57344       uint8
e4m3   4         3         7     448         uint8
e3m2   3         2         3     28          uint8, the low 6 bits
e2m3   2         3         1     7.5         uint8, the low 6 bits
e2m1   2         1         1     6           uint8, the low 4 bits
=====  ========  ========  ====  ==========  =======================================

Sources: PTX ISA 5.2.3 "Alternate floating-point data formats" and "cvt"; OCP 8-bit floating point
specification 1.0 and OCP microscaling formats 1.0 for the 4-, 6- and 8-bit formats.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Rounding = Literal["rn", "rna", "rz", "rm", "rp"]
Raw: TypeAlias = NDArray[np.unsignedinteger[Any]]
FloatArray: TypeAlias = NDArray[np.float32] | NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Format:
    """One number format.

    Rules:
        ``special`` is "ieee" (infinities and NaNs), "nan" (only the pattern of all ones is a NaN)
        or "finite". ``shift`` counts ignored bits below the format in its container (tf32: 13).
    """

    name: str
    exponent: int
    fraction: int
    special: Literal["ieee", "nan", "finite"]
    storage: np.dtype[Any]
    shift: int = 0

    @property
    def bias(self) -> int:
        """What is added to an exponent before it is stored."""
        return int(2 ** (self.exponent - 1)) - 1

    @property
    def lowest_exponent(self) -> int:
        """Exponent of the smallest normal number, and of every subnormal."""
        return 1 - self.bias

    @property
    def bits(self) -> int:
        """Bits of a value, without padding."""
        return 1 + self.exponent + self.fraction

    @property
    def largest(self) -> int:
        """Bits of the largest finite magnitude, without ``shift``."""
        last = (1 << (self.exponent + self.fraction)) - 1
        if self.special == "ieee":
            return last - (1 << self.fraction)
        return last - 1 if self.special == "nan" else last


FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format("f32", 8, 23, "ieee", np.dtype(np.uint32)),
        Format("tf32", 8, 10, "ieee", np.dtype(np.uint32), shift=13),
        Format("bf16", 8, 7, "ieee", np.dtype(np.uint16)),
        Format("f16", 5, 10, "ieee", np.dtype(np.uint16)),
        Format("e5m2", 5, 2, "ieee", np.dtype(np.uint8)),
        Format("e4m3", 4, 3, "nan", np.dtype(np.uint8)),
        Format("e3m2", 3, 2, "finite", np.dtype(np.uint8)),
        Format("e2m3", 2, 3, "finite", np.dtype(np.uint8)),
        Format("e2m1", 2, 1, "finite", np.dtype(np.uint8)),
    )
}


def format_of(dtype: str) -> Format:
    """Return the format called ``dtype``.

    Raises:
        ValueError: no format has that name.

    >>> format_of("e4m3").largest, format_of("bf16").lowest_exponent
    (126, -126)
    """
    if dtype not in FORMATS:
        raise ValueError(f"format {dtype!r} is not known; use one of {', '.join(FORMATS)}")
    return FORMATS[dtype]


def decode(raw: Raw, dtype: str) -> NDArray[np.float32]:
    """Return the values that raw bits stand for.

    Args:
        raw: array of any shape in the format's container (uint8, uint16 or uint32). An array of
            another integer type is read as the container's bits; padding bits are ignored.
        dtype: name of a format, or "u8" and "s8" for integers.

    Returns:
        float32, shape of ``raw``; every value is exact. For f32 it may be a view of ``raw``. A
        matrix that is transposed in memory stays so.

    Raises:
        ValueError: ``dtype`` is not known.

    >>> decode(np.array([0x3F80, 0xC040], np.uint16), "bf16")
    array([ 1., -3.], dtype=float32)
    >>> decode(np.array([0x38, 0x7E, 0x7F], np.uint8), "e4m3")
    array([  1., 448.,  nan], dtype=float32)
    """
    if dtype == "bf16":
        wide = raw.astype(np.uint32)
        wide <<= np.uint32(16)
        return wide.view(np.float32)
    if dtype == "f32":
        return raw.astype(np.uint32, copy=False).view(np.float32)
    if dtype == "tf32":
        return (raw.astype(np.uint32, copy=False) & np.uint32(0xFFFFE000)).view(np.float32)
    if raw.ndim > 1 and not raw.flags.c_contiguous:
        # A transposed matrix stays transposed in memory: looking it up in order is much faster.
        return _table(dtype).take(raw.swapaxes(-1, -2)).swapaxes(-1, -2)
    return _table(dtype).take(raw)


def encode(
    x: FloatArray, dtype: str, rounding: Rounding = "rn", saturate: bool | None = None
) -> Raw:
    """Round values to a format and return their bits.

    Args:
        x: float32 or float64 array of any shape. float64 is rounded once, to the format.
        dtype: name of a format.
        rounding: "rn" to nearest, ties to even; "rna" to nearest, ties away from zero; "rz"
            towards zero; "rm" down; "rp" up.
        saturate: turn what overflows, infinities too, into the largest finite number
            (``.satfinite``). Default: only for the formats of 8 bits and fewer, where PTX asks for
            it. Without it an overflow rounds as IEEE 754 has it; e4m3 then yields NaN.

    Returns:
        Bits in the format's container, shape of ``x``. NaN becomes the canonical NaN (sign clear,
        all other bits set); formats without a NaN take their largest number instead.

    Raises:
        ValueError: ``dtype`` or ``rounding`` is not known.

    Source: PTX ISA, "cvt".

    >>> encode(np.array([1.0, 1.00390625, 1e39]), "bf16")
    array([16256, 16256, 32640], dtype=uint16)
    >>> encode(np.array([1e6, -0.3], np.float32), "e4m3")
    array([126, 170], dtype=uint8)
    """
    fmt = format_of(dtype)
    if rounding not in ("rn", "rna", "rz", "rm", "rp"):
        raise ValueError(f"rounding {rounding!r} is not known; use rn, rna, rz, rm or rp")
    if saturate is None:
        saturate = fmt.bits <= 8
    if rounding == "rn" and not saturate and dtype == "f16":
        return _nearest_f16(x)
    if rounding == "rn" and not saturate and dtype == "bf16" and x.dtype == np.float32:
        return _nearest_bf16(x)
    return _encode(x, fmt, rounding, saturate)


def _nearest_bf16(x: NDArray[Any]) -> Raw:
    """Round float32 to bf16, ties to even, by integer arithmetic on the bits."""
    bits = x.view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    rounded: Raw = ((bits + odd + np.uint32(0x7FFF)) >> np.uint32(16)).astype(np.uint16)
    nan = np.isnan(x)
    return np.where(nan, np.uint16(0x7FFF), rounded) if nan.any() else rounded


def _nearest_f16(x: FloatArray) -> Raw:
    """Round to f16, ties to even, as NumPy does; only NaNs differ."""
    with np.errstate(all="ignore"):
        rounded: Raw = x.astype(np.float16).view(np.uint16)
    nan = np.isnan(x)
    return np.where(nan, np.uint16(0x7FFF), rounded) if nan.any() else rounded


def _encode(x: FloatArray, fmt: Format, rounding: Rounding, saturate: bool) -> Raw:
    """Round to any format: count the spacings below each magnitude, exactly, in float64."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        wide = np.asarray(x, np.float64)
    negative = np.signbit(wide)
    nan = np.isnan(wide)
    infinite = np.isinf(wide)
    magnitude = np.where(nan | infinite, 0.0, np.abs(wide))
    exponent = np.where(magnitude == 0, fmt.lowest_exponent, np.frexp(magnitude)[1] - 1)
    exponent = np.maximum(exponent.astype(np.int64), fmt.lowest_exponent)
    spacings = np.ldexp(magnitude, fmt.fraction - exponent)
    down = np.floor(spacings)
    rest = spacings - down
    if rounding == "rn":
        up = (rest > 0.5) | ((rest == 0.5) & (down % 2 == 1))
    elif rounding == "rna":
        up = rest >= 0.5
    elif rounding == "rz":
        up = np.zeros(rest.shape, bool)
    else:
        up = (rest > 0) & (negative == (rounding == "rm"))
    # A carry into the next exponent, and the step from subnormal to normal, are the same addition.
    steps = ((exponent - fmt.lowest_exponent) << fmt.fraction) + down.astype(np.int64) + up
    last = (1 << (fmt.bits - 1)) - 1
    if fmt.special == "finite" or saturate:
        beyond = np.full(rest.shape, fmt.largest)
    else:
        infinity = fmt.largest + 1 if fmt.special == "ieee" else last
        stays = {"rz": True, "rm": ~negative, "rp": negative}.get(rounding, False)
        beyond = np.where(stays & ~infinite, fmt.largest, infinity)
    steps = np.where((steps > fmt.largest) | infinite, beyond, steps)
    bits = steps | (negative.astype(np.int64) << (fmt.bits - 1))
    bits = np.where(nan, fmt.largest if fmt.special == "finite" else last, bits) << fmt.shift
    encoded: Raw = bits.astype(fmt.storage)
    return encoded


@cache
def _table(dtype: str) -> NDArray[np.float32]:
    """Return the value of every bit pattern of a format of at most 16 bits."""
    if dtype == "u8":
        return np.arange(256, dtype=np.float32)
    if dtype == "s8":
        return np.arange(256, dtype=np.uint8).view(np.int8).astype(np.float32)
    fmt = format_of(dtype)
    bits = np.arange(1 << (8 * fmt.storage.itemsize)) & ((1 << fmt.bits) - 1)
    field = (bits >> fmt.fraction) & ((1 << fmt.exponent) - 1)
    fraction = bits & ((1 << fmt.fraction) - 1)
    implied = (field > 0).astype(np.int64) << fmt.fraction
    exponent = np.maximum(field, 1) - fmt.bias - fmt.fraction
    magnitude = np.ldexp((implied + fraction).astype(np.float64), exponent)
    if fmt.special == "ieee":
        top = field == (1 << fmt.exponent) - 1
        magnitude = np.where(top, np.where(fraction == 0, np.inf, np.nan), magnitude)
    elif fmt.special == "nan":
        magnitude = np.where(bits & ~(1 << (fmt.bits - 1)) > fmt.largest, np.nan, magnitude)
    values = np.where(bits >> (fmt.bits - 1) == 1, -magnitude, magnitude)
    table: NDArray[np.float32] = values.astype(np.float32)
    return table
