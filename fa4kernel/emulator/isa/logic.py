"""Logic and shifts: and, or, xor, not, cnot, lop3, shl, shr, shf.

Shift counts are clamped at the width of the type, never taken modulo it; NumPy's shifts do the
same. Sources: PTX ISA 9.7.8.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fa4kernel.emulator.isa.semantics import DTYPES, Array, Builder, Semantics, Spelling, is_signed

_BITWISE = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
_LOGICAL = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def build_bitwise(s: Spelling) -> Semantics:
    """``and``, ``or``, ``xor`` of bits or predicates."""
    kind = s.type("pred", "b16", "b32", "b64")
    function = (_LOGICAL if kind == "pred" else _BITWISE)[s.opcode]
    return Semantics(function, (kind, kind), (kind,), ufunc=True)


def build_not(s: Spelling) -> Semantics:
    """``not``: the complement."""
    kind = s.type("pred", "b16", "b32", "b64")
    function = np.logical_not if kind == "pred" else np.invert
    return Semantics(function, (kind,), (kind,), ufunc=True)


def build_cnot(s: Spelling) -> Semantics:
    """``cnot``: 1 for zero, 0 for anything else."""
    kind = s.type("b16", "b32", "b64")
    dtype = DTYPES[kind]
    return Semantics(lambda a: np.equal(a, 0).astype(dtype), (kind,), (kind,))


def look_up(a: Array, b: Array, c: Array, table: int) -> Array:
    """Bit i of the result is bit ``4 a_i + 2 b_i + c_i`` of the table.

    >>> x, y, z = (np.uint32(bits) for bits in (0xF0, 0xCC, 0xAA))
    >>> hex(look_up(x, y, z, 0x1A) & 0xFF)
    '0x1a'
    """
    total = np.zeros((), np.asarray(a).dtype)
    for minterm in range(8):
        if table >> minterm & 1:
            term = a if minterm & 4 else ~a
            term = term & (b if minterm & 2 else ~b)
            total = total | (term & (c if minterm & 1 else ~c))
    return total


def build_lop3(s: Spelling) -> Semantics:
    """``lop3{.BoolOp}.b32 d{|p}, a, b, c, table{, q}``."""
    kind, table = s.type("b32"), s.immediate(3)
    if not 0 <= table <= 255:
        raise s.refusal(f"lop3's table {table} must be 0 to 255")
    combine = s.take("and", "or", "xor")
    if not combine:
        return Semantics(lambda a, b, c, t: look_up(a, b, c, table), (kind,) * 4, (kind,))

    def with_predicate(a: Array, b: Array, c: Array, t: Array, q: Array) -> tuple[Array, Array]:
        d = look_up(a, b, c, table)
        return d, _LOGICAL[combine](d != 0, q)

    return Semantics(with_predicate, (*(kind,) * 4, "pred"), (kind, "pred"))


def build_shift(s: Spelling) -> Semantics:
    """``shl`` and ``shr``: counts at or above the width give 0, or the sign."""
    if s.opcode == "shl":
        kind = s.type("b16", "b32", "b64")
    else:
        kind = s.type(*(letter + bits for letter in "bus" for bits in ("16", "32", "64")))
    ufunc = np.left_shift if s.opcode == "shl" else np.right_shift
    # NumPy takes a negative count as a large one, so a 32-bit count may be signed like the value.
    count = "s32" if is_signed(kind) else "u32"
    if kind.endswith("16"):
        dtype = DTYPES[kind]
        return Semantics(lambda a, n: ufunc(a, n).astype(dtype), (kind, "u32"), (kind,))
    return Semantics(ufunc, (kind, "u32" if kind == "s64" else count), (kind,), ufunc=True)


def build_shf(s: Spelling) -> Semantics:
    """``shf.{l,r}.{clamp,wrap}.b32 d, a, b, c``: shift ``{b, a}`` and keep one half."""
    kind, side, mode = s.type("b32"), s.need("l", "r"), s.need("clamp", "wrap")

    def shift(a: Array, b: Array, c: Array) -> Array:
        joined = np.asarray(b).astype(np.uint64) << np.uint64(32) | np.asarray(a).astype(np.uint64)
        n = np.minimum(c, np.uint32(32)) if mode == "clamp" else c & np.uint32(31)
        n = np.asarray(n).astype(np.uint64)
        shifted = (joined << n) >> np.uint64(32) if side == "l" else joined >> n
        return shifted.astype(np.uint32)

    function: Callable[..., Array] = shift
    return Semantics(function, (kind,) * 3, (kind,))


BUILDERS: dict[str, Builder] = {
    **dict.fromkeys(("and", "or", "xor"), build_bitwise),
    "not": build_not,
    "cnot": build_cnot,
    "lop3": build_lop3,
    "shl": build_shift,
    "shr": build_shift,
    "shf": build_shf,
}
