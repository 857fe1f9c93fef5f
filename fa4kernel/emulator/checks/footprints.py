"""Which pieces of memory operands and accumulators of MMAs, and tcgen05 loads and stores, touch.

Pieces of shared memory are 4 bytes, those of tensor memory columns of 16 lanes, number
``lane // 16 * 512 + column``; see :mod:`shadow`. Several MMAs that follow each other into one
accumulator are looked at together, since each reads a thin slice of what in all is whole blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from fa4kernel.emulator.checks.clocks import Index
from fa4kernel.emulator.checks.shadow import Blocks, Pieces, Region, Shadow
from fa4kernel.emulator.machine.products import RAW, Operation
from fa4kernel.emulator.machine.warpgroup_mma import RAW as WARPGROUP_RAW
from fa4kernel.emulator.tensor import tmem
from fa4kernel.emulator.tensor.descriptors import SmemDescriptor

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.tmem_access import Transfer

#: Columns of tensor memory, and groups of 16 lanes.
COLUMNS, GROUPS = 512, 8
#: Pieces of a block of shared and of tensor memory.
SHARED_BLOCK, TENSOR_BLOCK = 256, 16


class Footprint:
    """Pieces of one CTA's memory, by whole blocks where they make up such.

    Args:
        pieces: sorted numbers of pieces.
        block: pieces of a block.

    >>> print(Footprint(np.arange(32, 64), 16).blocks)
    [2 3]
    """

    def __init__(self, pieces: Index, block: int) -> None:
        self.own = pieces
        self.blocks: Index | None = None
        firsts = pieces[::block]
        if len(pieces) % block == 0 and not (firsts % block).any():
            whole = (firsts[:, None] + np.arange(block)).reshape(-1)
            if np.array_equal(whole, pieces):
                self.blocks = firsts // block

    def of(self, ctas: Index, shadow: Shadow) -> Region:
        """The same pieces of each of these CTAs."""
        if self.blocks is not None:
            return Blocks(ctas[:, None] * (shadow.size // shadow.block) + self.blocks)
        return Pieces(ctas[:, None] * shadow.size + self.own)


def chunk_pieces(chunks: Sequence[Index]) -> Index:
    """Pieces of shared memory in chunks of 16 bytes."""
    every = np.unique(np.concatenate([c.reshape(-1) for c in chunks]))
    return (4 * every[:, None] + np.arange(4)).reshape(-1)


@lru_cache(maxsize=4096)
def operand(operations: tuple[Operation, ...], second: bool) -> Footprint:
    """What MMAs read of their operands A or (``second``) B in the shared memory of each CTA."""
    shape, group = operations[0].shape, operations[0].group
    if second:
        rows, dtype, major = shape.n // group, shape.b_dtype, shape.b_major
    else:
        rows, dtype, major = shape.m // group, shape.a_dtype, shape.a_major
    size = np.dtype(RAW[dtype]).itemsize
    chunks = [
        SmemDescriptor.decode(o.b if second else o.a).chunks(rows, o.k, size, major)
        for o in operations
    ]
    return Footprint(chunk_pieces(chunks), SHARED_BLOCK)


def wgmma_operand(descriptor: int, rows: int, k: int, dtype: str, major: Any) -> Footprint:
    """What a ``wgmma`` reads of an operand in shared memory."""
    size = np.dtype(WARPGROUP_RAW[dtype]).itemsize
    chunks = SmemDescriptor.decode_wgmma(descriptor).chunks(rows, k, size, major)
    return Footprint(chunk_pieces([chunks]), SHARED_BLOCK)


def _numbers(lane: Any, column: Any) -> Index:
    return (lane // 16 * COLUMNS + column).reshape(-1)  # type: ignore[no-any-return]


def lanes_and_columns(lanes: Index, columns: Index) -> Index:
    """Pieces of tensor memory in all these lanes of all these columns."""
    return np.unique(_numbers(lanes[:, None], columns))


@lru_cache(maxsize=1024)
def accumulator(operation: Operation) -> Footprint:
    """What holds an MMA's accumulator in the tensor memory of each CTA."""
    shape = operation.shape
    places = tmem.accumulator(shape.m, shape.n, operation.group, operation.ws)
    lane, column = operation.d >> 16, operation.d & 0xFFFF
    numbers = _numbers(places.lane + lane, places.column + column)
    return Footprint(np.unique(numbers), TENSOR_BLOCK)


@lru_cache(maxsize=1024)
def packed_a(operations: tuple[Operation, ...]) -> Footprint:
    """What holds the operands A of MMAs in tensor memory."""
    shape, found = operations[0].shape, []
    row_bytes = operations[0].k * np.dtype(RAW[shape.a_dtype]).itemsize
    for each in operations:
        lane, column = each.a >> 16, each.a & 0xFFFF
        for copy in range(tmem.copies_of_a(shape.m, each.group, each.ws)):
            places = tmem.packed_a(shape.m, row_bytes, each.group, each.ws, copy)
            found.append(_numbers(places.lane + lane, places.column + column))
    return Footprint(np.unique(np.concatenate(found)), TENSOR_BLOCK)


class TransferFootprint:
    """What a warp's ``tcgen05.ld`` or ``.st`` touches, relative to its address."""

    def __init__(self, transfer: Transfer) -> None:
        found = _numbers(transfer.places.lane, transfer.places.column)
        if transfer.packed:
            found = np.concatenate((found, found + 1))
        self.relative = Footprint(np.unique(found), TENSOR_BLOCK)

    def of(self, ctas: Index, lane: Index, column: Index, shadow: Shadow) -> Region:
        """The pieces for warps of these CTAs, with these addresses."""
        start = ctas * shadow.size + lane // 16 * COLUMNS + column
        if self.relative.blocks is not None and not (column % TENSOR_BLOCK).any():
            return Blocks((start // TENSOR_BLOCK)[:, None] + self.relative.blocks)
        return Pieces(start[:, None] + self.relative.own)
