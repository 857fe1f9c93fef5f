"""Tensor memory and registers: every thread of a warpgroup moves one row.

A warp reaches only its own quarter of tensor memory, lanes 32 w to 32 w + 31 for warp w of a
warpgroup; lane means row here. Addresses count lanes in their upper half, columns in the lower.
"""

from __future__ import annotations

from typing import Any

import cutlass.cute as cute
from cutlass import Float32
from cutlass.cute.nvgpu import tcgen05


def load(memory: Any, columns: int, row: Any) -> Any:
    """`columns` float32 of one row, from tensor memory into registers; `wait_load` before use."""
    return _move(tcgen05.Ld32x32bOp, memory, columns, row, None)


def store(memory: Any, columns: int, row: Any, values: Any) -> None:
    """`columns` 32-bit words of one row, from registers into tensor memory."""
    _move(tcgen05.St32x32bOp, memory, columns, row, values)


def _move(operation: Any, memory: Any, columns: int, row: Any, values: Any) -> Any:
    """Move `columns` of a row between tensor memory and registers."""
    lane, column = 1 << 16, 1  # how a step in either direction changes an address
    place = cute.make_tensor(memory, cute.make_layout((128, columns), stride=(lane, column)))
    atom = cute.make_copy_atom(operation(tcgen05.Repetition(columns)), Float32)
    part = tcgen05.make_tmem_copy(atom, place).get_slice(row)
    shape = ((columns, 1), 1, 1)  # of a thread's part
    if values is None:
        registers = cute.make_rmem_tensor(shape, Float32)
        cute.copy(atom, part.partition_S(place), registers)
        return cute.coalesce(registers)
    words = cute.make_tensor(values.iterator, cute.make_layout(shape))
    cute.copy(atom, words, part.partition_D(place))
    return None


def wait_load() -> None:
    """Until loads have left tensor memory (tcgen05.wait::ld)."""
    cute.arch.fence_view_async_tmem_load()


def wait_store() -> None:
    """Until stores have arrived in tensor memory (tcgen05.wait::st)."""
    cute.arch.fence_view_async_tmem_store()


def fence_before() -> None:
    """What this thread did with tensor memory comes before what others do after a barrier."""
    cute.arch.inline_ptx("tcgen05.fence::before_thread_sync;")


def fence_after() -> None:
    """What this thread does with tensor memory comes after what others did before a barrier."""
    cute.arch.inline_ptx("tcgen05.fence::after_thread_sync;")
