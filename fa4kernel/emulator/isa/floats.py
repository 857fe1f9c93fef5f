"""Arithmetic on f32, f32x2 and f64, each operation rounded once.

NumPy rounds to nearest; the other directions are built on the exact error of a sum and on round
to odd (see :mod:`~fa4kernel.emulator.isa.rounding`). NaN results are NaNs, but not all have the
GPU's bits 0x7fffffff. ``ftz`` flushes subnormal inputs, and results that are smaller than the
smallest normal number when rounded to 24 bits of any exponent (as on an H200; the manual doesn't
say). Sources: PTX ISA 9.7.3.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.isa.rounding import odd_sum, to_float32, two_sum, zero_of_sum
from fa4kernel.emulator.isa.semantics import Array, Builder, Semantics, Spelling, Where

_SMALLEST_NORMAL = np.float32(2.0**-126)
_UP = np.float32(2.0**24)
# Of the 29 bits that float64 has more than float32: all, all but the first, and the first.
_DROPPED = np.int64((1 << 29) - 1)
_BELOW_MIDPOINT = np.array((1 << 28) - 1, np.int64)
_MIDPOINT = np.int64(1 << 28)
_SIGN, _ONE = np.array(31, np.int32), np.array(1, np.int32)

MODES = ("rn", "rz", "rm", "rp")


def flush(x: Array) -> Array:
    """Replace subnormal float32 values by zeros of their sign (``.ftz``).

    >>> flush(np.array([-1e-40, 1e-30], np.float32))
    array([-0.e+00,  1.e-30], dtype=float32)
    """
    tiny = np.abs(x) < _SMALLEST_NORMAL
    return np.where(tiny, np.copysign(np.float32(0), x), x) if np.any(tiny) else x


def saturate(x: Array) -> Array:
    """Clamp to [0, 1]; NaN gives +0 (``.sat``)."""
    one, zero = x.dtype.type(1), x.dtype.type(0)
    return np.asarray(np.where(x > 0, np.minimum(x, one), zero))


def add_directed(mode: str) -> Callable[[Array, Array], Array]:
    """Float32 addition that rounds toward zero ("rz"), down ("rm") or up ("rp").

    >>> add = add_directed("rm")
    >>> float(add(np.float32(1.5 * 2**23), np.float32(-1e-30))) == 1.5 * 2**23 - 1
    True
    """

    def add(a: Array, b: Array) -> Array:
        total, error = two_sum(a, b)
        if np.count_nonzero(np.isfinite(error / total)) != total.size:
            return _add_special(a, b, mode)  # a zero, an infinity, a NaN or an overflow
        # A step toward zero takes 1 off the bits, whatever the sign; a step away adds 1.
        bits = total.view(np.int32)
        if mode == "rz":
            inward = error < 0
            inward ^= total < 0
            inward &= error != 0
            np.subtract(bits, 1, out=bits, where=inward)
        else:
            # Shifted down, a sign is -1 or 0: all bits or none. No error is -0.
            wrong = (error if mode == "rm" else 0 - error).view(np.int32) >> _SIGN
            up = bits >> _SIGN | _ONE
            bits = bits - (up & wrong) if mode == "rm" else bits + (up & wrong)
        return bits.view(np.float32)

    return add


def _add_special(a: Array, b: Array, mode: str) -> Array:
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    result = to_float32(odd_sum(x, y), mode)
    return zero_of_sum(result, x, y) if mode == "rm" else result


def subtract_directed(mode: str) -> Callable[[Array, Array], Array]:
    """Float32 subtraction with directed rounding."""
    add = add_directed(mode)
    return lambda a, b: add(a, np.negative(b))


def multiply_directed(mode: str) -> Callable[[Array, Array], Array]:
    """Float32 multiplication with directed rounding; the float64 product is exact."""
    return lambda a, b: to_float32(np.asarray(a, np.float64) * np.asarray(b, np.float64), mode)


def fma_directed(mode: str) -> Callable[[Array, Array, Array], Array]:
    """Float32 ``a * b + c`` with one directed rounding."""

    def fma_exactly(a: Array, b: Array, c: Array) -> Array:
        product = np.asarray(a, np.float64) * np.asarray(b, np.float64)
        addend = np.asarray(c, np.float64)
        result = to_float32(odd_sum(product, addend), mode)
        return zero_of_sum(result, product, addend) if mode == "rm" else result

    return fma_exactly


def fma(
    a: Array, b: Array, c: Array, out: Array | None = None, where: Where = True
) -> NDArray[np.float32]:
    """Compute ``a * b + c`` in float32 with one rounding, to nearest, ties to even.

    The float64 product is exact, so only the sum is rounded twice. That matters where the first
    rounding lands on a midpoint between two float32 values, normal or subnormal; all of these end
    in 28 zeros, and few other sums do.

    Args:
        a, b, c: float32 arrays that broadcast together.
        out, where: as for a ufunc; ``out`` may be one of the inputs.

    >>> a = np.float32(1 + 2**-12)
    >>> float(fma(a, a, np.float32(-1))) == 2.0**-11 + 2.0**-24
    True
    """
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = c.astype(np.float64)
    total = np.asarray(product + addend)
    result = np.empty(total.shape, np.float32) if out is None else out
    np.copyto(result, total, where=where)
    low = np.bitwise_and(total.view(np.int64), _BELOW_MIDPOINT)
    if np.count_nonzero(low) != total.size:
        _round_again(result, product, addend, total, (low == 0) & where)
    return result


def _round_again(
    result: Array, product: Array, addend: Array, total: Array, suspect: NDArray[np.bool_]
) -> None:
    """Where a suspect sum is a midpoint, round the exact sum instead."""
    bits = total.view(np.int64) & _DROPPED
    tiny = (np.abs(total) < _SMALLEST_NORMAL) & (total != 0)
    at = suspect & ((bits == _MIDPOINT) | tiny)
    if np.count_nonzero(at):
        x, y = (np.broadcast_to(term, total.shape)[at] for term in (product, addend))
        result[at] = odd_sum(x, y)


_NEAREST: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "fma": fma,
}
_DIRECTED: dict[str, Callable[[str], Callable[..., Any]]] = {
    "add": add_directed,
    "sub": subtract_directed,
    "mul": multiply_directed,
    "fma": fma_directed,
}


def _smaller_up(a: Array, b: Array) -> tuple[Array, Array]:
    """Factors of a product 2**24 times as large."""
    first = np.abs(a) < np.abs(b)
    return np.where(first, a * _UP, a), np.where(first, b, b * _UP)


#: Inputs that give a result 2**24 times as large, where it is about the smallest normal number.
_LARGER: dict[str, Callable[..., tuple[Array, ...]]] = {
    "mul": _smaller_up,
    "fma": lambda a, b, c: (*_smaller_up(a, b), c * _UP),
    "div": lambda a, b: (a * _UP, b),
    "rcp": lambda a: (a / _UP,),
}


def flushed(function: Callable[..., Array], opcode: str) -> Callable[..., Array]:
    """A function of float32 arrays with subnormal inputs and results flushed.

    >>> a, b = np.float32(1 - 2.0**-24), np.float32(2.0**-126)
    >>> bool(a * b == b), float(flushed(np.multiply, "mul")(a, b))
    (True, 0.0)
    """
    larger = _LARGER.get(opcode)

    def flushing(*inputs: Array) -> Array:
        inputs = tuple(flush(x) if np.asarray(x).dtype == np.float32 else x for x in inputs)
        result = function(*inputs)
        if larger is None:
            return flush(result)
        least = np.abs(result) == _SMALLEST_NORMAL
        if np.count_nonzero(least):
            # Subnormal results may have been rounded up to it, with fewer bits than 24.
            with np.errstate(all="ignore"):
                precise = np.abs(function(*larger(*inputs)))
            tiny = least & (precise < _SMALLEST_NORMAL * _UP)
            result = np.where(tiny, np.copysign(np.float32(0), result), result)
        return flush(result)

    return flushing


def adjusted(
    function: Callable[..., Array], ftz: bool, sat: bool, opcode: str = ""
) -> Callable[..., Array]:
    """The function with float32 inputs and results flushed, and results saturated, as asked."""
    rounded = flushed(function, opcode) if ftz else function

    def adjust(*inputs: Array) -> Array:
        result = rounded(*inputs)
        return saturate(result) if sat else result

    return adjust if sat else rounded


def build_arithmetic(s: Spelling) -> Semantics:
    """``add``, ``sub``, ``mul``, ``fma``, ``mad`` of f32, f32x2 and f64."""
    kind = s.type("f32", "f32x2", "f64")
    opcode = "fma" if s.opcode == "mad" else s.opcode
    mode = s.need(*MODES) if s.opcode == "fma" else s.take(*MODES) or "rn"
    ftz = kind != "f64" and s.flag("ftz")
    sat = kind == "f32" and s.flag("sat")
    count = 3 if opcode == "fma" else 2
    if kind == "f64":
        if mode != "rn":
            raise s.refusal(f"{s.opcode}.{mode}.f64 is not modelled")
        if opcode == "fma":
            return Semantics(fma64, ("f64",) * count, ("f64",))
        return Semantics(_NEAREST[opcode], ("f64",) * count, ("f64",), ufunc=True)
    rounded = _NEAREST[opcode] if mode == "rn" else _DIRECTED[opcode](mode)
    function = adjusted(rounded, ftz, sat, opcode)
    plain = mode == "rn" and not ftz and not sat
    packed = 2 if kind == "f32x2" else 1
    return Semantics(function, ("f32",) * count, ("f32",), ufunc=plain, packed=packed)


def fma64(a: Array, b: Array, c: Array) -> NDArray[np.float64]:
    """Compute ``a * b + c`` in float64 with one rounding, element by element (slow).

    >>> float(fma64(np.float64(1 + 2**-30), np.float64(1 - 2**-30), np.float64(-1))) == -(2.0**-60)
    True
    """
    total = np.asarray(a * b + c)  # right for NaNs, zeros and infinite factors
    x, y, z = (np.broadcast_to(v, total.shape) for v in (a, b, c))
    finite = np.isfinite(x) & np.isfinite(y)
    total = np.where(finite & np.isinf(z), z, total)
    for at in np.argwhere(finite & np.isfinite(z)):
        i = tuple(at)
        exact = Fraction(float(x[i])) * Fraction(float(y[i])) + Fraction(float(z[i]))
        if exact:
            try:
                total[i] = float(exact)
            except OverflowError:
                total[i] = np.inf if exact > 0 else -np.inf
    return total


def build_sign(s: Spelling) -> Semantics:
    """``abs``, ``neg`` and ``copysign d, a, b`` (b with the sign of a)."""
    kind = s.type("f32", "f64")
    if s.opcode == "copysign":
        return Semantics(lambda a, b: np.copysign(b, a), (kind, kind), (kind,))
    function = np.absolute if s.opcode == "abs" else np.negative
    if kind == "f32" and s.flag("ftz"):
        return Semantics(adjusted(function, True, False), (kind,), (kind,))
    return Semantics(function, (kind,), (kind,), ufunc=True)


BUILDERS: dict[str, Builder] = {
    **dict.fromkeys(("add", "sub", "mul", "fma", "mad"), build_arithmetic),
    **dict.fromkeys(("abs", "neg", "copysign"), build_sign),
}
