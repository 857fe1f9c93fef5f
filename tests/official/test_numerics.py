"""The official kernel and fa4sim.numerics compute the same bits, but for a few."""

import numpy as np
import pytest

from fa4kernel.emulator import emulate
from fa4kernel.official.compile import compiled
from fa4kernel.official.launches import launches
from fa4kernel.official.problem import Floats
from fa4sim.numerics import attention_blockwise, combine, from_bits16
from tests.official import cases
from tests.official.inputs import draw, problem

#: Share of elements that may differ: the kernel's reciprocal and logarithm are approximate, and its
#: tensor cores sum in another order.
DIFFERENT = 2e-3

#: Period of emulated exponentials (flash_attn/cute/flash_fwd_sm100.py, ``_TUNING_CONFIG``): the
#: pair of CTAs and packed heads without a mask have 10, a causal 8-bit call 8.
PERIODS = {
    "e4m3-pair": 10,
    "e4m3-causal": 8,
    "e5m2-causal": 8,
    "split-e4m3": 10,
    "split-causal": 16,
}


def ours(case: cases.Case, seed: int) -> Floats:
    """What :func:`attention_blockwise` makes of a case."""
    inputs = draw(case, seed)
    by_q, by_k, by_v = inputs.descales or (None, None, None)
    out, _ = attention_blockwise(
        inputs.q, inputs.k, inputs.v, q_descale=by_q, k_descale=by_k, v_descale=by_v,
        dtype=case.variant.dtype, causal=case.variant.causal, pack_gqa=case.variant.packed,
        q_stage=1 if case.variant.rows == "one tile" else 2, num_splits=case.splits,
        emulation_freq=PERIODS[case.name],
    )  # fmt: skip
    return out


@pytest.mark.official
@pytest.mark.sample(2)
@pytest.mark.parametrize("name", PERIODS)
def test_nearly_every_element_has_the_same_bits(name, seed, official):
    case = next(case for case in cases.INFERENCE if case.name == name)
    assert np.mean(official(case, seed).out != ours(case, seed)) < DIFFERENT


@pytest.mark.official
@pytest.mark.sample(2)
@pytest.mark.parametrize(("name", "splits"), [("split", 3), ("split", 32), ("split-d64", 16)])
@pytest.mark.usefixtures("official")
def test_the_combine_kernel_adds_in_our_order(name, splits, seed):
    case = next(case for case in cases.INFERENCE if case.name == name)
    call = problem(case, draw(case, seed), seed)
    rng = np.random.default_rng(seed)
    batch, seqlen_q, heads, _ = call.out.shape
    call.splits = splits
    call.out_partial = rng.standard_normal((splits, *call.out.shape), dtype=np.float32)
    call.lse_partial = 3 * rng.standard_normal((splits, batch, heads, seqlen_q), dtype=np.float32)
    empty = rng.random(call.lse_partial.shape) < 0.3
    empty[:, 0, 0] = True  # no split of this row saw a key
    call.lse_partial[empty] = -np.inf
    call.out_partial[empty.swapaxes(2, 3)] = np.nan
    *_, (kernel, launch) = launches(call, compiled(case.variant))
    assert not emulate(kernel.ptx, launch).hazards
    out, lse = combine(call.out_partial, call.lse_partial)
    assert np.array_equal(from_bits16(call.out, "bf16"), out)
    if call.lse is not None:
        assert np.array_equal(np.isneginf(call.lse), np.isneginf(lse))
        seen = np.isfinite(lse)
        assert np.abs(call.lse[seen] - lse[seen]).max() < 1e-6
