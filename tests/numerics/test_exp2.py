from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fa4sim.numerics import (
    COEFFICIENTS,
    emulated_columns,
    ex2_mixed,
    ex2_mufu,
    ex2_poly,
    polynomial_error_table,
)

Nearest = Callable[[Fraction], np.float32]


@pytest.fixture(scope="module")
def errors() -> dict[str, object]:
    return {row.method: row for row in polynomial_error_table(bits=20)}


@pytest.mark.parametrize(
    ("method", "fp32_error", "bf16_error"),
    [
        ("degree 3", 8.77e-5, 3.90e-3),
        ("degree 4", 3.05e-6, 3.89e-3),
        ("degree 5", 1.44e-7, 3.89e-3),
    ],
)
def test_polynomial_errors_are_those_of_the_papers_table_2(
    errors, method: str, fp32_error: float, bf16_error: float
) -> None:
    assert errors[method].fp32_error == pytest.approx(fp32_error, rel=0.005)
    assert errors[method].bf16_error == pytest.approx(bf16_error, rel=0.002)


def test_the_mufu_model_errs_less_than_the_published_hardware(errors) -> None:
    assert errors["MUFU"].fp32_error < 6e-8 < 1.41e-7
    assert errors["MUFU"].bf16_error == pytest.approx(3.89e-3, rel=0.001)


def test_degree_3_is_within_one_bf16_ulp_of_mufu_and_equal_on_99_percent(errors) -> None:
    assert errors["degree 3"].bf16_within_one_ulp == 1.0
    assert errors["degree 3"].bf16_equal >= 0.99


def test_each_degree_is_more_accurate_than_the_one_before() -> None:
    rows = polynomial_error_table(bits=14, degrees=(1, 2, 3, 4, 5))[1:]
    fp32 = [row.fp32_error for row in rows]
    assert all(lower > higher for lower, higher in pairwise(fp32))


@given(x=st.floats(width=32, min_value=-126, max_value=15), degree=st.integers(1, 5))
@settings(deadline=None, max_examples=200)
def test_every_step_of_the_polynomial_rounds_once(
    nearest_float32: Nearest, x: float, degree: int
) -> None:
    whole = int(np.floor(x))
    fraction = Fraction(float(nearest_float32(Fraction(x) - whole)))
    *lower, highest = COEFFICIENTS[degree]
    power = Fraction(highest)
    for coefficient in reversed(lower):
        power = Fraction(float(nearest_float32(power * fraction + Fraction(coefficient))))
    expected = Fraction(2) ** whole * power
    if expected >= Fraction(2) ** -126:
        assert Fraction(float(ex2_poly(np.float32([x]), degree)[0])) == expected


def test_the_coefficients_are_float32_values() -> None:
    for coefficients in COEFFICIENTS.values():
        assert all(float(np.float32(c)) == c for c in coefficients)


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5])
def test_a_masked_score_becomes_exactly_plus_zero(degree: int) -> None:
    masked = ex2_poly(np.float32([-np.inf, -1e30, -127, np.nan]), degree)
    assert masked.view(np.uint32).tolist() == [0, 0, 0, 0]


def test_whole_numbers_are_exact_through_the_polynomial() -> None:
    n = np.arange(-126, 17)
    assert np.array_equal(ex2_poly(n.astype(np.float32)), np.ldexp(np.float32(1), n))


def test_just_below_a_whole_number_the_polynomial_stays_close() -> None:
    x = np.nextafter(np.arange(-20, 9, dtype=np.float32), np.float32(-np.inf))
    assert np.allclose(ex2_poly(x), np.exp2(x.astype(np.float64)), rtol=1e-4, atol=0)
    assert np.isclose(ex2_poly(np.float32([-1e-30]))[0], 1, rtol=1e-4)


@pytest.mark.parametrize(
    ("freq", "res", "start", "share"),
    [
        (16, 4, 1, 0.125),
        (10, 4, 1, 0.1875),
        (16, 4, 0, 0.1875),
        (32, 4, 1, 0.0625),
        (8, 4, 1, 0.25),
        (14, 6, 0, 0.28125),
        (0, 4, 1, 0.0),
    ],
)
def test_each_kernel_configuration_emulates_its_share(freq, res, start, share) -> None:
    mask = emulated_columns(128, freq, res, start)
    assert mask.mean() == share
    assert np.array_equal(mask[0::2], mask[1::2])  # columns go in pairs
    assert not mask[96:].any()  # never in the last fragment


def test_a_tile_of_64_columns_has_no_eligible_fragment() -> None:
    assert not emulated_columns(64, freq=16).any()


def test_mixed_columns_take_the_unit_they_were_given() -> None:
    x = np.random.default_rng(0).uniform(-20, 8, (5, 128)).astype(np.float32)
    mask = emulated_columns(128, 16)
    mixed = ex2_mixed(x, mask)
    assert np.array_equal(mixed[:, mask], ex2_poly(x)[:, mask])
    assert np.array_equal(mixed[:, ~mask], ex2_mufu(x)[:, ~mask])
    assert np.array_equal(ex2_mixed(x, np.zeros(128, dtype=bool)), ex2_mufu(x))


def test_bad_arguments_are_refused_with_their_values() -> None:
    with pytest.raises(ValueError, match="degree 6"):
        ex2_poly(np.zeros(1, dtype=np.float32), 6)
    with pytest.raises(ValueError, match="n=100 is not a positive multiple of fragment=32"):
        emulated_columns(100, 16)
    with pytest.raises(ValueError, match="freq=-1"):
        emulated_columns(128, -1)
    with pytest.raises(ValueError, match=r"\(64,\)"):
        ex2_mixed(np.zeros((2, 128), dtype=np.float32), np.zeros(64, dtype=bool))
    with pytest.raises(ValueError, match="bits=24"):
        polynomial_error_table(bits=24)
