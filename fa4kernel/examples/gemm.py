"""C = A Bᵀ on the tensor core: one CTA of four warps for each 128 × 128 tile of C.

    global ─TMA→ ring of A and B tiles ─MMA→ tensor memory → registers → C tile ─TMA→ global

Warp 0 keeps a ring of slots filled and issues the MMAs. Neither keeps it busy: both go to units
that run by themselves and report to mbarriers: `full` when TMA has written a slot, `empty` when
the tensor core has read it, `done` when the sum is complete. Then the 128 threads carry one row
each of the sum out of tensor memory.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Constexpr, Float32, Int32
from cutlass.cute.nvgpu import tcgen05
from cutlass.memory import SmemAllocator

from fa4kernel.compiling import Compiled, compile_module
from fa4kernel.emulator import Launch
from fa4kernel.examples import matrices, tiles
from fa4kernel.examples.barriers import Barriers
from fa4kernel.examples.matrices import Matrix
from fa4kernel.examples.matrices import reference as reference

M, N, K = 128, 128, 64  # of a tile; 64 bf16 are 128 bytes, the width of the swizzle
SLOT_BYTES = 2 * K * (M + N)


@cute.kernel
def gemm_tile(a: tiles.Moved, b: tiles.Moved, c: tiles.Moved, stages: Constexpr) -> None:
    """One CTA computes one tile of C."""
    row, column, _ = cute.arch.block_idx()
    thread, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())

    memory = SmemAllocator()
    full = Barriers.place(memory, stages, arrivals=1)  # by who asks TMA for the bytes
    empty = Barriers.place(memory, stages, arrivals=1)  # by a commit
    done = Barriers.place(memory, 1, arrivals=1)  # by a commit
    address = memory.allocate_array(Int32)
    a_ring, b_ring, c_tile = a.place(memory), b.place(memory), c.place(memory)

    if warp == 0:
        with cute.arch.elect_one():
            for barriers in (full, empty, done):
                barriers.initialise()
        cute.arch.mbarrier_init_fence()
        cute.arch.alloc_tmem(N, address)  # N columns of 128 lanes (rows), 32 bits each
        cute.arch.relinquish_tmem_alloc_permit()
    cute.arch.barrier()
    total = cute.arch.retrieve_tmem_ptr(Float32, 16, address)

    if warp == 0:
        blocks = cute.ceil_div(cute.size(a.matrix, mode=[1]), K)  # a ragged last: zero-filled
        loads = boxes(tiles.make_mma(M, N), 0, (a, b), (a_ring, b_ring), (row, column))
        # All slots but one are filled ahead. Then each MMA is followed by the load into the slot
        # of the MMA before it: that waits for the older, while the newer keeps the core busy.
        for block in cutlass.range(min(stages - 1, blocks), unroll=1):
            load_block(block, full, loads, turn=block)
        for block in cutlass.range(blocks, unroll=1):
            full.wait(block)
            multiply_block(tiles.make_mma(M, N), block, total, a_ring, b_ring, turn=block)
            empty.commit(block)
            ahead = block + stages - 1
            if ahead < blocks:
                empty.wait(ahead, previous=True)
                load_block(ahead, full, loads, turn=ahead)
        done.commit(0)  # arrives when all MMAs issued above are complete

    done.wait(0)
    tiles.fence_after()
    tiles.to_shared(total, thread, c_tile)
    cute.arch.fence_proxy("async.shared", space="cta")  # the threads' writes, for TMA to read
    cute.arch.barrier()
    if warp == 0:
        tiles.fence_after()
        cute.arch.dealloc_tmem(total, N)  # or the SM's next CTA waits for ever
        c_box = cute.local_tile(c.matrix, (M, N), (row, column))
        cute.copy(c.copy, *c.split(c_tile, c_box, 2))
        cute.arch.cp_async_bulk_commit_group()
        cute.arch.cp_async_bulk_wait_group(0, read=True)


def boxes(mma: Any, rank: Any, operands: Any, rings: Any, tile: Any) -> Any:
    """For A and for B: the copy, the ring it goes to, and the boxes it takes for one tile of C."""
    (a, b), (a_ring, b_ring), (row, column) = operands, rings, tile
    rows, columns, _ = mma.shape_mnk
    part = mma.get_slice(rank)  # what CTA number `rank` of those who share the MMA loads
    a_boxes = part.partition_A(cute.local_tile(a.matrix, (rows, K), (row, None)))
    b_boxes = part.partition_B(cute.local_tile(b.matrix, (columns, K), (column, None)))
    return (a.copy, *a.split(a_ring, a_boxes, 3)), (b.copy, *b.split(b_ring, b_boxes, 3))


def load_block(block: Any, full: Barriers, loads: Any, turn: Any) -> None:
    """Ask TMA to bring a block of A and one of B into the slot whose turn it is."""
    full.expect(turn, SLOT_BYTES)
    for copy, ring, source in loads:
        slot = ring[None, turn % full.count]
        cute.copy(copy, source[None, block], slot, tma_bar_ptr=full.at(turn))


def multiply_block(mma: Any, block: Any, total: Any, a_ring: Any, b_ring: Any, turn: Any) -> None:
    """Issue the MMAs of one slot: four, for each takes 16 of its 64 columns."""
    shape = mma.partition_shape_C(mma.shape_mnk[:2])
    total = cute.make_tensor(total, mma.make_fragment_C(shape).layout)
    a, b = mma.make_fragment_A(a_ring), mma.make_fragment_B(b_ring)  # descriptors, not values
    slot = turn % cute.size(a, mode=[3])
    for k in range(cute.size(a, mode=[2])):
        mma.set(tcgen05.Field.ACCUMULATE, block > 0 if k == 0 else True)  # the first overwrites
        cute.gemm(mma, total, a[None, None, k, slot], b[None, None, k, slot], total)


@cute.jit
def gemm(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, stages: Constexpr) -> None:
    """What the host does: describe the matrices to TMA, start a CTA for each tile of C."""
    grid = cute.ceil_div((*c.shape, 1), (M, N))
    moved = tiles.describe(a, b, c, (M, N, K), stages, tiles.make_mma(M, N), M)
    gemm_tile(*moved, stages).launch(grid=grid, block=(128, 1, 1), smem=shared_bytes(stages))


def shared_bytes(stages: int) -> int:
    """Of a CTA: barriers, rings and the tile of C."""
    return matrices.shared_bytes(stages, SLOT_BYTES, 2 * M * N)


def build(stages: int) -> Any:
    """Compile for matrices of any size. Called by `compiling`, in a process of its own."""
    return cute.compile(gemm, *(tiles.any_matrix() for _ in "abc"), stages)


def compile_ptx(stages: int = 4) -> Compiled:
    """The kernel's PTX with a ring of `stages` slots, and its `launch`."""
    shared_bytes(stages)  # refuses a ring that does not fit
    return Compiled(compile_module(__name__, stages=stages), partial(launch, stages=stages))


def launch(a: Matrix, b: Matrix, c: Matrix, stages: int = 4) -> Launch:
    """Describe the launch that computes C (m, n) = A (m, k) B (n, k)ᵀ, all bf16 as uint16."""
    m, n, _ = matrices.check(a, b, c)
    return Launch(
        grid=(-(-m // M), -(-n // N), 1),
        block=(128, 1, 1),
        shared_bytes=shared_bytes(stages),
        arguments=matrices.arguments((a, M), (b, N), (c, M)),
    )
