from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

from fa4sim.numerics import attention_float64, mask_matrix


def torch_attention(q, k, v, mask=None, scale=None):
    """PyTorch's attention in float64, on arrays (batch, seqlen, heads, head_dim)."""
    q, k, v = (torch.from_numpy(x.astype(np.float64)).transpose(1, 2) for x in (q, k, v))
    mask = None if mask is None else torch.from_numpy(mask)
    gqa = q.shape[1] != k.shape[1]
    out = scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, enable_gqa=gqa)
    return out.transpose(1, 2).numpy()


@pytest.mark.parametrize("kv_heads", [1, 2, 6])
@pytest.mark.parametrize(
    ("causal", "window"),
    [(False, None), (True, None), (False, (20, 7)), (True, (30, None)), (False, (None, 5))],
)
def test_it_agrees_with_pytorch_for_every_mask_and_head_grouping(
    normal, causal, window, kv_heads
) -> None:
    q = normal(2, 50, 6, 24, seed=1)
    k, v = normal(2, 70, kv_heads, 24, seed=2), normal(2, 70, kv_heads, 16, seed=3)
    out, _ = attention_float64(q, k, v, causal=causal, window=window)
    theirs = torch_attention(q, k, v, mask_matrix(50, 70, causal, window))
    np.testing.assert_allclose(out, theirs, rtol=1e-11, atol=1e-13)


def test_the_scale_is_applied(normal) -> None:
    q, k, v = (normal(1, 9, 1, 8, seed=s) for s in range(3))
    out, _ = attention_float64(q, k, v, softmax_scale=0.7)
    np.testing.assert_allclose(out, torch_attention(q, k, v, scale=0.7), rtol=1e-12)


def test_lse_is_the_log_of_the_sum_of_exponentials(normal) -> None:
    q, k, v = (normal(1, 9, 1, 8, seed=s) for s in range(3))
    _, lse = attention_float64(q, k, v)
    scores = q[0, :, 0].astype(float) @ k[0, :, 0].T.astype(float) / 8**0.5
    np.testing.assert_allclose(lse[0, 0], np.log(np.exp(scores).sum(axis=1)), rtol=1e-12)


def test_huge_scores_do_not_overflow() -> None:
    q, k = np.full((1, 1, 1, 4), 1e4), np.full((1, 3, 1, 4), 1e4)
    out, lse = attention_float64(q, k, np.ones((1, 3, 1, 2)))
    np.testing.assert_allclose(out, 1)
    assert np.isfinite(lse).all()


def test_the_softcap_bounds_the_scores(normal) -> None:
    q, k, v = (normal(1, 9, 1, 8, seed=s, std=10) for s in range(3))
    out, lse = attention_float64(q, k, v, softcap=3.0)
    scores = q[0, :, 0].astype(float) @ k[0, :, 0].T.astype(float) / 8**0.5
    weights = np.exp(3 * np.tanh(scores / 3))
    expected = weights @ v[0, :, 0] / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(out[0, :, 0], expected, rtol=1e-12)
    np.testing.assert_allclose(lse[0, 0], np.log(weights.sum(axis=1)), rtol=1e-12)


def test_a_sink_is_a_key_without_a_value(normal) -> None:
    q, k, v = normal(1, 5, 2, 8, seed=1), normal(1, 7, 2, 8, seed=2), normal(1, 7, 2, 4, seed=3)
    sink = np.array([0.3, -1.0])
    out, lse = attention_float64(q, k, v, sink=sink)
    plain, plain_lse = attention_float64(q, k, v)
    total = np.logaddexp(plain_lse, sink[None, :, None])
    np.testing.assert_allclose(lse, total, rtol=1e-12)
    share = np.exp(plain_lse - total).transpose(0, 2, 1)[..., None]
    np.testing.assert_allclose(out, plain * share, rtol=1e-12)


def test_a_sink_of_minus_infinity_changes_nothing(normal) -> None:
    q, k, v = (normal(1, 5, 1, 8, seed=s) for s in range(3))
    with_sink = attention_float64(q, k, v, sink=np.array([-np.inf]), causal=True)
    for ours, plain in zip(with_sink, attention_float64(q, k, v, causal=True), strict=True):
        np.testing.assert_array_equal(ours, plain)


def test_varlen_equals_each_sequence_on_its_own(normal) -> None:
    q, k, v = normal(3, 20, 4, 8, seed=1), normal(3, 30, 2, 8, seed=2), normal(3, 30, 2, 8, seed=3)
    seqlens_q, seqlens_k = [20, 1, 13], [30, 17, 0]
    q[2, 13:] = k[1, 17:] = v[2] = np.nan  # padding must not be read
    out, lse = attention_float64(q, k, v, causal=True, seqlens_q=seqlens_q, seqlens_k=seqlens_k)
    for b, (sq, sk) in enumerate(zip(seqlens_q, seqlens_k, strict=True)):
        one = attention_float64(
            q[b : b + 1, :sq], k[b : b + 1, :sk], v[b : b + 1, :sk], causal=True
        )
        np.testing.assert_array_equal(out[b, :sq], one[0][0])
        np.testing.assert_array_equal(lse[b, :, :sq], one[1][0])
        assert not out[b, sq:].any()
        assert np.all(lse[b, :, sq:] == -np.inf)


@pytest.mark.parametrize("sink", [None, np.array([1.5])])
def test_rows_that_see_nothing_give_zeros_and_the_sink(normal, sink) -> None:
    q, k, v = normal(1, 6, 1, 8, seed=1), normal(1, 2, 1, 8, seed=2), normal(1, 2, 1, 8, seed=3)
    out, lse = attention_float64(q, k, v, causal=True, sink=sink)  # the first four see no key
    assert not out[0, :4].any()
    assert np.all(lse[0, 0, :4] == (-np.inf if sink is None else 1.5))
    assert np.isfinite(lse[0, 0, 4:]).all()
    assert out[0, 4:].any()


def test_no_keys_at_all_give_zeros() -> None:
    out, lse = attention_float64(
        np.ones((1, 3, 1, 4)), np.ones((1, 0, 1, 4)), np.ones((1, 0, 1, 4))
    )
    assert not out.any()
    assert np.all(lse == -np.inf)


def test_one_key_gives_its_value_to_every_row(normal) -> None:
    q, k, v = normal(1, 3, 1, 4, seed=1), normal(1, 1, 1, 4, seed=2), normal(1, 1, 1, 4, seed=3)
    out, _ = attention_float64(q, k, v)
    assert np.array_equal(out, np.repeat(v, 3, axis=1))


@given(seed=st.integers(0, 1000), seqlen_k=st.integers(1, 40))
@settings(deadline=None, max_examples=30)
def test_the_order_of_the_keys_does_not_matter(seed: int, seqlen_k: int) -> None:
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((1, 5, 2, 8))
    k, v = rng.standard_normal((2, 1, seqlen_k, 1, 8))
    order = rng.permutation(seqlen_k)
    shuffled = attention_float64(q, k[:, order], v[:, order])
    for ours, plain in zip(shuffled, attention_float64(q, k, v), strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-12, atol=1e-13)


@given(seed=st.integers(0, 1000), cut=st.integers(1, 19))
@settings(deadline=None, max_examples=30)
def test_two_halves_of_the_keys_combine_to_the_whole_by_their_lse(seed: int, cut: int) -> None:
    rng = np.random.default_rng(seed)
    q, k, v = rng.standard_normal((3, 1, 20, 1, 8))
    whole, whole_lse = attention_float64(q, k, v)
    parts = [attention_float64(q, k[:, p], v[:, p]) for p in (slice(cut), slice(cut, None))]
    lse = np.logaddexp(parts[0][1], parts[1][1])
    out = sum(o * np.exp(part_lse - lse).transpose(0, 2, 1)[..., None] for o, part_lse in parts)
    np.testing.assert_allclose(lse, whole_lse, rtol=1e-12)
    np.testing.assert_allclose(out, whole, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"k": np.zeros((1, 5, 4, 8)), "v": np.zeros((1, 5, 4, 8))},
            "6 query heads cannot be shared among 4",
        ),
        ({"k": np.zeros((1, 5, 2, 9))}, r"k of shape \(1, 5, 2, 9\) does not fit q"),
        ({"v": np.zeros((1, 4, 2, 8))}, r"v of shape \(1, 4, 2, 8\) does not fit k"),
        ({"q": np.zeros((5, 6, 8))}, r"q has shape \(5, 6, 8\)"),
        ({"q": np.zeros((1, 5, 6, 8), dtype=int)}, "q has .* dtype int64"),
        ({"softmax_scale": -1.0}, "softmax_scale=-1.0 must be positive"),
        ({"softcap": -2.0}, "softcap=-2.0 must be 0"),
        ({"softmax_scale": "1"}, "softmax_scale='1' must be"),
        ({"q": [[1.0]]}, "q is a list, but a NumPy array"),
        ({"sink": np.full(6, np.inf)}, "sink holds inf"),
        ({"sink": np.zeros(5)}, r"sink has shape \(5,\)"),
        ({"seqlens_k": [6]}, r"seqlens_k=\(6,\) must be 1 lengths between 0 and .* 5"),
        ({"seqlens_q": [2.5]}, r"seqlens_q=\[2.5\] must be whole numbers"),
        ({"window": (3,)}, r"window=\(3,\) must be a pair"),
    ],
)
def test_bad_arguments_are_refused_with_their_values(change, message) -> None:
    arguments = {
        "q": np.zeros((1, 5, 6, 8)),
        "k": np.zeros((1, 5, 2, 8)),
        "v": np.zeros((1, 5, 2, 8)),
        **change,
    }
    with pytest.raises(ValueError, match=message):
        attention_float64(**arguments)
