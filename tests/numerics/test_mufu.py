from __future__ import annotations

import hashlib

import numpy as np
import pytest

from fa4sim.numerics import ex2_mufu, lg2_mufu, rcp_mufu, tanh_mufu

HALF_SPACING = 2.0**-24


def relative_error(value: np.ndarray, exact: np.ndarray) -> float:
    return float(np.max(np.abs(value / exact - 1)))


def test_exp2_is_within_half_a_float32_spacing() -> None:
    x = np.random.default_rng(0).uniform(-126, 127, 200_000).astype(np.float32)
    assert relative_error(ex2_mufu(x), np.exp2(x.astype(np.float64))) < HALF_SPACING * 1.000001


def test_exp2_of_a_whole_number_is_exact() -> None:
    n = np.arange(-126, 128)
    assert np.array_equal(ex2_mufu(n.astype(np.float32)), np.ldexp(np.float32(1), n))


def test_exp2_never_falls_when_its_argument_rises() -> None:
    x = np.sort(np.random.default_rng(1).uniform(-3, 3, 100_000).astype(np.float32))
    assert np.all(np.diff(ex2_mufu(x)) >= 0)


def test_exp2_special_values_are_those_of_the_instruction() -> None:
    x = np.float32([-np.inf, np.inf, np.nan, 0, -0.0, 128, -126, -126.00001, -200, 1e-40])
    expected = np.float32([0, np.inf, np.nan, 1, 1, np.inf, 2.0**-126, 0, 0, 1])
    assert np.array_equal(ex2_mufu(x), expected, equal_nan=True)
    assert not np.signbit(ex2_mufu(np.float32([-np.inf, -500]))).any()


@pytest.mark.parametrize(
    ("function", "low", "high", "digest"),
    [
        (ex2_mufu, -130, 10, "dd5cfdd8df577e89"),
        (lg2_mufu, 0, 1e4, "a7267eb2560a738b"),
        (tanh_mufu, -5, 5, "8e5e186e5759a5e8"),
        (rcp_mufu, 0.1, 1e4, "9b9014c4b69d8649"),
    ],
)
def test_results_have_the_same_bits_on_every_platform(function, low, high, digest) -> None:
    x = np.linspace(low, high, 50_001, dtype=np.float64).astype(np.float32)
    assert hashlib.sha256(function(x).astype("<f4").tobytes()).hexdigest()[:16] == digest


@pytest.mark.parametrize("function", [ex2_mufu, lg2_mufu, rcp_mufu, tanh_mufu])
def test_results_do_not_depend_on_memory_layout_or_grouping(function) -> None:
    x = np.random.default_rng(2).uniform(0.1, 8, (64, 33)).astype(np.float32)
    whole = function(x)
    assert np.array_equal(function(x.T), whole.T)
    assert np.array_equal(function(x[::3, ::-1]), whole[::3, ::-1])
    assert np.array_equal(np.stack([function(row) for row in x]), whole)
    assert function(x[0, 0]) == whole[0, 0]
    assert function(x).dtype == np.float32


def test_log2_is_within_half_a_float32_spacing() -> None:
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.uniform(0.5, 2, 50_000), np.exp(rng.uniform(-80, 80, 50_000))])
    x = x[np.abs(x - 1) > 1e-6].astype(np.float32)
    assert relative_error(lg2_mufu(x), np.log2(x.astype(np.float64))) < HALF_SPACING * 1.00001


def test_log2_special_values_are_those_of_the_instruction() -> None:
    x = np.float32([0, -0.0, 1e-40, -1, np.inf, np.nan, 1, 0.25])
    expected = np.float32([-np.inf, -np.inf, -np.inf, np.nan, np.inf, np.nan, 0, -2])
    assert np.array_equal(lg2_mufu(x), expected, equal_nan=True)


def test_tanh_is_within_half_a_float32_spacing_near_zero_and_far_away() -> None:
    x = np.concatenate([np.geomspace(1e-30, 30, 20_000), -np.geomspace(1e-30, 30, 20_000)])
    x = x.astype(np.float32)
    assert relative_error(tanh_mufu(x), np.tanh(x.astype(np.float64))) < HALF_SPACING * 1.00001


def test_reciprocal_flushes_subnormals() -> None:
    x = np.float32([2, -4, 0, 1e-40, 3e38, np.inf])
    assert rcp_mufu(x).tolist() == [0.5, -0.25, np.inf, np.inf, 0, 0]
