"""Conversions that fill a register with two or more small floats.

Sources: PTX ISA 9.7.9.21. The operand named first goes to the upper part of the result.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.isa.halves import joined, narrow, relu, widen
from fa4kernel.emulator.isa.semantics import Array, Semantics, Spelling, Where
from fa4kernel.emulator.tensor.formats import FORMATS, Rounding, decode, encode

_SMALL = {f"{name}x2": name for name in ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")}
_PAIRS = {"f16x2": "f16", "bf16x2": "bf16"}
PACKED = (*_SMALL, *_PAIRS)
# Arrays without dimensions: a ufunc takes them faster than scalars.
_HALF, _LAST = np.array(16, np.uint32), np.array(1, np.uint32)
_ALMOST_HALF, _UPPER = np.array(0x7FFF, np.uint32), np.array(0xFFFF0000, np.uint32)


def bf16x2(a: Array, b: Array, out: Array | None = None, where: Where = True) -> Array:
    """``cvt.rn.bf16x2.f32``: float32 a to the upper half, b to the lower one.

    >>> hex(bf16x2(np.float32(1), np.float32(-2)))
    '0x3f80c000'
    """
    rounded = round_to_bf16(side_by_side(a, b))
    high, low = rounded[0, ...], rounded[1, ...]
    np.bitwise_and(high, _UPPER, high)
    np.right_shift(low, _HALF, low)
    return np.asarray(np.bitwise_or(high, low, out=out, where=where))


def side_by_side(a: Array, b: Array) -> NDArray[np.float32]:
    """Two float32 arrays, or scalars, in one of shape (2, ...)."""
    shape = a.shape if a.shape == b.shape else np.broadcast(a, b).shape
    both = np.empty((2, *shape), np.float32)
    both[0] = a
    both[1] = b
    return both


def round_to_bf16(x: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Bits of which the upper half is the bfloat16 nearest to a float32 value, ties to even.

    Args:
        x: float32 array of at least one dimension, contiguous.

    >>> [hex(bits >> 16) for bits in round_to_bf16(np.array([1, 1.005859375], np.float32))]
    ['0x3f80', '0x3f81']
    """
    bits = x.view(np.uint32)
    rounded: NDArray[np.uint32] = np.right_shift(bits, _HALF)
    np.bitwise_and(rounded, _LAST, rounded)
    np.add(rounded, _ALMOST_HALF, rounded)
    np.add(rounded, bits, rounded)
    flat = x.ravel()
    squares = np.dot(flat, flat)
    if squares != squares:  # there is a NaN among them
        rounded[np.isnan(x)] = 0x7FFF0000
    return rounded


def f16x2(a: Array, b: Array) -> Array:
    """``cvt.rn.f16x2.f32``: float32 a to the upper half, b to the lower one.

    >>> hex(f16x2(np.float32(1), np.float32(-2)))
    '0x3c00c000'
    """
    both = side_by_side(a, b)
    halves = np.empty((*both.shape[1:], 2), np.uint16)
    halves[..., 1], halves[..., 0] = both.astype(np.float16).view(np.uint16)
    lost = np.isnan(both)
    if np.count_nonzero(lost):
        halves[np.stack([lost[1], lost[0]], axis=-1)] = 0x7FFF
    return joined(halves)


def small_codes(x: NDArray[np.float32], name: str) -> NDArray[np.uint32]:
    """Round float32 values to a format of 4, 6 or 8 bits, to nearest and saturating.

    The bits above the format's fraction are rounded like any integer; below the smallest normal
    number, adding a power of two whose last bit is the format's spacing rounds instead.

    >>> [hex(code) for code in small_codes(np.array([1, -1e9, 0.001, np.nan], np.float32), "e4m3")]
    ['0x38', '0xfe', '0x1', '0x7f']
    """
    form = FORMATS[name]
    drop = 23 - form.fraction
    largest = decode(np.array([form.largest], np.uint8), name)[0]
    size = np.minimum(np.abs(x), largest)
    bits = size.view(np.uint32)
    code: NDArray[np.uint32] = bits >> np.uint32(drop)
    code &= np.uint32(1)
    code += np.uint32((1 << drop - 1) - 1)
    code += bits
    code >>= np.uint32(drop)
    code -= np.uint32((form.lowest_exponent + 126) << form.fraction)
    magic = np.float32(2.0 ** (form.lowest_exponent + drop))
    below = size < np.float32(2.0**form.lowest_exponent)
    if np.count_nonzero(below):
        code = np.where(below, (size + magic).view(np.uint32) - magic.view(np.uint32), code)
    sign = x.view(np.uint32) >> np.uint32(32 - form.bits)
    sign &= np.uint32(1 << form.bits - 1)
    code |= sign
    lost = np.isnan(x)
    if np.count_nonzero(lost):
        code[lost] = form.largest if form.special == "finite" else (1 << form.bits - 1) - 1
    return code


def build_packed(s: Spelling, into: str, source: str) -> Semantics:
    """``cvt`` to or from a packed type."""
    if into in _SMALL:
        return _build_small(s, into, source)
    if source in _SMALL and into == "f16x2":
        return _build_unpack(s, into, source)
    if into in _PAIRS and source == "f32":
        return _build_pair(s, into)
    raise s.refusal(f"cvt.{into}.{source} is not modelled")


def _build_pair(s: Spelling, into: str) -> Semantics:
    """f32, f32 to f16x2 or bf16x2."""
    mode, clamp, satfinite = s.need("rn", "rz"), s.flag("relu"), s.flag("satfinite")
    name = _PAIRS[into]
    if mode == "rn" and not clamp and not satfinite:
        fast = bf16x2 if into == "bf16x2" else f16x2
        return Semantics(fast, ("f32", "f32"), (into,), ufunc=into == "bf16x2")

    def half(x: Array) -> Array:
        value = np.asarray(x, np.float64)
        value = relu(value) if clamp else value
        return encode(value, name, cast("Rounding", mode), satfinite)

    def convert(a: Array, b: Array) -> Array:
        return joined(np.stack(np.broadcast_arrays(half(b), half(a)), axis=-1))

    return Semantics(convert, ("f32", "f32"), (into,))


def _build_small(s: Spelling, into: str, source: str) -> Semantics:
    """f32, f32 or f16x2 or bf16x2 to two values of 4, 6 or 8 bits."""
    s.need("rn")
    s.need("satfinite")
    clamp = s.flag("relu")
    name = _SMALL[into]
    shift = np.uint32(4 if name == "e2m1" else 8)

    def join(both: NDArray[np.float32]) -> Array:
        codes: Array = small_codes(relu(both) if clamp else both, name)
        return np.asarray(codes[0] << shift | codes[1]).astype(np.uint16)

    def from_pair(x: Array) -> Array:
        low, high = np.moveaxis(widen(x, source).astype(np.float32), -1, 0)
        return join(side_by_side(high, low))

    if source == "f32":
        return Semantics(lambda a, b: join(side_by_side(a, b)), (source, source), (into,))
    if source not in _PAIRS:
        raise s.refusal(f"cvt.{into}.{source} is not modelled")
    return Semantics(from_pair, (source,), (into,))


def _build_unpack(s: Spelling, into: str, source: str) -> Semantics:
    """Two values of 4, 6 or 8 bits to f16x2."""
    s.need("rn")
    clamp = s.flag("relu")
    name = _SMALL[source]
    shift, mask = (4, 15) if name == "e2m1" else (8, 255)

    def convert(x: Array) -> Array:
        x = np.asarray(x)
        codes = np.stack([x & np.uint16(mask), x >> np.uint16(shift) & np.uint16(mask)], axis=-1)
        value = decode(codes.astype(np.uint8), name).astype(np.float64)
        return narrow(relu(value) if clamp else value, into)

    return Semantics(convert, (source,), (into,))
