from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fa4sim.numerics import fma32

Nearest = Callable[[Fraction], np.float32]
finite = st.floats(width=32, min_value=-(2.0**60), max_value=2.0**60)
# Few significant bits, so that sums often fall on or beside a midpoint between two float32s.
short = st.builds(lambda n, e: n * 2.0**e, st.integers(-4097, 4097), st.integers(-40, 10))


@given(a=finite | short, b=finite | short, c=finite | short)
@settings(deadline=None, max_examples=400)
def test_fma_rounds_the_exact_result_once(
    nearest_float32: Nearest, a: float, b: float, c: float
) -> None:
    expected = nearest_float32(Fraction(a) * Fraction(b) + Fraction(c))
    assert fma32(np.float32(a), np.float32(b), np.float32(c)) == expected


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("exponent", [-30, -54, -80, -140])
def test_a_tiny_addend_breaks_a_tie_that_float64_cannot_see(
    nearest_float32: Nearest, sign: int, exponent: int
) -> None:
    a = np.float32(1 + 2**-12)  # a * a = 1 + 2**-11 + 2**-24 lies halfway between two float32s
    c = np.float32(sign * 2.0**exponent)
    expected = nearest_float32(Fraction(float(a)) ** 2 + Fraction(float(c)))
    assert fma32(a, a, c) == expected
    below, above = np.float32(1 + 2**-11), np.float32(1 + 2**-11 + 2**-23)
    assert expected == (above if sign > 0 else below)


def test_an_exact_tie_goes_to_even() -> None:
    a = np.float32([1 + 2**-12, 1 + 2**-11 + 2**-23])
    b = np.float32([1 + 2**-12, 1])
    assert fma32(a, b, np.float32([0, 2**-24])).tolist() == [1 + 2**-11, 1 + 2**-11 + 2**-22]


def test_subnormal_results_are_rounded_once(nearest_float32: Nearest) -> None:
    a, b = np.float32((1 + 2**-23) * 2.0**-75), np.float32((1 - 2**-23) * 2.0**-75)
    c = np.float32(2.0**-127 + 2.0**-149)  # odd; a * b is a hair less than half a spacing
    assert fma32(a, b, c) == nearest_float32(
        Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    )
    assert fma32(a, b, c) == c  # float64 alone would see a tie and round up, to even


def test_infinities_and_overflow_follow_ieee() -> None:
    inf = np.float32(np.inf)
    big = np.float32(3e38)
    assert fma32(-inf, np.float32(2), np.float32(1)) == -inf
    assert fma32(big, np.float32(2), np.float32(0)) == inf
    assert np.isnan(fma32(inf, np.float32(1), -inf))
    largest = np.float32(np.finfo(np.float32).max)
    just_below_tie = np.float32(2.0**103 * (1 - 2.0**-24))  # half a spacing, less a little
    assert fma32(largest, np.float32(1), just_below_tie) == largest


def test_arrays_broadcast() -> None:
    rows = fma32(np.ones((2, 3), dtype=np.float32), np.float32(2), np.float32([[1], [5]]))
    assert rows.tolist() == [[3, 3, 3], [7, 7, 7]]
    assert rows.dtype == np.float32
