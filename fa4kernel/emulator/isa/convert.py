"""Conversions: cvt between integers, floats and packed small floats, and cvt.pack.

A value passes through float64, which holds every source exactly (64-bit integers to within round
to odd), and is rounded once on the way out. Sources: PTX ISA 9.7.9.21 and 9.7.9.22.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.isa.floats import MODES, flush, saturate
from fa4kernel.emulator.isa.halves import relu
from fa4kernel.emulator.isa.packing import PACKED, build_packed
from fa4kernel.emulator.isa.rounding import odd_integer
from fa4kernel.emulator.isa.semantics import (
    DTYPES,
    Array,
    Builder,
    Semantics,
    Spelling,
    bits_of,
    is_float,
    is_signed,
)
from fa4kernel.emulator.tensor.formats import Rounding, encode

Wide = NDArray[np.float64]
_TO_INTEGER: dict[str, Callable[..., Any]] = {
    "rni": np.rint,
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}
_INTEGERS = tuple(letter + bits for letter in "us" for bits in ("8", "16", "32", "64"))
_FRACTION_BITS = {"bf16": 7, "f16": 10, "tf32": 10, "f32": 23, "f64": 52}
_RANGE_BITS = {"f16": 5, "bf16": 8, "tf32": 8, "f32": 8, "f64": 11}


def low_bits(x: Array, kind: str) -> Array:
    """An integer of 8 bits out of the 16 it came in; other kinds as they are."""
    if bits_of(kind) != 8:
        return np.asarray(x)
    return np.asarray(x).astype(np.int8 if is_signed(kind) else np.uint8)


def widen(x: Array, kind: str, ftz: bool) -> Wide:
    """The float64 values of a register."""
    if not is_float(kind):
        return odd_integer(low_bits(x, kind))
    if kind == "bf16":
        return (np.asarray(x).astype(np.uint32) << np.uint32(16)).view(np.float32).astype(float)
    if kind == "f32" and ftz:
        x = flush(x)
    return np.asarray(x).astype(np.float64)


def build_integer(s: Spelling, into: str, source: str) -> Semantics:
    """Integer to integer: sign or zero extension, truncation, or saturation."""
    dtype, sat = DTYPES[into], s.flag("sat")
    info = np.iinfo(f"{'i' if is_signed(into) else 'u'}{bits_of(into) // 8}")

    def convert(x: Array) -> Array:
        value = low_bits(x, source)
        if sat:
            low = max(int(info.min), int(np.iinfo(value.dtype).min))
            high = min(int(info.max), int(np.iinfo(value.dtype).max))
            value = np.clip(value, value.dtype.type(low), value.dtype.type(high))
        return low_bits(value, into).astype(dtype)

    return Semantics(convert, (source,), (into,))


def build_to_integer(s: Spelling, into: str, source: str) -> Semantics:
    """Float to integer: rounded and clamped; NaN gives 0, or the top bit if 64 bits are about."""
    whole = _TO_INTEGER[s.need(*_TO_INTEGER)]
    ftz = source == "f32" and s.flag("ftz")
    s.flag("sat")
    bits, signed = bits_of(into), is_signed(into)
    least, top = (-(1 << (bits - 1)), 1 << (bits - 1)) if signed else (0, 1 << bits)
    of_nan = 0
    if source == "f64" or bits == 64:
        of_nan = least if signed else 1 << (bits - 1)
    exact = np.dtype(f"{'i' if signed else 'u'}8").type

    def convert(x: Array) -> Array:
        value = np.asarray(whole(widen(x, source, ftz)))
        inside = (value >= least) & (value < top)
        result = np.where(inside, value, 0).astype(exact)
        result = np.where(value >= top, exact(top - 1), result)
        result = np.where(value < least, exact(least), result)
        return np.where(np.isnan(value), exact(of_nan), result).astype(DTYPES[into])

    return Semantics(convert, (source,), (into,))


def build_to_float(s: Spelling, into: str, source: str) -> Semantics:
    """To a float: rounded, then flushed, saturated or clamped as asked."""
    whole = s.take(*_TO_INTEGER) if into == source else ""
    narrower = not is_float(source) or (
        _FRACTION_BITS[into] < _FRACTION_BITS[source] or _RANGE_BITS[into] < _RANGE_BITS[source]
    )
    if into == "tf32":
        mode = s.need("rna", "rn", "rz")
    elif narrower and not whole:
        mode = s.need(*MODES) if is_float(source) else s.take(*MODES) or "rn"
    else:
        mode = "rn"
    ftz = "f32" in (into, source) and s.flag("ftz")
    ftz = ftz and into != "f16"  # an H200 converts subnormals to f16 as they are
    sat = into in ("f16", "f32", "f64") and s.flag("sat")
    small = into in ("f16", "bf16", "tf32")
    satfinite, clamp = small and s.flag("satfinite"), small and s.flag("relu")
    if into == "f64" and mode != "rn" and bits_of(source) == 64:
        raise s.refusal(f"cvt.{mode}.f64.{source} is not modelled")

    if mode == "rna":
        return Semantics(lambda x: away(x, satfinite), ("f32",), ("tf32",))

    fits_float32 = into == "bf16" and source in ("f32", "f16", "bf16")

    def convert(x: Array) -> Array:
        if into == "f64" and not is_float(source):
            value: Array = low_bits(x, source).astype(np.float64)
        else:
            value = widen(x, source, ftz)
        if whole:
            value = np.asarray(_TO_INTEGER[whole](value))
        if clamp:
            value = relu(value)
        if fits_float32:  # for which rounding to bfloat16 is fast
            value = value.astype(np.float32)
        return finish(store(value, into, mode, satfinite))

    def finish(x: Array) -> Array:
        x = flush(x) if ftz and into == "f32" else x
        return saturate(x) if sat else x

    return Semantics(convert, (source,), (into,))


def away(x: Array, satfinite: bool) -> Array:
    """Round float32 to tf32, ties away from zero; NaNs lose their low bits, as on an H200.

    With ``satfinite`` what has the largest exponent becomes one less, be it NaN or infinity.

    >>> [hex(b) for b in away(np.array([1 + 2.0**-11, np.inf, np.nan], np.float32), True)]
    ['0x3f802000', '0x7f7fe000', '0x7fbfe000']
    """
    bits = np.asarray(x).view(np.uint32)
    rounded = np.where(np.isnan(x), bits, bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    if satfinite:
        top = rounded & np.uint32(0x7F800000) == np.uint32(0x7F800000)
        rounded = np.where(top, rounded - np.uint32(0x2000), rounded)
    return np.asarray(rounded)


def store(x: Array, kind: str, mode: str, satfinite: bool = False) -> Array:
    """Round float64 values, or float32 values, to registers of a float type."""
    if kind == "f64":
        return x
    if kind == "f32" and mode == "rn":
        return x.astype(np.float32)
    if kind == "f16" and mode == "rn" and not satfinite:
        half = x.astype(np.float16)
        return np.where(np.isnan(x), np.uint16(0x7FFF).view(np.float16), half)
    return encode(x, kind, cast("Rounding", mode), satfinite).view(DTYPES[kind])


_PACK_TYPES = {
    f"{letter}{bits}": (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    if letter == "s"
    else (0, (1 << bits) - 1)
    for letter in "us"
    for bits in (2, 4, 8, 16)
}


def build_pack(s: Spelling) -> Semantics:
    """``cvt.pack.sat.convertType.s32{.b32} d, a, b{, c}``."""
    s.need("sat")
    kind = s.need(*_PACK_TYPES)
    bits, (low, high) = int(kind[1:]), _PACK_TYPES[kind]
    rest = s.types()  # of b, and of c where it fills the rest of the register
    if rest != (("s32",) if bits == 16 else ("s32", "b32")):
        raise s.refusal("cvt.pack with these types is not modelled")
    mask = np.uint32((1 << bits) - 1)

    def packed(a: Array, b: Array, *c: Array) -> Array:
        high_part, low_part = (
            np.clip(x, np.int32(low), np.int32(high)).astype(np.uint32) & mask for x in (a, b)
        )
        result = high_part << np.uint32(bits) | low_part
        return result | c[0] << np.uint32(2 * bits) if c else result

    return Semantics(packed, ("s32", *rest), ("u32",))


def build_cvt(s: Spelling) -> Semantics:
    """``cvt`` in all its forms."""
    if s.flag("pack"):
        return build_pack(s)
    kinds = s.types()
    if len(kinds) == 2 and (kinds[0] in PACKED or kinds[1] in PACKED):
        return build_packed(s, *kinds)
    if len(kinds) != 2 or not {*kinds} <= {*_INTEGERS, *_FRACTION_BITS} or kinds[1] == "tf32":
        raise s.refusal("cvt with these types is not modelled")
    into, source = kinds
    if not is_float(into):
        build = build_to_integer if is_float(source) else build_integer
    else:
        build = build_to_float
        if into == "tf32" and source != "f32":
            raise s.refusal(f"cvt.tf32.{source} is not modelled")
    return build(s, into, source)


BUILDERS: dict[str, Builder] = {"cvt": build_cvt}
