from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fa4sim.numerics import (
    EPSILON,
    attention_blockwise,
    attention_float64,
    k_step_of,
    mma_qk,
    round_to,
)

MASKS = {
    "full": {},
    "causal": {"causal": True},
    "window": {"window": (100, 30)},
    "left window": {"window": (200, None)},
}

fp8 = pytest.mark.parametrize("dtype", ["e4m3", "e5m2"])


def ones(batch: int, kv_heads: int, value: float = 1.0) -> np.ndarray:
    return np.full((batch, kv_heads), value, dtype=np.float32)


def same_bits(ours, expected) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(ours, expected, strict=True))


def errors(out, lse, exact, exact_lse) -> tuple[float, float, float]:
    """Relative error of the output, its largest, and the largest of the log-sum-exp."""
    finite = np.isfinite(exact_lse)
    assert np.array_equal(finite, np.isfinite(lse))
    off = out - exact
    norm = np.linalg.norm(exact)
    relative = np.linalg.norm(off) / norm if norm else 0.0
    lse_off = np.abs(lse[finite] - exact_lse[finite]).max(initial=0)
    return float(relative), float(np.abs(off).max(initial=0)), float(lse_off)


@fp8
@given(
    seqlen_q=st.integers(1, 200),
    seqlen_k=st.integers(0, 280),
    mask=st.sampled_from(sorted(MASKS)),
    std=st.sampled_from([0.3, 1.0, 4.0]),
    seed=st.integers(0, 100),
)
@settings(deadline=None, max_examples=15)
def test_any_lengths_and_mask_agree_with_the_definition(
    dtype, seqlen_q, seqlen_k, mask, std, seed
) -> None:
    rng = np.random.default_rng(seed)
    q, k, v = (
        round_to((rng.standard_normal((1, n, 2, 32)) * s).astype(np.float32), dtype)
        for n, s in ((seqlen_q, std), (seqlen_k, 1), (seqlen_k, 1))
    )
    sink = np.float32([0.5, -np.inf]) if seed % 2 else None
    out, lse = attention_blockwise(q, k, v, dtype=dtype, sink=sink, **MASKS[mask])
    exact, exact_lse = attention_float64(q, k, v, sink=sink, **MASKS[mask])
    _, largest, lse_error = errors(out, lse, exact, exact_lse)
    # A weight of P is off by at most half a spacing of its format; bf16 and exp2 by far less.
    assert largest <= (EPSILON[dtype] / 2 + 2**-7) * np.abs(v).max(initial=0)
    assert lse_error < 2e-4
    assert np.array_equal(round_to(out, "bf16"), out)


@pytest.mark.parametrize(("dtype", "limit"), [("bf16", 0.003), ("e4m3", 0.03), ("e5m2", 0.06)])
def test_on_normal_inputs_the_error_is_that_of_rounding_p(normal, dtype, limit) -> None:
    q, k, v = (normal(1, 512, 2, 128, seed=s, dtype=dtype) for s in (1, 2, 3))
    exact = attention_float64(q, k, v, causal=True)
    relative, _, lse_error = errors(*attention_blockwise(q, k, v, causal=True, dtype=dtype), *exact)
    assert limit / 3 < relative < limit
    assert lse_error < 2e-4, "the row sum takes P before rounding"


@fp8
def test_descales_by_powers_of_two_are_exact(normal, dtype) -> None:
    q, k, v = (normal(2, 200, 2, 32, seed=s, std=0.5, dtype=dtype) for s in (1, 2, 3))
    plain = attention_blockwise(4 * q, 2 * k, v, causal=True, dtype=dtype)
    scaled = attention_blockwise(
        q, k, v, causal=True, dtype=dtype,
        q_descale=ones(2, 2, 4), k_descale=ones(2, 2, 2), v_descale=ones(2, 2, 0.25),
    )  # fmt: skip
    assert np.array_equal(scaled[0], plain[0] / 4)
    assert np.array_equal(scaled[1], plain[1])


@pytest.mark.parametrize("softcap", [0.0, 3.0])
def test_each_sequence_and_key_head_has_its_own_descales(normal, softcap) -> None:
    q = normal(2, 150, 6, 32, seed=1, dtype="e4m3")
    k, v = (normal(2, 200, 2, 32, seed=s, dtype="e4m3") for s in (2, 3))
    rng = np.random.default_rng(0)
    by_q, by_k, by_v = (rng.uniform(0.3, 3, (2, 2)).astype(np.float32) for _ in "qkv")
    out, lse = attention_blockwise(
        q, k, v, dtype="e4m3", softcap=softcap, q_descale=by_q, k_descale=by_k, v_descale=by_v
    )
    exact = attention_float64(
        q * by_q.astype(float).repeat(3, axis=1)[:, None, :, None],
        k * by_k.astype(float)[:, None, :, None],
        v * by_v.astype(float)[:, None, :, None],
        softcap=softcap,
    )
    relative, _, lse_error = errors(out, lse, *exact)
    assert relative < 0.03 and lse_error < 2e-4


def test_an_8_bit_product_sums_32_elements_before_it_rounds() -> None:
    q, k = np.zeros((2, 1, 32), np.float32)
    q[0, [0, 1, 16]] = [2.0**12, 1, -(2.0**12)]
    k[0, [0, 1, 16]] = [2.0**12, 1, 2.0**12]
    assert mma_qk(q, k, k_step_of("e5m2")).item() == 1
    assert mma_qk(q, k, k_step_of("bf16")).item() == 0, "2**24 + 1 is no float32"


@fp8
@pytest.mark.parametrize("offset", [0, 3, 6])
def test_the_offset_cancels_in_output_and_lse(normal, dtype, offset) -> None:
    q, k, v = (normal(1, 300, 1, 64, seed=s, dtype=dtype) for s in (1, 2, 3))
    exact = attention_float64(q, k, v)
    ours = attention_blockwise(q, k, v, dtype=dtype, max_offset=offset)
    relative, _, lse_error = errors(*ours, *exact)
    assert relative < 2 * EPSILON[dtype] and lse_error < 2e-4


def test_a_larger_offset_keeps_smaller_weights(normal) -> None:
    q = normal(1, 200, 1, 64, seed=1, std=4, dtype="e4m3")
    k, v = (normal(1, 1024, 1, 64, seed=s, dtype="e4m3") for s in (2, 3))
    exact = attention_float64(q, k, v)
    relative = [
        errors(*attention_blockwise(q, k, v, dtype="e4m3", max_offset=offset), *exact)[0]
        for offset in (0, 4, 8)
    ]
    assert relative[0] > relative[1] > 0.98 * relative[2]


@fp8
def test_a_sink_is_scaled_like_the_weights(normal, dtype) -> None:
    q, k, v = (normal(1, 200, 2, 32, seed=s, dtype=dtype) for s in (1, 2, 3))
    sink = np.float32([3.0, -1.0])
    ours = attention_blockwise(q, k, v, dtype=dtype, sink=sink, window=(20, 5), seqlens_k=[150])
    exact = attention_float64(q, k, v, sink=sink, window=(20, 5), seqlens_k=[150])
    relative, _, lse_error = errors(*ours, *exact)
    assert relative < EPSILON[dtype] and lse_error < 2e-4


@fp8
@pytest.mark.parametrize("ratio", [2, 3, 8])
def test_packed_heads_give_the_same_bits_as_separate_ones(normal, dtype, ratio) -> None:
    q = normal(1, 70, 2 * ratio, 32, seed=1, std=3, dtype=dtype)
    k, v = (normal(1, 270, 2, 32, seed=s, dtype=dtype) for s in (2, 3))
    descales = {"q_descale": ones(1, 2, 0.7), "k_descale": ones(1, 2, 1.3)}
    options = {"dtype": dtype, "causal": True, **descales}
    separate = attention_blockwise(q, k, v, **options)
    assert same_bits(attention_blockwise(q, k, v, pack_gqa=True, **options), separate)


@pytest.mark.parametrize(
    "options", [{"q_stage": 1}, {"tile_m": 64}, {"split_pv": 0.0}, {"split_pv": 0.5}], ids=str
)
def test_tiling_rows_and_splitting_products_change_no_bit(normal, options) -> None:
    q, k, v = (normal(1, 300, 1, 32, seed=s, std=4, dtype="e4m3") for s in (1, 2, 3))
    plain = attention_blockwise(q, k, v, dtype="e4m3", causal=True)
    assert same_bits(attention_blockwise(q, k, v, dtype="e4m3", causal=True, **options), plain)


@pytest.mark.parametrize(("dim", "frequent"), [(128, True), (120, True), (112, False), (64, False)])
def test_a_causal_head_dim_of_128_emulates_more_exponentials_in_8_bits(
    normal, dim, frequent
) -> None:
    q, k, v = (normal(1, 200, 1, dim, seed=s, dtype="e4m3") for s in (1, 2, 3))
    for causal, freq in ((True, 8 if frequent else 16), (False, 16)):
        chosen = attention_blockwise(q, k, v, dtype="e4m3", causal=causal)
        given_ = attention_blockwise(q, k, v, dtype="e4m3", causal=causal, emulation_freq=freq)
        other = attention_blockwise(q, k, v, dtype="e4m3", causal=causal, emulation_freq=24 - freq)
        assert same_bits(chosen, given_) and not same_bits(chosen, other)


@fp8
def test_the_kernels_offset_and_threshold_are_the_defaults(normal, dtype) -> None:
    q, k, v = (normal(1, 384, 1, 32, seed=s, std=2, dtype=dtype) for s in (1, 2, 3))
    chosen = attention_blockwise(q, k, v, dtype=dtype)
    assert same_bits(attention_blockwise(q, k, v, dtype=dtype, threshold=0, max_offset=8), chosen)
    for other in ({"threshold": 0.5}, {"max_offset": 7}):
        assert not same_bits(attention_blockwise(q, k, v, dtype=dtype, **other), chosen)
    _, _, stats = attention_blockwise(q, k, v, dtype=dtype, return_stats=True)
    assert stats.rescales == stats.rescales_always > 0


@pytest.mark.parametrize(
    ("dtype", "threshold", "offset", "fits"),
    [
        ("e4m3", 0, 8, True),
        ("e4m3", 0.8, 8, True),
        ("e4m3", 0.81, 8, False),
        ("e4m3", 4, 8, False),
        ("e4m3", 4, 4, True),
        ("e4m3", 8, 0, True),
        ("e4m3", 8, 1, False),
        ("e5m2", 4, 8, True),
        ("e5m2", 7.8, 8, True),
        ("e5m2", 8, 8, False),
        ("bf16", 8, 0, True),
        ("fp16", 8, 8, False),
    ],
)
def test_what_p_cannot_hold_is_refused_unless_asked_for(dtype, threshold, offset, fits) -> None:
    zeros = np.zeros((1, 4, 1, 32), np.float32)
    options = {"dtype": dtype, "threshold": threshold, "max_offset": offset}
    if not fits:
        with pytest.raises(ValueError, match=r"threshold=.*max_offset=.*allow_saturation=True"):
            attention_blockwise(zeros, zeros, zeros, **options)
    out, _ = attention_blockwise(zeros, zeros, zeros, allow_saturation=not fits, **options)
    assert not out.any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q_descale": ones(1, 2)}, r"q_descale has shape \(1, 2\).*\(1, 1\)"),
        ({"k_descale": np.ones((1, 1))}, "k_descale has dtype float64"),
        ({"v_descale": ones(1, 1, 0)}, r"v_descale holds 0\.0"),
        ({"v_descale": ones(1, 1, np.nan)}, "v_descale holds nan"),
        ({"dtype": "bf16", "v_descale": ones(1, 1)}, "v_descale is for 8-bit inputs.*'bf16'"),
        ({"q": np.full((1, 4, 1, 32), 0.3, np.float32)}, "q holds values that are not e4m3"),
        (
            {"q_descale": ones(1, 1, 1e25), "k_descale": ones(1, 1, 1e25)},
            r"q_descale · k_descale · softmax_scale · log2\(e\) is 2.6e\+49 at some head",
        ),
        ({"max_offset": -1}, "max_offset=-1"),
        ({"max_offset": 2.5}, "max_offset=2.5"),
    ],
)
def test_bad_arguments_are_refused_with_their_values(change, message) -> None:
    zeros = np.zeros((1, 4, 1, 32), np.float32)
    arguments = {"q": zeros, "k": zeros, "v": zeros, "dtype": "e4m3", **change}
    with pytest.raises(ValueError, match=message):
        attention_blockwise(**arguments)
