"""The special functions stay within the errors that the module and the manual state."""

from __future__ import annotations

import numpy as np
import pytest

from fa4kernel.emulator.isa.approximations import ex2_ftz
from tests.emulator.isa.case import values


def ulps(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distance in units of the last place of the float32 nearest to the exact value."""
    near = exact.astype(np.float32)
    with np.errstate(all="ignore"):
        spacing = np.spacing(np.abs(near)).astype(np.float64)
        return np.abs(got.astype(np.float64) - exact) / spacing


def check_ex2(step: int) -> None:
    """Try every ``step``-th float32 from the smallest normal number to 128, and down to -126."""
    largest, chunk = 0.0, step << 20
    for low, high in ((0x00800000, 0x43000000), (0x80800000, 0xC2FC0000)):
        for start in range(low, high, chunk):
            bits = np.arange(start, min(start + chunk, high), step, dtype=np.uint32)
            x = bits.view(np.float32)
            with np.errstate(all="ignore"):
                got = ex2_ftz(x)
            largest = max(largest, float(ulps(got, np.exp2(x.astype(np.float64))).max()))
    assert largest <= 1.01


def test_ex2_is_within_1_01_ulp() -> None:
    check_ex2(1009)


@pytest.mark.slow
def test_ex2_is_within_1_01_ulp_for_every_thirteenth_input() -> None:
    check_ex2(13)


@pytest.mark.parametrize(
    ("line", "function", "low", "high"),
    [
        ("lg2.approx.f32", np.log2, 1e-45, 3e38),
        ("lg2.approx.f32", np.log2, 0.5, 2.0),
        ("tanh.approx.f32", np.tanh, 1e-30, 10.0),
        ("rcp.approx.f32", np.reciprocal, 1e-37, 1e37),
        ("sqrt.approx.f32", np.sqrt, 1e-45, 3e38),
        ("rsqrt.approx.f32", lambda x: 1 / np.sqrt(x), 1e-38, 3e38),
        ("sin.approx.f32", np.sin, 1e-3, 300.0),
        ("cos.approx.f32", np.cos, 1e-3, 300.0),
    ],
)
def test_the_others_are_within_half_an_ulp(line, function, low, high) -> None:
    rng = np.random.default_rng(7)
    x = np.exp(rng.uniform(np.log(low), np.log(high), 500)).astype(np.float32)
    got = values(f"{line} d, a;", "f32 -> f32", *((float(v),) for v in x))
    result = np.array([g for (g,) in got], np.uint32).view(np.float32)
    exact = function(x.astype(np.float64))
    assert ulps(result, exact).max() <= 0.5001


def test_approximate_quotients_are_within_half_an_ulp() -> None:
    rng = np.random.default_rng(8)
    a, b = rng.standard_normal((2, 500)).astype(np.float32)
    exact = a.astype(np.float64) / b.astype(np.float64)
    for form in ("approx", "full"):
        rows = [(float(x), float(y)) for x, y in zip(a, b, strict=True)]
        got = values(f"div.{form}.f32 d, a, b;", "f32 f32 -> f32", *rows)
        result = np.array([g for (g,) in got], np.uint32).view(np.float32)
        assert ulps(result, exact).max() <= 0.5001


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_16_bit_forms_are_cut_towards_zero(kind: str) -> None:
    grid = np.linspace(-7.9, 7.9, 301)
    ftz = ".ftz" if kind == "bf16" else ""
    for line, function in ((f"ex2.approx{ftz}", np.exp2), ("tanh.approx", np.tanh)):
        rows = [(float(v),) for v in grid]
        inputs = values(f"cvt.rn.{kind}.f32 d, a;", f"f32 -> {kind}", *rows)
        got = values(f"{line}.{kind} d, a;", f"{kind} -> {kind}", *inputs)
        for (x,), (y,) in zip(inputs, got, strict=True):
            ((value,),) = values(f"cvt.f32.{kind} d, a;", f"{kind} -> f32", (x,))
            exact = function(np.uint32(value).view(np.float32).astype(np.float64))
            ((want,),) = values(f"cvt.rz.{kind}.f64 d, a;", f"f64 -> {kind}", (float(exact),))
            assert y == want
