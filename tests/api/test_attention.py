"""`fa4kernel.attention`: NumPy or PyTorch in, the same out, right, and clear about where it ran."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as functional

pytest.importorskip("cutlass", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")

import fa4kernel
from fa4kernel import api, gpu
from fa4kernel.device import GpuError
from fa4sim.numerics import attention_float64

#: Of the first test's kernel, so that all tests here share one.
SHAPE = (1, 100, 1, 64)


@pytest.fixture
def drawn(rng):
    """float32 q, k, v of one head."""
    return [rng.standard_normal(SHAPE).astype(np.float32) for _ in "qkv"]


@pytest.fixture
def no_gpu(monkeypatch):
    """A computer without a CUDA driver."""

    def gpu_of_this_machine():
        raise OSError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(gpu, "gpu", gpu_of_this_machine)


def near(out, lse, arrays, atol=8e-3):
    """Whether output and LSE are those of causal attention."""
    exact, exact_lse = attention_float64(*(np.asarray(x, np.float64) for x in arrays), causal=True)
    return np.allclose(out, exact, atol=atol) and np.allclose(lse, exact_lse, atol=1e-3)


def test_tensors_of_pytorch_give_tensors(drawn):
    q, k, v = (torch.from_numpy(x).bfloat16() for x in drawn)
    out, lse = fa4kernel.attention(q, k, v, causal=True, return_lse=True, backend="emulator")
    assert out.dtype == torch.bfloat16 and lse.dtype == torch.float32
    assert lse.shape == (1, 1, 100)
    assert near(out.float().numpy(), lse.numpy(), [x.float().numpy() for x in (q, k, v)], 2e-2)
    turned = (x.transpose(1, 2) for x in (q, k, v))
    theirs = functional.scaled_dot_product_attention(*turned, is_causal=True).transpose(1, 2)
    assert torch.allclose(out.float(), theirs.float(), atol=3e-2)


def test_float32_is_rounded_and_comes_back_as_float32(drawn):
    q, k, v = drawn
    first = fa4kernel.attention(q, k, v, causal=True, dtype="bf16", backend="emulator")
    assert first.dtype == np.float32 and first.shape == SHAPE
    tensors = [torch.from_numpy(x) for x in drawn]
    second = fa4kernel.attention(*tensors, causal=True, dtype="bf16", backend="emulator")
    assert second.dtype == torch.float32 and np.array_equal(second.numpy(), first)


def test_arrays_need_not_be_contiguous(drawn):
    q, k, v = drawn
    turned = [np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)[:, ::1] for x in (q, k, v)]
    strided = [np.repeat(x, 2, axis=1)[:, ::2] for x in turned]
    how = {"causal": True, "dtype": "bf16", "backend": "emulator"}
    assert np.array_equal(fa4kernel.attention(*strided, **how), fa4kernel.attention(q, k, v, **how))


@pytest.mark.slow
def test_numpy_in_fp16(drawn):
    q, k, v = (x.astype(np.float16) for x in drawn)
    out, lse = fa4kernel.attention(q, k, v, causal=True, return_lse=True, backend="emulator")
    assert out.dtype == np.float16 and near(out, lse, (q, k, v), 2e-3)


@pytest.mark.slow
def test_splits_are_combined_to_the_same(drawn):
    q, k, v = (torch.from_numpy(x).bfloat16() for x in drawn)
    k, v = (torch.cat([x, x.flip(1), x], dim=1) for x in (k, v))
    how = {"return_lse": True, "backend": "emulator"}
    out, lse = fa4kernel.attention(q, k, v, num_splits=3, **how)
    exact, exact_lse = attention_float64(*(x.float().numpy() for x in (q, k, v)))
    assert out.dtype == torch.bfloat16
    assert np.allclose(out.float().numpy(), exact, atol=1e-2)
    assert np.allclose(lse.numpy(), exact_lse, atol=1e-4)


@pytest.mark.slow
def test_nan_in_one_split_is_not_lost(drawn):
    q, k, v = drawn
    k = k.copy()
    k[0, 10, 0, 0] = np.nan
    keys = [np.concatenate([x, x, x], axis=1) for x in (k, v)]
    keys[0][0, 100:] = drawn[1][0, :1]  # NaN in the first of three splits only
    result = fa4kernel.run(q, *keys, dtype="bf16", num_splits=3, backend="emulator")
    assert result.design.num_splits == 3 and result.combination is not None
    assert np.isnan(result.out).all() and np.isnan(result.lse).all()
    assert result.emulation.hazards == ()


@pytest.mark.slow
def test_fp8_with_factors_in_pytorch(drawn):
    q, k, v = (torch.from_numpy(x).to(torch.float8_e4m3fn) for x in drawn)
    factors = {
        f"{x}_descale": torch.full((1, 1), y) for x, y in zip("qkv", (2.0, 0.5, 4.0), strict=True)
    }
    out = fa4kernel.attention(q, k, v, causal=True, backend="emulator", **factors)
    assert out.dtype == torch.bfloat16
    arrays = [x.float().numpy() for x in (q, k, v)]
    exact, _ = attention_float64(*arrays, causal=True)
    assert np.allclose(out.float().numpy(), 4 * exact, atol=0.8, rtol=0.07)


def test_splitting_no_keys_takes_no_kernel():
    q, k = np.zeros((1, 5, 2, 64), np.float16), np.zeros((1, 0, 2, 64), np.float16)
    result = fa4kernel.run(q, k, k, num_splits=4, backend="emulator", sink=[1.0, 2.0])
    assert not result.out.any() and (result.lse[0, 1] == 2).all()


@pytest.mark.slow
def test_sequences_laid_end_to_end(rng):
    q, k, v = (rng.standard_normal((50, 2, 64)).astype(np.float16) for _ in "qkv")
    out, lse = fa4kernel.attention(
        q, k, v, causal=True, cu_seqlens_q=[0, 20, 20, 50], return_lse=True, backend="emulator"
    )
    assert out.shape == (50, 2, 64) and lse.shape == (2, 50)
    for start, end in ((0, 20), (20, 50)):
        parts = [x[None, start:end] for x in (q, k, v)]
        assert near(out[None, start:end], lse[None, :, start:end], parts, 2e-3)


def test_no_keys_take_no_kernel():
    q, k = np.zeros((1, 5, 2, 64), np.float16), np.zeros((1, 0, 2, 64), np.float16)
    result = fa4kernel.run(q, k, k, backend="emulator")
    assert result.out.shape == q.shape and not result.out.any()
    assert result.lse.shape == (1, 2, 5) and (result.lse == -np.inf).all()
    assert result.emulation is None


def test_empty_sequences_only_take_no_kernel():
    q, k = np.zeros((0, 2, 64), np.float16), np.zeros((7, 2, 64), np.float16)
    result = fa4kernel.run(
        q, k, k, backend="emulator", cu_seqlens_q=[0, 0, 0], cu_seqlens_k=[0, 3, 7]
    )
    assert result.out.shape == (0, 2, 64) and result.lse.shape == (2, 0)


@pytest.mark.parametrize(
    "shape, words", [((0, 5, 2, 64), "batch=0"), ((1, 0, 2, 64), "seqlen_q=0")]
)
def test_no_queries_are_refused(shape, words):
    q = np.zeros(shape, np.float16)
    with pytest.raises(ValueError, match=words):
        fa4kernel.run(q, q, q, backend="emulator")


def test_a_result_tells_what_was_run(drawn):
    result = fa4kernel.run(
        *drawn, causal=True, dtype="bf16", backend="emulator", schedule=3, checks="default"
    )
    assert result.backend == "emulator" and result.wall_s > 0
    assert result.problem.causal and result.design.q_stages == 1
    assert result.emulation.hazards == () and result.emulation.instructions > 1000


def test_auto_says_where_it_ran(drawn, no_gpu, capsys):
    fa4kernel.attention(*drawn, causal=True, dtype="bf16")
    assert capsys.readouterr().err == "fa4kernel: attention ran on the emulator\n"


def test_a_gpu_that_is_not_there_is_refused(drawn, no_gpu):
    with pytest.raises(ValueError, match="backend='gpu', but there is no CUDA driver; use"):
        fa4kernel.attention(*drawn, dtype="bf16", backend="gpu")


def test_what_is_missing_for_a_gpu_is_named(monkeypatch):
    def pretend(capability=None, error=None):
        def gpu_of_this_machine():
            if error is not None:
                raise error
            return SimpleNamespace(capability=capability)

        monkeypatch.setattr(gpu, "gpu", gpu_of_this_machine)

    pretend((8, 0))
    assert gpu.missing() == "the GPU has compute capability 8.0, not 9.0, 10.0, 10.3"
    pretend(error=GpuError("cuInit: CUDA_ERROR_NO_DEVICE"))
    assert gpu.missing() == "the CUDA driver finds no GPU (cuInit: CUDA_ERROR_NO_DEVICE)"
    pretend((10, 0))
    assert gpu.missing() is None and gpu.architecture() == "sm_100a"
    monkeypatch.setattr(gpu, "find_spec", lambda name: None)
    assert gpu.missing() == "cutlass is not installed: pip install 'fa4sim[kernel]'"
    assert gpu.missing(compiler=False) is None


def test_an_unknown_backend_is_refused(drawn):
    with pytest.raises(ValueError, match="backend='tpu': it must be one of auto, gpu, emulator"):
        fa4kernel.attention(*drawn, dtype="bf16", backend="tpu")


def test_unknown_options_and_fields_are_refused(drawn):
    with pytest.raises(ValueError, match="a design has no field 'stages'"):
        fa4kernel.attention(*drawn, dtype="bf16", backend="emulator", design={"stages": 3})
    for design in ([1], "q_stages", {1: 2}):
        with pytest.raises(ValueError, match=r"design=.* must be fields by name"):
            fa4kernel.attention(*drawn, dtype="bf16", backend="emulator", design=design)
    with pytest.raises(ValueError, match="checks='some'"):
        fa4kernel.attention(*drawn, causal=True, dtype="bf16", backend="emulator", checks="some")


@pytest.mark.parametrize("scale", [1e-50, 1e300])
def test_a_scale_that_float32_does_not_hold_is_refused(drawn, scale):
    with pytest.raises(ValueError, match=r"softmax_scale=.*: the kernel computes in float32"):
        fa4kernel.attention(*drawn, dtype="bf16", backend="emulator", softmax_scale=scale)


def test_hazards_are_warned_of(drawn, monkeypatch):
    emulate = api.emulate

    def broken(ptx, launch, **options):
        """The kernel without any wait for stores into tensor memory."""
        lines = ptx.split("\n")
        kept = [line for line in lines if "tcgen05.wait::st" not in line]
        assert len(kept) < len(lines)
        return emulate("\n".join(kept), launch, **options)

    monkeypatch.setattr(api, "emulate", broken)
    with pytest.warns(RuntimeWarning, match="the emulator reports hazards:\n"):
        fa4kernel.attention(*drawn, causal=True, dtype="bf16", backend="emulator")


def test_an_argument_that_there_is_not_is_named(drawn):
    with pytest.raises(TypeError, match=r"attention\(\) has no argument 'softcap'; beside its own"):
        fa4kernel.attention(*drawn, dtype="bf16", softcap=3.0)
