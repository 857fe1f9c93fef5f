"""Shadow memory: for each piece of memory the last write and the reads since.

Shared memory is remembered by pieces of 4 bytes, tensor memory by columns of 16 lanes. Copies and
MMAs touch thousands of pieces at a time, so pieces are grouped into blocks, and a block whose
pieces all hold the same is remembered by one number.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.checks.clocks import Index

Ids = NDArray[np.int32]

#: In place of a block's number: its pieces differ.
MIXED = -1


class Layer:
    """Numbers for all pieces of one memory of all CTAs.

    Attributes:
        blocks: shape (ctas, blocks); :data:`MIXED` where ``pieces`` tells.
        pieces: shape (ctas, pieces), valid only where a block is mixed.
        size: pieces of a block.
    """

    def __init__(self, ctas: int, pieces: int, size: int) -> None:
        count = -(-pieces // size)
        self.size = size
        self.blocks: Ids = np.zeros((ctas, count), np.int32)
        self.pieces: Ids = np.zeros((ctas, count * size), np.int32)

    def mix(self, blocks: Any) -> None:
        """Make the pieces of blocks (flat indices) tell."""
        flat = self.blocks.reshape(-1)
        uniform = flat[blocks] != MIXED
        if np.count_nonzero(uniform):
            chosen = blocks[uniform]
            self.pieces.reshape(-1, self.size)[chosen] = flat[chosen][:, None]
            flat[chosen] = MIXED


class Region(Protocol):
    """Pieces of memory that an access of n parties touches, a row of them for each."""

    def get(self, layer: Layer) -> Ids:
        """What is there, shape (n, blocks) if all are uniform, else (n, pieces)."""

    def put(self, layer: Layer, values: Ids) -> None:
        """Write values of the shape that ``get`` just gave, or (n, 1)."""

    def pieces(self, row: int, first: int, last: int, width: int, size: int) -> tuple[int, int]:
        """The first and the last piece of columns of what ``get`` gave, ``width`` columns wide."""


class Blocks:
    """Whole blocks, the same number of them for each party.

    Args:
        index: flat indices, shape (n, blocks).
    """

    def __init__(self, index: Index) -> None:
        self.index = index

    def get(self, layer: Layer) -> Ids:
        """See :class:`Region`."""
        found = layer.blocks.reshape(-1).take(self.index)
        if found.size and found.min() == MIXED:
            layer.mix(self.index.reshape(-1))
            fine = layer.pieces.reshape(-1, layer.size)[self.index]
            return fine.reshape(len(self.index), -1)
        return found

    def put(self, layer: Layer, values: Ids) -> None:
        """See :class:`Region`."""
        if values.shape[1] in (1, self.index.shape[1]):
            layer.blocks.reshape(-1)[self.index] = values
        else:
            pieces = layer.pieces.reshape(-1, layer.size)
            pieces[self.index] = values.reshape(*self.index.shape, layer.size)

    def pieces(self, row: int, first: int, last: int, width: int, size: int) -> tuple[int, int]:
        """See :class:`Region`."""
        per = width // self.index.shape[1]  # columns for each block: 1, or its pieces
        low = int(self.index[row, first // per]) * size
        high = int(self.index[row, last // per]) * size
        if per == 1:
            return low, high + size - 1
        return low + first % per, high + last % per


class Pieces:
    """Any pieces.

    Args:
        index: flat indices, shape (n, pieces of each).
    """

    def __init__(self, index: Index) -> None:
        self.index = index

    def get(self, layer: Layer) -> Ids:
        """See :class:`Region`."""
        layer.mix(self.index.reshape(-1) // layer.size)
        return layer.pieces.reshape(-1).take(self.index)

    def put(self, layer: Layer, values: Ids) -> None:
        """See :class:`Region`."""
        layer.pieces.reshape(-1)[self.index] = values

    def pieces(self, row: int, first: int, last: int, width: int, size: int) -> tuple[int, int]:
        """See :class:`Region`."""
        return int(self.index[row, first]), int(self.index[row, last])


class Shadow:
    """Last writers and readers of one memory of all CTAs: numbers of records.

    Attributes:
        space: "shared" or "tensor".
        size: pieces of a CTA's memory.
        block: pieces of a block.
        writer, reader: what is remembered; more readers hang on the first as parents.
    """

    def __init__(self, space: str, ctas: int, pieces: int, block: int) -> None:
        self.space = space
        self.block = block
        self.size = -(-pieces // block) * block
        self.writer = Layer(ctas, pieces, block)
        self.reader = Layer(ctas, pieces, block)

    def span(self, ctas: Index, start: int, stop: int) -> Region:
        """The pieces ``start`` to ``stop`` (exclusive) of each of these CTAs."""
        if start % self.block == 0 and stop % self.block == 0:
            blocks = np.arange(start // self.block, stop // self.block)
            return Blocks(ctas[:, None] * (self.size // self.block) + blocks)
        return Pieces(ctas[:, None] * self.size + np.arange(start, stop))


def runs(ids: Ids) -> tuple[Index, Ids, Index]:
    """Where rows of ids change: ``(row, id, position)`` of each run of equal ids.

    >>> rows, heads, at = runs(np.array([[5, 5, 7], [7, 7, 7]], np.int32))
    >>> rows.tolist(), heads.tolist(), at.tolist()
    ([0, 0, 1], [5, 7, 7], [0, 2, 3])
    """
    n, width = ids.shape
    if width == 1:
        at = np.arange(n)
        return at, ids[:, 0], at
    changes = ids[:, 1:] != ids[:, :-1]
    if not np.count_nonzero(changes):
        at = np.arange(n)
        return at, ids[:, 0], at * width
    starts = np.ones(ids.shape, np.bool_)
    starts[:, 1:] = changes
    at = np.flatnonzero(starts)
    return at // width, ids.reshape(-1)[at], at
