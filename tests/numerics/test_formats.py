from __future__ import annotations

import numpy as np
import pytest
import torch

from fa4sim.numerics import (
    EPSILON,
    LARGEST,
    from_bits16,
    is_representable,
    round_to,
    to_bits16,
)

TORCH = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def every_upper_half() -> np.ndarray:
    """All 65536 upper halves of a float32, each with lower halves around the rounding tie."""
    upper = np.arange(2**16, dtype=np.uint32)[:, None] << 16
    lower = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], dtype=np.uint32)
    return (upper | lower).ravel().view(np.float32)


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_rounding_agrees_with_pytorch_for_every_exponent_and_tie(dtype: str) -> None:
    x = every_upper_half()
    ours = round_to(x, dtype)
    theirs = torch.from_numpy(x).to(TORCH[dtype]).float().numpy()
    number = ~np.isnan(x)
    assert np.array_equal(ours[number].view(np.uint32), theirs[number].view(np.uint32))
    assert np.isnan(ours[~number]).all()


def test_fp16_ties_of_its_own_go_to_even_including_subnormals_and_overflow() -> None:
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    ties = ((halves[:-1] + halves[1:]) / 2).astype(np.float32)
    assert np.array_equal(to_bits16(ties, "fp16") % 2, np.zeros(len(ties)))
    edge = np.float32([65519.996, 65520, -65520])
    assert round_to(edge, "fp16").tolist() == [65504, np.inf, -np.inf]


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_bits_and_values_go_round_trip(dtype: str) -> None:
    bits = np.arange(2**16, dtype=np.uint16)
    values = from_bits16(bits, dtype)
    number = ~np.isnan(values)
    assert np.array_equal(to_bits16(values, dtype)[number], bits[number])
    assert is_representable(values, dtype)


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_nan_becomes_the_canonical_nan(dtype: str) -> None:
    patterns = np.array([0x7F800001, 0xFFC00000, 0x7FFFFFFF], dtype=np.uint32)
    assert to_bits16(patterns.view(np.float32), dtype).tolist() == [0x7FFF] * 3


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_epsilon_and_largest_are_those_of_pytorch(dtype: str) -> None:
    assert EPSILON[dtype] == torch.finfo(TORCH[dtype]).eps
    assert LARGEST[dtype] == torch.finfo(TORCH[dtype]).max
    assert is_representable(np.float32([1 + EPSILON[dtype], LARGEST[dtype]]), dtype)


def test_rounding_keeps_shape_and_ignores_memory_layout() -> None:
    x = np.random.default_rng(0).standard_normal((6, 4, 2)).astype(np.float32)
    rounded = round_to(x, "bf16")
    assert np.array_equal(round_to(x.transpose(2, 0, 1), "bf16"), rounded.transpose(2, 0, 1))
    assert np.array_equal(round_to(x[::2, ::-1], "bf16"), rounded[::2, ::-1])
    assert round_to(np.array(0.1, dtype=np.float32), "bf16").shape == ()
    assert round_to(np.zeros((0, 3), dtype=np.float32), "bf16").shape == (0, 3)


def test_rounding_to_fp32_returns_a_copy() -> None:
    x = np.ones(3, dtype=np.float32)
    assert round_to(x, "fp32") is not x


def test_other_element_types_and_formats_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"float64.*x\.astype\(np\.float32\)"):
        round_to(np.zeros(1), "bf16")
    with pytest.raises(ValueError, match="'bfloat16' is not known"):
        round_to(np.zeros(1, dtype=np.float32), "bfloat16")
    with pytest.raises(ValueError, match="not a 16-bit format"):
        to_bits16(np.zeros(1, dtype=np.float32), "fp32")
    with pytest.raises(ValueError, match="int64, but uint16"):
        from_bits16(np.zeros(1, dtype=np.int64), "bf16")
