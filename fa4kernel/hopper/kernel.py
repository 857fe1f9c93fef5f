"""The Hopper kernel: a producer warp and two or three consumer warpgroups.

load        warp 0         Q, K, V -> shared memory (its warpgroup gives its registers away)
consumer0   warps 4..7     64 rows of Q each: both products, softmax, O -> global memory
consumer1   warps 8..11
consumer2   warps 12..15
"""

from __future__ import annotations

from typing import Any

import cutlass.cute as cute
from cutlass import AddressSpace, Constexpr, Float32, Int32
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.runtime import make_fake_stream, make_ptr
from cutlass.memory import SmemAllocator

from fa4kernel.forward.arguments import Arguments, Moved, Sizes, tile_layout, view
from fa4kernel.forward.memory import element_type
from fa4kernel.hopper import consumer, load
from fa4kernel.hopper.barriers import Barriers
from fa4kernel.hopper.config import ROWS, WARPGROUP, Config
from fa4kernel.hopper.memory import SharedMemory

USES = ("fa4kernel.forward",)  # packages whose code becomes part of the kernel


@cute.kernel
def hopper_kernel(a: Arguments, cfg: Constexpr) -> None:
    """One CTA: softmax(Q Kᵀ · scale) V and the row sums' logarithms, for its work tiles."""
    thread, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    allocator = SmemAllocator()
    barriers = Barriers.place(allocator, cfg)
    memory = SharedMemory.place(allocator, cfg)
    if warp == 0:
        with cute.arch.elect_one():
            for row in barriers.rows():
                row.initialise()
        cute.arch.mbarrier_init_fence()
    cute.arch.barrier()

    if warp < 4:
        cute.arch.setmaxregister_decrease(cfg.registers[1])
        if warp == 0:
            load.run(cfg, a, memory, barriers)
    else:
        cute.arch.setmaxregister_increase(cfg.registers[0])
        consumer.run(cfg, a, memory, barriers, warp // 4 - 1, thread % WARPGROUP)


def describe(cfg: Config, q: Any, k: Any, v: Any, o: Any) -> list[Moved]:
    """On the host: describe the tensors, seen as rows × columns × heads × sequences, to TMA."""
    load_op, store_op = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
    moved = []
    for operation, tensor, rows, columns in (
        (load_op, q, ROWS, cfg.head_dim),
        (load_op, k, cfg.tile_n, cfg.head_dim),
        (load_op, v, cfg.tile_n, cfg.head_dim_v),
        (store_op, o, ROWS, cfg.head_dim_v),
    ):
        layout = tile_layout(tensor.element_type, rows, columns)
        copy, coordinates = cpasync.make_tiled_tma_atom(operation, tensor, layout, (rows, columns))
        moved.append(Moved(copy, coordinates, layout))
    return moved


@cute.jit
def forward(
    q: cute.Pointer,
    k: cute.Pointer,
    v: cute.Pointer,
    o: cute.Pointer,
    lse: Any,
    stamps: Any,
    stamp_turns: Any,
    sizes: Sizes,
    total_q: Int32,
    total_k: Int32,
    scale_log2: Float32,
    ctas: Int32,
    stream: Any,
    columns: Constexpr,
    columns_v: Constexpr,
    cfg: Constexpr,
) -> None:
    """What the host does: describe the tensors to TMA, start the CTAs.

    Args: see `fa4kernel.forward.kernel.forward`.
    """
    kv_heads = sizes.heads // cfg.group
    moved = describe(
        cfg,
        view(q, 1, total_q, sizes.heads, columns, sizes.batch),
        view(k, 1, total_k, kv_heads, columns, sizes.batch),
        view(v, 1, total_k, kv_heads, columns_v, sizes.batch),
        view(o, 1, total_q, sizes.heads, columns_v, sizes.batch),
    )
    arguments = Arguments(
        *(moved[0], moved[1], moved[2], moved[3]), None, lse, None, None, None, sizes, total_q,
        scale_log2, stamps=stamps, stamp_turns=stamp_turns,
    )  # fmt: skip
    hopper_kernel(arguments, cfg).launch(
        grid=(ctas, 1, 1),
        block=(cfg.threads, 1, 1),
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
        *(pointer(element_type(cfg)) for _ in "qkvo"),
        pointer(Float32, cfg.lse),
        pointer(Int32, cfg.trace),
        one if cfg.trace else None,
        Sizes(*(one for _ in Sizes._fields)),
        one,
        one,
        Float32(1.0),
        one,
        make_fake_stream(),
        columns,
        columns_v,
        cfg,
    )
