"""Our own forward kernel, as the cross-check sees it."""

from __future__ import annotations

from fa4kernel.crosscheck.calls import bits, padded
from fa4kernel.crosscheck.inputs import Inputs
from fa4kernel.crosscheck.kernel import Floats, Kernel
from fa4kernel.crosscheck.tensors import Tensors
from fa4kernel.forward.compile import compile_ptx
from fa4kernel.forward.config import Config
from fa4kernel.forward.launch import Arrays, launch
from fa4kernel.kernels import sides
from fa4sim.specs import Design, Machine, Problem

#: Barriers of the official kernel's pipelines that nobody uses; ours has none of them.
NEVER_MADE = frozenset(
    {"P_full_lastsplit_empty", "O_empty", "softmax_stats_full", "s0_s1_sequence"}
)
LEFT_OUT = {
    ("load", "arrive", "load_Q_full"): "it waits for Q as the official one does, and arms no phase",
}


def ours(problem: Problem, design: Design, machine: Machine, inputs: Inputs) -> Kernel:
    """Our kernel compiled for a problem in the way of a design, ready to run on ``inputs``.

    Args:
        problem: bf16 or fp16.
        design: as much of it as the kernel has is the kernel's too.
        machine: its number of SMs is the size of a persistent grid.
        inputs: values.

    Raises:
        fa4kernel.compiling.CompilationError: the compiler failed, or is not there.
        ValueError: the kernel has no such form, or the problem is not covered.
    """
    cfg = Config.of(problem, design)
    call = bits(problem, inputs, design.num_splits)
    arrays = Arrays(
        call.q, call.k, call.v, call.o, call.lse, inputs.sink, call.starts_q, call.starts_k,
        seqused_k=call.keys, page_table=call.page_table, partial_o=call.partial_o,
        partial_lse=call.partial_lse,
    )  # fmt: skip
    scale = problem.softmax_scale
    made = launch(
        cfg, arrays, softmax_scale=problem.head_dim**-0.5 if scale is None else scale,
        window=sides(problem), sms=machine.sms,
    )  # fmt: skip
    tensors = Tensors(
        call.q, call.k, call.v, call.written(), call.starts_q, call.starts_k, cfg.ratio,
        design.tile_n, call.page_table,
    )  # fmt: skip

    def results() -> tuple[Floats, Floats]:
        return padded(problem, call)

    ptx = compile_ptx(cfg, problem.head_dim, problem.dim_v)
    return Kernel(
        "our kernel", problem, design, ptx, made, tensors, results, never_made=NEVER_MADE,
        left_out=LEFT_OUT, empty_block=0,
    )  # fmt: skip
