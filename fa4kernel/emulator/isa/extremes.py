"""The smaller and the larger of floats: min and max of f32 (two or three operands) and f64.

A NaN operand is ignored, unless ``.NaN`` says that it wins; -0 counts as less than +0. NumPy's
fmin and fmax do the first; which zero they return depends on the machine, so a zero result is
looked at again. Sources: PTX ISA 9.7.3.11 and 9.7.3.12.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fa4kernel.emulator.isa.floats import adjusted
from fa4kernel.emulator.isa.semantics import Array, Builder, Semantics, Spelling, Where

_ZERO = np.array(0, np.float32)  # a ufunc takes it faster than a scalar


def maximum(
    a: Array, b: Array, c: Array | None = None, out: Array | None = None, where: Where = True
) -> Array:
    """The largest of two or three floats; NaNs are ignored, +0 is larger than -0.

    >>> maximum(np.float32(-0.0), np.float32(0), np.float32("nan"))
    array(0., dtype=float32)
    """
    found = np.fmax(a, b)
    if c is not None:
        found = np.fmax(found, c)
    zeros = np.equal(found, _ZERO)
    if np.count_nonzero(zeros):
        found = _choose_zero(found, zeros, (a, b, c), False)
    if out is None:
        return np.asarray(found)
    np.copyto(out, found, where=where)
    return out


def minimum(
    a: Array, b: Array, c: Array | None = None, out: Array | None = None, where: Where = True
) -> Array:
    """The smallest of two or three floats; NaNs are ignored, -0 is smaller than +0.

    >>> float(minimum(np.float32(0.0), np.float32(-0.0)))
    -0.0
    """
    found = np.fmin(a, b)
    if c is not None:
        found = np.fmin(found, c)
    zeros = np.equal(found, _ZERO)
    if np.count_nonzero(zeros):
        found = _choose_zero(found, zeros, (a, b, c), True)
    if out is None:
        return np.asarray(found)
    np.copyto(out, found, where=where)
    return out


def _choose_zero(
    found: Array, zeros: Array, values: tuple[Array | None, ...], minus: bool
) -> Array:
    """Make results that are zero -0 (``minus``) or +0 where any of the values is that."""
    for value in values:
        if value is not None:
            winner = zeros & (value == 0) & (np.signbit(value) == minus)
            found = np.where(winner, found.dtype.type(-0.0 if minus else 0.0), found)
    return found


def extreme(
    plain: Callable[..., Array], nan: bool, absolute: bool, xorsign: bool
) -> Callable[..., Array]:
    """``plain`` with .NaN (any NaN wins), .abs (of magnitudes) and .xorsign (xor of signs)."""

    def chosen(*values: Array) -> Array:
        sizes = tuple(np.abs(v) for v in values) if absolute else values
        result = np.asarray(plain(*sizes))
        if xorsign:
            sign = np.signbit(values[0]) ^ np.signbit(values[1])
            result = np.where(sign, -result, result)
        lost = np.isnan(values[0]) if nan else np.isnan(result)
        for value in values[1:] if nan else ():
            lost = lost | np.isnan(value)
        return np.where(lost, canonical_nan(result.dtype), result)

    return chosen if nan or absolute else plain


def canonical_nan(dtype: np.dtype[Any]) -> Any:
    """The NaN that the GPU makes, all ones but the sign (for float64: the quiet NaN).

    >>> hex(canonical_nan(np.dtype(np.float32)).view(np.uint32))
    '0x7fffffff'
    """
    bits = {2: 0x7FFF, 4: 0x7FFFFFFF, 8: 0x7FF8 << 48}[dtype.itemsize]
    return np.array(bits, f"u{dtype.itemsize}").view(dtype)[()]


def build_extreme(s: Spelling) -> Semantics:
    """``min`` and ``max`` of f32 and f64."""
    kind = s.type("f32", "f64")
    count = len(s.sources)
    if count not in ((2, 3) if kind == "f32" else (2,)):
        raise s.refusal(f"{s.opcode}.{kind} takes {count} operands")
    function = maximum if s.opcode == "max" else minimum
    if kind == "f64":
        return Semantics(function, ("f64",) * count, ("f64",), ufunc=True)
    nan, ftz, absolute = s.flag("NaN"), s.flag("ftz"), s.flag("abs")
    xorsign = absolute and count == 2 and s.flag("xorsign")
    shaped = adjusted(extreme(function, nan, absolute, xorsign), ftz, False)
    return Semantics(shaped, (kind,) * count, (kind,), ufunc=not (nan or ftz or absolute))


BUILDERS: dict[str, Builder] = {"min": build_extreme, "max": build_extreme}
