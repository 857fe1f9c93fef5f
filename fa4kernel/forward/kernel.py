"""The kernel: shared memory, barriers, and a role for each of 16 warps.

    softmax0    warps 0..3     S0 -> P0, one row a thread
    softmax1    warps 4..7     S1 -> P1 (idle if there is only one Q tile)
    correction  warps 8..11    rescale and finish O
    mma         warp 12        both products, on the tensor core
    epilogue    warp 13        O -> global memory
    load        warp 14        Q, K, V -> shared memory
                warp 15        idle

Where threads copy rows instead of TMA, more warps load (`Config.load_warps`).

The roles meet only at the barriers of `barriers.table`. Registers are dealt out anew: softmax
threads keep a row of 128 scores in registers and get more than the others.
"""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import AddressSpace, Constexpr, Float32, Int32
from cutlass.cute.runtime import make_fake_stream, make_ptr
from cutlass.memory import SmemAllocator

from fa4kernel.forward import correction, epilogue, load, mma, softmax
from fa4kernel.forward.arguments import Arguments, Pages, Sizes, describe
from fa4kernel.forward.barriers import Barriers
from fa4kernel.forward.config import (
    CORRECTION_WARPS,
    EPILOGUE_WARP,
    MMA_WARP,
    WARP,
    WARPS,
    Config,
)
from fa4kernel.forward.memory import SharedMemory, element_type, output_type

USES = ("fa4sim.numerics",)  # packages whose code or numbers become part of the kernel


@cute.kernel
def forward_kernel(a: Arguments, cfg: Constexpr) -> None:
    """One CTA: softmax(Q Kᵀ · scale) V and the row sums' logarithms, for its work tiles."""
    thread, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    rank = Int32(0)
    if cutlass.const_expr(cfg.pair):
        rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())

    allocator = SmemAllocator()
    barriers = Barriers.place(allocator, cfg)
    memory = SharedMemory.place(allocator, cfg)
    if warp == 0:
        with cute.arch.elect_one():
            for row in barriers.rows():
                row.initialise()
        cute.arch.mbarrier_init_fence()
    if cutlass.const_expr(cfg.pair):
        cute.arch.cluster_arrive_relaxed()  # the fence above has made the barriers known
        cute.arch.cluster_wait()
    else:
        cute.arch.barrier()

    if warp < 4 * cfg.q_stages:
        cute.arch.setmaxregister_increase(cfg.registers_softmax)
        softmax.run(cfg, a, memory, barriers, rank, warp, thread)
    elif warp >= CORRECTION_WARPS.start and warp < CORRECTION_WARPS.stop:
        cute.arch.setmaxregister_decrease(cfg.registers_correction)
        correction.run(cfg, a, memory, barriers, rank, warp, thread)
    else:
        cute.arch.setmaxregister_decrease(cfg.registers_other)
        if warp >= cfg.load_warps.start and warp < cfg.load_warps.stop:
            load.run(cfg, a, memory, barriers, rank, warp, thread)
        elif warp == MMA_WARP:
            mma.run(cfg, a, memory, barriers, rank)
        elif warp == EPILOGUE_WARP:
            if cutlass.const_expr(cfg.epilogue == "tma"):
                epilogue.run(cfg, a, memory, barriers, rank)


@cute.jit
def forward(
    q: cute.Pointer,
    k: cute.Pointer,
    v: cute.Pointer,
    o: cute.Pointer,
    lse: Any,
    sink: Any,
    descales: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    sizes: Sizes,
    total_q: Int32,
    total_k: Int32,
    pieces_k: Int32,
    scale_log2: Float32,
    seqused_k: Any,
    pages: Any,
    grid: tuple[Int32, Int32, Int32],
    stream: Any,
    columns: Constexpr,
    columns_v: Constexpr,
    cfg: Constexpr,
) -> None:
    """What the host does: describe the tensors to TMA, start the CTAs.

    Args:
        q, k, v, o: arrays (batch, tokens, heads, columns), contiguous; of variable length, one
            sequence of all tokens; K and V in pages, (pages, tokens, heads, columns). Of partial
            results O has those of all splits, one after the other.
        lse, sink, cu_seqlens_q, cu_seqlens_k: pointers, or `None`: see `Arguments`.
        descales: three pointers, of Q, K and V, or three times `None`.
        sizes: numbers of the problem.
        total_q, total_k: tokens of a sequence or page of the arrays.
        pieces_k: sequences or pages of K and V.
        scale_log2: of the scores, times log2(e).
        seqused_k, pages: see `Arguments`, or `None`.
        grid: CTAs to start, in x a multiple of the pair; y counts splits of the keys.
        stream: on which to start them.
        columns, columns_v: columns that the arrays have; the kernel works with
            `cfg.head_dim`, the next multiple of 16.
        cfg: the `Config`.
    """
    heads = sizes.heads * cfg.ratio
    kv_heads = heads // cfg.group
    batch_q = Int32(1) if cutlass.const_expr(cfg.varlen_q) else sizes.batch
    moved = describe(
        cfg,
        (q, cfg.ratio, total_q, heads, columns, batch_q),
        (k, 1, total_k, kv_heads, columns, pieces_k),
        (v, 1, total_k, kv_heads, columns_v, pieces_k),
        (o, cfg.ratio, total_q, heads, columns_v, batch_q * grid[1]),
    )
    by_tma = cutlass.const_expr(cfg.epilogue == "tma")
    arguments = Arguments(
        moved[0], moved[1], moved[2], moved[3] if by_tma else None,
        None if by_tma else moved[3],
        lse, sink, cu_seqlens_q, cu_seqlens_k, sizes, total_q, scale_log2, seqused_k, pages,
        None, None, *descales,
    )  # fmt: skip
    forward_kernel(arguments, cfg).launch(
        grid=grid,
        block=(WARP * WARPS, 1, 1),
        cluster=(cfg.cta_group, 1, 1),
        smem=cfg.shared_bytes,
        min_blocks_per_mp=1,
        stream=stream,
    )


def build(columns: int, columns_v: int, **config: Any) -> Any:
    """Compile for problems of any size. Called by `fa4kernel.compiling`, in its own process."""
    return compile_for(Config(**config), columns, columns_v)


def compile_for(cfg: Config, columns: int, columns_v: int) -> Any:
    """Compile for arrays with so many columns; the result takes `forward`'s other arguments."""

    def pointer(dtype: Any, wanted: bool = True) -> Any:
        return make_ptr(dtype, 16, AddressSpace.gmem, assumed_align=16) if wanted else None

    one = Int32(1)
    return cute.compile(
        forward,
        *(pointer(element_type(cfg)) for _ in "qkv"),
        pointer(output_type(cfg)),
        pointer(Float32, cfg.lse),
        pointer(Float32, cfg.sink),
        tuple(pointer(Float32, cfg.descale) for _ in "qkv"),
        pointer(Int32, cfg.varlen_q),
        pointer(Int32, cfg.varlen_k),
        Sizes(*(one for _ in Sizes._fields)),
        one,
        one,
        one,
        Float32(1.0),
        pointer(Int32, cfg.seqused_k),
        Pages(pointer(Int32), one, one) if cfg.paged else None,
        (one, one, one),
        make_fake_stream(),
        columns,
        columns_v,
        cfg,
    )
