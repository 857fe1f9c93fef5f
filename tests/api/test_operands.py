"""Arrays of callers: what is taken, how it is rounded, and that results come back alike."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fa4kernel.operands import Operand, numbers
from fa4sim.numerics import from_bits16, round_to, to_bits16
from fa4sim.numerics.formats import from_bits8, to_bits8


@pytest.fixture
def values(rng):
    """float32 (2, 3, 4)."""
    return rng.standard_normal((2, 3, 4)).astype(np.float32)


def test_numpy_fp16_is_taken_bit_by_bit_and_given_back(values):
    array = values.astype(np.float16)
    operand = Operand.of("q", array, None)
    assert operand.dtype == "fp16" and operand.shape == (2, 3, 4)
    assert np.array_equal(operand.bits(), array.view(np.uint16))
    back = operand.result(operand.bits())
    assert back.dtype == np.float16 and np.array_equal(back, array)


def test_bf16_of_ml_dtypes_is_taken_and_given_back(values):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="NumPy's bf16 is in ml_dtypes")
    array = values.astype(ml_dtypes.bfloat16)
    operand = Operand.of("q", array, None)
    assert operand.dtype == "bf16"
    assert np.array_equal(operand.bits(), to_bits16(round_to(values, "bf16"), "bf16"))
    assert operand.result(operand.bits()).dtype == array.dtype


@pytest.mark.parametrize("kind, dtype", [(torch.bfloat16, "bf16"), (torch.float16, "fp16")])
def test_tensors_of_pytorch_are_taken_and_given_back(values, kind, dtype):
    tensor = torch.from_numpy(values).to(kind)
    operand = Operand.of("k", tensor, None)
    assert operand.dtype == dtype
    assert np.array_equal(from_bits16(operand.bits(), dtype), tensor.float().numpy())
    back = operand.result(operand.bits())
    assert back.dtype == kind and torch.equal(back, tensor)
    lse = operand.like(values)
    assert isinstance(lse, torch.Tensor) and lse.dtype == torch.float32


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("library", [np, torch])
def test_float32_is_rounded_to_what_the_caller_says(values, library, dtype):
    array = values if library is np else torch.from_numpy(values)
    operand = Operand.of("v", array, dtype)
    rounded = round_to(values, dtype)
    assert np.array_equal(from_bits16(operand.bits(), dtype), rounded)
    back = operand.result(operand.bits())
    assert back.dtype == array.dtype and np.array_equal(np.asarray(back), rounded)


@pytest.mark.parametrize("kind, dtype", [("e4m3fn", "e4m3"), ("e5m2", "e5m2")])
def test_fp8_of_pytorch_is_taken_and_gives_bf16(values, kind, dtype):
    tensor = torch.from_numpy(values).to(getattr(torch, f"float8_{kind}"))
    operand = Operand.of("q", tensor, None)
    assert operand.dtype == dtype and operand.bits().dtype == np.uint8
    assert np.array_equal(from_bits8(operand.bits(), dtype), tensor.float().numpy())
    back = operand.result(to_bits16(values, "bf16"))
    assert back.dtype == torch.bfloat16
    assert torch.equal(back, torch.from_numpy(values).bfloat16())


@pytest.mark.parametrize("library", [np, torch])
@pytest.mark.parametrize("dtype", ["e4m3", "e5m2"])
def test_float32_is_rounded_to_fp8_and_bit_patterns_are_taken(values, library, dtype):
    rounded, results = round_to(values, dtype), round_to(values, "bf16")
    for array in (values, to_bits8(rounded, dtype)):
        operand = Operand.of("v", array if library is np else torch.from_numpy(array), dtype)
        assert np.array_equal(from_bits8(operand.bits(), dtype), rounded)
        back = operand.result(to_bits16(values, "bf16"))
        wide = back.float().numpy() if library is torch else back
        assert wide.dtype == np.float32 and np.array_equal(wide, results)


def test_fp8_of_ml_dtypes_is_taken_and_gives_bf16(values):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="NumPy's FP8 is in ml_dtypes")
    operand = Operand.of("q", values.astype(ml_dtypes.float8_e4m3fn), None)
    assert operand.dtype == "e4m3"
    assert np.array_equal(operand.bits(), to_bits8(values, "e4m3"))
    assert operand.result(to_bits16(values, "bf16")).dtype == ml_dtypes.bfloat16


def test_a_tensor_that_needs_a_gradient_is_taken(values):
    tensor = torch.from_numpy(values).half().requires_grad_()
    assert np.array_equal(Operand.of("q", tensor, None).bits(), values.astype("f2").view("u2"))


@pytest.mark.parametrize("library", [np, torch])
def test_arrays_need_not_be_contiguous(values, library):
    half = values.astype(np.float16)
    array = half if library is np else torch.from_numpy(half)
    turned = array.swapaxes(0, 1)[:, ::2]
    bits = Operand.of("q", turned, None).bits()
    assert bits.flags.c_contiguous
    assert np.array_equal(bits.view(np.float16), half.swapaxes(0, 1)[:, ::2])


@pytest.mark.parametrize(
    "array, dtype, words",
    [
        ([[1.0]], None, "q is a list; it must be a NumPy array or a PyTorch tensor"),
        (np.zeros(2), None, r"q is float64; the kernel takes bfloat16, .*e5m2\): convert it"),
        (np.zeros(2, np.float32), None, "q is float32; .*: say dtype='bf16', .* 'e5m2' to round"),
        (np.zeros(2, np.uint8), None, "q is uint8; .*: say dtype='e4m3' or 'e5m2' if these are"),
        (np.zeros(2, np.uint8), "bf16", "q is uint8"),
        (torch.zeros(2).to(torch.float8_e5m2), "e4m3", "q is float8_e5m2, but dtype='e4m3' was"),
        (np.zeros(2, np.float32), "fp8", "q is float32"),
        (np.zeros(2, np.float16), "bf16", "q is float16, but dtype='bf16' was asked for"),
        (torch.zeros(2, dtype=torch.int32), None, "q is int32; the kernel takes"),
        (torch.zeros(2, device="meta").half(), None, "q is on the meta device"),
        (torch.zeros(2).half().to_sparse(), None, "q has layout torch.sparse_coo"),
        (np.ma.masked_array(np.zeros(2, np.float16)), None, "q is a masked array"),
    ],
)
def test_refusals_say_what_it_is_and_what_to_do(array, dtype, words):
    with pytest.raises(ValueError, match=words):
        Operand.of("q", array, dtype)


def test_a_negated_view_is_taken(values):
    tensor = torch.from_numpy(values).half()
    bits = Operand.of("q", torch._neg_view(tensor), None).bits()
    assert np.array_equal(bits.view(np.float16), -values.astype(np.float16))


def test_short_lists_of_numbers():
    assert numbers("sink", torch.ones(2, dtype=torch.bfloat16), np.float32, 2).tolist() == [1, 1]
    assert numbers("cu_seqlens_q", [0, 5], np.int32, 2).dtype == np.int32
    with pytest.raises(ValueError, match=r"sink has shape \(3,\); it must be \(2,\)"):
        numbers("sink", np.zeros(3), np.float32, 2)
    with pytest.raises(ValueError, match="cu_seqlens_q is float64; it must hold integers"):
        numbers("cu_seqlens_q", np.array([0.0, 1.0]), np.int32, 2)


@pytest.mark.parametrize(
    "given",
    [["a", "b"], [1j, 0], [None, 1.0], [float("nan"), 0.0], [np.inf, 0], [1e39, 0], [[1], [1, 2]]],
    ids=str,
)
def test_sinks_must_be_real_numbers(given):
    with pytest.raises(ValueError, match="sink"):
        numbers("sink", given, np.float32, 2)
    assert numbers("sink", [-np.inf, 0], np.float32, 2)[0] == -np.inf
    assert numbers("sink", [-1e39, 0], np.float32, 2)[0] == -np.inf


@pytest.mark.parametrize(
    "given",
    [9, [[0, 9]], [], [0, 2**32 + 9], [0, -1], [[0], [1, 2]], torch.zeros(2, dtype=torch.bfloat16)],
    ids=str,
)
def test_starts_of_sequences_must_be_32_bit_integers(given):
    with pytest.raises(ValueError, match="cu_seqlens_q"):
        numbers("cu_seqlens_q", given, np.int32, None)
