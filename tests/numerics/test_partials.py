from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fa4sim.numerics import (
    EPSILON,
    attention_blockwise,
    attention_float64,
    attention_partials,
    combine,
    combine_float64,
    mask_matrix,
    round_to,
)

MASKS = {
    "full": {},
    "causal": {"causal": True},
    "window": {"window": (300, 30)},
    "left window": {"window": (200, None)},
}


@given(
    seqlen_q=st.integers(1, 150),
    seqlen_k=st.integers(1, 900),
    num_splits=st.integers(2, 9),
    mask=st.sampled_from(sorted(MASKS)),
    dtype=st.sampled_from(["bf16", "e4m3"]),
    seed=st.integers(0, 100),
)
@settings(deadline=None, max_examples=25)
def test_splits_combine_to_the_whole(seqlen_q, seqlen_k, num_splits, mask, dtype, seed) -> None:
    rng = np.random.default_rng(seed)
    q, k, v = (
        round_to((rng.standard_normal((1, n, 2, 32)) * 2).astype(np.float32), dtype)
        for n in (seqlen_q, seqlen_k, seqlen_k)
    )
    options = {"dtype": dtype, **MASKS[mask]}
    exact, exact_lse = attention_float64(q, k, v, **MASKS[mask])
    # Off by half a spacing of P and of the output, by 9e-5 of an exponential.
    tolerance = (EPSILON[dtype] / 2 + 2**-7) * np.abs(v).max() + 2e-4
    for out, lse in (
        attention_blockwise(q, k, v, num_splits=num_splits, **options),
        combine_float64(*attention_partials(q, k, v, num_splits=num_splits, **options)),
    ):
        assert np.abs(out - exact).max() < tolerance
        finite = np.isfinite(exact_lse)
        assert np.array_equal(finite, np.isfinite(lse))
        assert np.abs(lse[finite] - exact_lse[finite]).max(initial=0) < 2e-4


def test_each_split_is_attention_over_its_own_keys(normal) -> None:
    q = normal(1, 100, 1, 32, seed=1, std=2)
    k, v = (normal(1, 700, 1, 32, seed=s) for s in (2, 3))
    out, lse = attention_partials(q, k, v, num_splits=3)
    for split, (first, end) in enumerate([(0, 256), (256, 512), (512, 700)]):
        exact, exact_lse = attention_float64(q, k[:, first:end], v[:, first:end])
        assert np.abs(out[split] - exact).max() < 0.01 * np.abs(v).max()
        assert np.abs(lse[split] - exact_lse).max() < 2e-4


def test_the_call_with_splits_is_the_partials_combined(normal) -> None:
    q = normal(2, 10, 4, 32, seed=1)
    k, v = (normal(2, 700, 2, 32, seed=s) for s in (2, 3))
    options = {"num_splits": 4, "causal": True, "pack_gqa": True, "seqlens_k": [700, 130]}
    whole = attention_blockwise(q, k, v, **options)
    partials = attention_partials(q, k, v, **options)
    for ours, expected in zip(whole, combine(*partials), strict=True):
        assert np.array_equal(ours, expected)


def test_an_empty_split_writes_nothing_but_its_lse(normal) -> None:
    q, k, v = normal(1, 5, 1, 16), normal(1, 200, 1, 16), normal(1, 200, 1, 16)
    out, lse = attention_partials(q, k, v, num_splits=5)  # two blocks
    assert np.isneginf(lse).all(axis=(1, 2, 3)).tolist() == [False, False, True, True, True]
    assert np.isnan(out).all(axis=(1, 2, 3, 4)).tolist() == [False, False, True, True, True]
    assert np.isfinite(attention_blockwise(q, k, v, num_splits=5)[0]).all()


def test_a_split_that_a_row_does_not_see_gives_zero_and_minus_infinity(normal) -> None:
    q, k, v = normal(1, 256, 1, 16), normal(1, 256, 1, 16), normal(1, 256, 1, 16)
    out, lse = attention_partials(q, k, v, num_splits=2, causal=True)
    unseen = ~mask_matrix(256, 256, causal=True)[:, 128:].any(axis=1)  # the first 128 rows
    assert np.array_equal(np.isneginf(lse[1, 0, 0]), unseen)
    assert not out[1, 0, unseen].any() and not np.isnan(out).any()


@pytest.mark.parametrize("num_splits", [1, 2, 3, 7])
def test_a_sink_counts_once(normal, num_splits) -> None:
    q, k, v = (normal(1, n, 2, 32, seed=n) for n in (60, 500, 501))
    v = v[:, :500]
    sink = np.float32([1.0, 4.0])
    ours = attention_blockwise(q, k, v, sink=sink, num_splits=num_splits)
    exact = attention_float64(q, k, v, sink=sink)
    assert np.abs(ours[0] - exact[0]).max() < 0.02
    assert np.abs(ours[1] - exact[1]).max() < 2e-4


def test_split_0_gives_a_row_that_sees_none_of_its_keys_the_sink_alone(normal) -> None:
    q, k, v = normal(1, 100, 1, 16), normal(1, 300, 1, 16), normal(1, 300, 1, 16)
    out, lse = attention_partials(
        q, k, v, num_splits=2, window=(20, 0), sink=np.float32([1.5]), seqlens_k=[300]
    )
    unseen = np.isneginf(attention_partials(q, k, v, num_splits=2, window=(20, 0))[1][0, 0, 0])
    assert 0 < unseen.sum() < 100
    assert np.allclose(lse[0, 0, 0, unseen], 1.5) and not out[0, 0, unseen].any()


def test_a_tile_without_blocks_loses_its_sink_when_split(normal) -> None:
    q, k, v = normal(1, 600, 1, 16), normal(1, 20, 1, 16), normal(1, 20, 1, 16)
    options = {"causal": True, "sink": np.float32([1.5])}
    whole, split = (attention_blockwise(q, k, v, **options, num_splits=n)[1] for n in (1, 2))
    assert np.allclose(whole[0, 0, :512], 1.5)
    assert np.isneginf(split[0, 0, :512]).all(), "as the kernel: no role runs, nobody adds it"
    assert np.allclose(split[0, 0, 512:], whole[0, 0, 512:], atol=1e-5)


@pytest.mark.parametrize("sink", [None, np.float32([0.5])])
def test_a_batch_without_keys_is_not_split(normal, sink) -> None:
    q, k = normal(2, 3, 1, 16), np.zeros((2, 0, 1, 16), np.float32)
    one, many = (attention_blockwise(q, k, k, sink=sink, num_splits=n) for n in (1, 4))
    for ours, expected in zip(many, one, strict=True):
        assert np.array_equal(ours, expected)
    out, lse = attention_partials(q, k, k, sink=sink, num_splits=4)
    for ours, expected in zip(combine(out, lse), one, strict=True):
        assert np.array_equal(ours, expected)


def test_padding_queries_are_nobodys(normal) -> None:
    q, k, v = normal(2, 40, 1, 16), normal(2, 300, 1, 16), normal(2, 300, 1, 16)
    out, lse = attention_blockwise(q, k, v, num_splits=3, seqlens_q=[40, 7])
    assert not out[1, 7:].any() and np.isneginf(lse[1, :, 7:]).all()


def test_rows_may_be_tiled_in_any_way(normal) -> None:
    q, k, v = (normal(1, 300, 1, 32, seed=s, std=2) for s in (1, 2, 3))
    options = {"num_splits": 2, "q_stage": 1}
    plain = attention_partials(q, k, v, **options)
    for ours, expected in zip(
        attention_partials(q, k, v, tile_m=64, **options), plain, strict=True
    ):
        assert np.array_equal(ours, expected)


def test_too_many_splits_are_refused(normal) -> None:
    q = normal(1, 3, 1, 16)
    for num_splits in (0, 257):
        with pytest.raises(ValueError, match=f"num_splits={num_splits} must be 1 to 256"):
            attention_partials(q, q, q, num_splits=num_splits)
    with pytest.raises(TypeError, match="softcup"):
        attention_partials(q, q, q, num_splits=2, softcup=1.0)
