"""The official FlashAttention-4 kernel, as the cross-check sees it."""

from __future__ import annotations

from typing import cast

from fa4kernel.crosscheck.calls import bits, padded
from fa4kernel.crosscheck.inputs import Inputs
from fa4kernel.crosscheck.kernel import Floats, Kernel, Unavailable
from fa4kernel.crosscheck.tensors import Tensors
from fa4kernel.official.compile import compiled, missing
from fa4kernel.official.launches import launches
from fa4kernel.official.problem import Problem as Arguments
from fa4kernel.official.variant import TILE, DType, Pages, Rows, Variant
from fa4sim.numerics import to_bits16
from fa4sim.specs import Design, Machine, Problem


def official(problem: Problem, design: Design, machine: Machine, inputs: Inputs) -> Kernel:
    """The official kernel compiled for a problem, ready to run on ``inputs``.

    Args:
        problem: bf16 or fp16.
        design: says whether a pair of CTAs may be used and whether heads are packed; the rest is
            the kernel's own choice.
        machine: its number of SMs is the size of a persistent grid.
        inputs: values.

    Raises:
        Unavailable: the package is not there.
        ValueError: a problem that this check does not cover.
    """
    if reason := missing():
        raise Unavailable(reason)
    variant = variant_of(problem, design)
    call = bits(problem, inputs, design.num_splits)
    scale = problem.softmax_scale
    arguments = Arguments(
        variant, call.q, call.k, call.v, call.o,
        softmax_scale=problem.head_dim**-0.5 if scale is None else scale,
        max_seqlen_q=problem.seqlen_q, max_seqlen_k=problem.seqlen_k or 0, lse=call.lse,
        cu_seqlens_q=call.starts_q, cu_seqlens_k=call.starts_k, seqused_k=call.keys,
        page_table=call.page_table,
        sink=None if inputs.sink is None else to_bits16(inputs.sink, "bf16"),
        window=problem.window or (None, None), sms=machine.sms, splits=design.num_splits,
        out_partial=call.partial_o, lse_partial=call.partial_lse,
    )  # fmt: skip
    kernel, launch = next(launches(arguments, compiled(variant)))
    packed = problem.group if design.pack_gqa else 1
    tensors = Tensors(
        call.q, call.k, call.v, call.written(), call.starts_q, call.starts_k, packed,
        design.tile_n, call.page_table,
    )  # fmt: skip

    def results() -> tuple[Floats, Floats]:
        return padded(problem, call)

    return Kernel(
        "official kernel", problem, design, kernel.ptx, launch, tensors, results,
        never_made=frozenset({"s0_s1_sequence"}), whole_q=design.q_load == "tma",
    )  # fmt: skip


def variant_of(problem: Problem, design: Design) -> Variant:
    """What is compiled for a problem."""
    assert problem.seqlen_k is not None
    left, right = problem.window or (None, None)
    longest = max(problem.seqlens_q or (problem.seqlen_q,))
    rows = longest * (problem.group if design.pack_gqa else 1)
    number: Rows = "one tile" if rows <= 128 else "two tiles" if rows <= 256 else "many"
    varlen = problem.seqlens_q is not None
    end_to_end = varlen and problem.page_size is None
    return Variant(
        dtype=cast(DType, problem.dtype), head_dim=problem.head_dim, head_dim_v=problem.dim_v,
        ratio=problem.group, pack=design.pack_gqa, rows=number, causal=problem.causal,
        window_left=left is not None, window_right=right is not None, varlen_q=varlen,
        varlen_k=end_to_end, used_k=problem.seqlens_k is not None and not end_to_end,
        pages=_pages(problem), lse=True, sink=problem.sink, softcap=problem.softcap or 0.0,
        long=problem.seqlen_k > 63 * 128, pair=design.cta_group == 2,
        split=design.num_splits > 1, metadata=design.scheduler != "single_tile_varlen",
    )  # fmt: skip


def _pages(problem: Problem) -> Pages | None:
    """How the official kernel tells pages apart."""
    if problem.page_size is None:
        return None
    return "tile" if problem.page_size == TILE else "other"
