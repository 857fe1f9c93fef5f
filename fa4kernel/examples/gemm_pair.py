"""`gemm` by pairs of CTAs: two SMs work on one 256 × 256 tile of C.

Each SM computes 128 rows of the tile, from its own 128 rows of A and all 256 rows of B, of which it
loads one half and is lent the other. So in the shared memory of two CTAs of `gemm`, a pair does
twice their work.

    CTA 0, the leader   loads rows   0..127 of A and of B, computes rows   0..127 of C
    CTA 1, its peer     loads rows 128..255 of A and of B, computes rows 128..255 of C

The leader issues the MMAs for both. So its `full` counts the bytes that come into both CTAs; its
commits arrive in both, at `empty`, where each CTA waits to reuse a slot of its own, and at `done`.
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
from fa4kernel.examples.gemm import boxes, multiply_block
from fa4kernel.examples.matrices import Matrix
from fa4kernel.examples.matrices import reference as reference

M, N, K = 256, 256, 64  # of a pair's tile
ROWS = M // 2  # of A and C for each CTA
MMA = M, N, tiles.PAIR
PAIR_BYTES = 2 * K * (M + N)  # of a slot, both CTAs taken together


@cute.kernel
def gemm_pair_tile(a: tiles.Moved, b: tiles.Moved, c: tiles.Moved, stages: Constexpr) -> None:
    """Two CTAs compute one tile of C."""
    cta, column, _ = cute.arch.block_idx()
    rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
    thread, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())

    memory = SmemAllocator()  # the same places in both CTAs: one descriptor serves for both
    full = Barriers.place(memory, stages, arrivals=1)  # the leader's alone is used
    empty = Barriers.place(memory, stages, arrivals=1)
    done = Barriers.place(memory, 1, arrivals=1)
    address = memory.allocate_array(Int32)
    a_ring, b_ring, c_tile = a.place(memory), b.place(memory), c.place(memory)

    if warp == 0:
        with cute.arch.elect_one():
            for barriers in (full, empty, done):
                barriers.initialise()
        cute.arch.mbarrier_init_fence()
        cute.arch.alloc_tmem(N, address, is_two_cta=True)  # in both, at the same address
        cute.arch.relinquish_tmem_alloc_permit(is_two_cta=True)
    cluster_barrier()  # before it, nobody may touch a peer's barriers or tensor memory
    total = cute.arch.retrieve_tmem_ptr(Float32, 16, address)

    if warp == 0:
        blocks = cute.ceil_div(cute.size(a.matrix, mode=[1]), K)
        loads = boxes(tiles.make_mma(*MMA), rank, (a, b), (a_ring, b_ring), (cta // 2, column))
        for block in cutlass.range(min(stages - 1, blocks), unroll=1):
            load_half(block, rank, full, loads)
        for block in cutlass.range(blocks, unroll=1):
            if rank == 0:
                full.wait(block)
                multiply_block(tiles.make_mma(*MMA), block, total, a_ring, b_ring, turn=block)
                empty.commit(block, pair=True)
            ahead = block + stages - 1
            if ahead < blocks:
                empty.wait(ahead, previous=True)
                load_half(ahead, rank, full, loads)
        if rank == 0:
            done.commit(0, pair=True)

    done.wait(0)
    tiles.fence_after()
    tiles.to_shared(total, thread, c_tile)
    cute.arch.fence_proxy("async.shared", space="cta")
    cluster_barrier()  # the pair's tensor memory goes back together, when both have emptied it
    if warp == 0:
        tiles.fence_after()
        cute.arch.dealloc_tmem(total, N, is_two_cta=True)
        c_box = cute.local_tile(c.matrix, (ROWS, N), (cta, column))
        cute.copy(c.copy, *c.split(c_tile, c_box, 2))
        cute.arch.cp_async_bulk_commit_group()
        cute.arch.cp_async_bulk_wait_group(0, read=True)


def cluster_barrier() -> None:
    """All threads of both CTAs meet."""
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()


@cute.jit
def load_half(block: Any, rank: Any, full: Barriers, loads: Any) -> None:
    """Ask TMA for this CTA's halves of a block, their bytes to be counted by the leader's barrier.

    The peer's may come before the leader expects them: the count is negative then, but the phase
    can't end on that, for want of the leader's arrival.
    """
    if rank == 0:
        full.expect(block, PAIR_BYTES)
    for copy, ring, source in loads:
        slot = ring[None, block % full.count]
        cute.copy(copy, source[None, block], slot, tma_bar_ptr=full.at(block))


@cute.jit
def gemm_pair(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, stages: Constexpr) -> None:
    """What the host does: as in `gemm`, with clusters of two CTAs along the rows."""
    m, n, _ = cute.ceil_div((*c.shape, 1), (M, N))
    moved = tiles.describe(a, b, c, (M, N, K), stages, tiles.make_mma(*MMA), ROWS)
    gemm_pair_tile(*moved, stages).launch(
        grid=(2 * m, n, 1), block=(128, 1, 1), cluster=(2, 1, 1), smem=shared_bytes(stages)
    )


def shared_bytes(stages: int) -> int:
    """Of a CTA: barriers, rings and its half of the tile of C."""
    return matrices.shared_bytes(stages, PAIR_BYTES // 2, 2 * ROWS * N)


def build(stages: int) -> Any:
    """Compile for matrices of any size. Called by `compiling`, in a process of its own."""
    return cute.compile(gemm_pair, *(tiles.any_matrix() for _ in "abc"), stages)


def compile_ptx(stages: int = 4) -> Compiled:
    """The kernel's PTX with a ring of `stages` slots, and its `launch`."""
    shared_bytes(stages)  # refuses what does not fit
    return Compiled(compile_module(__name__, stages=stages), partial(launch, stages=stages))


def launch(a: Matrix, b: Matrix, c: Matrix, stages: int = 4) -> Launch:
    """Describe the launch that computes C (m, n) = A (m, k) B (n, k)ᵀ, all bf16 as uint16."""
    m, n, _ = matrices.check(a, b, c)
    return Launch(
        grid=(2 * -(-m // M), -(-n // N), 1),
        block=(128, 1, 1),
        cluster=(2, 1, 1),
        shared_bytes=shared_bytes(stages),
        arguments=matrices.arguments((a, ROWS), (b, N // 2), (c, ROWS)),
    )
