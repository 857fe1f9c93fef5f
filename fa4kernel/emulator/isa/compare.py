"""Comparisons and choices by them: setp, set, slct, testp.

Ordered comparisons are false if an operand is NaN, unordered ones (a final u) true. Sources: PTX
ISA 9.3.1 (comparisons), 9.7.6 and 9.7.7 (set, setp, slct), 9.7.3.1 (testp).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fa4kernel.emulator.isa.floats import flush
from fa4kernel.emulator.isa.halves import KINDS, flush16, joined, widen
from fa4kernel.emulator.isa.moves import select
from fa4kernel.emulator.isa.semantics import DTYPES, Array, Builder, Semantics, Spelling, is_float

_INTEGERS = tuple(letter + bits for letter in "bus" for bits in ("16", "32", "64"))
_KINDS = (*_INTEGERS, *KINDS, "f32", "f64")
_ORDERED: dict[str, Callable[..., Any]] = {
    "eq": np.equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_OPPOSITE = {"equ": "ne", "ltu": "ge", "leu": "gt", "gtu": "le", "geu": "lt"}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
COMPARISONS = (*_ORDERED, "ne", *_OPPOSITE, "neu", *_UNSIGNED, "num", "nan")
_COMBINE = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _differs(a: Array, b: Array) -> Array:
    """Ordered and different: false for NaN, unlike NumPy's not_equal."""
    return np.asarray((a < b) | (a > b))


def _numbers(a: Array, b: Array) -> Array:
    return np.asarray((a == a) & (b == b))


def comparison(name: str, floating: bool) -> Callable[..., Any]:
    """The function of a comparison operator.

    >>> nan = np.float32("nan")
    >>> [bool(comparison(name, True)(nan, nan)) for name in ("eq", "ne", "neu", "leu", "num")]
    [False, False, True, True, False]
    """
    if not floating:
        return np.not_equal if name == "ne" else _ORDERED[_UNSIGNED.get(name, name)]
    if name in _ORDERED:
        return _ORDERED[name]
    if name == "neu":
        return np.not_equal
    if name == "ne":
        return _differs
    if name == "num":
        return _numbers
    if name == "nan":
        return lambda a, b: ~_numbers(a, b)
    opposite = comparison(_OPPOSITE[name], True)
    return lambda a, b: ~np.asarray(opposite(a, b))


def _comparable(s: Spelling, kind: str) -> Callable[..., Any]:
    """Take the operator off a spelling; refuse what the type doesn't have.

    The function compares registers; those of pairs give two results along a last axis.
    """
    name, floating = s.need(*COMPARISONS), is_float(kind)
    ordered = name in _ORDERED or name == "ne"
    fits = {
        "b": name in ("eq", "ne"),
        "s": ordered,
        "u": ordered or name in _UNSIGNED,
    }
    if not (name not in _UNSIGNED if floating else fits[kind[0]]):
        raise s.refusal(f"{s.opcode}.{name} doesn't compare .{kind}")
    compare = comparison(name, floating)
    ftz = (kind == "f32" or kind.startswith("f16")) and s.flag("ftz")
    if kind in KINDS:
        change = flush16 if ftz else np.positive
        return lambda a, b: compare(change(widen(a, kind)), change(widen(b, kind)))
    if ftz:
        return lambda a, b: compare(flush(a), flush(b))
    return compare


def build_setp(s: Spelling) -> Semantics:
    """``setp.CmpOp{.BoolOp}{.ftz}.type p{|q}, a, b{, c}``.

    q is what p would be if the comparison came out the other way; for pairs it is the upper half.
    """
    kind = s.type(*_KINDS)
    compare = _comparable(s, kind)
    combine = s.take(*_COMBINE)
    inputs = (kind, kind, "pred") if combine else (kind, kind)
    pairs, both = kind.endswith("x2"), len(s.results) == 2
    if pairs and not both:
        raise s.refusal(f"{s.opcode}.{kind} has two results, p|q")
    if not combine and not both:
        return Semantics(compare, inputs, ("pred",), ufunc=isinstance(compare, np.ufunc))

    def compared(a: Array, b: Array, *c: Array) -> Array | tuple[Array, ...]:
        true = np.asarray(compare(a, b))
        results = (true[..., 0], true[..., 1]) if pairs else (true, ~true) if both else (true,)
        if combine:
            results = tuple(_COMBINE[combine](result, *c) for result in results)
        return results if both else results[0]

    return Semantics(compared, inputs, ("pred",) * (1 + both))


def build_set(s: Spelling) -> Semantics:
    """``set.CmpOp{.BoolOp}{.ftz}.dtype.stype d, a, b{, c}``: 1.0 or all ones if true, else 0."""
    kinds = s.types()
    into, kind = kinds if len(kinds) == 2 else ("", "")
    pairs = kind.endswith("x2")
    allowed = (kind, "u32", "s32") if pairs else ("u16", "s16", "u32", "s32", "f16", "bf16", "f32")
    if kind not in _KINDS or into not in allowed:
        raise s.refusal(f"set with .{'.'.join(kinds)} is not modelled")
    compare = _comparable(s, kind)
    combine = s.take(*_COMBINE)
    one = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}.get(into.removesuffix("x2"), -1)
    dtype = np.dtype(np.uint16) if pairs else np.dtype(f"u{DTYPES[into].itemsize}")
    true = np.array(one).astype(dtype)

    def assigned(a: Array, b: Array, *c: Array) -> Array:
        holds = compare(a, b)
        if combine:
            holds = _COMBINE[combine](holds, *(np.asarray(x)[..., None] if pairs else x for x in c))
        bits = np.where(holds, true, dtype.type(0))
        return (joined(bits) if pairs else bits).view(DTYPES[into])

    return Semantics(assigned, (kind, kind, "pred") if combine else (kind, kind), (into,))


def build_slct(s: Spelling) -> Semantics:
    """``slct{.ftz}.dtype.{s32,f32} d, a, b, c``: a where c >= 0, else b (also for NaN)."""
    kinds = s.types()
    if len(kinds) != 2 or kinds[1] not in ("s32", "f32") or kinds[0] not in DTYPES:
        raise s.refusal("slct with these types is not modelled")
    kind, tested = kinds
    if tested == "f32" and s.flag("ftz"):
        return Semantics(lambda a, b, c: select(a, b, flush(c) >= 0), (kind, kind, tested), (kind,))
    return Semantics(lambda a, b, c: select(a, b, c >= 0), (kind, kind, tested), (kind,))


def build_testp(s: Spelling) -> Semantics:
    """``testp.op.type p, a``; a zero counts as normal."""
    kind = s.type("f32", "f64")
    least = np.finfo(DTYPES[kind]).smallest_normal
    tests: dict[str, Callable[..., Any]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & ((np.abs(a) >= least) | (a == 0)),
        "subnormal": lambda a: (np.abs(a) < least) & (a != 0),
    }
    return Semantics(tests[s.need(*tests)], (kind,), ("pred",))


BUILDERS: dict[str, Builder] = {
    "setp": build_setp,
    "set": build_set,
    "slct": build_slct,
    "testp": build_testp,
}
