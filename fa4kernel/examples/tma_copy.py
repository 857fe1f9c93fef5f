"""Copy a matrix tile by tile: TMA load into shared memory, TMA store back out.

The Tensor Memory Accelerator copies whole boxes. A thread only starts it; the copy then runs by
itself (in the "async proxy"), so the one lesson here is how to know that it is done:

    load   an mbarrier is told how many bytes to expect; the TMA unit counts them off
    store  the issuing thread groups its stores and waits for the group

Edges need no care. What a box reads outside the matrix arrives as zeros, and counts as bytes;
what it would write outside is dropped.
"""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
import numpy as np
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.runtime import make_fake_tensor
from cutlass.memory import SmemAllocator
from numpy.typing import NDArray

from fa4kernel.compiling import Compiled, compile_module
from fa4kernel.emulator import Launch, TensorMap

ROWS, COLUMNS = 64, 64  # of a tile
TILE_BYTES = 4 * ROWS * COLUMNS
SHARED_BYTES = 128 + TILE_BYTES  # the mbarrier, then the tile: TMA wants 128-byte alignment


@cute.kernel
def copy_tile(
    load: cute.CopyAtom,
    source: cute.Tensor,
    store: cute.CopyAtom,
    target: cute.Tensor,
    layout: cute.Layout,
) -> None:
    """One CTA of one warp copies one tile."""
    row, column, _ = cute.arch.block_idx()
    memory = SmemAllocator()
    barrier = memory.allocate_array(cutlass.Int64)
    tile = memory.allocate_tensor(cutlass.Float32, layout, 128)

    # `source` and `target` hold no addresses but coordinates, which is what TMA is given.
    source_box = cute.local_tile(source, (ROWS, COLUMNS), (row, column))
    target_box = cute.local_tile(target, (ROWS, COLUMNS), (row, column))
    load_to, load_from = split(load, tile, source_box)
    store_from, store_to = split(store, tile, target_box)

    with cute.arch.elect_one():
        cute.arch.mbarrier_init(barrier, 1)  # one arrival a phase: the one with the byte count
    # The TMA unit is another observer of the barrier than the threads: it needs a fence of its own.
    cute.arch.mbarrier_init_fence()
    cute.arch.sync_warp()

    with cute.arch.elect_one():
        cute.arch.mbarrier_arrive_and_expect_tx(barrier, TILE_BYTES)
    cute.copy(load, load_from, load_to, tma_bar_ptr=barrier)  # the DSL elects a lane by itself

    # The arrival has come, but phase 0 stays open until the bytes have come as well.
    cute.arch.mbarrier_wait(barrier, 0)

    # Load and store are both in the async proxy: no fence between them (`gemm` needs one).
    cute.copy(store, store_from, store_to)
    cute.arch.cp_async_bulk_commit_group()
    # Shared memory dies with the CTA, so stay until the store has read it.
    cute.arch.cp_async_bulk_wait_group(0, read=True)


def split(copy: Any, tile: Any, box: Any) -> Any:
    """Views of a tile in shared memory and its box in global memory, mode 0 being one TMA copy."""
    return cpasync.tma_partition(
        copy, 0, cute.make_layout(1), cute.group_modes(tile, 0, 2), cute.group_modes(box, 0, 2)
    )


@cute.jit
def copy_matrix(source: cute.Tensor, target: cute.Tensor) -> None:
    """What the host does: describe both matrices to the TMA unit, start a CTA for each tile."""
    tiler = (ROWS, COLUMNS)
    layout = cute.make_layout(tiler, stride=(COLUMNS, 1))
    load, loads = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileG2SOp(), source, layout, tiler
    )
    store, stores = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileS2GOp(), target, layout, tiler
    )
    grid = cute.ceil_div((*source.shape, 1), tiler)
    copy_tile(load, loads, store, stores, layout).launch(
        grid=grid, block=(32, 1, 1), smem=SHARED_BYTES
    )


def build() -> Any:
    """Compile for matrices of any size. Called by `compiling`, in a process of its own."""
    rows, columns, pitch = cute.sym_int32(), cute.sym_int32(), cute.sym_int64(divisibility=4)
    matrix = make_fake_tensor(cutlass.Float32, (rows, columns), (pitch, 1), assumed_align=16)
    return cute.compile(copy_matrix, matrix, matrix)


def compile_ptx() -> Compiled:
    """The kernel's PTX and its `launch`."""
    return Compiled(compile_module(__name__), launch)


def launch(source: NDArray[np.float32], target: NDArray[np.float32]) -> Launch:
    """Describe the launch that copies `source` (rows, columns) into `target`, of the same shape.

    Columns are contiguous; the pitch from row to row is a multiple of 16 bytes, as TMA wants it.
    """
    if source.shape != target.shape:
        raise ValueError(f"target has shape {target.shape}, source {source.shape}: make them equal")
    rows, columns = source.shape
    arguments: list[Any] = []
    for matrix in (source, target):
        arguments.append(TensorMap.of(matrix, order=(1, 0), box=(COLUMNS, ROWS)))
        arguments.append(None)  # the shape, which goes with the map, is not read
    return Launch(
        grid=(-(-rows // ROWS), -(-columns // COLUMNS), 1),
        block=(32, 1, 1),
        shared_bytes=SHARED_BYTES,
        arguments=arguments,
    )


def reference(source: NDArray[np.float32]) -> NDArray[np.float32]:
    """What `target` must hold."""
    return source.copy()
