from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fa4sim.numerics import (
    apply_mask,
    emulated_columns,
    ex2_mufu,
    exp2_convert,
    finalize,
    keep_or_rescale,
    mma_pv_steps,
    mma_qk,
    mma_qk_steps,
    normalize_output,
    rescale_needed,
    rescale_output,
    round_to,
    row_max_4chains,
    row_sum_4chains,
    scale_subtract,
    score_mod_softcap,
)

INF = np.float32(np.inf)


def softmax_step(q, k, v, left, right, state, first, dtype="bf16"):
    """One block of one group of rows, as a warp or a warpgroup runs it."""
    row_max, row_sum, o = state
    scale_log2 = np.float32(0.2)
    s = apply_mask(mma_qk(q, k), left, right)
    row_max, acc_scale, m_safe = keep_or_rescale(
        row_max, row_max_4chains(s), scale_log2, 8.0, first
    )
    x = scale_subtract(s, m_safe, scale_log2)
    p_fp32, p = exp2_convert(x, emulated_columns(k.shape[0], 16), 3, dtype)
    row_sum = row_sum_4chains(p_fp32, first, row_sum, acc_scale)
    if not first and rescale_needed(acc_scale):
        o = rescale_output(o, acc_scale)
    o = mma_pv_steps(o, p, v, range(6), zero_first=first)
    return row_max, row_sum, mma_pv_steps(o, p, v, range(6, 8), zero_first=False)


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("rows", [1, 32, 64])
def test_a_group_of_rows_computes_the_same_bits_as_the_whole_tile(normal, rows, dtype) -> None:
    q = normal(128, 128, seed=1, std=3, dtype=dtype)
    limits = np.arange(128) // 2, 64 + np.arange(128)
    keys = [normal(128, 128, seed=s, std=s, dtype=dtype) for s in (2, 3, 4)]
    values = [normal(128, 64, seed=s, dtype=dtype) for s in (5, 6, 7)]

    def run(group: slice) -> tuple[np.ndarray, ...]:
        state = (None, None, None)
        for block, (k, v) in enumerate(zip(keys, values, strict=True)):
            left, right = (limit[group] for limit in limits)
            state = softmax_step(q[group], k, v, left, right, state, block == 0, dtype)
        return state

    whole = run(slice(None))
    for start in range(0, 128, max(rows, 8)):
        group = slice(start, start + rows)
        for ours, expected in zip(run(group), whole, strict=True):
            assert np.array_equal(ours.view(np.uint32), expected[group].view(np.uint32))


@given(seed=st.integers(0, 10**6), cut=st.integers(0, 8), scale=st.sampled_from([1.0, 1e-20, 1e20]))
@settings(deadline=None, max_examples=50)
def test_a_product_in_two_parts_is_the_product_in_one(seed: int, cut: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    p = round_to(rng.random((16, 128)).astype(np.float32), "bf16")
    v = round_to((rng.standard_normal((128, 24)) * scale).astype(np.float32), "bf16")
    acc = rng.standard_normal((16, 24)).astype(np.float32)
    one = mma_pv_steps(acc, p, v, range(8), zero_first=False)
    two = mma_pv_steps(acc, p, v, range(cut), zero_first=False)
    two = mma_pv_steps(two, p, v, range(cut, 8), zero_first=False)
    assert np.array_equal(one, two)
    q, k = p, v.T.copy()
    half = mma_qk_steps(np.zeros((16, 24), np.float32), q, k, range(cut))
    assert np.array_equal(mma_qk_steps(half, q, k, range(cut, 8)), mma_qk(q, k))


def test_a_k_step_is_rounded_once_and_after_the_accumulator_is_added() -> None:
    q = np.zeros((1, 32), dtype=np.float32)
    k = np.ones((1, 32), dtype=np.float32)
    q[0, 0], q[0, 1:3] = 2.0**24, 1.0  # one alone would be lost, two together count
    assert mma_qk(q, k) == 2.0**24 + 2
    q[0, 2], q[0, 16] = 0.0, 1.0  # the same two, but one per k-step: both lost
    assert mma_qk(q, k) == 2.0**24
    q[0, 17] = 2.0**-20  # now the second k-step is just over half a spacing: it counts
    assert mma_qk(q, k) == 2.0**24 + 2


def test_products_do_not_depend_on_the_order_within_a_k_step(normal) -> None:
    q, k = normal(8, 64, seed=1), normal(8, 64, seed=2)
    order = np.concatenate([np.random.default_rng(s).permutation(16) + 16 * s for s in range(4)])
    assert np.array_equal(mma_qk(q[:, order], k[:, order]), mma_qk(q, k))


def test_a_head_dim_that_is_no_multiple_of_16_ends_in_a_short_k_step(normal) -> None:
    q, k = normal(4, 24, seed=1), normal(4, 24, seed=2)
    padded = [np.pad(x, ((0, 0), (0, 8))) for x in (q, k)]
    assert np.array_equal(mma_qk(q, k), mma_qk(*padded))


def test_starting_from_zero_ignores_the_accumulator() -> None:
    p, v = np.ones((1, 32), np.float32), np.ones((32, 1), np.float32)
    stale = np.full((1, 1), np.nan, np.float32)
    assert mma_pv_steps(stale, p, v, range(2), zero_first=True) == 32


def test_the_softcap_never_exceeds_its_cap() -> None:
    s = np.linspace(-1e6, 1e6, 1000, dtype=np.float32)[None]
    assert np.abs(score_mod_softcap(s, 0.1, 30.0)).max() == 30
    small = score_mod_softcap(np.float32([[0.5]]), 0.1, 30.0)
    assert small == pytest.approx(0.05, rel=1e-5)


@given(left=st.integers(-200, 300), right=st.integers(-200, 300))
@settings(deadline=None, max_examples=50)
def test_a_mask_keeps_the_columns_between_its_limits(left: int, right: int) -> None:
    masked = apply_mask(np.ones((1, 128), np.float32), np.array([left]), np.array([right]))
    keep = [left <= column < right for column in range(128)]
    assert np.array_equal(masked[0] == 1, keep)
    assert np.all(masked[0][~np.array(keep)] == -INF)


def test_the_row_maximum_ignores_nan_and_the_sign_of_zero() -> None:
    s = np.float32([[np.nan, -3, 2, 1], [-INF] * 4, [-0.0] * 4])
    row_max = row_max_4chains(s)
    assert row_max.tolist() == [2, -INF, 0]
    assert not np.signbit(row_max[2])


def test_the_row_sum_adds_in_the_stated_order() -> None:
    rng = np.random.default_rng(0)
    p = rng.random((3, 128)).astype(np.float32) * np.float32(2) ** rng.integers(-20, 8, (3, 128))
    p = p.astype(np.float32)
    old, scale = rng.random((2, 3)).astype(np.float32) * np.float32(100)

    def by_hand(row: np.ndarray, start: np.float32) -> np.float32:
        chains = [[row[2 * c], row[2 * c + 1]] for c in range(4)]
        chains[0][0] = start + chains[0][0]
        for column in range(8, 128, 8):
            for c in range(4):
                chains[c][0] = chains[c][0] + row[column + 2 * c]
                chains[c][1] = chains[c][1] + row[column + 2 * c + 1]
        even = (chains[0][0] + chains[1][0]) + (chains[2][0] + chains[3][0])
        odd = (chains[0][1] + chains[1][1]) + (chains[2][1] + chains[3][1])
        return even + odd

    first = row_sum_4chains(p, first=True)
    later = row_sum_4chains(p, first=False, row_sum=old, acc_scale=scale)
    for r in range(3):
        assert first[r] == by_hand(p[r], np.float32(0))
        assert later[r] == by_hand(p[r], old[r] * scale[r])
    assert np.any(first != p.sum(axis=1, dtype=np.float32))  # the order shows


def decide(old: float, new: float, threshold: float = 8.0, first: bool = False):
    result = keep_or_rescale(np.float32([old]), np.float32([new]), np.float32(1), threshold, first)
    return tuple(float(x[0]) for x in result)


def test_a_rise_within_the_threshold_keeps_the_old_maximum() -> None:
    assert decide(1, 9) == (1, 1, 1)
    assert decide(1, 9.001) == pytest.approx((9.001, 2**-8.001, 9.001), rel=1e-6)
    assert decide(5, 2) == (5, 1, 5)


def test_threshold_zero_always_takes_the_true_maximum() -> None:
    assert decide(1, 1.5, threshold=0) == pytest.approx((1.5, 2**-0.5, 1.5))
    assert decide(2, 1, threshold=0) == (2, 1, 2)


def test_the_first_block_has_nothing_to_rescale() -> None:
    assert decide(np.nan, 3, first=True) == (3, 0, 3)
    assert decide(np.nan, -np.inf, first=True) == (-np.inf, 0, 0)


def test_a_row_that_saw_nothing_rescales_by_zero_when_it_first_sees_a_key() -> None:
    assert decide(-np.inf, 3) == (3, 0, 3)
    assert decide(-np.inf, -np.inf) == (-np.inf, 0, 0)


@given(
    old=st.floats(-100, 100, width=32),
    new=st.floats(-100, 100, width=32),
    threshold=st.sampled_from([0.0, 0.75, 8.0]),
)
def test_no_weight_exceeds_two_to_the_threshold(old: float, new: float, threshold: float) -> None:
    scale = np.float32(0.37)
    _, _, m_safe = keep_or_rescale(np.float32([old]), np.float32([new]), scale, threshold, False)
    x = scale_subtract(np.float32([[new]]), m_safe, scale)
    assert x[0, 0] <= threshold + 1e-4


def test_masked_scores_stay_masked_through_the_subtraction() -> None:
    s = np.float32([[-INF, 4]])
    assert scale_subtract(s, np.float32([0]), np.float32(0.5), offset=8).tolist() == [[-INF, 10]]


def test_the_row_sum_uses_weights_before_rounding() -> None:
    x = np.float32(np.linspace(-3, 0, 128))[None]
    p_fp32, p = exp2_convert(x, np.zeros(128, bool))
    assert np.array_equal(p_fp32, ex2_mufu(x))
    assert np.array_equal(p, round_to(p_fp32, "bf16"))
    assert np.any(p != p_fp32)


def test_a_finished_row_gets_the_inverse_of_its_sum_and_a_natural_lse() -> None:
    inv, lse = finalize(np.float32([8]), np.float32([3]), np.float32(2))
    assert inv == 0.125
    assert lse == pytest.approx((3 * 2 + 3) * np.log(2), rel=1e-6)
    assert normalize_output(np.float32([[3]]), inv) == 0.375


def test_a_row_sum_of_zero_or_nan_leaves_the_output_alone() -> None:
    inv, lse = finalize(np.float32([0, np.nan]), np.float32([-INF, 1]), np.float32(1))
    assert inv.tolist() == [1, 1]
    assert lse.tolist() == [-INF, -INF]


def test_the_offset_is_taken_out_of_the_lse() -> None:
    plain = finalize(np.float32([3]), np.float32([2]), np.float32(1))
    offset = finalize(np.float32([3 * 256]), np.float32([2]), np.float32(1), max_offset=8)
    assert offset[1] == pytest.approx(plain[1], rel=1e-6)
    assert offset[0] == plain[0] / 256


def test_a_sink_joins_the_sum_or_stands_in_for_it() -> None:
    row_sum, row_max = np.float32([2, 0, 0]), np.float32([1, -INF, -INF])
    sink = np.float32([0.5, 0.5, -INF])
    inv, lse = finalize(row_sum, row_max, np.float32(3), sink)
    total = 2 + np.exp(0.5) / 2**3
    assert inv.tolist() == pytest.approx([1 / total, 1, 1], rel=1e-6)
    assert lse[0] == pytest.approx(np.log(total) + 3 * np.log(2), rel=1e-6)
    assert lse[1] == pytest.approx(0.5, rel=1e-6)
    assert lse[2] == -INF


def test_misfits_are_refused_with_their_shapes() -> None:
    a = np.zeros((4, 32), np.float32)
    with pytest.raises(ValueError, match="differ in head dim"):
        mma_qk(a, np.zeros((4, 16), np.float32))
    with pytest.raises(ValueError, match="differ in the number of keys"):
        mma_pv_steps(None, a, np.zeros((16, 4), np.float32), range(1), zero_first=True)
    with pytest.raises(ValueError, match="acc is None"):
        mma_pv_steps(None, a, np.zeros((32, 4), np.float32), range(1), zero_first=False)
    with pytest.raises(ValueError, match=r"range\(0, 3\) lie outside the 2 k-steps"):
        mma_qk_steps(None, a, a, range(3))
    with pytest.raises(ValueError, match="one entry per row"):
        apply_mask(a, np.zeros(3, int), np.zeros(4, int))
    with pytest.raises(ValueError, match="12 columns"):
        row_sum_4chains(np.zeros((1, 12), np.float32), first=True)
    with pytest.raises(ValueError, match="row_sum and acc_scale are needed"):
        row_sum_4chains(a, first=False)
    with pytest.raises(ValueError, match="softcap=0"):
        score_mod_softcap(a, 1.0, 0.0)
