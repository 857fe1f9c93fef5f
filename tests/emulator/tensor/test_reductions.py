"""Reductions of bulk copies, element by element."""

import numpy as np
import pytest

from fa4kernel.emulator.tensor import formats
from fa4kernel.emulator.tensor.reductions import reduced


@pytest.mark.parametrize("dtype", ["u32", "s32", "u64", "s64"])
def test_integers_wrap_and_compare_by_their_sign(dtype):
    kind = np.dtype(dtype.replace("u", "uint").replace("s", "int"))
    old, new = np.array([-1, 5, 3]).astype(kind), np.array([1, 3, 6]).astype(kind)
    assert (reduced(old, new, dtype, "add") == np.array([0, 8, 9]).astype(kind)).all()
    assert (reduced(old, new, dtype, "min") == np.minimum(old, new)).all()
    assert (reduced(old, new, dtype, "max") == np.maximum(old, new)).all()
    assert (reduced(old, new, dtype, "xor") == old ^ new).all()
    assert (reduced(old, new, dtype, "and") == old & new).all()
    assert (reduced(old, new, dtype, "or") == old | new).all()


def test_increment_and_decrement_wrap_at_the_operand():
    old, new = np.uint32([0, 6, 7, 8]), np.uint32([7, 7, 7, 7])
    assert reduced(old, new, "u32", "inc").tolist() == [1, 7, 0, 0]
    assert reduced(old, new, "u32", "dec").tolist() == [7, 5, 6, 7]


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_sums_of_halves_are_rounded_once(dtype):
    rng = np.random.default_rng(0)
    old, new = rng.integers(0, 0x7800, (2, 1000)).astype(np.uint16)
    exact = sum(formats.decode(x, dtype).astype(np.float64) for x in (old, new))
    typed = [x.view(np.float16) if dtype == "f16" else x for x in (old, new)]
    total = np.ascontiguousarray(reduced(*typed, dtype, "add")).view(np.uint16)
    assert (total == formats.encode(exact, dtype)).all()


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_minimum_and_maximum_prefer_a_number_to_a_nan(dtype):
    values = np.array([np.nan, 1.0])
    if dtype == "bf16":
        old, new = formats.encode(values, "bf16"), formats.encode(values[::-1].copy(), "bf16")
    else:
        old = values.astype(dtype.replace("f", "float"))
        new = old[::-1].copy()
    for operation in ("min", "max"):
        result = reduced(old, new, dtype, operation)
        result = formats.decode(result, "bf16") if dtype == "bf16" else result
        assert result.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("dtype", "operation"), [("f32", "xor"), ("u8", "add"), ("s32", "inc"), ("tf32", "add")]
)
def test_other_combinations_are_refused(dtype, operation):
    zeros = np.zeros(1, {"f32": "f4", "u8": "u1", "s32": "i4", "tf32": "u4"}[dtype])
    with pytest.raises(ValueError, match=f"'{dtype}' has no reduction '{operation}'"):
        reduced(zeros, zeros, dtype, operation)
