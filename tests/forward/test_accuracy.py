"""How far off an output may be: no luck of rounding fails, no wrong output passes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

pytest.importorskip("torch", reason="its errors are the measure: pip install 'fa4sim[kernel]'")

from fa4kernel.accuracy import Accuracy, accuracy, limits, truth
from fa4sim.cli.check import Inputs, random_inputs
from fa4sim.numerics import attention_blockwise, round_to
from fa4sim.specs import Problem

ONE_ROW = Problem(seqlen_q=1, seqlen_k=300)
ROWS = Problem(heads=2, seqlen_q=130, seqlen_k=300, head_dim=64)


def computed(problem: Problem, inputs: Inputs, **how) -> tuple[np.ndarray, np.ndarray]:
    """Output and LSE as the kernel orders and rounds them."""
    return attention_blockwise(
        inputs.q, inputs.k, inputs.v, causal=problem.causal, sink=inputs.sink,
        dtype=problem.dtype, **how,
    )  # fmt: skip


def of(problem: Problem, seed: int, out: np.ndarray, lse: np.ndarray) -> Accuracy:
    """The accuracy of an output for random inputs of a seed."""
    return accuracy(problem, partial(random_inputs, problem), seed, out, lse)


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "e4m3", "e5m2"])
@pytest.mark.parametrize("problem", [ONE_ROW, ROWS], ids=["one row", "many rows"])
def test_no_draw_is_off_by_more_than_it_may_be(problem, dtype):
    problem = replace(problem, dtype=dtype)
    for seed in range(20):
        out, lse = computed(problem, random_inputs(problem, seed))
        found = of(problem, seed, out, lse)
        assert found.ok, (seed, found)


def dominated(problem: Problem, seed: int) -> Inputs:
    """Inputs whose rows give one key of the second block visited 17 times all others' weight."""
    inputs = random_inputs(problem, seed)
    k = inputs.k.copy()
    k[:, 64] = inputs.q[:, 0] * 8.2 / np.sqrt(problem.head_dim)
    return replace(inputs, k=round_to(k, problem.dtype))


def test_a_key_that_takes_most_is_rounded_behind_an_old_maximum():
    # PyTorch's P of that key is exactly 1, ours a number between 1 and 2^8.
    beyond = 0
    for seed in range(40):
        draw = partial(dominated, ONE_ROW)
        out, lse = computed(ONE_ROW, draw(seed))
        found, limit = accuracy(ONE_ROW, draw, seed, out, lse), limits(ONE_ROW, draw, seed)
        assert found.ok, (seed, found)
        beyond += found.errors.relative > limit.relative or found.errors.largest > limit.largest
    assert beyond, "the measure alone would do, so the second bound is not needed"


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("problem", [ONE_ROW, ROWS], ids=["one row", "many rows"])
@pytest.mark.parametrize("wrong", ["keys left out", "1 % too large", "one element", "in 8 bits"])
def test_a_wrong_output_is_told(problem, dtype, wrong):
    problem = replace(problem, dtype=dtype)
    for seed in range(5):
        inputs = random_inputs(problem, seed)
        out, lse = computed(problem, inputs)
        if wrong == "keys left out":
            out, _ = computed(problem, replace(inputs, k=inputs.k[:, 9:], v=inputs.v[:, 9:]))
        elif wrong == "1 % too large":
            out = out * np.float32(1.01)
        elif wrong == "one element":
            out.flat[7] += 0.02
        else:
            out = round_to(out, "e4m3")
        found = of(problem, seed, out, lse)
        assert not found.ok, (seed, found)
        assert found.limit is not None
        assert (
            found.errors.relative > found.limit.relative
            or found.errors.largest > found.limit.largest
        )


def test_what_is_reported_says_whether_it_is_ok():
    exact, lse = truth(ROWS, random_inputs(ROWS, 1))
    for scale in (1, 1.001, 1.003, 1.005, 1.01, 1.1):
        found = of(ROWS, 1, exact * scale, lse)
        assert found.limit is not None
        within = found.errors.relative <= found.limit.relative
        assert found.ok == (within and found.errors.largest <= found.limit.largest)
    assert not of(ROWS, 1, exact, lse + 0.01).ok
    assert not of(ROWS, 1, np.full_like(exact, np.nan), lse).ok
