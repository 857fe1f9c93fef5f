"""Special functions and quotients: ex2, lg2, tanh, sin, cos, rcp, sqrt, rsqrt, div.

The GPU's ``.approx`` forms come from small tables and are close, not exact; what they return for
a given input isn't documented, only a bound on the error. The models here are better than the
bound, so they say what a kernel computes up to that error and not bit for bit:

=====================  ==================  =====================================================
instruction            model, off by       the manual's bound (PTX ISA 9.7.3, 9.7.4)
=====================  ==================  =====================================================
ex2.approx{.ftz}.f32   at most 1.01 ulp    2 ulp
lg2.approx.f32         half an ulp         2**-22 relative; absolute for inputs in (0.5, 2)
tanh.approx.f32        half an ulp         2**-11 relative
rcp.approx.f32         half an ulp         1 ulp
sqrt.approx.f32        half an ulp         2**-23 relative
rsqrt.approx.f32       half an ulp         2**-22.9 relative
sin, cos.approx.f32    half an ulp         2**-20.5 absolute in [-2 pi, 2 pi], 2**-14.7 in 100 pi
div.approx, .full.f32  half an ulp         2 ulp
ex2.approx.f16, bf16   less than an ulp    2**-9.9, 2**-7 relative
tanh.approx.f16, bf16  less than an ulp    2**-10.987, 2**-8 absolute
=====================  ==================  =====================================================

"Half an ulp" is up to the error of the C library's float64 functions, that is but for one input
in some ten million. ``ex2`` is NumPy's float32 ``exp2`` up to 2**126, which is what makes it fast;
a sweep of all inputs finds its error below 1.01 ulp on x86-64 with AVX-512, and the last bit may
differ on other machines. The forms with a rounding (``.rn`` to ``.rp``) are correctly rounded.

``ftz`` flushes subnormal inputs and results; the result is flushed if it is below the smallest
normal number before it is rounded to float32.

What an H200 does (`tests/emulator/device`): its f32 forms keep the manual's bounds and have zeros,
infinities and NaNs where the models have them, but for ``sin`` and ``cos``, which are 0 and 1 for
very small and very large inputs. Its 16-bit forms are cut towards zero, and so are the models:
``ex2`` is the same for all 65,536 inputs, ``tanh`` is one ulp off for 48 (f16) and 2 (bf16).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fa4kernel.emulator.isa.floats import MODES, adjusted
from fa4kernel.emulator.isa.halves import KINDS, on_halves
from fa4kernel.emulator.isa.rounding import to_float32
from fa4kernel.emulator.isa.semantics import Array, Builder, Semantics, Spelling, Where

_FAR = np.array(126, np.float32)


def ex2_ftz(x: Array, out: Array | None = None, where: Where = True) -> Array:
    """``ex2.approx.ftz.f32``: 2**x, and +0 below the smallest normal number.

    >>> ex2_ftz(np.array([0.5, -126, -126.5, -np.inf], np.float32))
    array([1.4142135e+00, 1.1754944e-38, 0.0000000e+00, 0.0000000e+00], dtype=float32)
    """
    x = np.asarray(x)
    # Always the whole array: NumPy's loops for chosen elements may differ in the last bit, and
    # what one lane computes must not depend on the others.
    power: Array = np.asarray(np.exp2(x))
    far = np.greater(np.abs(x), _FAR)
    if np.count_nonzero(far):
        power = np.where(x < -_FAR, np.float32(0), power)
        large = x > _FAR  # here NumPy's float32 function can be off by 2.7 ulp
        power[large] = np.exp2(x[large].astype(np.float64)).astype(np.float32)
    if out is None:
        return power
    np.copyto(out, power, where=where)
    return out


def in_float64(function: Callable[..., Any], mode: str = "rn") -> Callable[..., Array]:
    """A function of float32 arrays, worked out in float64 and rounded.

    For quotients and square roots this is correct rounding in any direction: float64 keeps more
    than twice the bits of float32, so the first rounding never reaches what the second decides by.
    """

    def rounded(*inputs: Array) -> Array:
        return to_float32(np.asarray(function(*(np.asarray(x, np.float64) for x in inputs))), mode)

    return rounded


def _reciprocal_root(x: Array) -> Array:
    return np.asarray(1.0 / np.sqrt(x))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ex2": np.exp2,
    "lg2": np.log2,
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "rsqrt": _reciprocal_root,
    "rcp": np.reciprocal,
    "sqrt": np.sqrt,
    "div": np.divide,
}


def divide_approx(a: Array, b: Array) -> Array:
    """``div.approx.f32``: for divisors beyond 2**126 a zero, or NaN if ``a`` is infinite.

    >>> divide_approx(np.float32(3e38), np.float32(1e38))
    array(0., dtype=float32)
    """
    quotient = in_float64(np.divide)(a, b)
    far = (np.abs(b) > np.float32(2.0**126)) & np.isfinite(b)
    gone = np.where(np.isinf(a), np.float32(np.nan), quotient * np.float32(0))
    return np.where(far, gone, quotient)


def build_special(s: Spelling) -> Semantics:
    """``ex2``, ``lg2``, ``tanh``, ``sin``, ``cos``, ``rsqrt``: approximate forms only."""
    s.need("approx")
    kinds = ("f32", *KINDS) if s.opcode in ("ex2", "tanh") else ("f32",)
    kind = s.type(*kinds)
    function = _FUNCTIONS[s.opcode]
    if kind != "f32":
        if s.opcode == "tanh":
            function = _tanh_of_half
        elif kind.startswith("bf16"):
            s.need("ftz")
            function = _ex2_bf16
        else:
            function = _ex2_f16
        return Semantics(on_halves(function, kind, "rz"), (kind,), (kind,))
    ftz = s.opcode != "tanh" and s.flag("ftz")
    if s.opcode == "ex2":
        if ftz:
            return Semantics(ex2_ftz, (kind,), (kind,), ufunc=True)
        return Semantics(in_float64(function), (kind,), (kind,))
    return Semantics(adjusted(in_float64(function), ftz, False), (kind,), (kind,))


def _noticed(x: Array) -> Array:
    """Exponents, with 0 for those that are too small for an H200 to notice."""
    return np.where(np.abs(x) < 2.0**-23, 0.0, x)


def _ex2_f16(x: Array) -> Array:
    """2**x, to be rounded towards zero; what is beyond the largest is infinite all the same."""
    return np.where(x >= 16, np.inf, np.exp2(_noticed(x)))


def _ex2_bf16(x: Array) -> Array:
    power = np.where(x >= 128, np.inf, np.exp2(_noticed(x)))
    return np.where(power < 2.0**-126, 0.0, power)


def _tanh_of_half(x: Array) -> Array:
    """The hyperbolic tangent, to be rounded towards zero; its ends are what an H200 gives."""
    small, large = np.abs(x) < 0.003936, np.abs(x) >= 8
    return np.where(small, x, np.where(large, np.sign(x), np.tanh(x)))


def build_quotient(s: Spelling) -> Semantics:
    """``rcp``, ``sqrt``, ``div``: approximate, or rounded in any direction; f64 to nearest."""
    kind = s.type("f32", "f64")
    count = 2 if s.opcode == "div" else 1
    function = _FUNCTIONS[s.opcode]
    if kind == "f64":
        s.need("rn")
        return Semantics(function, (kind,) * count, (kind,), ufunc=True)
    form = s.need("approx", *(("full",) if count == 2 else ()), *MODES)
    ftz = s.flag("ftz")
    if form == "approx" and count == 2:
        rounded: Callable[..., Any] = divide_approx
    else:
        rounded = in_float64(function, form if form in MODES else "rn")
    return Semantics(adjusted(rounded, ftz, False, s.opcode), (kind,) * count, (kind,))


BUILDERS: dict[str, Builder] = {
    **dict.fromkeys(("ex2", "lg2", "tanh", "sin", "cos", "rsqrt"), build_special),
    **dict.fromkeys(("rcp", "sqrt", "div"), build_quotient),
}
