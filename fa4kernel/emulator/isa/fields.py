"""Bits counted, found, reversed and moved: popc, clz, bfind, fns, brev, bfe, bfi, szext, bmsk.

Sources: PTX ISA 9.7.1.14 to 9.7.1.22.
"""

from __future__ import annotations

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

_REVERSED = np.array([int(f"{byte:08b}"[::-1], 2) for byte in range(256)], np.uint8)
_NONE = np.uint32(0xFFFFFFFF)


def as_bytes(x: Array) -> Array:
    """The bytes of each value, lowest first, along a new last axis."""
    x = np.asarray(x)
    return np.ascontiguousarray(x).view(np.uint8).reshape(*x.shape, x.dtype.itemsize)


def bit_length(x: Array) -> Array:
    """How many bits an unsigned integer needs, as uint32.

    >>> bit_length(np.array([0, 1, 255, 2**64 - 1], np.uint64))
    array([ 0,  1,  8, 64], dtype=uint32)
    """
    wide = np.asarray(x).astype(np.uint64)
    high, low = (wide >> np.uint64(32)).astype(float), (wide & np.uint64(0xFFFFFFFF)).astype(float)
    need = np.where(high > 0, np.frexp(high)[1] + 32, np.frexp(low)[1])
    return np.asarray(need).astype(np.uint32)


def count_bits(x: Array) -> Array:
    """How many bits are 1, as uint32, added up in ever wider fields."""
    x = np.asarray(x)
    if x.dtype.itemsize == 8:
        return count_bits(x.astype(np.uint32)) + count_bits((x >> np.uint64(32)).astype(np.uint32))
    one, two, four = np.uint32(0x55555555), np.uint32(0x33333333), np.uint32(0x0F0F0F0F)
    x = x - (x >> np.uint32(1) & one)
    x = (x & two) + (x >> np.uint32(2) & two)
    x = x + (x >> np.uint32(4)) & four
    return np.asarray(x * np.uint32(0x01010101) >> np.uint32(24))


def reverse_bits(x: Array) -> Array:
    """The bits in opposite order.

    >>> hex(reverse_bits(np.uint32(0x1)))
    '0x80000000'
    """
    x = np.asarray(x)
    reverse = np.ascontiguousarray(_REVERSED[as_bytes(x)[..., ::-1]])
    return reverse.view(x.dtype).reshape(x.shape)


def highest_bit(x: Array, as_shift: bool) -> Array:
    """Position of the highest bit that differs from the sign, or how far it is from the top."""
    x = np.asarray(x)
    bits = x.dtype.itemsize * 8
    if x.dtype.kind == "i":
        x = np.where(x < 0, ~x, x)
    need = bit_length(x)
    position = np.uint32(bits) - need if as_shift else need - np.uint32(1)
    return np.where(need == 0, _NONE, position)


def nth_set_bit(mask: Array, base: Array, offset: Array) -> Array:
    """Position of the n-th set bit from ``base`` on, upward or (offset < 0) downward.

    As on an H200, there is none from a base beyond 31, and for the lowest offset the result is 0.
    """
    mask, base, offset = np.broadcast_arrays(mask, base, offset)
    place = base.astype(np.int64)
    left = np.maximum(np.abs(offset.astype(np.int64)), 1)
    found = np.full(place.shape, _NONE)
    for _ in range(32):
        inside = (place >= 0) & (place < 32)
        bit = (mask >> np.clip(place, 0, 31).astype(np.uint32)) & np.uint32(1)
        left = left - (inside & (bit == 1))
        hit = inside & (bit == 1) & (left == 0) & (found == _NONE)
        found = np.where(hit, place.astype(np.uint32), found)
        place = place + np.sign(offset) + 64 * (offset == 0)
    found = np.where(base > 31, _NONE, found)
    return np.where(offset == -(2**31), np.uint32(0), found)


def extract(a: Array, b: Array, c: Array) -> Array:
    """The ``c`` bits of ``a`` from position ``b`` on, sign extended if ``a`` is signed.

    The manual takes ``b`` and ``c`` modulo 256; an H200 does so for 32 bits and not for 64.

    >>> hex(extract(np.uint32(0x12345678), np.uint32(8), np.uint32(12)))
    '0x456'
    """
    a = np.asarray(a)
    bits = a.dtype.itemsize * 8
    start, length = _position(b, bits), _position(c, bits)
    kept = np.clip(np.minimum(length, bits - start), 0, bits)
    raw = a.astype(f"u{a.dtype.itemsize}")
    mask = _ones(kept, raw.dtype.type)
    field = (raw >> _count(start, raw)) & mask
    if a.dtype.kind == "i":
        top = np.minimum(start + length - 1, bits - 1)
        sign = (raw >> _count(np.maximum(top, 0), raw)) & raw.dtype.type(1)
        field = np.where((sign != 0) & (length != 0), field | ~mask, field)
    return field.astype(a.dtype)


def insert(a: Array, b: Array, c: Array, d: Array) -> Array:
    """``b`` with ``d`` bits from position ``c`` on replaced by the low bits of ``a``.

    ``c`` and ``d`` as in :func:`extract`.

    >>> hex(insert(np.uint32(0xAB), np.uint32(0x11111111), np.uint32(8), np.uint32(8)))
    '0x1111ab11'
    """
    a, b = np.asarray(a), np.asarray(b)
    bits = a.dtype.itemsize * 8
    start, length = _position(c, bits), _position(d, bits)
    kept = np.clip(np.minimum(length, bits - start), 0, bits)
    mask = _ones(kept, a.dtype.type) << _count(start, a)
    return (b & ~mask) | ((a << _count(start, a)) & mask)


def _position(x: Array, bits: int) -> Array:
    wide: Array = np.asarray(x).astype(np.int64)
    return wide if bits == 64 else wide & 0xFF


def _count(n: Array, like: Array) -> Array:
    return np.asarray(n).astype(like.dtype)


def _ones(n: Array, kind: type[Any]) -> Array:
    """Values with the low n bits set."""
    return np.asarray((kind(1) << np.asarray(n).astype(kind)) - kind(1))


def build_count(s: Spelling) -> Semantics:
    """``popc`` and ``clz``."""
    kind = s.type("b32", "b64")
    if s.opcode == "popc":
        return Semantics(count_bits, (kind,), ("u32",))
    bits = np.uint32(bits_of(kind))
    return Semantics(lambda a: bits - bit_length(a), (kind,), ("u32",))


def build_bfind(s: Spelling) -> Semantics:
    """``bfind{.shiftamt}.type d, a``."""
    kind, shift = s.type("u32", "u64", "s32", "s64"), s.flag("shiftamt")
    return Semantics(lambda a: highest_bit(a, shift), (kind,), ("u32",))


def build_fns(s: Spelling) -> Semantics:
    """``fns.b32 d, mask, base, offset``."""
    s.type("b32")
    return Semantics(nth_set_bit, ("b32", "u32", "s32"), ("b32",))


def build_brev(s: Spelling) -> Semantics:
    """``brev.type d, a``."""
    kind = s.type("b32", "b64")
    return Semantics(reverse_bits, (kind,), (kind,))


def build_bfe(s: Spelling) -> Semantics:
    """``bfe.type d, a, b, c``."""
    kind = s.type("u32", "u64", "s32", "s64")
    return Semantics(extract, (kind, "u32", "u32"), (kind,))


def build_bfi(s: Spelling) -> Semantics:
    """``bfi.type f, a, b, c, d``."""
    kind = s.type("b32", "b64")
    return Semantics(insert, (kind, kind, "u32", "u32"), (kind,))


def build_szext(s: Spelling) -> Semantics:
    """``szext.{clamp,wrap}.{u32,s32} d, a, b``: extend the low b bits."""
    kind, mode = s.type("u32", "s32"), s.need("clamp", "wrap")
    signed = is_signed(kind)

    def extend(a: Array, b: Array) -> Array:
        raw = np.asarray(a).astype(np.uint32)
        n = b & np.uint32(31)
        whole = (b >= 32) & (mode == "clamp")
        mask = np.where(whole, np.uint32(0), ~_ones(n, np.uint32))
        sign = (raw >> ((n - np.uint32(1)) & np.uint32(31))) & np.uint32(1)
        fill = (sign != 0) & (n != 0) & ~whole & signed
        return np.asarray((raw & ~mask) | np.where(fill, mask, np.uint32(0))).astype(DTYPES[kind])

    return Semantics(extend, (kind, "u32"), (kind,))


def build_bmsk(s: Spelling) -> Semantics:
    """``bmsk.{clamp,wrap}.b32 d, a, b``: b ones from position a on."""
    kind, mode = s.type("b32"), s.need("clamp", "wrap")

    def mask(a: Array, b: Array) -> Array:
        if mode == "wrap":
            a, b = a & np.uint32(31), b & np.uint32(31)
        return _ones(np.minimum(b, np.uint32(32)), np.uint32) << np.minimum(a, np.uint32(32))

    return Semantics(mask, (kind, "u32"), (kind,))


BUILDERS: dict[str, Builder] = {
    **dict.fromkeys(("popc", "clz"), build_count),
    "bfind": build_bfind,
    "fns": build_fns,
    "brev": build_brev,
    "bfe": build_bfe,
    "bfi": build_bfi,
    "szext": build_szext,
    "bmsk": build_bmsk,
}
