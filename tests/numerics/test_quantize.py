from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4sim.numerics import (
    INPUTS,
    LARGEST,
    amax_descale,
    cosine,
    dequantize,
    format_quantization,
    is_representable,
    measure_quantization,
    quantize,
    relative_error,
)

fp8 = pytest.mark.parametrize("dtype", ["e4m3", "e5m2"])


@fp8
@given(
    scale=st.floats(-60, 60),
    heads=st.sampled_from([(1, 1), (4, 4), (6, 2), (6, 1)]),
    seed=st.integers(0, 100),
)
def test_the_largest_element_becomes_the_largest_number_and_none_saturates(
    dtype, scale, heads, seed
) -> None:
    x = np.random.default_rng(seed).standard_normal((2, 5, heads[0], 8)) * 2.0**scale
    descale = amax_descale(x, dtype, heads[1])
    assert descale.shape == (2, heads[1]) and descale.dtype == np.float32
    small = quantize(x, descale, dtype)
    assert is_representable(small, dtype)
    groups = np.abs(small).reshape(2, 5, heads[1], -1, 8)
    assert np.array_equal(groups.max(axis=(1, 3, 4)), np.full((2, heads[1]), LARGEST[dtype]))
    # Half a spacing: of a normal number a share, of a smaller one that of the smallest normal.
    share, smallest = {"e4m3": (2**-4, 2.0**-10), "e5m2": (2**-3, 2.0**-17)}[dtype]
    repeated = descale.repeat(heads[0] // heads[1], axis=1)[:, None, :, None]
    limit = np.maximum(np.abs(x) * share, smallest * repeated) * (1 + 1e-6)
    assert np.all(np.abs(dequantize(small, descale) - x) <= limit)


def test_heads_of_a_group_share_the_largest_magnitude() -> None:
    x = np.zeros((1, 1, 4, 1))
    x[0, 0, :, 0] = [1, -448, 2, 4]
    assert amax_descale(x, "e4m3", 2).tolist() == [[1.0, np.float32(4 / 448)]]
    assert amax_descale(x, "e4m3").shape == (1, 4)


def test_zeros_and_no_keys_have_a_descale_of_1() -> None:
    assert amax_descale(np.zeros((1, 3, 2, 4)), "e4m3").tolist() == [[1, 1]]
    assert amax_descale(np.zeros((1, 0, 2, 4)), "e5m2").tolist() == [[1, 1]]


@fp8
def test_without_a_descale_what_is_too_large_saturates(dtype) -> None:
    x = np.array([[[[1e6, -1e6, 1.0]]]])
    small = quantize(x, np.ones((1, 1), np.float32), dtype)
    assert small.ravel().tolist() == [LARGEST[dtype], -LARGEST[dtype], 1]


def test_bad_arguments_are_refused_with_their_values() -> None:
    x = np.zeros((2, 3, 4, 8))
    with pytest.raises(ValueError, match="'bf16' has not 8 bits"):
        amax_descale(x, "bf16")
    with pytest.raises(ValueError, match="'bf16' has not 8 bits"):
        quantize(x, np.ones((2, 4), np.float32), "bf16")
    with pytest.raises(ValueError, match="kv_heads=3 must divide the 4 heads"):
        amax_descale(x, "e4m3", 3)
    with pytest.raises(ValueError, match="NaN or infinity"):
        amax_descale(np.full_like(x, np.nan), "e4m3")
    for shape in ((1, 4), (2, 3), (2,)):
        with pytest.raises(ValueError, match=r"descale has shape.*2 sequences"):
            quantize(x, np.ones(shape, np.float32), "e4m3")


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_descales_that_divide_nothing_are_refused(bad) -> None:
    descale = np.float32([[1.0, bad]])
    for use in (lambda x: quantize(x, descale, "e4m3"), lambda x: dequantize(x, descale)):
        with pytest.raises(ValueError, match=f"descale holds {bad}; descales are positive"):
            use(np.ones((1, 3, 2, 8), np.float32))


def test_what_has_no_descale_is_refused() -> None:
    with pytest.raises(ValueError, match=r"x holds 1\.0e\+300, whose descale is too large"):
        amax_descale(np.full((1, 1, 1, 8), 1e300), "e4m3")
    with pytest.raises(ValueError, match=r"x has shape .* dtype int8, but a float array"):
        amax_descale(np.full((1, 1, 1, 8), -128, np.int8), "e4m3")
    with pytest.raises(ValueError, match=r"x has shape \(3, 4, 8\)"):
        quantize(np.zeros((3, 4, 8)), np.ones((1, 4), np.float32), "e4m3")
    with pytest.raises(ValueError, match=r"descale has shape \(2, 0\)"):
        quantize(np.zeros((2, 3, 4, 8)), np.ones((2, 0), np.float32), "e4m3")


@pytest.fixture(scope="module")
def rows():
    return {
        (row.inputs, row.dtype, row.descale): row
        for row in measure_quantization(seqlen=256, head_dim=64, queries=64)
    }


def test_every_distribution_is_measured_in_every_format(rows) -> None:
    kinds = [("bf16", "1"), *((d, s) for d in ("e4m3", "e5m2") for s in ("1", "amax"))]
    assert list(rows) == [(name, *kind) for name in INPUTS for kind in kinds]
    table = format_quantization(list(rows.values())).splitlines()
    assert len(table) == 1 + len(rows) and len({len(line) for line in table}) == 1


@pytest.mark.parametrize("inputs", INPUTS)
def test_with_descales_the_error_is_a_few_percent_and_e5m2s_is_twice_e4m3s(rows, inputs) -> None:
    bf16, e4m3, e5m2 = (
        rows[inputs, *k] for k in (("bf16", "1"), ("e4m3", "amax"), ("e5m2", "amax"))
    )
    assert bf16.total < 0.01 < e4m3.total < 0.12
    assert 1.6 < e5m2.total / e4m3.total < 2.4
    assert e4m3.cosine > 0.993
    together = (e4m3.from_inputs**2 + e4m3.from_arithmetic**2) ** 0.5
    assert e4m3.total == pytest.approx(together, rel=0.1), "the two errors are independent"


@pytest.mark.parametrize("inputs", ["small k and v", "large k and v"])
def test_without_descales_e4m3_loses_what_lies_outside_its_range(rows, inputs) -> None:
    without, scaled = rows[inputs, "e4m3", "1"], rows[inputs, "e4m3", "amax"]
    assert without.total > 3 * scaled.total
    wider = rows[inputs, "e5m2", "1"]
    assert wider.total == pytest.approx(rows[inputs, "e5m2", "amax"].total, rel=0.1)


def test_normal_inputs_don_t_need_descales_nor_does_a_large_channel_hurt(rows) -> None:
    scaled = rows["normal", "e4m3", "amax"].total
    assert rows["normal", "e4m3", "1"].total == pytest.approx(scaled, rel=0.1)
    assert rows["outlier channels", "e4m3", "amax"].total < 1.5 * scaled


def test_an_unknown_distribution_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"'cauchy' are not known.*'heavy tails'"):
        measure_quantization(["cauchy"])


def test_distances_of_arrays() -> None:
    a = np.array([[3.0, 4.0]])
    assert relative_error(a, a) == 0 and cosine(a, 5 * a) == pytest.approx(1)
    assert cosine(a, -a) == pytest.approx(-1)
    assert relative_error(a, 0 * a) == 1 and relative_error(0 * a, 0 * a) == 0
    assert cosine(0 * a, 0 * a) == 1 and cosine(a, 0 * a) == 0
