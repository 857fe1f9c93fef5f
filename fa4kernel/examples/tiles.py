"""Tiles of bf16 matrices, as the three GEMM examples move them."""

from __future__ import annotations

from typing import Any, NamedTuple

import cutlass.cute as cute
from cutlass import BFloat16, Float32
from cutlass.cute.nvgpu import (
    OperandMajorMode,
    cpasync,
    make_tiled_tma_atom_A,
    make_tiled_tma_atom_B,
    tcgen05,
)
from cutlass.cute.runtime import make_fake_tensor
from cutlass.utils import blackwell_helpers

SINGLE, PAIR = tcgen05.CtaGroup.ONE, tcgen05.CtaGroup.TWO  # CTAs that share an MMA


class Moved(NamedTuple):
    """A matrix that TMA moves: its map, its coordinates, the layout of its tiles in SMEM."""

    copy: cute.CopyAtom
    matrix: cute.Tensor
    layout: cute.ComposedLayout

    def place(self, memory: Any) -> Any:
        """Room in shared memory; the pattern of the swizzle repeats every 1,024 bytes."""
        return memory.allocate_tensor(BFloat16, self.layout.outer, 1024, self.layout.inner)

    def split(self, tile: Any, box: Any, modes: int) -> Any:
        """Views of a tile in SMEM and a box of the matrix; their first mode is what a copy moves.

        Args:
            tile: (modes that make one tile ..., slot of the ring)
            box: (the same modes ..., number of the box)
            modes: how many these are.
        """
        tile, box = cute.group_modes(tile, 0, modes), cute.group_modes(box, 0, modes)
        return cpasync.tma_partition(self.copy, 0, cute.make_layout(1), tile, box)


def make_mma(rows: int, columns: int, group: Any = SINGLE) -> Any:
    """The MMA of bf16 tiles into an f32 sum; A and B lie in shared memory, contiguous along k."""
    along_k = OperandMajorMode.K
    return blackwell_helpers.make_trivial_tiled_mma(
        BFloat16, BFloat16, along_k, along_k, Float32, group, (rows, columns)
    )


def describe(a: Any, b: Any, c: Any, tile: Any, stages: int, mma: Any, c_rows: int) -> Any:
    """On the host: describe A, B and C to TMA, for tiles (m, n, k) and rings of `stages` slots."""
    a_layout = blackwell_helpers.make_smem_layout_a(mma, tile, BFloat16, stages)
    b_layout = blackwell_helpers.make_smem_layout_b(mma, tile, BFloat16, stages)
    # A tile of C consists of slabs of 64 columns, 128 bytes wide and swizzled like A and B. Without
    # the swizzle, eight threads that write the same columns of eight rows would hit the same banks.
    slab = tcgen05.make_smem_layout_atom(tcgen05.SmemLayoutAtomKind.K_SW128, BFloat16)
    c_layout = cute.tile_to_shape(slab, (c_rows, tile[1]), order=(0, 1))
    load = cpasync.CopyBulkTensorTileG2SOp(mma.op.cta_group)
    store = cpasync.CopyBulkTensorTileS2GOp()
    load_a, a = make_tiled_tma_atom_A(load, a, a_layout, tile, mma)
    load_b, b = make_tiled_tma_atom_B(load, b, b_layout, tile, mma)
    store_c, c = cpasync.make_tiled_tma_atom(store, c, c_layout, (c_rows, tile[1]))
    return Moved(load_a, a, a_layout), Moved(load_b, b, b_layout), Moved(store_c, c, c_layout)


def to_shared(total: Any, thread: Any, tile: Any) -> None:
    """Carry one row a thread from tensor memory to shared memory, 32 columns at a time, as bf16.

    For 128 threads of four warps: warp w reaches only its own quarter of tensor memory, lanes 32 w
    to 32 w + 31. Lane means row here.

    Args:
        total: pointer to the sum in tensor memory, f32.
        thread: 0 to 127.
        tile: (128, columns) in shared memory, bf16.
    """
    lane, column = 1 << 16, 1  # how a step in either direction changes an address
    part = cute.make_layout((128, 32), stride=(lane, column))
    atom = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition(32)), Float32)
    for first in range(0, cute.size(tile, mode=[1]), 32):
        source = cute.make_tensor(total + first, part)
        load = tcgen05.make_tmem_copy(atom, source)
        row = cute.make_rmem_tensor(((32, 1), 1, 1), Float32)  # the shape of a thread's part
        cute.copy(load, load.get_slice(thread).partition_S(source), row)
        rounded = cute.make_rmem_tensor(32, BFloat16)
        rounded.store(cute.coalesce(row).load().to(BFloat16))
        cute.autovec_copy(rounded, cute.local_tile(tile, (1, 32), (thread, first // 32))[0, None])
    cute.arch.fence_view_async_tmem_load()  # tcgen05.wait::ld: the loads have left tensor memory
    fence_before()


def fence_before() -> None:
    """What this thread did with tensor memory comes before what others do after a barrier."""
    cute.arch.inline_ptx("tcgen05.fence::before_thread_sync;")


def fence_after() -> None:
    """What this thread does with tensor memory comes after what others did before a barrier."""
    cute.arch.inline_ptx("tcgen05.fence::after_thread_sync;")


def any_matrix() -> Any:
    """A stand-in for a bf16 matrix of any size, by which to compile."""
    rows, columns, pitch = cute.sym_int32(), cute.sym_int32(), cute.sym_int64(divisibility=8)
    return make_fake_tensor(BFloat16, (rows, columns), (pitch, 1), assumed_align=16)
