"""Arrays of a case: drawn, rounded to the input format, and laid out for the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fa4kernel.official.problem import Array, Floats, Problem
from fa4sim.numerics import from_bits16, to_bits16
from tests.official.cases import Case

_TORCH_FP8 = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
_UNWRITTEN = 0x7FFF  # a NaN in both 16-bit formats
_PAD = 3  # unused rows in padded sequences and pages beyond the needed ones


@dataclass
class Inputs:
    """Values of a case, padded to the longest sequence, as float32.

    Attributes:
        q: (batch, seqlen_q, heads, head_dim); k, v: (batch, seqlen_k, kv_heads, …).
        sink: (heads,), or None.
        descales: of q, k and v, each (batch, kv_heads), or None.
    """

    q: Floats
    k: Floats
    v: Floats
    sink: Floats | None
    descales: tuple[Floats, Floats, Floats] | None


def encode(x: Floats, dtype: str) -> Array:
    """Bits of ``x`` rounded to ``dtype``."""
    if dtype in _TORCH_FP8:
        return torch.from_numpy(x).to(_TORCH_FP8[dtype]).view(torch.uint8).numpy()
    return to_bits16(x, dtype)


def decode(bits: Array, dtype: str) -> Floats:
    """Values that bits of ``dtype`` stand for."""
    if dtype in _TORCH_FP8:
        return torch.from_numpy(bits).view(_TORCH_FP8[dtype]).to(torch.float32).numpy()
    return from_bits16(bits, dtype)


def out_dtype(dtype: str) -> str:
    """Format of the output for inputs of ``dtype``."""
    return "bf16" if dtype in _TORCH_FP8 else dtype


def draw(case: Case, seed: int | Sequence[int]) -> Inputs:
    """The values of a case; the same seed (a number or several) gives the same values."""
    rng = np.random.default_rng([*np.atleast_1d(seed), *case.name.encode()])
    v = case.variant
    batch = len(case.seqlens_q)
    heads = case.kv_heads * v.ratio

    def normal(*shape: int) -> Floats:
        x = rng.standard_normal(shape, dtype=np.float32)
        return decode(encode(x, v.dtype), v.dtype)

    q = normal(batch, max(case.seqlens_q), heads, v.head_dim)
    k = normal(batch, max(max(case.seqlens_k), 1), case.kv_heads, v.head_dim)
    value = normal(batch, max(max(case.seqlens_k), 1), case.kv_heads, v.head_dim_v)
    if case.rising:
        # Towards the first keys scores gain up to 20: more than the 8 (in log2) that FA4 lets pass.
        position = np.linspace(20, 0, k.shape[1], dtype=np.float32)
        q[..., 0], k[..., 0] = 4, position[:, None] / 4 * v.head_dim**0.5
        q, k = (decode(encode(x, v.dtype), v.dtype) for x in (q, k))
    sink = None
    if v.sink:
        sink = decode(encode(rng.normal(1, 2, heads).astype(np.float32), "bf16"), "bf16")
        sink[0] = -np.inf
    descales = None
    if v.descale:
        drawn = [rng.uniform(0.5, 1.5, (batch, case.kv_heads)).astype(np.float32) for _ in "qkv"]
        descales = (drawn[0], drawn[1], drawn[2])
    return Inputs(q, k, value, sink, descales)


def problem(case: Case, inputs: Inputs, seed: int = 0) -> Problem:
    """The call that a case makes, with outputs full of NaN."""
    v = case.variant
    q, k, value = (encode(x, v.dtype) for x in (inputs.q, inputs.k, inputs.v))
    table = None
    if v.varlen_q:
        q = _join(q, case.seqlens_q)
    elif v.used_q:
        q = _pad(q)
    if v.varlen_k:
        k, value = _join(k, case.seqlens_k), _join(value, case.seqlens_k)
    elif case.page:
        table, k, value = _paginate(k, value, case, seed)
    elif v.used_k:
        k, value = _pad(k), _pad(value)
    heads, rows = q.shape[-2], q.shape[:-2]
    out = np.full((*rows, heads, v.head_dim_v), _UNWRITTEN, np.uint16)
    lse_shape = (heads, *rows) if v.varlen_q else (rows[0], heads, rows[1])
    lse = np.full(lse_shape, np.nan, np.float32)
    call = Problem(
        v,
        q,
        k,
        value,
        out,
        softmax_scale=v.head_dim**-0.5,
        max_seqlen_q=max(case.seqlens_q) if v.varlen_q else q.shape[1],
        max_seqlen_k=max(case.seqlens_k),
        lse=lse if v.lse else None,
        cu_seqlens_q=_cumulative(case.seqlens_q) if v.varlen_q else None,
        cu_seqlens_k=_cumulative(case.seqlens_k) if v.varlen_k else None,
        seqused_q=np.array(case.seqlens_q, np.int32) if v.used_q else None,
        seqused_k=np.array(case.seqlens_k, np.int32) if v.used_k else None,
        page_table=table,
        sink=None if inputs.sink is None else encode(inputs.sink, "bf16"),
        descales=inputs.descales,
        window=case.window,
        splits=case.splits,
        sms=case.sms,
    )
    if call.is_split:
        call.out_partial = np.full((case.splits, *out.shape), np.nan, np.float32)
        call.lse_partial = np.full((case.splits, *lse.shape), np.nan, np.float32)
    return call


def results(case: Case, call: Problem) -> tuple[Floats, Floats | None]:
    """Output and LSE of a call, padded as in :class:`Inputs`; rows beyond a sequence are NaN.

    Returns:
        out: (batch, seqlen_q, heads, head_dim_v).
        lse: (batch, heads, seqlen_q), or None.
    """
    out = decode(call.out, out_dtype(case.variant.dtype))
    lse = call.lse
    if not case.variant.varlen_q:
        longest = max(case.seqlens_q)
        return out[:, :longest], None if lse is None else lse[:, :, :longest]
    ends = np.cumsum(case.seqlens_q)[:-1]
    out = _stack(np.split(out, ends))
    if lse is not None:
        lse = _stack(np.split(lse.T, ends)).swapaxes(1, 2)
    return out, lse


def _join(padded: Array, lengths: Sequence[int]) -> Array:
    """Sequences behind each other, without padding."""
    return np.concatenate([x[:n] for x, n in zip(padded, lengths, strict=True)])


def _stack(sequences: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Sequences in one array, padded with NaN."""
    longest = max(len(x) for x in sequences)
    out = np.full((len(sequences), longest, *sequences[0].shape[1:]), np.nan, np.float32)
    for row, x in zip(out, sequences, strict=True):
        row[: len(x)] = x
    return out


def _pad(x: Array) -> Array:
    """``x`` with some more rows."""
    return np.pad(x, ((0, 0), (0, _PAD), (0, 0), (0, 0)))


def _cumulative(lengths: Sequence[int]) -> NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def _paginate(
    k: Array, value: Array, case: Case, seed: int
) -> tuple[NDArray[np.int32], Array, Array]:
    """Keys and values in pages strewn over a larger pool, and the table that finds them."""
    batch, page = len(k), case.page
    pages = -(-k.shape[1] // page)
    pool = np.random.default_rng(seed).permutation(batch * pages + _PAD).astype(np.int32)
    table = pool[: batch * pages].reshape(batch, pages)
    paged = []
    for x in (k, value):
        filled = np.pad(x, ((0, 0), (0, pages * page - x.shape[1]), (0, 0), (0, 0)))
        out = np.zeros((len(pool), page, *x.shape[2:]), x.dtype)
        out[table] = filled.reshape(batch, pages, page, *x.shape[2:])
        paged.append(out)
    return table, paged[0], paged[1]
