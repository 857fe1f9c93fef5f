"""2^x, on the special function units or on the FMA units.

The special function units (MUFU) give 16 results per cycle and SM; the 128 FMA lanes beside them
would idle. So some of a row's exponentials are computed as x = n + r, with n whole and 0 <= r < 1:
2^r is a polynomial, and n is added to its exponent field. Coefficients: Sollya's best for relative
error on [0, 1), as the FlashAttention-4 kernel uses them (`ex2_emulation_2`), from
`fa4sim.numerics.exp2`.
"""

from __future__ import annotations

from typing import Any

import cutlass.cute as cute
from cutlass import Float32, Int32

from fa4sim.numerics.exp2 import COEFFICIENTS

Pair = tuple[Any, Any]  # two float32, for instructions that handle two at once

#: Added to a small number, it leaves the whole part in the low bits of the sum (1.5 × 2^23).
MAGIC = 12582912.0


def on_mufu(x: Any) -> Any:
    """2^x by one instruction, ex2.approx.ftz.f32."""
    return cute.math.exp2(x, fastmath=True)


def on_fma(x: Pair, degree: int) -> Pair:
    """2^x for two numbers, x at most 127. Below -127 the result is 0."""
    x = tuple(cute.arch.fmax(each, -127.0) for each in x)
    shifted = cute.arch.add_packed_f32x2(x, (MAGIC, MAGIC), rnd="rm")  # rounds towards -infinity
    whole = cute.arch.sub_packed_f32x2(shifted, (MAGIC, MAGIC))
    rest = cute.arch.sub_packed_f32x2(x, whole)
    *lower, highest = COEFFICIENTS[degree]
    power = highest, highest
    for coefficient in reversed(lower):
        power = cute.arch.fma_packed_f32x2(power, rest, (coefficient, coefficient))
    return tuple(_scaled(p, n) for p, n in zip(power, shifted, strict=True))


def _scaled(power: Any, shifted: Any) -> Any:
    """`power` times 2^n, n being in the low bits of `shifted`."""
    bits = power.bitcast(Int32) + (shifted.bitcast(Int32) << 23)
    return bits.bitcast(Float32)
