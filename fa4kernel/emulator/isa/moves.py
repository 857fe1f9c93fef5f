"""Moves: mov (with pack and unpack), selp, prmt.

Sources: PTX ISA 9.7.9.3 and 9.7.9.4 (mov), 9.7.6.3 (selp), 9.7.9.7 (prmt).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fa4kernel.emulator.isa.fields import as_bytes
from fa4kernel.emulator.isa.semantics import (
    DTYPES,
    Array,
    Builder,
    Semantics,
    Spelling,
    Where,
    bits_of,
)

_WORDS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def select(a: Array, b: Array, p: Array, out: Array | None = None, where: Where = True) -> Array:
    """``p ? a : b``, bit for bit.

    >>> select(np.uint32(7), np.array([1, 2], np.uint32), np.array([True, False]))
    array([7, 2], dtype=uint32)
    """
    chosen = np.where(p, a, b)
    if out is None:
        return chosen
    np.copyto(out, chosen, where=where)
    return out


def pack(items: Sequence[Array], bits: int) -> Array:
    """Put items side by side into one register of ``bits``, the first in the lowest bits.

    >>> [hex(x) for x in pack([np.array([0x1122], np.uint16), np.uint16(0x3344)], 32)]
    ['0x33441122']
    """
    each = bits // len(items)
    if bits == 128:
        words = pack(items[: len(items) // 2], 64), pack(items[len(items) // 2 :], 64)
        return np.stack(np.broadcast_arrays(*words))
    wide = _WORDS[bits]
    total: Array = np.asarray(items[0]).astype(_WORDS[each]).astype(wide)
    for i, item in enumerate(items[1:], 1):
        total = total | np.asarray(item).astype(_WORDS[each]).astype(wide) << wide(i * each)
    return total


def unpack(word: Array, bits: int, count: int) -> tuple[Array, ...]:
    """Cut a register of ``bits`` into ``count`` items, the lowest bits first; 8 bits come in 16.

    >>> [hex(x[0]) for x in unpack(np.array([0x3344_1122], np.uint32), 32, 2)]
    ['0x1122', '0x3344']
    """
    if bits == 128:
        return unpack(word[0], 64, count // 2) + unpack(word[1], 64, count // 2)
    each = bits // count
    wide = _WORDS[bits]
    kept = _WORDS[max(each, 16)]
    mask = wide((1 << each) - 1)
    return tuple(((word >> wide(i * each)) & mask).astype(kept) for i in range(count))


def permute(a: Array, b: Array, selectors: Array, signs: bool) -> Array:
    """Pick four bytes of the eight in ``{b, a}``.

    Args:
        a, b: uint32 arrays (n,) or scalars.
        selectors: (n, 4) or (4,) small integers, for the lowest result byte first; the low three
            bits choose the byte.
        signs: selectors with the fourth bit set take the byte's sign eight times.

    >>> hex(permute(np.uint32(0x33221100), np.uint32(0x77665544), np.array([6, 1, 5, 0]), True))
    '0x551166'
    """
    a, b, lane = np.broadcast_arrays(a, b, selectors[..., 0])
    source = np.concatenate([as_bytes(a), as_bytes(b)], axis=-1)
    picked = np.take_along_axis(source, np.broadcast_to(selectors & 7, (*lane.shape, 4)), axis=-1)
    if signs:
        picked = np.where(selectors & 8, (picked >> np.uint8(7)) * np.uint8(255), picked)
    return np.ascontiguousarray(picked).view(np.uint32).reshape(lane.shape)


#: Source bytes, lowest result byte first, for each value of the selector's two low bits.
_PERMUTE_MODES = {
    "f4e": ((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)),
    "b4e": ((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)),
    "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": ((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)),
    "rc16": ((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)),
}


_NIBBLES = np.arange(4, dtype=np.uint32) * np.uint32(4)


def _prmt(mode: str) -> Callable[..., Array]:
    def by_nibbles(a: Array, b: Array, c: Array) -> Array:
        selectors = np.asarray(c)[..., None] >> _NIBBLES & np.uint32(15)
        return permute(a, b, selectors.astype(np.int64), True)

    def by_table(a: Array, b: Array, c: Array) -> Array:
        return permute(a, b, np.array(_PERMUTE_MODES[mode])[c & np.uint32(3)], False)

    return by_table if mode else by_nibbles


def build_mov(s: Spelling) -> Semantics:
    """``mov.type``: a copy, or a pack or unpack where an operand is a vector."""
    kind = s.type(*DTYPES)
    bits = bits_of(kind)
    into, out_of = len(s.results), len(s.sources)
    if max(into, out_of) > 1 and bits // max(into, out_of) not in _WORDS:
        raise s.refusal(f"mov.{kind} has no such vector")
    if into > 1 and out_of == 1:
        each = f"b{bits // into}"
        return Semantics(lambda word: unpack(word, bits, into), (kind,), (each,) * into)
    if out_of > 1:
        each = f"b{bits // out_of}"
        return Semantics(lambda *items: pack(items, bits), (each,) * out_of, (kind,))
    copy = np.absolute if kind == "pred" else np.positive
    return Semantics(copy, (kind,), (kind,), ufunc=True)


def build_selp(s: Spelling) -> Semantics:
    """``selp.type d, a, b, p``."""
    kind = s.type(*(letter + bits for letter in "bus" for bits in ("16", "32", "64")), "f32", "f64")
    return Semantics(select, (kind, kind, "pred"), (kind,), ufunc=True)


def build_prmt(s: Spelling) -> Semantics:
    """``prmt.b32{.mode} d, a, b, c``."""
    kind = s.type("b32")
    return Semantics(_prmt(s.take(*_PERMUTE_MODES)), (kind,) * 3, (kind,))


BUILDERS: dict[str, Builder] = {"mov": build_mov, "selp": build_selp, "prmt": build_prmt}
