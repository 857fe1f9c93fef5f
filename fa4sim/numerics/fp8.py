"""FP8: the two 8-bit formats, value by value and bit by bit.

Eight bits are a sign, four or five bits of exponent and three or two of fraction:

=====  ====  ================  ========  ==================  ====================
name   bias  smallest normal   largest   smallest subnormal  special
=====  ====  ================  ========  ==================  ====================
e4m3   7     2**-6             448       2**-9               NaN, no infinity
e5m2   15    2**-14            57344     2**-16              as IEEE 754
=====  ====  ================  ========  ==================  ====================

e4m3 (in PyTorch ``float8_e4m3fn``) gives the patterns of infinity to numbers and keeps only the
pattern of all ones for NaN. The distance of neighbours is a *share* of the number, 1/8 to 1/16 in
e4m3 and 1/4 to 1/8 in e5m2, but for the subnormals below the smallest normal, which lie evenly.

The kernel rounds with ``cvt.rn.satfinite.e4m3x2.f32`` (or ``e5m2x2``): to nearest, ties to even,
and whatever is too large, infinity included, becomes the largest finite number of its sign.
**Nothing tells that this happened.** For inputs that is a matter of scaling; for the weights P of a
softmax it is what :mod:`fa4sim.numerics.saturation` is about.

:mod:`fa4sim.numerics.formats` has the functions to call: ``round_to``, ``to_bits8``,
``from_bits8``.

Sources: OCP 8-bit floating point specification 1.0; PTX ISA, "cvt".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Format8:
    """One 8-bit format.

    Attributes:
        exponent, fraction: bits of each.
        has_infinity: the largest exponent means infinity or NaN (else only all ones is NaN).
    """

    exponent: int
    fraction: int
    has_infinity: bool

    @property
    def bias(self) -> int:
        """What is added to an exponent before it is stored."""
        return int(2 ** (self.exponent - 1)) - 1

    @property
    def smallest_normal(self) -> float:
        """Below it the distance of neighbours stays :attr:`smallest`."""
        return float(2.0 ** (1 - self.bias))

    @property
    def smallest(self) -> float:
        """The smallest positive number."""
        return float(self.smallest_normal * 2.0**-self.fraction)

    @property
    def largest(self) -> float:
        """The largest finite number."""
        if self.has_infinity:
            return float((2 - 2.0**-self.fraction) * 2.0**self.bias)
        return float((2 - 2.0 ** (1 - self.fraction)) * 2.0 ** (self.bias + 1))


FORMATS = {"e4m3": Format8(4, 3, has_infinity=False), "e5m2": Format8(5, 2, has_infinity=True)}
"""The 8-bit formats by name."""


def round8(x: NDArray[np.float32], form: Format8) -> NDArray[np.float32]:
    """Round to the nearest number of a format, ties to even; see the head of this module.

    Args:
        x: float32 array, any shape.
        form: one of :data:`FORMATS`.

    Returns:
        float32 array of the same shape; finite but for NaN, which stays.

    >>> round8(np.float32([305, 500, -np.inf, 0.001, np.nan]), FORMATS["e4m3"])
    array([ 3.200000e+02,  4.480000e+02, -4.480000e+02,  1.953125e-03,
                     nan], dtype=float32)
    """
    x = np.ascontiguousarray(x).reshape(np.shape(x))
    dropped = np.uint32(23 - form.fraction)
    wide = x.view(np.uint32)
    odd = (wide >> dropped) & np.uint32(1)
    rounded = (wide + (odd + np.uint32((1 << (dropped - 1)) - 1))) >> dropped << dropped
    normal = np.asarray(rounded).view(np.float32)
    # Added to a number whose spacing is that of the subnormals, x is rounded to that spacing.
    magic = np.float32(1.5 * 2.0**23 * form.smallest)
    tiny = np.abs(x) < np.float32(form.smallest_normal)
    subnormal = np.copysign((np.where(tiny, x, np.float32(0)) + magic) - magic, x)
    result = np.where(tiny, subnormal, normal)
    result = np.clip(result, np.float32(-form.largest), np.float32(form.largest))
    return np.where(np.isnan(x), np.float32(np.nan), result)


def encode(x: NDArray[np.float32], form: Format8) -> NDArray[np.uint8]:
    """Round and return bit patterns; NaN becomes 0x7f.

    >>> encode(np.float32([448, -0.0, 2**-9]), FORMATS["e4m3"]).tolist()
    [126, 128, 1]
    """
    value = round8(x, form)
    size = np.abs(value)
    fraction, exponent = np.frexp(np.where(np.isnan(size), np.float32(1), size))  # in [1/2, 1)
    leading = (fraction * np.float32(2 ** (form.fraction + 1))).astype(np.int64)
    normal = ((exponent.astype(np.int64) - 2 + form.bias) << form.fraction) + leading
    with np.errstate(invalid="ignore"):
        subnormal = np.where(size < form.smallest_normal, size / np.float32(form.smallest), 0)
    code = np.where(size < form.smallest_normal, subnormal.astype(np.int64), normal)
    code = np.where(np.isnan(value), 0x7F, code | (np.signbit(value).astype(np.int64) << 7))
    return code.astype(np.uint8)


def decode(bits: NDArray[np.uint8], form: Format8) -> NDArray[np.float32]:
    """Return the values that bit patterns stand for.

    >>> decode(np.array([0x7B, 0x7C, 0xFD], dtype=np.uint8), FORMATS["e5m2"])
    array([57344.,    inf,    nan], dtype=float32)
    """
    return np.asarray(_table(form)[bits])


@cache
def _table(form: Format8) -> NDArray[np.float32]:
    """Values of all 256 patterns."""
    code = np.arange(256)
    exponent = (code >> form.fraction) & (2**form.exponent - 1)
    fraction = code & (2**form.fraction - 1)
    leading = np.where(exponent > 0, 2**form.fraction, 0) + fraction
    value = np.ldexp(leading.astype(np.float64), np.maximum(exponent, 1) - 1) * form.smallest
    if form.has_infinity:
        special = exponent == 2**form.exponent - 1
        value = np.where(special, np.where(fraction == 0, np.inf, np.nan), value)
    else:
        value = np.where(code & 0x7F == 0x7F, np.nan, value)
    table = np.where(code & 0x80, -value, value).astype(np.float32)
    table.flags.writeable = False  # shared by all callers
    return table
