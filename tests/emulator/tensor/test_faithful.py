"""The rounding model against its definition in exact rational arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fa4kernel.emulator.tensor import formats
from fa4kernel.emulator.tensor.faithful import multiply

CASES = [
    ("f16", "bf16", "f32", "sm_100a"),
    ("f16", "f16", "f32", "sm_100a"),
    ("f16", "f16", "f16", "sm_100a"),
    ("tf32", "tf32", "f32", "sm_100a"),
    ("f8f6f4", "e4m3", "f32", "sm_100a"),
    ("f8f6f4", "e5m2", "f16", "sm_100a"),
    ("f8f6f4", "e2m1", "f32", "sm_100a"),
    ("f16", "bf16", "f32", "sm_90a"),
    ("f8f6f4", "e4m3", "f32", "sm_90a"),
    ("f8f6f4", "e5m2", "f16", "sm_90a"),
]
K = {"f16": 16, "tf32": 8, "f8f6f4": 32}


def exponent_of(x, lowest):
    """Return the exponent of a non-zero Fraction, at least a format's lowest."""
    x = abs(x)
    e = x.numerator.bit_length() - x.denominator.bit_length()
    if Fraction(2) ** e > x:
        e -= 1
    return max(e, lowest)


def cut(x, unit):
    """Return a Fraction cut towards zero to a multiple of ``unit``."""
    return Fraction(math.trunc(x / unit)) * unit


def one_element(a, b, c, dtype, result, coarse):
    """Return one element of D as a float: the definition, term by term."""
    special = sum(float(x) * float(y) for x, y in zip(a, b, strict=True)) + float(c)
    if not math.isfinite(special):
        return special
    lowest = formats.format_of(dtype).lowest_exponent
    d_lowest = formats.format_of(result).lowest_exponent
    terms = []
    for x, y in zip(a, b, strict=True):
        x, y = Fraction(float(x)), Fraction(float(y))
        e = exponent_of(x, lowest) + exponent_of(y, lowest) if x * y else -126
        terms.append((x * y, e))
    c = Fraction(float(c))
    terms.append((c, exponent_of(c, d_lowest) if c else -126))
    bits = 13 if coarse else 25
    unit = Fraction(2) ** (max(e for _, e in terms) - bits)
    total = sum(cut(x, unit) for x, _ in terms)
    if total == 0:
        return 0.0
    if result == "f16":
        raw = formats.encode(np.array([float(total)]), "f16")
        return float(formats.decode(raw, "f16")[0])
    fraction = 13 if coarse else 23
    total = cut(total, Fraction(2) ** (exponent_of(total, -126) - fraction))
    return float(total) if abs(total) < 2**128 else math.copysign(math.inf, total)


def check(a_raw, b_raw, c, case):
    kind, dtype, result, architecture = case
    got = multiply(a_raw, b_raw, (dtype, dtype, result), c, kind, architecture)
    a, b = formats.decode(a_raw, dtype), formats.decode(b_raw, dtype)
    coarse = architecture == "sm_90a" and kind == "f8f6f4"
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            expected = one_element(a[i], b[:, j], c[i, j], dtype, result, coarse)
            if math.isnan(expected):
                assert got[i, j : j + 1].view(np.uint32)[0] == 0x7FFFFFFF
            else:
                assert got[i, j] == expected


def accumulators(rng, shape, result, scale=1.0):
    c = rng.standard_normal(shape) * scale
    return formats.decode(formats.encode(c.astype(np.float32), result), result)


@pytest.mark.parametrize("case", CASES)
def test_ordinary_numbers(case):
    kind, dtype, result, _ = case
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((6, K[kind])), rng.standard_normal((K[kind], 6))
    c = accumulators(rng, (6, 6), result)
    check(formats.encode(a, dtype), formats.encode(b, dtype), c, case)


@pytest.mark.parametrize("case", CASES)
def test_numbers_of_very_different_size(case):
    kind, dtype, result, _ = case
    rng = np.random.default_rng(1)
    fmt = formats.format_of(dtype)
    span = max(1, min(40, -fmt.lowest_exponent))
    sizes = 2.0 ** rng.integers(-span, span, (2, 6, K[kind]))
    a, b = rng.standard_normal((2, 6, K[kind])) * sizes
    c = accumulators(rng, (6, 6), result, 100.0)
    check(formats.encode(a, dtype), formats.encode(b.T.copy(), dtype), c, case)


@pytest.mark.parametrize("case", CASES)
def test_terms_that_cancel(case):
    kind, dtype, result, _ = case
    rng = np.random.default_rng(2)
    a = formats.encode(rng.standard_normal((6, K[kind])), dtype)
    b = formats.encode(rng.standard_normal((K[kind], 6)), dtype)
    half = K[kind] // 2
    sign = 1 << (8 * a.itemsize - 1 if dtype != "e2m1" else 3)
    a[:, half:] = a[:, :half] ^ sign
    b[half:] = b[:half]
    b[-1] += 1
    c = accumulators(rng, (6, 6), result, 2.0**-12)
    check(a, b, c, case)


@pytest.mark.parametrize("case", CASES)
def test_subnormals_and_zeros(case):
    kind, dtype, result, _ = case
    rng = np.random.default_rng(3)
    fmt = formats.format_of(dtype)
    raw = rng.integers(0, 4 << fmt.fraction, (2, 6, K[kind])) << fmt.shift
    raw *= rng.integers(0, 2, raw.shape)
    a, b = raw.astype(fmt.storage)
    c = accumulators(rng, (6, 6), result, 2.0**-30)
    c[0] = 0
    check(a, b.T.copy(), c, case)


@pytest.mark.parametrize("case", CASES)
def test_any_bits_at_all(case):
    kind, dtype, result, _ = case
    rng = np.random.default_rng(4)
    fmt = formats.format_of(dtype)
    raw = rng.integers(0, 1 << (8 * fmt.storage.itemsize), (2, 8, K[kind])).astype(fmt.storage)
    bits = rng.integers(0, 1 << 16, (8, 8))
    c = formats.decode((bits << 16 if result == "f32" else bits).astype(np.uint32), result)
    check(raw[0], raw[1].T.copy(), c, case)


@settings(deadline=None, max_examples=50)
@given(st.sampled_from(CASES), st.data())
def test_nasty_rows(case, data):
    kind, dtype, result, _ = case
    fmt = formats.format_of(dtype)
    size = 1 << fmt.bits
    nasty = [
        0,
        1,
        size // 2,
        fmt.largest,
        fmt.largest + 1,
        size // 2 + 1,
        size - 1,
        fmt.largest - 1,
    ]
    bits = st.one_of(st.sampled_from(nasty), st.integers(0, size - 1))
    row = st.lists(bits, min_size=K[kind], max_size=K[kind])
    a, b = (np.array([data.draw(row)]) % size << fmt.shift for _ in range(2))
    c = np.array([[data.draw(st.floats(width=32))]], np.float32)
    if result == "f16":
        c = formats.decode(formats.encode(c, "f16"), "f16")
    check(a.astype(fmt.storage), b.T.astype(fmt.storage), c, case)


def test_the_largest_sums_become_infinite_only_at_2_to_the_128():
    largest = 0x7F7F
    a = np.full((1, 16), largest, np.uint16)
    b = np.zeros((16, 1), np.uint16)
    b[0] = 0x3F80
    just = multiply(a, b, ("bf16", "bf16", "f32"), np.float32([[2.0**119 - 2.0**103]]))
    assert np.isfinite(just).all()
    b[1] = 0x3F80
    assert np.isinf(multiply(a, b, ("bf16", "bf16", "f32"))).all()


def test_the_order_along_k_does_not_matter():
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 0x7F00, (2, 16, 16)).astype(np.uint16)
    order = rng.permutation(16)
    dtypes = ("bf16", "bf16", "f32")
    shuffled = multiply(a[:, order], b[order], dtypes)
    np.testing.assert_array_equal(multiply(a, b, dtypes), shuffled)


def test_a_long_k_is_a_chain_of_instructions():
    rng = np.random.default_rng(6)
    a = formats.encode(rng.standard_normal((8, 48)), "bf16")
    b = formats.encode(rng.standard_normal((48, 8)), "bf16")
    dtypes = ("bf16", "bf16", "f32")
    d = np.zeros((8, 8), np.float32)
    for first in range(0, 48, 16):
        d = multiply(a[:, first : first + 16], b[first : first + 16], dtypes, d)
    assert (multiply(a, b, dtypes) == d).all()


def test_ctas_are_independent():
    rng = np.random.default_rng(7)
    a = formats.encode(rng.standard_normal((3, 8, 16)), "f16")
    b = formats.encode(rng.standard_normal((16, 8)), "f16")
    dtypes = ("f16", "f16", "f32")
    together = multiply(a, b, dtypes)
    for i in range(3):
        assert (together[i] == multiply(a[i], b, dtypes)).all()


def test_hopper_keeps_fewer_bits_of_fp8():
    # 1 + 2**-14: the small term is cut at 13 bits.
    a = formats.encode(np.array([[1.0, 2.0**-7] + [0.0] * 30]), "e4m3")
    b = formats.encode(np.array([[1.0, 2.0**-7] + [0.0] * 30]).T.copy(), "e4m3")
    dtypes = ("e4m3", "e4m3", "f32")
    hopper = multiply(a, b, dtypes, kind="f8f6f4", architecture="sm_90a")
    blackwell = multiply(a, b, dtypes, kind="f8f6f4")
    assert float(hopper[0, 0]) == 1.0
    assert float(blackwell[0, 0]) == 1 + 2.0**-14


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "i8"}, "kind 'i8' has no rounding model"),
        ({"architecture": "sm_120a"}, "architecture 'sm_120a'"),
        ({"dtypes": ("f16", "f16", "s32")}, "D must be 'f32' or 'f16'"),
        ({"kind": "f8f6f4"}, "multiple of 32"),
    ],
)
def test_what_is_not_modelled_is_refused(change, message):
    arguments = {"dtypes": ("f16", "f16", "f32"), "kind": "f16"} | change
    with pytest.raises(ValueError, match=message):
        multiply(np.zeros((8, 16), np.uint16), np.zeros((16, 8), np.uint16), **arguments)
