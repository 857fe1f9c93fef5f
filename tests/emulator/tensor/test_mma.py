"""The fast product against exact arithmetic."""

import numpy as np
import pytest

from fa4kernel.emulator.tensor import formats, mma


@pytest.mark.parametrize("dtype", ["bf16", "f16", "e4m3", "e5m2", "tf32"])
def test_the_fast_product_is_right_to_float32(dtype):
    rng = np.random.default_rng(0)
    values = [rng.standard_normal((3, 64, 32)), rng.standard_normal((3, 32, 48))]
    a, b = (formats.decode(formats.encode(x, dtype), dtype) for x in values)
    c = rng.standard_normal((3, 64, 48)).astype(np.float32)
    exact = np.matmul(a.astype(np.float64), b.astype(np.float64)) + c
    size = np.matmul(np.abs(a).astype(np.float64), np.abs(b)) + np.abs(c)
    assert (np.abs(mma.multiply(a, b, c) - exact) <= 33 * 2.0**-24 * size).all()
    turned = np.ascontiguousarray(b.swapaxes(-1, -2)).swapaxes(-1, -2)
    assert (np.abs(mma.multiply(a, turned) + c - exact) <= 34 * 2.0**-24 * size).all()


def test_the_accumulator_is_not_changed():
    c = np.ones((2, 2), np.float32)
    mma.multiply(c, c, c)
    assert (c == 1).all()


def test_infinities_pass_without_a_warning():
    with np.errstate(all="raise"):
        d = mma.multiply(np.float32([[np.inf, 1]]), np.float32([[1], [-np.inf]]))
    assert np.isnan(d).all()


@pytest.mark.parametrize("saturate", [False, True])
def test_integer_products_wrap_or_saturate(saturate):
    rng = np.random.default_rng(0)
    a = rng.integers(-128, 128, (2, 16, 32)).astype(np.int8)
    b = rng.integers(0, 256, (2, 32, 8)).astype(np.uint8)
    c = rng.choice(np.array([-(2**31), 2**31 - 1, 0]), (2, 16, 8)).astype(np.int32)
    exact = np.matmul(a.astype(object), b.astype(object)) + c.astype(object)
    if saturate:
        expected = np.clip(exact, -(2**31), 2**31 - 1)
    else:
        expected = (exact + 2**31) % 2**32 - 2**31
    assert (mma.multiply_integers(a, b, c, saturate) == expected).all()


def test_scaling_the_accumulator_is_a_power_of_two():
    d = np.float32([3.0, -1e-3])
    assert (mma.scaled(d, 15) * 2.0**15 == d).all()
    with pytest.raises(ValueError, match="0 to 15, not 16"):
        mma.scaled(d, 16)


def test_a_mask_names_lanes_bit_by_bit():
    mask = (1, 0x80000000, 0, 6)
    assert mma.disabled_lanes(mask).nonzero()[0].tolist() == [0, 63, 97, 98]
    assert mma.disabled_lanes((0,) * 8).shape == (256,)
