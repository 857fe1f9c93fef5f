from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

from fa4sim.numerics import (
    attention_blockwise,
    attention_float64,
    mask_matrix,
    round_to,
)

MASKS = {
    "full": {},
    "causal": {"causal": True},
    "window": {"window": (100, 30)},
    "causal window": {"causal": True, "window": (150, None)},
    "right window": {"window": (None, 60)},
    "left window": {"window": (200, None)},
    "shifted window": {"window": (-20, 90)},
}


def same_bits(ours: tuple[np.ndarray, ...], expected: tuple[np.ndarray, ...]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(ours, expected, strict=True))


def assert_close(q, k, v, dtype="bf16", options=None, **arguments) -> None:
    """Compare with float64: output within two 16-bit spacings of the values, LSE within 2e-4."""
    out, lse = attention_blockwise(q, k, v, dtype=dtype, **(options or {}), **arguments)
    exact, exact_lse = attention_float64(q, k, v, **arguments)
    spacing = {"bf16": 2.0**-7, "fp16": 2.0**-10}[dtype]
    # P is off by half a spacing per weight and degree-3 exponentials by 9e-5.
    tolerance = 1.5 * spacing * np.abs(v).max(initial=0) + 2e-4
    assert np.abs(out - exact).max(initial=0) < tolerance
    finite = np.isfinite(exact_lse)
    assert np.array_equal(finite, np.isfinite(lse))
    assert np.array_equal(lse[~finite], exact_lse[~finite])
    assert np.abs(lse[finite] - exact_lse[finite]).max(initial=0) < 2e-4
    assert np.array_equal(round_to(out, dtype), out)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("seqlen_q", "seqlen_k"), [(256, 256), (200, 333), (333, 200)])
def test_blocks_give_what_the_whole_row_gives(normal, mask, seqlen_q, seqlen_k) -> None:
    q = normal(1, seqlen_q, 2, 64, seed=1, std=1.5)
    k, v = normal(1, seqlen_k, 1, 64, seed=2), normal(1, seqlen_k, 1, 32, seed=3)
    assert_close(q, k, v, **MASKS[mask])


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("extra", ["plain", "softcap", "sink", "scale"])
def test_options_agree_with_the_definition(normal, dtype, extra) -> None:
    q, k, v = (normal(1, 300, 2, 48, seed=s, std=2, dtype=dtype) for s in (1, 2, 3))
    options = {
        "plain": {},
        "softcap": {"softcap": 5.0},
        "sink": {"sink": np.float32([2.0, -np.inf])},
        "scale": {"softmax_scale": 0.4},
    }[extra]
    assert_close(q, k, v, dtype=dtype, causal=True, **options)


@given(
    seqlen_q=st.integers(1, 280),
    seqlen_k=st.integers(0, 280),
    mask=st.sampled_from(sorted(MASKS)),
    seed=st.integers(0, 100),
)
@settings(deadline=None, max_examples=25)
def test_any_lengths_and_mask_agree_with_the_definition(seqlen_q, seqlen_k, mask, seed) -> None:
    rng = np.random.default_rng(seed)
    arrays = [(1, seqlen_q, 1, 16), (1, seqlen_k, 1, 16), (1, seqlen_k, 1, 16)]
    q, k, v = (round_to(rng.standard_normal(s).astype(np.float32), "bf16") for s in arrays)
    sink = np.float32([0.5]) if seed % 2 else None
    assert_close(q, k, v, sink=sink, **MASKS[mask])


@pytest.mark.parametrize("causal", [False, True])
def test_its_error_is_comparable_to_pytorchs_bf16_attention(normal, causal) -> None:
    q, k, v = (normal(1, 512, 2, 128, seed=s) for s in (1, 2, 3))
    exact, _ = attention_float64(q, k, v, causal=causal)
    out, _ = attention_blockwise(q, k, v, causal=causal)
    theirs = scaled_dot_product_attention(
        *(torch.from_numpy(x).bfloat16().transpose(1, 2) for x in (q, k, v)), is_causal=causal
    )
    theirs = theirs.transpose(1, 2).float().numpy()

    def rms(x: np.ndarray) -> float:
        return float(np.sqrt(np.mean((x - exact) ** 2)))

    assert rms(out) < 1.5 * rms(theirs)
    assert np.abs(out - exact).max() < 1.5 * np.abs(theirs - exact).max()


@pytest.mark.parametrize("mask", ["full", "causal", "window"])
@pytest.mark.parametrize("ratio", [2, 3, 8])
def test_packed_heads_give_the_same_bits_as_separate_ones(normal, mask, ratio) -> None:
    q = normal(1, 150, 2 * ratio, 32, seed=1, std=3)
    k, v = normal(1, 270, 2, 32, seed=2), normal(1, 270, 2, 32, seed=3)
    sink = np.linspace(-1, 1, 2 * ratio).astype(np.float32)
    separate = attention_blockwise(q, k, v, sink=sink, **MASKS[mask])
    packed = attention_blockwise(q, k, v, sink=sink, pack_gqa=True, **MASKS[mask])
    assert same_bits(packed, separate)


@pytest.mark.parametrize(
    "options",
    [
        {"q_stage": 1},
        {"tile_m": 64},
        {"tile_m": 32, "q_stage": 3},
        {"split_pv": 0.0},
        {"split_pv": 0.5},
        {"split_pv": 1.0},
        {"rescale_per_warp": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("mask", ["full", "causal", "window"])
def test_tiling_rows_and_splitting_products_change_no_bit(normal, options, mask) -> None:
    q, k, v = (normal(1, 300, 1, 32, seed=s, std=4) for s in (1, 2, 3))
    plain = attention_blockwise(q, k, v, **MASKS[mask])
    assert same_bits(attention_blockwise(q, k, v, **options, **MASKS[mask]), plain)


@pytest.mark.parametrize("options", [{"tile_n": 64}, {"emulation_freq": 0}, {"threshold": 0.0}])
def test_other_choices_change_bits_but_stay_accurate(normal, options) -> None:
    q, k, v = (normal(1, 300, 1, 32, seed=s, std=3) for s in (1, 2, 3))
    assert_close(q, k, v, options=options, causal=True)
    plain = attention_blockwise(q, k, v, causal=True)
    assert not same_bits(attention_blockwise(q, k, v, causal=True, **options), plain)


@given(seed=st.integers(0, 1000), std=st.sampled_from([1.0, 4.0, 12.0]))
@settings(deadline=None, max_examples=15)
def test_the_threshold_changes_the_result_by_rounding_only(seed: int, std: float) -> None:
    rng = np.random.default_rng(seed)
    q, k, v = (
        round_to((rng.standard_normal((1, 128, 1, 32)) * s).astype(np.float32), "bf16")
        for s in (std, 1, 1)
    )
    k, v = np.tile(k, (1, 4, 1, 1)), np.tile(v, (1, 4, 1, 1))
    k = k * np.float32([0.25, 0.5, 1, 2]).repeat(128)[::-1, None, None]  # later blocks score higher
    keeping, keeping_lse = attention_blockwise(q, k, v, threshold=8.0)
    always, always_lse = attention_blockwise(q, k, v, threshold=0.0)
    assert np.abs(keeping - always).max() <= 2.0**-7 * np.abs(v).max()
    assert np.abs(keeping_lse - always_lse).max() < 3e-4


def test_weights_above_one_do_not_hurt(normal) -> None:
    q, k, v = (normal(1, 128, 1, 16, seed=s) for s in (1, 2, 3))
    q, k = np.abs(q), np.concatenate([np.abs(k) + 1, np.abs(k)], axis=1)
    k, v = round_to(k, "bf16"), np.concatenate([v, v], axis=1)
    _, _, stats = attention_blockwise(q, k, v, q_stage=1, return_stats=True)
    assert stats.rescales == 0
    assert stats.rescales_always == stats.votes == 4  # every maximum rose, by less than 2**8
    assert_close(q, k, v)


def test_varlen_equals_each_sequence_on_its_own(normal) -> None:
    q, k, v = (normal(3, 200, 2, 16, seed=1), *(normal(3, 300, 1, 16, seed=s) for s in (2, 3)))
    lengths = {"seqlens_q": [200, 1, 133], "seqlens_k": [300, 129, 0]}
    q[2, 133:] = k[1, 129:] = v[1, 129:] = np.nan  # padding must not be read
    out, lse = attention_blockwise(q, k, v, causal=True, **lengths)
    for b, (sq, sk) in enumerate(zip(*lengths.values(), strict=True)):
        one = attention_blockwise(
            q[b : b + 1, :sq], k[b : b + 1, :sk], v[b : b + 1, :sk], causal=True
        )
        assert same_bits((out[b : b + 1, :sq], lse[b : b + 1, :, :sq]), one)
        assert not out[b, sq:].any()
        assert np.all(lse[b, :, sq:] == -np.inf)


def test_varlen_agrees_with_pytorch(normal) -> None:
    q, k, v = (normal(2, 160, 4, 32, seed=1), *(normal(2, 190, 2, 32, seed=s) for s in (2, 3)))
    lengths = [(160, 130), (77, 190)]
    out, _ = attention_blockwise(
        q, k, v, window=(90, 0), seqlens_q=[160, 77], seqlens_k=[130, 190], pack_gqa=True
    )
    for b, (sq, sk) in enumerate(lengths):
        mask = mask_matrix(sq, sk, window=(90, 0))
        arrays = (q[b, :sq], k[b, :sk], v[b, :sk])
        theirs = scaled_dot_product_attention(
            *(torch.from_numpy(x.astype(np.float64)).transpose(0, 1) for x in arrays),
            attn_mask=torch.from_numpy(mask),
            enable_gqa=True,
        )
        theirs = np.where(mask.any(axis=1)[:, None, None], theirs.transpose(0, 1).numpy(), 0)
        assert np.abs(out[b, :sq] - theirs).max() < 0.04


def test_no_keys_give_zeros_and_the_sink_as_lse(normal) -> None:
    q, empty = normal(1, 3, 2, 16), np.zeros((1, 0, 1, 16), np.float32)
    out, lse = attention_blockwise(q, empty, empty)
    assert not out.any()
    assert np.all(lse == -np.inf)
    sink = np.float32([0.25, -np.inf])
    for pack_gqa in (False, True):
        out, lse = attention_blockwise(q, empty, empty, sink=sink, pack_gqa=pack_gqa)
        assert not out.any()
        assert np.all(lse[0] == sink[:, None])


@pytest.mark.parametrize("arrays", [(0, 5, 1), (5, 5, 0)])
def test_no_queries_or_no_batch_give_empty_results(arrays) -> None:
    seqlen_q, seqlen_k, batch = arrays
    q = np.zeros((batch, seqlen_q, 1, 8), np.float32)
    k = np.zeros((batch, seqlen_k, 1, 8), np.float32)
    out, lse = attention_blockwise(q, k, k)
    assert out.shape == (batch, seqlen_q, 1, 8)
    assert lse.shape == (batch, 1, seqlen_q)


def test_a_single_key_gives_its_value_to_every_row(normal) -> None:
    q, k, v = (
        normal(1, 130, 1, 16, seed=1),
        normal(1, 1, 1, 16, seed=2),
        normal(1, 1, 1, 16, seed=3),
    )
    out, _ = attention_blockwise(q, k, v)
    assert np.array_equal(out, np.repeat(v, 130, axis=1))


def test_rows_before_the_first_key_give_zeros(normal) -> None:
    q, k, v = (normal(1, 700, 1, 16, seed=1), *(normal(1, 100, 1, 16, seed=s) for s in (2, 3)))
    out, lse = attention_blockwise(q, k, v, causal=True)  # two whole work tiles see nothing
    assert not out[0, :600].any()
    assert np.all(lse[0, 0, :600] == -np.inf)
    assert np.isfinite(lse[0, 0, 600:]).all()
    assert_close(q, k, v, causal=True, sink=np.float32([-np.inf]))
    assert_close(q, k, v, causal=True, sink=np.float32([1.0]))


def test_nan_and_infinite_inputs_reach_only_their_rows(normal) -> None:
    q, k, v = (normal(1, 256, 1, 32, seed=s) for s in (1, 2, 3))
    clean, _ = attention_blockwise(q, k, v)
    q[0, 7] = np.nan
    q[0, 9, 0, 0] = np.inf
    out, _ = attention_blockwise(q, k, v)
    rest = np.delete(np.arange(256), [7, 9])
    assert np.array_equal(out[0, rest], clean[0, rest])
    assert np.isnan(out[0, [7, 9]]).all()


def test_each_causal_tile_rescales_its_upper_stage_once_whatever_the_scores() -> None:
    # Stage 0 first visits a block wholly right of its diagonal, so its maximum is still -inf when
    # the next block comes. Constant scores cause no other rescale.
    q = np.ones((1, 512, 1, 16), np.float32)
    _, _, stats = attention_blockwise(q, q, q, causal=True, return_stats=True)
    assert stats.votes == 4 * (2 + 2) * (1 + 3) // 2
    assert stats.rescales == stats.rescales_always == 2 * 4


def test_counts_of_rescales_are_consistent(normal) -> None:
    q, k, v = (normal(1, 640, 1, 64, seed=s, std=2.5) for s in (1, 2, 3))
    _, _, stats = attention_blockwise(q, k, v, return_stats=True)
    _, _, always = attention_blockwise(q, k, v, threshold=0.0, return_stats=True)
    assert stats.votes == 640 // 128 * 4 * (5 - 1)
    assert stats.row_steps == 640 * (5 - 1)
    assert 0 < stats.rescales < stats.rescales_always <= stats.votes
    assert stats.rescales + stats.rescales_skipped == stats.votes
    assert 0 < stats.row_rescales < stats.row_rescales_always
    assert always.rescales == always.rescales_always == stats.rescales_always
    assert always.row_rescales == stats.row_rescales_always
    coarse = attention_blockwise(q, k, v, rescale_per_warp=False, return_stats=True)[2]
    assert coarse.votes * 4 == stats.votes
    assert coarse.row_rescales == stats.row_rescales


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": np.full((1, 4, 1, 16), 0.1, np.float32)}, r"q holds values that are not bf16.*"),
        ({"q": np.zeros((1, 4, 1, 16))}, "q has dtype float64"),
        ({"sink": np.zeros(1)}, "sink has dtype float64"),
        ({"dtype": "fp32"}, "'fp32' has no tensor-core path"),
        ({"dtype": "fp8"}, "'fp8' is not known"),
        ({"tile_m": 100}, "tile_m=100"),
        ({"tile_n": 0}, "tile_n=0"),
        ({"q_stage": 0}, "q_stage=0"),
        ({"threshold": -1.0}, "threshold=-1.0"),
        ({"threshold": 128.0}, "threshold=128.0"),
        ({"threshold": 16.0, "dtype": "fp16"}, "threshold=16.0"),
        ({"emulation_degree": 9}, "emulation_degree=9"),
        ({"split_pv": 1.5}, "split_pv=1.5"),
        ({"q_stage": 2.5}, "q_stage=2.5 must be a whole number"),
        ({"num_splits": "2"}, "num_splits='2' must be a whole number"),
        ({"emulation_freq": 2.5}, "emulation_freq=2.5 must be a whole number"),
        ({"threshold": "8"}, "threshold='8' must be a number"),
        ({"causal": "yes"}, "causal='yes' must be True or False"),
        ({"pack_gqa": 1}, "pack_gqa=1 must be True or False"),
        ({"softmax_scale": 1e300}, r"softmax_scale=1e\+300: the kernel computes in float32"),
        ({"softmax_scale": 1e-46}, "softmax_scale=1e-46: the kernel computes in float32"),
        ({"softcap": 1e-46}, "softcap=1e-46: the kernel computes in float32"),
        ({"softcap": 1e39}, r"softcap=1e\+39: the kernel computes in float32"),
        ({"sink": np.full(1, np.nan, np.float32)}, "sink holds nan"),
    ],
)
def test_bad_arguments_are_refused_with_their_values(change, message) -> None:
    zeros = np.zeros((1, 4, 1, 16), np.float32)
    with pytest.raises(ValueError, match=message):
        attention_blockwise(**{"q": zeros, "k": zeros, "v": zeros, **change})


def test_the_whole_result_has_the_same_bits_on_every_platform() -> None:
    rng = np.random.default_rng(0)
    shapes = [(1, 300, 2, 64), (1, 400, 1, 64), (1, 400, 1, 64)]
    q, k, v = (rng.integers(-255, 256, shape).astype(np.float32) / 64 for shape in shapes)
    sink = np.float32([0.5, -1])
    results = attention_blockwise(q, k, v, causal=True, softcap=5.0, sink=sink)
    digest = hashlib.sha256(b"".join(x.astype("<f4").tobytes() for x in results))
    assert digest.hexdigest()[:16] == "084da15eec95951a"


@pytest.mark.slow
def test_a_long_sequence_stays_accurate(normal) -> None:
    q, k, v = (normal(1, 4096, 1, 128, seed=s) for s in (1, 2, 3))
    assert_close(q, k, v, causal=True)
