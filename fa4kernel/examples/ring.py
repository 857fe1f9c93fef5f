"""`gemm` with a role for each warp, so that loads, MMAs and epilogue of different tiles overlap.

A CTA stays ("persistent") and computes every so many-th tile of C. The load warp runs ahead into
the next tile as far as the ring reaches; and as tensor memory holds two sums, one is carried out
while the other grows. The roles meet only at four rows of barriers:

    load      warp 5       waits till a slot is `empty`, lets TMA make it `full`
    mma       warp 4       waits till a slot is `full`, lets the tensor core make it `empty`;
                           waits till a sum is `carried` out, lets the tensor core make it `summed`
    epilogue  warps 0..3   wait till a sum is `summed`, make it `carried`
"""

from __future__ import annotations

from functools import partial
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Constexpr, Float32, Int32
from cutlass.memory import SmemAllocator

from fa4kernel.compiling import Compiled, compile_module
from fa4kernel.emulator import Launch
from fa4kernel.examples import matrices, tiles
from fa4kernel.examples.barriers import Barriers
from fa4kernel.examples.gemm import K, M, N, boxes, load_block, multiply_block, shared_bytes
from fa4kernel.examples.matrices import Matrix
from fa4kernel.examples.matrices import reference as reference

EPILOGUE_WARPS, MMA_WARP, LOAD_WARP = 4, 4, 5
SUMS = 2  # in tensor memory, N columns each
EPILOGUE_BARRIER = 1  # a named barrier; 0 is for the whole CTA


@cute.kernel
def ring_tiles(a: tiles.Moved, b: tiles.Moved, c: tiles.Moved, stages: Constexpr) -> None:
    """One CTA computes tiles number `cta`, `cta + ctas`, ... of C."""
    thread, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())

    memory = SmemAllocator()
    full = Barriers.place(memory, stages, arrivals=1)
    empty = Barriers.place(memory, stages, arrivals=1)
    summed = Barriers.place(memory, SUMS, arrivals=1)
    carried = Barriers.place(memory, SUMS, arrivals=32 * EPILOGUE_WARPS)  # each thread's row
    address = memory.allocate_array(Int32)
    a_ring, b_ring, c_tile = a.place(memory), b.place(memory), c.place(memory)

    if warp == MMA_WARP:
        with cute.arch.elect_one():
            for barriers in (full, empty, summed, carried):
                barriers.initialise()
        cute.arch.mbarrier_init_fence()
        cute.arch.alloc_tmem(SUMS * N, address)
        cute.arch.relinquish_tmem_alloc_permit()
    cute.arch.barrier()
    sums = cute.arch.retrieve_tmem_ptr(Float32, 16, address)

    # Every role goes through the same tiles and counts its turns on its own.
    blocks = cute.ceil_div(cute.size(a.matrix, mode=[1]), K)
    rows = cute.ceil_div(cute.size(c.matrix, mode=[0]), M)
    count = rows * cute.ceil_div(cute.size(c.matrix, mode=[1]), N)
    cta, _, _ = cute.arch.block_idx()
    ctas, _, _ = cute.arch.grid_dim()
    mine = (count - cta + ctas - 1) // ctas
    if warp == LOAD_WARP:
        for nth in cutlass.range(mine, unroll=1):
            tile = cta + nth * ctas
            place = tile % rows, tile // rows
            loads = boxes(tiles.make_mma(M, N), 0, (a, b), (a_ring, b_ring), place)
            for block in cutlass.range(blocks, unroll=1):
                turn = nth * blocks + block  # the ring runs on from tile to tile
                empty.wait(turn, previous=True)
                load_block(block, full, loads, turn)
    elif warp == MMA_WARP:
        for nth in cutlass.range(mine, unroll=1):
            carried.wait(nth, previous=True)
            tiles.fence_after()
            total = sums + nth % SUMS * N
            for block in cutlass.range(blocks, unroll=1):
                turn = nth * blocks + block
                full.wait(turn)
                multiply_block(tiles.make_mma(M, N), block, total, a_ring, b_ring, turn)
                empty.commit(turn)
            summed.commit(nth)
    else:
        for nth in cutlass.range(mine, unroll=1):
            tile = cta + nth * ctas
            summed.wait(nth)
            tiles.fence_after()
            if warp == 0:
                cute.arch.cp_async_bulk_wait_group(0, read=True)  # the last store has read c_tile
            epilogue_barrier()
            tiles.to_shared(sums + nth % SUMS * N, thread, c_tile)
            carried.arrive(nth)  # the store below is no business of the MMA warp
            cute.arch.fence_proxy("async.shared", space="cta")
            epilogue_barrier()
            if warp == 0:
                c_box = cute.local_tile(c.matrix, (M, N), (tile % rows, tile // rows))
                cute.copy(c.copy, *c.split(c_tile, c_box, 2))
                cute.arch.cp_async_bulk_commit_group()
        if warp == 0:
            cute.arch.cp_async_bulk_wait_group(0, read=True)

    cute.arch.barrier()
    if warp == MMA_WARP:
        tiles.fence_after()
        cute.arch.dealloc_tmem(sums, SUMS * N)


def epilogue_barrier() -> None:
    """The epilogue warps meet; the others go on."""
    cute.arch.barrier(barrier_id=EPILOGUE_BARRIER, number_of_threads=32 * EPILOGUE_WARPS)


@cute.jit
def ring(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, ctas: Int32, stages: Constexpr) -> None:
    """What the host does: as in `gemm`, but the number of CTAs is free."""
    moved = tiles.describe(a, b, c, (M, N, K), stages, tiles.make_mma(M, N), M)
    ring_tiles(*moved, stages).launch(
        grid=(ctas, 1, 1), block=(192, 1, 1), smem=shared_bytes(stages)
    )


def build(stages: int) -> Any:
    """Compile for matrices of any size. Called by `compiling`, in a process of its own."""
    return cute.compile(ring, *(tiles.any_matrix() for _ in "abc"), Int32(1), stages)


def compile_ptx(stages: int = 3) -> Compiled:
    """The kernel's PTX with a ring of `stages` slots, and its `launch`."""
    shared_bytes(stages)  # refuses a ring that does not fit
    return Compiled(compile_module(__name__, stages=stages), partial(launch, stages=stages))


def launch(a: Matrix, b: Matrix, c: Matrix, ctas: int = 2, stages: int = 3) -> Launch:
    """Describe the launch of `ctas` CTAs that compute C (m, n) = A (m, k) B (n, k)ᵀ, all bf16."""
    matrices.check(a, b, c)
    return Launch(
        grid=(ctas, 1, 1),
        block=(192, 1, 1),
        shared_bytes=shared_bytes(stages),
        arguments=matrices.arguments((a, M), (b, N), (c, M)),
    )
