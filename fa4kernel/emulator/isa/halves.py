"""Arithmetic on 16-bit floats: f16, bf16 and their pairs; and f32 with a 16-bit operand.

Operands are widened to float64, which holds their products exactly and their sums to within round
to odd; the result is rounded once. NaN results are the canonical 0x7fff. Sources: PTX ISA 9.7.4
and 9.7.5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.isa.extremes import extreme, maximum, minimum
from fa4kernel.emulator.isa.floats import MODES, saturate
from fa4kernel.emulator.isa.rounding import odd_sum, to_float32, zero_of_sum
from fa4kernel.emulator.isa.semantics import Array, Builder, Semantics, Spelling
from fa4kernel.emulator.tensor.formats import Rounding, encode

Wide = NDArray[np.float64]
KINDS = ("f16", "bf16", "f16x2", "bf16x2")


def halves_of(x: Array) -> NDArray[np.uint16]:
    """The two halves of 32-bit registers, the low one first, along a new last axis.

    >>> [hex(half) for half in halves_of(np.uint32(0x3C00BC00))]
    ['0xbc00', '0x3c00']
    """
    x = np.asarray(x)
    return np.ascontiguousarray(x).view(np.uint16).reshape(*x.shape, 2)


def joined(halves: Array) -> NDArray[np.uint32]:
    """The inverse of :func:`halves_of`."""
    bits = np.ascontiguousarray(halves, np.uint16)
    return bits.view(np.uint32).reshape(bits.shape[:-1])


def widen(x: Array, kind: str) -> Wide:
    """Registers of a 16-bit float type as float64, pairs along a new last axis.

    >>> widen(np.array([0x3F80BF80], np.uint32), "bf16x2")
    array([[-1.,  1.]])
    """
    bits = halves_of(x) if kind.endswith("x2") else np.asarray(x)
    if kind.startswith("bf16"):
        single: Array = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return single.astype(np.float64)
    return bits.view(np.float16).astype(np.float64)


def narrow(x: Wide, kind: str, mode: Rounding = "rn") -> Array:
    """Round float64 values to registers of a 16-bit float type; the inverse of :func:`widen`."""
    if kind.startswith("bf16") or mode != "rn":
        bits: Array = encode(x, kind.removesuffix("x2"), mode)
        bits = bits.view(np.uint16)
    else:
        half = x.astype(np.float16).view(np.uint16)
        bits = np.where(np.isnan(x), np.uint16(0x7FFF), half)
    if kind.endswith("x2"):
        return joined(bits)
    return bits.view(np.float16) if kind == "f16" else bits


def on_halves(
    function: Callable[..., Any], kind: str, mode: Rounding = "rn"
) -> Callable[..., Array]:
    """A function of float64 arrays, applied to registers of a 16-bit float type."""
    return lambda *inputs: narrow(function(*(widen(x, kind) for x in inputs)), kind, mode)


def flush16(x: Wide) -> Wide:
    """Replace what float16 has as subnormals by zeros of their sign."""
    return np.where(np.abs(x) < 2.0**-14, np.copysign(0.0, x), x)


def relu(x: Array) -> Array:
    """Replace negative values by +0; NaN stays."""
    return np.where(x <= 0, x.dtype.type(0), x)


def _flushed16(x: Wide) -> Wide:
    """Round to float16, and flush what is subnormal when rounded to 11 bits of any exponent."""
    tiny = np.abs((x * 2.0**10).astype(np.float16)) < np.float16(2.0**-4)
    return np.where(tiny, np.copysign(0.0, x), x.astype(np.float16).astype(np.float64))


_EXACT: dict[str, Callable[..., Any]] = {
    "add": odd_sum,
    "sub": lambda a, b: odd_sum(a, -b),
    "mul": np.multiply,
    "fma": lambda a, b, c: odd_sum(a * b, c),
}


def build_arithmetic(s: Spelling) -> Semantics:
    """``add``, ``sub``, ``mul``, ``fma`` of 16-bit floats, or of f32 with them."""
    kinds = s.types()
    exact = _EXACT[s.opcode]
    count = 3 if s.opcode == "fma" else 2
    if len(kinds) == 2:
        return _mixed(s, kinds, count)
    kind = kinds[0] if len(kinds) == 1 else ""
    if kind not in KINDS:
        raise s.refusal(f"{s.opcode} with these types is not modelled")
    s.take("rn")
    half = kind.startswith("f16")
    ftz, sat = half and s.flag("ftz"), half and s.flag("sat")
    clamp = s.opcode == "fma" and s.flag("relu")

    def compute(*inputs: Wide) -> Wide:
        if ftz:
            inputs = tuple(flush16(x) for x in inputs)
        result: Wide = exact(*inputs)
        if ftz:
            result = _flushed16(result)
        if sat:
            result = saturate(result)
        return relu(result) if clamp else result

    return Semantics(on_halves(compute, kind), (kind,) * count, (kind,))


def _mixed(s: Spelling, kinds: tuple[str, ...], count: int) -> Semantics:
    into, kind = kinds
    if into != "f32" or kind not in ("f16", "bf16") or s.opcode == "mul":
        raise s.refusal(f"{s.opcode} with these types is not modelled")
    mode = s.need(*MODES) if s.opcode == "fma" else s.take(*MODES) or "rn"
    sat = s.flag("sat")

    def compute(*inputs: Array) -> Array:
        first, *factors = (widen(x, kind) for x in inputs[:-1])
        for factor in factors:
            first = first * factor
        last = np.asarray(inputs[-1], np.float64)
        last = -last if s.opcode == "sub" else last
        result: Array = to_float32(odd_sum(first, last), mode)
        if mode == "rm":
            result = zero_of_sum(result, first, last)
        return saturate(result) if sat else result

    return Semantics(compute, (*(kind,) * (count - 1), "f32"), ("f32",))


def build_extreme(s: Spelling) -> Semantics:
    """``min`` and ``max`` of 16-bit floats."""
    kind = s.type(*KINDS)
    plain = maximum if s.opcode == "max" else minimum
    ftz = kind.startswith("f16") and s.flag("ftz")
    nan, xorsign = s.flag("NaN"), s.flag("xorsign")
    if xorsign:
        s.need("abs")
    choose = extreme(plain, nan, xorsign, xorsign)

    def compute(a: Wide, b: Wide) -> Array:
        return choose(flush16(a), flush16(b)) if ftz else choose(a, b)

    return Semantics(on_halves(compute, kind), (kind, kind), (kind,))


def build_sign(s: Spelling) -> Semantics:
    """``abs`` and ``neg`` of 16-bit floats: the sign bit cleared or turned."""
    kind = s.type(*KINDS)
    ftz = kind.startswith("f16") and s.flag("ftz")
    size = 2 if kind.endswith("x2") else 1
    sign: Any = np.uint32(0x80008000) if size == 2 else np.uint16(0x8000)

    def change(x: Array) -> Array:
        bits: Array = np.asarray(x).view(sign.dtype)
        bits = bits ^ sign if s.opcode == "neg" else bits & ~sign
        result: Array = bits.view(np.float16) if kind == "f16" else bits
        return narrow(flush16(widen(result, kind)), kind) if ftz else result

    return Semantics(change, (kind,), (kind,))


BUILDERS: dict[str, Builder] = {
    **dict.fromkeys(_EXACT, build_arithmetic),
    **dict.fromkeys(("min", "max"), build_extreme),
    **dict.fromkeys(("abs", "neg"), build_sign),
}
