"""The arrays of one attention call, as kernels take them: bits, sequences packed if they vary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.crosscheck.inputs import Inputs
from fa4kernel.crosscheck.paging import given
from fa4sim.numerics import combine, from_bits16, to_bits8, to_bits16
from fa4sim.specs import FP8, Design, Problem

Bits = NDArray[np.unsignedinteger[Any]]
Floats = NDArray[np.float32]

#: What the output holds before the kernel writes it: a NaN in both 16-bit formats.
UNWRITTEN = 0x7FFF


@dataclass(frozen=True)
class Call:
    """Arrays of one call.

    ``q``, ``o`` are (batch, seqlen_q, heads, head_dim) and ``lse`` (batch, heads, seqlen_q); with
    varied lengths (tokens, heads, head_dim) and (heads, tokens), and ``starts_q`` the first token
    of each sequence and the end (int32). ``k``, ``v``, ``starts_k`` likewise; or in pages, with a
    ``page_table`` and the ``keys`` of each sequence. Split keys have ``partial_o`` and
    ``partial_lse``, as ``o`` and ``lse`` for each split.
    """

    q: Bits
    k: Bits
    v: Bits
    o: Bits
    lse: Floats
    starts_q: NDArray[np.int32] | None = None
    starts_k: NDArray[np.int32] | None = None
    keys: NDArray[np.int32] | None = None
    page_table: NDArray[np.int32] | None = None
    partial_o: Floats | None = None
    partial_lse: Floats | None = None

    def written(self) -> NDArray[Any]:
        """What the attention kernel writes, as bits: O, or that of every split in a row."""
        if self.partial_o is None:
            return self.o
        return self.partial_o.view(np.uint32).reshape(-1, *self.o.shape[-3:])


def check(problem: Problem, design: Design) -> None:
    """Refuse what the cross-check does not cover. Raises ``ValueError``."""
    if design.is_dynamic:
        other = "single_tile_varlen" if design.scheduler == "dynamic_varlen" else "single_tile"
        raise ValueError(
            f"scheduler={design.scheduler!r} is not cross-checked: which CTA gets a tile depends "
            f"on the time, which the emulator does not have; use --set scheduler={other}"
        )
    if 0 in (*(problem.seqlens_q or (1,)), *(problem.seqlens_k or (1,)), problem.seqlen_k):
        raise ValueError("the cross-check needs at least one query and one key in each sequence")


def bits(problem: Problem, inputs: Inputs, splits: int = 1) -> Call:
    """The arrays of a call, its outputs full of NaN."""
    keys, values, table = given(problem, inputs)
    encode = to_bits8 if problem.dtype in FP8 else to_bits16
    q, k, v = (encode(x, problem.dtype) for x in (inputs.q, keys, values))
    starts_q = starts_k = used = None
    if problem.seqlens_q is not None:
        q, starts_q = _packed(q, problem.seqlens_q)
    if starts_q is not None and table is None:
        assert problem.seqlens_k is not None
        k, starts_k = _packed(k, problem.seqlens_k)
        v, _ = _packed(v, problem.seqlens_k)
    elif problem.seqlens_k is not None:
        used = np.array(problem.seqlens_k, np.int32)
    rows, heads = q.shape[:-2], problem.heads
    shape = (heads, *rows) if starts_q is not None else (rows[0], heads, rows[1])
    out = np.full((*rows, heads, problem.dim_v), UNWRITTEN, np.uint16)
    partial_o = partial_lse = None
    if splits > 1:
        partial_o = np.full((splits, *out.shape), np.nan, np.float32)
        partial_lse = np.full((splits, *shape), np.nan, np.float32)
    lse = np.full(shape, np.nan, np.float32)
    return Call(q, k, v, out, lse, starts_q, starts_k, used, table, partial_o, partial_lse)


def out_dtype(problem: Problem) -> str:
    """The type of O: FP8 gives bf16."""
    return "bf16" if problem.dtype in FP8 else problem.dtype


def padded(problem: Problem, call: Call) -> tuple[Floats, Floats]:
    """Output and LSE as the simulator has them: padded to the longest, with zeros and -inf."""
    out, lse = _whole(problem, call)
    if problem.seqlens_q is None:
        return out, lse
    whole = np.zeros((problem.batch, problem.seqlen_q, *out.shape[1:]), np.float32)
    logs = np.full((problem.batch, problem.heads, problem.seqlen_q), -np.inf, np.float32)
    start = 0
    for number, length in enumerate(problem.seqlens_q):
        whole[number, :length] = out[start : start + length]
        logs[number, :, :length] = lse[:, start : start + length]
        start += length
    return whole, logs


def _whole(problem: Problem, call: Call) -> tuple[Floats, Floats]:
    """Output and LSE in the shapes of the call's, of splits when they are combined."""
    dtype = out_dtype(problem)
    if call.partial_o is None or call.partial_lse is None:
        return from_bits16(call.o, dtype), call.lse
    if problem.seqlens_q is None:
        return combine(call.partial_o, call.partial_lse, dtype)
    out, lse = combine(call.partial_o[:, None], call.partial_lse[:, None], dtype)
    return out[0], lse[0]  # tokens of all sequences are those of one


def _packed(array: Bits, lengths: Sequence[int]) -> tuple[Any, NDArray[np.int32]]:
    """Sequences behind each other without padding, and where each begins and the last ends."""
    joined = np.concatenate([x[:n] for x, n in zip(array, lengths, strict=True)])
    return joined, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
