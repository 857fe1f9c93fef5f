"""The combine kernel, run in the emulator, gives what its arithmetic says.

Where that multiplies and then adds, the kernel does both at once, which may change the last bit.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cutlass", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")

from hypothesis import given, settings
from hypothesis import strategies as st

from fa4kernel.code import ptxas
from fa4kernel.combine.compile import compile_ptx
from fa4kernel.combine.config import THREADS, Config
from fa4kernel.combine.launch import launch
from fa4kernel.emulator import Emulation, emulate
from fa4sim.numerics import EPSILON, combine, combine_float64, from_bits16

Floats = np.ndarray


def drawn(
    seed: int, splits: int, shape: tuple[int, int, int], head_dim_v: int, empty: float
) -> tuple[Floats, Floats]:
    """Partial O and LSE of sequences, tokens and heads; a share of the splits is empty."""
    rng = np.random.default_rng(seed)
    sequences, tokens, heads = shape
    o = rng.standard_normal((splits, sequences, tokens, heads, head_dim_v), np.float32)
    lse = rng.normal(0, 5, (splits, sequences, heads, tokens)).astype(np.float32)
    lse[rng.random(lse.shape) < empty] = -np.inf
    o[np.isneginf(lse).swapaxes(2, 3)] = np.nan  # as the forward kernel leaves it: unwritten
    return o, lse


def run(
    cfg: Config, o: Floats, lse: Floats, schedule: str | int = "lockstep"
) -> tuple[Floats, Floats, Emulation]:
    """Output, LSE and what the emulator saw."""
    out, logs = np.full(o.shape[1:], 0x7FFF, np.uint16), np.full(lse.shape[1:], np.nan, np.float32)
    emulation = emulate(compile_ptx(cfg), launch(cfg, o, lse, out, logs), schedule=schedule)
    return from_bits16(out, cfg.dtype), logs, emulation


def check(cfg: Config, o: Floats, lse: Floats, schedule: str | int = "lockstep") -> None:
    """Nearly all bits of the output, LSE within rounding of its logarithm, no hazard."""
    out, logs, emulation = run(cfg, o, lse, schedule)
    expected, expected_logs = combine(o, lse, cfg.dtype)
    assert emulation.hazards == ()
    assert np.allclose(out, expected, rtol=EPSILON[cfg.dtype], atol=2.0**-24)
    assert (out != expected).mean() < 0.01
    assert np.allclose(logs, expected_logs, rtol=1e-6, atol=1e-6)


@given(
    st.integers(0, 9999), st.integers(1, 40), st.integers(1, 3), st.integers(1, 9),
    st.integers(1, 5), st.sampled_from([0, 0.3, 0.9]), st.integers(0, 99) | st.just("lockstep"),
)  # fmt: skip
@settings(max_examples=5)
def test_output_is_that_of_the_arithmetic(seed, splits, sequences, tokens, heads, empty, schedule):
    check(Config(), *drawn(seed, splits, (sequences, tokens, heads), 128, empty), schedule)


@pytest.mark.slow
@pytest.mark.parametrize("cfg", [Config("fp16", 64), Config(head_dim_v=72)], ids=str)
@given(st.integers(0, 9999), st.integers(1, 80) | st.just(256), st.integers(1, 9))
@settings(max_examples=3)
def test_output_of_other_head_dims_is_that_of_the_arithmetic(cfg, seed, splits, tokens):
    check(cfg, *drawn(seed, splits, (1, tokens, 3), cfg.head_dim_v, 0.5), seed)


def test_rows_that_see_nothing_are_zero(seed):
    o, lse = drawn(seed, 5, (2, 3, 2), 128, 0.2)
    lse[:, 1, :, 2], o[:, 1, 2] = -np.inf, np.nan
    out, logs, _ = run(Config(), o, lse)
    assert (out[1, 2] == 0).all() and (logs[1, :, 2] == -np.inf).all()
    exact, exact_logs = combine_float64(o, lse)
    assert np.allclose(out, exact, atol=0.02)
    seen = np.isfinite(exact_logs)
    assert np.allclose(logs[seen], exact_logs[seen], atol=1e-5)


def test_nan_of_a_split_is_handed_on(seed):
    o, lse = drawn(seed, 4, (1, 2, 2), 128, 0.0)
    lse[2, 0, 1, 0] = np.nan
    out, logs, _ = run(Config(), o, lse)
    assert np.isnan(out[0, 0, 1]).all() and np.isnan(logs[0, 1, 0])
    assert np.isfinite(out[0, 0, 0]).all() and np.isfinite(out[0, 1]).all()


def test_sequences_laid_end_to_end_are_one(seed):
    o, lse = drawn(seed, 3, (1, 11, 2), 128, 0.3)
    cfg = Config()
    out, logs = np.zeros(o.shape[2:], np.uint16), np.zeros(lse.shape[2:], np.float32)
    made = launch(cfg, o[:, 0], lse[:, 0], out, logs)
    assert made.grid == (-(-22 // 8), 1, 1) and made.block == (THREADS, 1, 1)
    emulate(compile_ptx(cfg), made)
    expected = combine(o, lse)[0][0]
    assert np.allclose(from_bits16(out, "bf16"), expected, rtol=EPSILON["bf16"])


@pytest.mark.parametrize(
    "fields, words",
    [({"dtype": "e4m3"}, "dtype='e4m3': results are combined to bf16, fp16"),
     ({"head_dim_v": 192}, "head_dim_v=192"), ({"head_dim_v": 12}, "head_dim_v=12")],
)  # fmt: skip
def test_refusals_quote_the_value(fields, words):
    with pytest.raises(ValueError, match=words):
        Config(**fields)


@pytest.mark.skipif(ptxas.find() is None, reason="no ptxas here")
def test_nothing_is_spilled_and_many_ctas_fit():
    assembly = ptxas.assemble(compile_ptx(Config()), ptxas.find())
    assert not assembly.spills and assembly.registers <= 32
    assert 6 * Config().shared_bytes <= 227 * 1024
