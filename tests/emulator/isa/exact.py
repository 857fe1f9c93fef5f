"""Rounding worked out with fractions: slow, plain, and independent of the emulator."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Form:
    """A float format: bits of the fraction, least exponent of normal numbers, greatest exponent."""

    bits: int
    fraction: int
    least: int
    greatest: int


FORMS = {
    "f32": Form(32, 23, -126, 127),
    "f16": Form(16, 10, -14, 15),
    "bf16": Form(16, 7, -126, 127),
    "f64": Form(64, 52, -1022, 1023),
}


def value(bits: int, kind: str) -> Fraction:
    """The value of finite bits."""
    form = FORMS[kind]
    size = bits & ((1 << form.bits - 1) - 1)
    field, rest = size >> form.fraction, size & ((1 << form.fraction) - 1)
    whole = rest + (1 << form.fraction if field else 0)
    exponent = max(field, 1) - 1 + form.least - form.fraction
    magnitude = Fraction(whole) * Fraction(2) ** exponent
    return -magnitude if bits >> (form.bits - 1) else magnitude


def is_finite(bits: int, kind: str) -> bool:
    """Whether bits are neither infinity nor NaN."""
    form = FORMS[kind]
    top = (1 << form.bits - 1 - form.fraction) - 1
    return bits >> form.fraction & top != top


def rounded(exact: Fraction, kind: str, mode: str, zero_sign: int = 0) -> int:
    """The bits of the value nearest to ``exact`` in the direction of ``mode``."""
    form = FORMS[kind]
    sign = 1 if exact < 0 or (exact == 0 and zero_sign) else 0
    size = abs(exact)
    exponent = form.least
    if size:
        guess = size.numerator.bit_length() - size.denominator.bit_length()
        exponent = max(guess if Fraction(2) ** guess <= size else guess - 1, form.least)
    steps = size / Fraction(2) ** (exponent - form.fraction)
    down = math.floor(steps)
    rest = steps - down
    up = {
        "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and down % 2 == 1),
        "rz": False,
        "rm": rest > 0 and sign == 1,
        "rp": rest > 0 and sign == 0,
    }[mode]
    code = ((exponent - form.least) << form.fraction) + down + up
    infinity = ((1 << form.bits - 1 - form.fraction) - 1) << form.fraction
    if code >= infinity:
        inward = mode == "rz" or (mode == "rm" and not sign) or (mode == "rp" and sign)
        code = infinity - 1 if inward else infinity
    return sign << form.bits - 1 | code


def float32(bits: int) -> float:
    """The Python float of float32 bits."""
    return struct.unpack("<f", struct.pack("<I", bits))[0]
