"""Integer arithmetic: add, sub, mul, mad, div, rem, abs, neg, min, max, sad, and dot products.

Everything wraps, as NumPy's integers do. Division truncates toward zero; by zero it gives all
ones, and so is the remainder (PTX leaves both open; an H200 does this). Sources: PTX ISA 9.7.1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fa4kernel.emulator.isa.semantics import (
    DTYPES,
    Array,
    Builder,
    Semantics,
    Spelling,
    bits_of,
    is_signed,
)

_TYPES = tuple(letter + bits for letter in "us" for bits in ("16", "32", "64"))
_PAIRS = {"u16x2": np.uint16, "s16x2": np.int16}
_PLAIN: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "min": np.minimum,
    "max": np.maximum,
    "abs": np.absolute,
    "neg": np.negative,
}


def multiply_high(a: Array, b: Array) -> Array:
    """The upper half of the product of two integers of the same type.

    >>> (
    ...     hex(multiply_high(np.uint64(2**63), np.uint64(6))),
    ...     int(multiply_high(np.int32(-1), np.int32(5))),
    ... )
    ('0x3', -1)
    """
    a, b = np.asarray(a), np.asarray(b)
    bits = a.dtype.itemsize * 8
    if bits == 64:
        return _multiply_high_64(a, b)
    wide = np.int64 if a.dtype.kind == "i" else np.uint64
    product: Array = a.astype(wide) * b.astype(wide)
    return np.asarray(product >> wide(bits)).astype(a.dtype)


def _multiply_high_64(a: Array, b: Array) -> Array:
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    x, y = a.astype(np.uint64), b.astype(np.uint64)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    cross = (middle & low) + x0 * y1
    high = x1 * y1 + (middle >> half) + (cross >> half)
    if a.dtype.kind == "i":
        high = high - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    return np.asarray(high).astype(a.dtype)


def divide(a: Array, b: Array) -> Array:
    """Quotient truncated toward zero; all ones where ``b`` is 0.

    >>> divide(np.array([-7, 7], np.int32), np.array([2, 0], np.int32))
    array([-3, -1], dtype=int32)
    """
    return _divide(a, b)[0]


def remainder(a: Array, b: Array) -> Array:
    """What :func:`divide` leaves, with the sign of ``a``; all ones where ``b`` is 0."""
    return _divide(a, b)[1]


def _divide(a: Array, b: Array) -> tuple[Array, Array]:
    a, b = np.asarray(a), np.asarray(b)
    dtype = a.dtype
    zero = b == 0
    one = np.where(zero, dtype.type(1), b)
    quotient, rest = np.floor_divide(a, one), np.remainder(a, one)
    if dtype.kind == "i":
        short = (rest != 0) & ((a < 0) != (one < 0))
        quotient, rest = quotient + short.astype(dtype), np.where(short, rest - one, rest)
    ones = dtype.type(-1) if dtype.kind == "i" else dtype.type(np.iinfo(dtype).max)
    return np.where(zero, ones, quotient), np.where(zero, ones, rest)


def _saturated(function: Callable[..., Any]) -> Callable[..., Array]:
    """A function of s32 values, computed in 64 bits and clamped to 32."""

    def clamped(*inputs: Array) -> Array:
        exact = function(*(np.asarray(x).astype(np.int64) for x in inputs))
        return np.asarray(np.clip(exact, -(2**31), 2**31 - 1)).astype(np.int32)

    return clamped


def _on_pairs(function: Callable[..., Any], half: type[Any], relu: bool) -> Callable[..., Array]:
    """A function of 16-bit integers applied to both halves of 32-bit registers."""

    def apply(*inputs: Array) -> Array:
        parts = [np.atleast_1d(x)[..., None].view(half) for x in inputs]
        result = function(*parts)
        if relu:
            result = np.maximum(result, half(0))
        return np.ascontiguousarray(result).view(np.uint32)[..., 0]

    return apply


def build_plain(s: Spelling) -> Semantics:
    """``add``, ``sub``, ``min``, ``max``, ``abs``, ``neg``, with .sat and .relu."""
    kind = s.type(*_TYPES, *_PAIRS)
    function: Callable[..., Any] = _PLAIN[s.opcode]
    count = 1 if s.opcode in ("abs", "neg") else 2
    ufunc = True
    if kind == "s32" and s.opcode in ("add", "sub") and s.flag("sat"):
        function, ufunc = _saturated(function), False
    relu = s.opcode in ("min", "max") and kind in ("s32", "s16x2") and s.flag("relu")
    if kind in _PAIRS:
        function, ufunc = _on_pairs(function, _PAIRS[kind], relu), False
    elif relu:
        plain = function
        function, ufunc = lambda a, b: np.maximum(plain(a, b), np.int32(0)), False
    return Semantics(function, (kind,) * count, (kind,), ufunc=ufunc)


def build_multiply(s: Spelling) -> Semantics:
    """``mul`` and ``mad`` with .lo, .hi, .wide."""
    kind, part = s.type(*_TYPES), s.need("lo", "hi", "wide")
    bits = bits_of(kind)
    if part == "wide" and bits == 64:
        raise s.refusal(f"{s.opcode}.wide has no {kind}")
    into = f"{kind[0]}{2 * bits}" if part == "wide" else kind
    wide = DTYPES[into]
    products: dict[str, Callable[..., Any]] = {
        "lo": np.multiply,
        "hi": multiply_high,
        "wide": partial(np.multiply, dtype=wide),
    }
    product = products[part]
    if s.opcode == "mul":
        return Semantics(product, (kind, kind), (into,), ufunc=part != "hi")
    if part == "hi" and kind == "s32" and s.flag("sat"):
        function = _saturated(lambda a, b, c: (a * b >> 32) + c)
    else:
        function = lambda a, b, c: product(a, b) + c  # noqa: E731
    return Semantics(function, (kind, kind, into), (into,))


def build_multiply_24(s: Spelling) -> Semantics:
    """``mul24`` and ``mad24``: the low or high 32 of 48 bits of a product of 24-bit values."""
    kind, part = s.type("u32", "s32"), s.need("lo", "hi")
    dtype = DTYPES[kind]

    def cut(x: Array) -> Array:
        return np.asarray((x << dtype.type(8)) >> dtype.type(8))

    def product(a: Array, b: Array) -> Array:
        wide = np.multiply(cut(a), cut(b), dtype=np.dtype(f"{dtype.kind}8"))
        return np.asarray(wide >> wide.dtype.type(16 if part == "hi" else 0)).astype(dtype)

    if s.opcode == "mul24":
        return Semantics(product, (kind, kind), (kind,))
    if part == "hi" and kind == "s32" and s.flag("sat"):
        return Semantics(
            _saturated(lambda a, b, c: (cut64(a) * cut64(b) >> 16) + c), (kind,) * 3, (kind,)
        )
    return Semantics(lambda a, b, c: product(a, b) + c, (kind,) * 3, (kind,))


def cut64(x: Array) -> Array:
    """The low 24 bits of 64-bit integers, sign extended."""
    return (x << np.int64(40)) >> np.int64(40)


def build_divide(s: Spelling) -> Semantics:
    """``div`` and ``rem``."""
    kind = s.type(*_TYPES)
    return Semantics(divide if s.opcode == "div" else remainder, (kind, kind), (kind,))


def build_sad(s: Spelling) -> Semantics:
    """``sad``: ``c + |a - b|``."""
    kind = s.type(*_TYPES)

    def sad(a: Array, b: Array, c: Array) -> Array:
        return c + np.where(a < b, b - a, a - b)

    return Semantics(sad, (kind,) * 3, (kind,))


def build_dot(s: Spelling) -> Semantics:
    """``dp4a`` and ``dp2a``: dot products of bytes with bytes or 16-bit words, added to c."""
    kinds = s.types()
    if len(kinds) != 2 or not {*kinds} <= {"u32", "s32"}:
        raise s.refusal(f"{s.opcode} needs two types, .u32 or .s32")
    first = s.need("lo", "hi") == "hi" and 2 if s.opcode == "dp2a" else 0
    signs = [is_signed(kind) for kind in kinds]
    into = "s32" if any(signs) else "u32"

    def parts(x: Array, count: int, signed: bool) -> Array:
        name = f"{'i' if signed else 'u'}{4 // count}"
        return np.atleast_1d(x)[..., None].view(name).astype(np.int64)

    def dot(a: Array, b: Array, c: Array) -> Array:
        x = parts(a, 2 if s.opcode == "dp2a" else 4, signs[0])
        y = parts(b, 4, signs[1])[..., first : first + x.shape[-1]]
        return np.asarray((x * y).sum(axis=-1) + c).astype(DTYPES[into])

    return Semantics(dot, (*kinds, into), (into,))


BUILDERS: dict[str, Builder] = {
    **dict.fromkeys(_PLAIN, build_plain),
    **dict.fromkeys(("mul", "mad"), build_multiply),
    **dict.fromkeys(("mul24", "mad24"), build_multiply_24),
    **dict.fromkeys(("div", "rem"), build_divide),
    "sad": build_sad,
    **dict.fromkeys(("dp4a", "dp2a"), build_dot),
}
