"""Number formats: every bit pattern, and rounding against exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fa4kernel.emulator.tensor.formats import FORMATS, decode, encode, format_of

NARROW = [name for name, fmt in FORMATS.items() if fmt.storage.itemsize <= 2]
MODES = ["rn", "rna", "rz", "rm", "rp"]


def patterns(dtype):
    fmt = format_of(dtype)
    return np.arange(1 << fmt.bits).astype(fmt.storage)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("mode", MODES)
def test_every_number_is_encoded_as_itself(dtype, mode):
    raw = patterns(dtype)
    numbers = ~np.isnan(decode(raw, dtype))
    assert (encode(decode(raw, dtype), dtype, mode, saturate=False)[numbers] == raw[numbers]).all()


@pytest.mark.parametrize(
    ("dtype", "type_"),
    [
        ("f16", torch.float16),
        ("bf16", torch.bfloat16),
        ("e4m3", torch.float8_e4m3fn),
        ("e5m2", torch.float8_e5m2),
    ],
)
def test_values_are_those_of_pytorch(dtype, type_):
    raw = patterns(dtype)
    signed = np.int16 if raw.itemsize == 2 else np.int8
    theirs = torch.from_numpy(raw.view(signed).copy()).view(type_).float().numpy()
    np.testing.assert_array_equal(decode(raw, dtype), theirs)


def test_padding_bits_are_ignored():
    raw = np.array([0x3F801FFF, 0x7F800001], np.uint32)
    assert decode(raw, "tf32").tolist() == [1.0, math.inf]
    assert decode(np.array([0xF2], np.uint8), "e2m1")[0] == decode(np.array([2], np.uint8), "e2m1")


def test_a_transposed_matrix_is_decoded_in_place():
    raw = np.arange(12, dtype=np.uint8).reshape(3, 4)
    for dtype in ("e4m3", "f16", "bf16"):
        bits = raw.astype(format_of(dtype).storage)
        turned = decode(bits.T, dtype)
        assert turned.flags.f_contiguous
        np.testing.assert_array_equal(turned, decode(bits, dtype).T)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("mode", MODES)
def test_rounding_picks_the_right_neighbour(dtype, mode):
    rng = np.random.default_rng(1)
    values = decode(patterns(dtype), dtype)
    finite = np.unique(values[np.isfinite(values)].astype(np.float64))
    low, high = finite[:-1], finite[1:]
    middle = (low + high) / 2
    points = np.concatenate([middle, np.nextafter(middle, low), np.nextafter(middle, high)])
    points = np.concatenate([points, low + (high - low) * rng.random(low.size)])
    below = finite[np.searchsorted(finite, points, side="right") - 1]
    above = finite[np.searchsorted(finite, points, side="left")]
    rounded = decode(encode(points, dtype, mode), dtype).astype(np.float64)
    nearer = np.where(points - below <= above - points, below, above)
    tie = points - below == above - points
    if mode == "rz":
        expected = np.where(points > 0, below, above)
    elif mode in ("rm", "rp"):
        expected = below if mode == "rm" else above
    elif mode == "rna":
        expected = np.where(tie, np.where(points > 0, above, below), nearer)
    else:
        even = encode(above, dtype) % 2 == 0
        expected = np.where(tie, np.where(even, above, below), nearer)
    np.testing.assert_array_equal(rounded, expected)


@given(st.floats(width=32), st.sampled_from(["f16", "bf16", "e5m2", "tf32"]))
def test_rounding_to_nearest_is_that_of_pytorch(x, dtype):
    if dtype == "tf32":
        bits = int(np.float32(x).view(np.uint32))
        if not math.isfinite(x):
            return
        expected = ((bits + 0x0FFF + (bits >> 13 & 1)) >> 13 << 13) & 0xFFFFFFFF
        assert int(encode(np.float32([x]), "tf32")[0]) == expected
        return
    types = {"f16": torch.float16, "bf16": torch.bfloat16, "e5m2": torch.float8_e5m2}
    theirs = torch.tensor([x], dtype=torch.float32).to(types[dtype]).float().numpy()
    ours = decode(encode(np.float32([x]), dtype, saturate=False), dtype)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", FORMATS)
def test_what_overflows_saturates_or_not(dtype):
    fmt = format_of(dtype)
    x = np.array([np.inf, -np.inf, 1e300, -1e300])
    largest = float(decode(np.array([fmt.largest << fmt.shift], fmt.storage), dtype)[0])
    signs = np.array([1, -1, 1, -1])
    clamped = decode(encode(x, dtype, saturate=True), dtype)
    assert (clamped == signs * np.float32(largest)).all()
    free = decode(encode(x, dtype, saturate=False), dtype)
    if fmt.special == "ieee":
        assert (free == signs * np.inf).all()
        towards_zero = decode(encode(x, dtype, "rz", saturate=False), dtype)
        assert (towards_zero[2:] == signs[2:] * np.float32(largest)).all()
    elif fmt.special == "nan":
        assert np.isnan(free).all()
    else:
        assert (free == clamped).all()


def test_the_default_is_to_saturate_only_what_has_8_bits_or_fewer():
    assert int(encode(np.float32([1e9]), "e4m3")[0]) == 0x7E
    assert int(encode(np.float32([1e9]), "e5m2")[0]) == 0x7B
    assert int(encode(np.float32([1e9]), "f16")[0]) == 0x7C00


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [
        ("f32", 0x7FFFFFFF),
        ("tf32", 0x7FFFE000),
        ("f16", 0x7FFF),
        ("bf16", 0x7FFF),
        ("e5m2", 0x7F),
        ("e4m3", 0x7F),
        ("e3m2", 0x1F),
        ("e2m3", 0x1F),
        ("e2m1", 0x07),
    ],
)
@pytest.mark.parametrize("type_", [np.float32, np.float64])
def test_nan_becomes_the_canonical_nan_or_the_largest_number(dtype, bits, type_):
    assert int(encode(np.array([-np.nan], type_), dtype)[0]) == bits


def test_float64_is_rounded_once():
    # Halfway between two f16 numbers as a float32, but above halfway as a float64.
    x = 1 + 2.0**-11 + 2.0**-40
    assert Fraction(float(decode(encode(np.array([x]), "f16"), "f16")[0])) == 1 + Fraction(1, 1024)
    assert np.float16(np.float32(x)) == 1


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="'fp8' is not known"):
        decode(np.zeros(1, np.uint8), "fp8")
    with pytest.raises(ValueError, match="rounding 'ru'"):
        encode(np.zeros(1), "f16", "ru")


@pytest.mark.parametrize("dtype", FORMATS)
def test_scalars_are_arrays_without_axes(dtype):
    for x in (0.0, 1.5, np.nan, np.inf):
        alone = encode(np.array(x, np.float32), dtype)
        assert alone.shape == ()
        assert int(alone) == int(encode(np.array([x], np.float32), dtype)[0])
