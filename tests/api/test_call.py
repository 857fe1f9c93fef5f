"""What a call asks for, and what is said of one that does not fit together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fa4kernel.call import Call

DEFAULTS: dict[str, Any] = {
    "causal": False, "window": None, "softmax_scale": None, "sink": None,
    "cu_seqlens_q": None, "cu_seqlens_k": None, "dtype": None,
}  # fmt: skip


def call(q: Any, k: Any, v: Any, **given: Any) -> Call:
    """Look at a call."""
    return Call.of(q, k, v, **DEFAULTS | given)


def half(*shape: int) -> np.ndarray:
    """Zeros in fp16."""
    return np.zeros(shape, np.float16)


def test_the_problem_follows_from_the_arrays():
    made = call(half(2, 300, 8, 64), half(2, 700, 2, 64), half(2, 700, 2, 64), causal=True)
    problem = made.problem
    assert (problem.batch, problem.heads, problem.kv_heads) == (2, 8, 2)
    assert (problem.seqlen_q, problem.seqlen_k) == (300, 700)
    assert (problem.head_dim, problem.dim_v, problem.dtype) == (64, 64, "fp16")
    assert problem.causal and problem.softmax_scale is None and not problem.sink
    assert made.lse_shape == (2, 8, 300) and not made.is_empty


def test_a_window_and_a_scale():
    made = call(*(half(1, 9, 1, 64) for _ in "qkv"), window=(5, None), softmax_scale=0.3)
    assert made.problem.window == (5, None) and made.problem.softmax_scale == 0.3


def test_sequences_laid_end_to_end():
    q, k = half(30, 4, 64), half(40, 4, 64)
    made = call(q, k, k, cu_seqlens_q=[0, 10, 30], cu_seqlens_k=torch.tensor([0, 40, 40]))
    assert made.problem.seqlens_q == (10, 20) and made.problem.seqlens_k == (40, 0)
    assert made.lse_shape == (4, 30)
    same = call(q, q, q, cu_seqlens_q=[0, 10, 30])
    assert same.problem.seqlens_k == (10, 20)


def test_outputs_are_nan_until_they_are_written():
    for dtype in ("bf16", "fp16"):
        arrays = call(*(np.zeros((1, 9, 1, 64), np.float32) for _ in "qkv"), dtype=dtype).arrays()
        made = call(half(1, 9, 1, 64), half(1, 9, 1, 64), half(1, 9, 1, 64)).q
        assert arrays.o.shape == made.shape
        out = arrays.o.view(np.float16) if dtype == "fp16" else arrays.o
        assert np.isnan(out).all() if dtype == "fp16" else (out == 0x7FFF).all()
        assert np.isnan(arrays.lse).all()


def test_no_keys_give_zeros_and_the_sinks():
    q, k = half(1, 5, 2, 64), half(1, 0, 2, 64)
    made = call(q, k, k, sink=np.array([1.0, -np.inf]))
    out, lse = made.nothing()
    assert made.is_empty and out.shape == (1, 5, 2, 64) and not out.any()
    assert (lse[0, 0] == 1).all() and (lse[0, 1] == -np.inf).all()
    _, lse = call(q, k, k).nothing()
    assert (lse == -np.inf).all()


def test_factors_of_fp8_that_are_not_given_are_1():
    arrays = [torch.zeros(2, 9, 4, 64).to(torch.float8_e4m3fn) for _ in "qkv"]
    made = call(*arrays, v_descale=torch.full((2, 4), 3.0))
    assert made.descales.shape == (3, 2, 4) and made.descales.dtype == np.float32
    assert (made.descales[:2] == 1).all() and (made.descales[2] == 3).all()
    assert made.arrays().descales is made.descales
    assert call(*arrays).descales is None


@pytest.mark.parametrize(
    "given, words",
    [
        (np.ones(4, np.float32), r"k_descale has shape \(4,\); it must be .* here \(2, 4\)"),
        (np.ones((2, 4)), "k_descale is float64; it must be float32"),
        (
            torch.ones(2, 4).bfloat16(),
            "k_descale is bfloat16, which NumPy does not have; it must hold float32",
        ),
        ([[1.0], [1.0, 2.0]], "k_descale has rows of different lengths"),
        (np.zeros((2, 4), np.float32), r"k_descale has 0\.0 in it; factors must be positive"),
        (np.full((2, 4), np.nan, np.float32), "k_descale has nan in it"),
        (np.full((2, 4), 1e-38, np.float32), "softmax_scale · log2.* is 1.8e-39 at some head"),
    ],
)
def test_factors_of_fp8_that_do_not_fit_are_refused(given, words):
    arrays = [np.zeros((2, 9, 4, 64), np.uint8) for _ in "qkv"]
    with pytest.raises(ValueError, match=words):
        call(*arrays, dtype="e4m3", k_descale=given)


def test_only_fp8_has_factors():
    with pytest.raises(ValueError, match="q_descale is given, but q is fp16: only FP8"):
        call(*FINE, q_descale=np.ones((1, 2), np.float32))


def test_splits_have_partial_results_of_their_own():
    made = call(half(2, 9, 4, 64), half(2, 9, 4, 64), half(2, 9, 4, 32), num_splits=3)
    assert made.problem.num_splits == 3
    arrays = made.arrays(3)
    assert arrays.partial_o.shape == (3, 2, 9, 4, 32) and arrays.partial_lse.shape == (3, 2, 4, 9)
    assert np.isnan(arrays.partial_o).all() and np.isnan(arrays.partial_lse).all()
    assert made.arrays().partial_o is None
    with pytest.raises(ValueError, match="num_splits=257"):
        call(*FINE, num_splits=257)


FINE = (half(1, 9, 2, 64), half(1, 9, 2, 64), half(1, 9, 2, 64))
REFUSED = [
    ((*FINE[:2], torch.zeros(1, 9, 2, 64).half()), {}, "q and v must both be NumPy arrays"),
    ((FINE[0], FINE[1].astype("f4"), FINE[2]), {"dtype": None}, "k is float32"),
    ((FINE[0], *(x.astype("f4") for x in FINE[1:])), {"dtype": "fp16"},
     "q is float16 and k float32"),
    ((half(9, 2, 64), *FINE[1:]), {}, r"q has shape \(9, 2, 64\); without cu_seqlens"),
    (FINE, {"cu_seqlens_q": [0, 9]}, r"q has shape \(1, 9, 2, 64\); with cu_seqlens"),
    ((*FINE[:2], half(1, 8, 2, 64)), {}, r"k has shape \(1, 9, 2, 64\) and v \(1, 8, 2, 64\)"),
    ((half(1, 9, 2, 32), *FINE[1:]), {}, r"q has shape \(1, 9, 2, 32\) and k .* head_dim"),
    ((half(2, 9, 2, 64), *FINE[1:]), {}, r"q has shape \(2, 9, 2, 64\) and k .* batch"),
    ((half(1, 9, 3, 64), *FINE[1:]), {}, "heads=3 is no multiple of kv_heads=2"),
    (tuple(half(1, 9, 2, 60) for _ in "qkv"), {}, "60"),
    (FINE, {"cu_seqlens_k": [0, 9]}, "cu_seqlens_k is given without cu_seqlens_q"),
    (FINE, {"sink": np.zeros(3)}, r"sink has shape \(3,\); it must be \(2,\)"),
    (FINE, {"window": (1,)}, r"window=\(1,\)"),
    (FINE, {"softmax_scale": -1.0}, r"softmax_scale=-1\.0"),
    (FINE, {"dtype": "bf16"}, "dtype='bf16' was asked for"),
]  # fmt: skip


@pytest.mark.parametrize("arrays, given, words", REFUSED)
def test_refusals_quote_what_does_not_fit(arrays, given, words):
    with pytest.raises(ValueError, match=words):
        call(*arrays, **given)


@pytest.mark.parametrize(
    "starts", [[0, 5], [1, 9], [0, 9, 5, 9], [0], [0.0, 9.0]], ids=lambda starts: str(starts)
)
def test_starts_of_sequences_must_make_sense(starts):
    q = half(9, 2, 64)
    with pytest.raises(ValueError, match="cu_seqlens_q"):
        call(q, q, q, cu_seqlens_q=starts)


def test_as_many_sequences_of_keys_as_of_queries():
    q = half(9, 2, 64)
    with pytest.raises(ValueError, match="cu_seqlens_q has 2 sequences and cu_seqlens_k 1"):
        call(q, q, q, cu_seqlens_q=[0, 4, 9], cu_seqlens_k=[0, 9])
