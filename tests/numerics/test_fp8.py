from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fa4sim.numerics import (
    EPSILON,
    FP8_DTYPES,
    LARGEST,
    from_bits8,
    is_representable,
    round_to,
    to_bits8,
)

TORCH = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
ALL_CODES = np.arange(256, dtype=np.uint8)

both = pytest.mark.parametrize("dtype", FP8_DTYPES)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal bit for bit, the sign of zero included, but any NaN for any other."""
    number = ~np.isnan(a)
    return bool(
        np.array_equal(number, ~np.isnan(b))
        and np.array_equal(a[number].view(np.uint32), b[number].view(np.uint32))
    )


def finite_values(dtype: str) -> np.ndarray:
    """All finite values of a format, from the smallest to the largest, +0 for both zeros."""
    values = from_bits8(ALL_CODES, dtype)
    return np.unique(values[np.isfinite(values)])


@both
def test_every_pattern_stands_for_what_pytorch_says(dtype: str) -> None:
    theirs = torch.from_numpy(ALL_CODES.copy()).view(TORCH[dtype]).float().numpy()
    assert same(from_bits8(ALL_CODES, dtype), theirs)
    assert EPSILON[dtype] == torch.finfo(TORCH[dtype]).eps
    assert LARGEST[dtype] == torch.finfo(TORCH[dtype]).max


@both
def test_rounding_agrees_with_pytorch_for_every_exponent_and_tie(dtype: str) -> None:
    upper = np.arange(2**16, dtype=np.uint32)[:, None] << 16
    lower = np.array([0, 1, 0x8000, 0xFFFF], dtype=np.uint32)
    x = (upper | lower).ravel().view(np.float32)
    values = finite_values(dtype).astype(np.float64)
    ties = ((values[:-1] + values[1:]) / 2).astype(np.float32)  # exact
    x = np.concatenate([x, ties, np.nextafter(ties, np.float32(0)), np.nextafter(ties, 9e9)])
    x = x.astype(np.float32)
    within = ~(np.abs(x) > LARGEST[dtype])
    theirs = torch.from_numpy(x).to(TORCH[dtype])
    assert same(round_to(x, dtype)[within], theirs.float().numpy()[within])
    number = within & ~np.isnan(x)
    assert np.array_equal(to_bits8(x, dtype)[number], theirs.view(torch.uint8).numpy()[number])


@both
@given(
    bits=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=50),
)
def test_the_result_is_the_nearest_value_for_any_float32(dtype: str, bits: list[int]) -> None:
    x = np.array(bits, dtype=np.uint32).view(np.float32)
    x = x[~np.isnan(x)]
    values = finite_values(dtype).astype(np.float64)
    rounded = round_to(x, dtype)
    bounded = np.clip(x.astype(np.float64), values[0], values[-1])
    distance = np.abs(values - bounded[:, None]).min(axis=1)
    assert np.array_equal(np.abs(rounded - bounded), distance)
    assert is_representable(rounded, dtype)
    assert np.array_equal(np.signbit(rounded), np.signbit(x))


@both
def test_what_is_too_large_saturates_and_nan_becomes_the_canonical_one(dtype: str) -> None:
    largest = LARGEST[dtype]
    x = np.float32([largest * 1.01, 1e38, np.inf, -largest * 2, -np.inf])
    assert round_to(x, dtype).tolist() == [largest] * 3 + [-largest] * 2
    nans = np.array([0x7F800001, 0xFFC00000], dtype=np.uint32).view(np.float32)
    assert to_bits8(nans, dtype).tolist() == [0x7F] * 2


@both
def test_bits_and_values_go_round_trip(dtype: str) -> None:
    values = from_bits8(ALL_CODES, dtype)
    finite = np.isfinite(values)
    assert np.array_equal(to_bits8(values, dtype)[finite], ALL_CODES[finite])
    assert is_representable(values, dtype)
    assert not is_representable(np.float32([0.3]), dtype)


def test_only_e5m2_has_an_infinity() -> None:
    assert from_bits8(np.uint8([0x7C, 0xFC]), "e5m2").tolist() == [np.inf, -np.inf]
    assert np.isinf(from_bits8(ALL_CODES, "e4m3")).sum() == 0
    assert is_representable(np.float32([np.inf]), "e5m2")
    assert not is_representable(np.float32([np.inf]), "e4m3")


@both
def test_shape_and_memory_layout_don_t_matter(dtype: str) -> None:
    x = np.random.default_rng(0).standard_normal((6, 4, 2)).astype(np.float32)
    assert np.array_equal(round_to(x.T, dtype), round_to(x, dtype).T)
    assert np.array_equal(to_bits8(x[::2, ::-1], dtype), to_bits8(x, dtype)[::2, ::-1])
    assert round_to(np.array(0.1, dtype=np.float32), dtype).shape == ()
    assert to_bits8(np.zeros((0, 3), dtype=np.float32), dtype).shape == (0, 3)


def test_other_element_types_and_formats_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'bf16' is not an 8-bit format"):
        to_bits8(np.zeros(1, dtype=np.float32), "bf16")
    with pytest.raises(ValueError, match="int64, but uint8"):
        from_bits8(np.zeros(1, dtype=np.int64), "e4m3")
    with pytest.raises(ValueError, match=r"x\.astype\(np\.float32\)"):
        to_bits8(np.zeros(1), "e4m3")
    with pytest.raises(ValueError, match="'e4m3fn' is not known"):
        round_to(np.zeros(1, dtype=np.float32), "e4m3fn")
