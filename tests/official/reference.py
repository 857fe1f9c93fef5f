"""What the official kernel's output is held against, and how far off it may be.

The truth is float64 attention. The limit is the error of another implementation on the same
inputs: PyTorch's flash attention on the CPU, which computes in the input format as the kernel does.
PyTorch has none for 8-bit inputs; there the limit is float64 attention with the probabilities
rounded to 8 bits. The largest error of one element is a matter of luck: of one draw in a hundred,
FA4's is more than twice PyTorch's. So PyTorch's is taken over a few draws.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as functional
from numpy.typing import NDArray
from torch.nn.attention import SDPBackend, sdpa_kernel

from fa4kernel.official.problem import Floats
from fa4sim.numerics import attention_float64, mask_matrix
from tests.official.cases import Case
from tests.official.inputs import Inputs, decode, draw, encode

RELATIVE = 1.2
"""Largest relative error, in multiples of the other implementation's."""
LARGEST = 2.0
"""Largest error of one element, in multiples of the other implementation's."""
LSE = 1e-3
"""Largest error of LSE, absolute."""

_MORE_DRAWS = 3

_P_SCALE = 256.0  # FA4 spreads 8-bit probabilities over (0, 256]


@dataclass(frozen=True)
class Errors:
    """Distance from the truth: Frobenius norm of the difference over that of the truth, largest."""

    relative: float
    largest: float

    @classmethod
    def of(cls, out: NDArray[np.floating], truth: NDArray[np.floating]) -> Errors:
        """Errors of ``out``, where ``truth`` is no NaN."""
        known = ~np.isnan(truth)
        difference = out[known].astype(np.float64) - truth[known]
        scale = np.linalg.norm(truth[known])
        return cls(float(np.linalg.norm(difference) / scale), float(np.abs(difference).max()))


@dataclass(frozen=True)
class Reference:
    """Truth and limits of a case; rows beyond a sequence are NaN."""

    out: NDArray[np.float64]
    lse: NDArray[np.float64]
    other: Errors


def reference(case: Case, seed: int) -> Reference:
    """Truth and limits of a case whose values are drawn with ``seed``."""
    inputs = draw(case, seed)
    out, lse = _float64(case, inputs, case.variant.softcap)
    other = _other(case, inputs)
    more = [_other(case, draw(case, [seed, n])) for n in range(1, 1 + _MORE_DRAWS)]
    largest = max(errors.largest for errors in (other, *more))
    return Reference(out, lse, Errors(other.relative, largest))


def _float64(
    case: Case, inputs: Inputs, softcap: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Output and LSE in float64; rows beyond a sequence are NaN."""
    out, lse = attention_float64(
        *_scaled(inputs),
        causal=case.variant.causal,
        window=case.window,
        softmax_scale=case.variant.head_dim**-0.5,
        softcap=softcap,
        sink=inputs.sink,
        seqlens_q=case.seqlens_q,
        seqlens_k=case.seqlens_k,
    )
    rows = np.arange(out.shape[1]) >= np.array(case.seqlens_q)[:, None]  # (batch, seqlen_q)
    out[rows] = np.nan
    lse.swapaxes(1, 2)[rows] = np.nan
    return out, lse


def _other(case: Case, inputs: Inputs) -> Errors:
    """Errors of the other implementation, which has no softcap."""
    made = _sdpa if case.variant.dtype in ("bf16", "fp16") else _eight_bits
    return Errors.of(made(case, inputs), _float64(case, inputs, softcap=0)[0])


def _scaled(inputs: Inputs) -> tuple[NDArray[np.float64], ...]:
    """Inputs times their descales."""
    if inputs.descales is None:
        return inputs.q, inputs.k, inputs.v
    ratio = inputs.q.shape[2] // inputs.k.shape[2]
    by_q, by_k, by_v = (x.astype(np.float64)[:, None, :, None] for x in inputs.descales)
    return inputs.q * by_q.repeat(ratio, axis=2), inputs.k * by_k, inputs.v * by_v


def _sequences(case: Case, inputs: Inputs):
    """For each sequence: its index, arrays (heads, rows, …) with heads repeated, and its mask."""
    v = case.variant
    for n, (rows, keys) in enumerate(zip(case.seqlens_q, case.seqlens_k, strict=True)):
        q = inputs.q[n, :rows].swapaxes(0, 1)
        k, value = (
            x[n, :keys].swapaxes(0, 1).repeat(v.ratio, axis=0) for x in (inputs.k, inputs.v)
        )
        yield n, q, k, value, mask_matrix(rows, keys, v.causal, case.window)


def _sdpa(case: Case, inputs: Inputs) -> NDArray[np.float64]:
    """PyTorch's flash attention on the CPU, in the input format."""
    v = case.variant
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[v.dtype]
    out = np.zeros((*inputs.q.shape[:3], v.head_dim_v))
    for n, q, k, value, mask in _sequences(case, inputs):
        if 0 in mask.shape:
            continue
        bias = np.where(mask, 0, -np.inf)[None].repeat(len(q), axis=0)
        if inputs.sink is not None:  # one more key, of value 0
            column = np.broadcast_to(inputs.sink[:, None, None], (*bias.shape[:2], 1))
            bias = np.concatenate([bias, column], axis=2)
            k, value = (np.pad(x, ((0, 0), (0, 1), (0, 0))) for x in (k, value))
        value = np.pad(value, ((0, 0), (0, 0), (0, v.head_dim - v.head_dim_v)))
        tensors = [torch.from_numpy(np.ascontiguousarray(x))[None].to(dtype) for x in (q, k, value)]
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            made = functional.scaled_dot_product_attention(
                *tensors, attn_mask=torch.from_numpy(bias.astype(np.float32))[None]
            )
        rows = made[0, :, :, : v.head_dim_v].to(torch.float64).numpy().swapaxes(0, 1)
        out[n, : len(rows)] = np.nan_to_num(rows)  # rows without keys
    return out


def _eight_bits(case: Case, inputs: Inputs) -> Floats:
    """Attention in float64 but for the rounding of the probabilities and of the output."""
    v = case.variant
    q, k, value = _scaled(inputs)
    scaled = Inputs(q, k, value, None, None)
    out = np.zeros((*q.shape[:3], v.head_dim_v), np.float32)
    for n, q_n, k_n, v_n, mask in _sequences(case, scaled):
        if 0 in mask.shape:
            continue
        scores = q_n @ k_n.swapaxes(1, 2) * v.head_dim**-0.5
        scores = np.where(mask, scores, -np.inf)
        top = scores.max(axis=2, keepdims=True)
        p = np.exp(scores - np.where(np.isinf(top), 0, top)) * _P_SCALE
        rounded = decode(encode(p.astype(np.float32), v.dtype), v.dtype)
        total = p.sum(axis=2, keepdims=True)
        out[n, : q_n.shape[1]] = (rounded @ v_n / np.where(total, total, 1)).swapaxes(0, 1)
    return decode(encode(out, "bf16"), "bf16")
