from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fa4sim.numerics import (
    attention_float64,
    combine,
    combine_float64,
    ex2_mufu,
    fma32,
    lg2_mufu,
    round_to,
)


def partials(rng: np.random.Generator, splits: int, dim: int = 8, empty: float = 0.3):
    """Random partial results, some of them empty, with NaN where a split wrote no output."""
    out = rng.standard_normal((splits, 2, 3, 4, dim)).astype(np.float32)
    lse = (rng.standard_normal((splits, 2, 4, 3)) * 4).astype(np.float32)
    lse[rng.random(lse.shape) < empty] = -np.inf
    out[np.isneginf(lse.swapaxes(2, 3))] = np.nan
    return out, lse


def whole_and_parts(rng, keys: int, cuts: list[int]):
    """float64 attention over all keys, and over each range of keys, cut at ``cuts``."""
    q, k, v = (rng.standard_normal((1, rows, 2, 16)) for rows in (5, keys, keys))
    ends = [0, *sorted(min(cut, keys) for cut in cuts), keys]
    parts = [attention_float64(q, k[:, low:high], v[:, low:high]) for low, high in pairwise(ends)]
    out, lse = (np.stack(arrays) for arrays in zip(*parts, strict=True))
    return attention_float64(q, k, v), out, lse


@given(
    keys=st.integers(0, 60),
    cuts=st.lists(st.integers(0, 60), max_size=40),
    seed=st.integers(0, 100),
)
@settings(deadline=None)
def test_parts_of_any_size_combine_to_the_whole(keys, cuts, seed) -> None:
    (out, lse), part_out, part_lse = whole_and_parts(np.random.default_rng(seed), keys, cuts)
    exact_out, exact_lse = combine_float64(part_out, part_lse)
    np.testing.assert_allclose(exact_out, out, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(exact_lse, lse, rtol=1e-12, atol=1e-13)
    ours, ours_lse = combine(part_out.astype(np.float32), part_lse.astype(np.float32), "fp32")
    np.testing.assert_allclose(ours, out, atol=2e-6)
    np.testing.assert_allclose(ours_lse, lse, atol=2e-6)


@given(splits=st.integers(1, 80), dim=st.sampled_from([8, 64, 72]), seed=st.integers(0, 100))
@settings(deadline=None, max_examples=50)
def test_the_kernels_order_is_within_float32_of_the_definition(splits, dim, seed) -> None:
    out, lse = partials(np.random.default_rng(seed), splits, dim)
    exact_out, exact_lse = combine_float64(out, lse)
    ours, ours_lse = combine(out, lse, "fp32")
    np.testing.assert_allclose(ours, exact_out, atol=3e-6)
    np.testing.assert_allclose(ours_lse, exact_lse, rtol=1e-6, atol=1e-6)
    assert np.array_equal(combine(out, lse)[0], round_to(ours, "bf16"))


@pytest.mark.parametrize(("dim", "lanes"), [(128, 32), (72, 32), (64, 16), (8, 16)])
def test_lanes_sum_in_turn_and_then_by_exchange(dim, lanes) -> None:
    """The order of the kernel, written out thread by thread; same bits."""
    out, lse = partials(np.random.default_rng(dim), 40, dim, empty=0.1)
    log2_e, row_max = np.float32(np.log2(np.e)), lse.max(axis=0)
    scale = ex2_mufu(lse * log2_e - row_max * log2_e)
    held = [np.zeros_like(row_max) for _ in range(lanes)]
    for split in range(40):
        held[split % lanes] = held[split % lanes] + scale[split]
    distance = lanes // 2
    while distance:
        held = [held[lane] + held[lane ^ distance] for lane in range(lanes)]
        distance //= 2
    assert all(np.array_equal(one, held[0]) for one in held), "every lane ends with the sum"
    expected = np.zeros(out.shape[1:], np.float32)
    for split in range(40):
        weight = (scale[split] * (np.float32(1) / held[0])).swapaxes(1, 2)[..., None]
        expected = np.where(weight > 0, expected + weight * out[split], expected)
    ours, ours_lse = combine(out, lse, "fp32")
    assert np.array_equal(ours, expected)
    assert np.array_equal(ours_lse, fma32(lg2_mufu(held[0]), np.float32(np.log(2)), row_max))


def test_a_single_split_keeps_its_output_and_lse() -> None:
    out, lse = partials(np.random.default_rng(1), 1, empty=0)
    ours, ours_lse = combine(out, lse, "fp32")
    assert np.array_equal(ours, out[0]) and np.array_equal(ours_lse, lse[0])


def test_empty_splits_change_no_bit_wherever_they_stand_and_whatever_they_hold() -> None:
    out, lse = partials(np.random.default_rng(2), 5, empty=0)
    plain = combine(out, lse)
    garbage = np.full((1, *out.shape[1:]), np.nan, dtype=np.float32)
    nothing = np.full((1, *lse.shape[1:]), -np.inf, dtype=np.float32)
    after = combine(np.concatenate([out, garbage]), np.concatenate([lse, nothing]))
    assert all(np.array_equal(a, b) for a, b in zip(after, plain, strict=True))


def test_a_row_that_no_split_saw_is_zero() -> None:
    out = np.full((3, 1, 1, 1, 4), np.nan, dtype=np.float32)
    lse = np.full((3, 1, 1, 1), -np.inf, dtype=np.float32)
    for result in (combine(out, lse), combine_float64(out, lse)):
        assert np.array_equal(result[0], np.zeros((1, 1, 1, 4)))
        assert result[1].item() == -np.inf


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_nan_or_infinite_lse_makes_the_row_zero_with_lse_nan(bad) -> None:
    out, lse = partials(np.random.default_rng(3), 4, empty=0)
    plain_out, plain_lse = combine(out, lse)
    lse[2, 0, 1, 2] = bad
    ours, ours_lse = combine(out, lse)
    assert np.array_equal(ours[0, 2, 1], np.zeros(8)) and np.isnan(ours_lse[0, 1, 2])
    plain_out[0, 2, 1], plain_lse[0, 1, 2] = 0, np.nan
    assert np.array_equal(ours, plain_out)
    assert np.array_equal(ours_lse, plain_lse, equal_nan=True)


def test_a_nan_output_is_seen_where_its_weight_is_not_zero() -> None:
    out, lse = partials(np.random.default_rng(4), 3, empty=0)
    out[1, 0, 0, 0, 5] = np.nan
    ours, _ = combine(out, lse)
    assert np.flatnonzero(np.isnan(ours)).tolist() == [5]


def test_the_order_of_splits_changes_the_result_by_rounding_only() -> None:
    out, lse = partials(np.random.default_rng(5), 20)
    forward, backward = combine(out, lse, "fp32"), combine(out[::-1], lse[::-1], "fp32")
    np.testing.assert_allclose(forward[0], backward[0], atol=2e-6)
    assert not np.array_equal(forward[0], backward[0])


def test_shapes_and_counts_are_checked() -> None:
    out, lse = partials(np.random.default_rng(6), 2)
    with pytest.raises(ValueError, match=r"partial_lse has shape.*\(2, 2, 4, 3\)"):
        combine(out, lse.swapaxes(2, 3))
    with pytest.raises(ValueError, match="must be"):
        combine(out[0], lse[0])
    with pytest.raises(ValueError, match="float64, but float32"):
        combine(out.astype(np.float64), lse)
    with pytest.raises(ValueError, match="257 splits"):
        combine(np.zeros((257, 1, 1, 1, 1), np.float32), np.zeros((257, 1, 1, 1), np.float32))
    with pytest.raises(ValueError, match="'int8' is not known"):
        combine(out, lse, "int8")
