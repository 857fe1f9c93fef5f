"""From where a TMA copy reads or writes to which tile that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.crosscheck.record import Label
from fa4kernel.emulator import TensorMap
from fa4sim.pipelines.fa4.tiles import packed_rows
from fa4sim.specs import Design, Problem
from fa4sim.specs.limits import TILE_ROWS


@dataclass(frozen=True)
class Tensors:
    """The arrays of an attention call, as bits.

    Attributes:
        q, k, v, o: (batch, seqlen, heads, head_dim), or (tokens, heads, head_dim) where sequences
            are packed behind each other.
        starts_q, starts_k: first token of each packed sequence, None where there is a batch axis.
            Of split keys ``o`` has the sequences of each split, one split after the other.
        ratio: query heads that share the rows of a tile (1 unless packed).
        tile_n: keys of a block.
        page_table: which pages sequences have; k and v then are (pages, page_size, …).
    """

    q: NDArray[Any]
    k: NDArray[Any]
    v: NDArray[Any]
    o: NDArray[Any]
    starts_q: NDArray[Any] | None = None
    starts_k: NDArray[Any] | None = None
    ratio: int = 1
    tile_n: int = 128
    page_table: NDArray[Any] | None = None

    def name(self, tensor_map: TensorMap) -> str | None:
        """Q, K, V or O; None for another array."""
        for name in "qkvo":
            if _address(getattr(self, name)) == _address(tensor_map.array):
                return name.upper()
        return None

    def label(
        self, tensor_map: TensorMap, coordinates: tuple[int, ...], within: int | None = None
    ) -> Label:
        """The tile that a box at these coordinates belongs to, see :mod:`record`.

        ``within`` names the sequence that a row counts from, where boxes run past its end.
        """
        name = self.name(tensor_map)
        assert name is not None
        batch, row, head = self._place(tensor_map, coordinates, name)
        if self.page_table is not None and name in "KV":
            return self._of_page(batch, row, head)
        if name == "O" and self.starts_q is None:
            batch %= len(self.q)
        starts = self.starts_q if name in "QO" else self.starts_k
        if starts is not None:
            batch = _sequence(starts, row) if within is None else within
            row -= int(starts[batch])
        if name in "QO":
            group, inner = divmod(head, self.ratio)
            return batch, group, row * self.ratio + inner
        return batch, head, row // self.tile_n

    def _of_page(self, page: int, row: int, head: int) -> Label:
        """The tile of a row of a page."""
        assert self.page_table is not None
        (batch,), (nth,) = np.nonzero(self.page_table == page)
        return int(batch), head, (int(nth) * self.k.shape[1] + row) // self.tile_n

    def _of_queries(self, at: int) -> Label:
        """The Q tile to which a byte of the array belongs."""
        *whole, rows, heads, _ = self.q.strides
        batch = at // whole[0] if whole else 0
        token, head = (at % whole[0] if whole else at) // rows, at % rows // heads
        if self.starts_q is not None:
            batch = _sequence(self.starts_q, token)
            token -= int(self.starts_q[batch])
        group, inner = divmod(head, self.ratio)
        row = token * self.ratio + inner
        return batch, group, row // TILE_ROWS * TILE_ROWS

    def rows_at(self, memory: NDArray[Any], offsets: NDArray[Any]) -> set[tuple[str, Label]]:
        """Tensors and tiles of the Q rows, or K or V rows in pages, that bytes belong to."""
        if _address(self.q) == _address(memory):
            return {("Q", self._of_queries(at)) for at in np.unique(offsets).tolist()}
        for name in "kv":
            array = getattr(self, name)
            if _address(array) == _address(memory):
                pages, rows, heads, _ = array.strides
                places = {
                    (at // pages, at % pages // rows, at % rows // heads)
                    for at in np.unique(offsets).tolist()
                }
                return {(name.upper(), self._of_page(*place)) for place in places}
        return set()

    def _place(
        self, tensor_map: TensorMap, coordinates: tuple[int, ...], name: str
    ) -> tuple[int, int, int]:
        """Sequence (0 if packed), row and head of a box's first element.

        A dimension of the map is recognised by its stride. One of a single element adds nothing,
        whatever its stride.
        """
        array = getattr(self, name.lower())
        *batch, rows, heads, _ = array.strides
        found = {"batch": 0, "row": 0, "head": 0}
        dims = tensor_map.dims[1:]
        strides = tensor_map.strides
        for extent, stride, at in zip(dims, strides, coordinates[1:], strict=True):
            if at == 0 or (extent == 1 and at < 0):
                continue
            if batch and stride == batch[0] and array.shape[0] > 1:
                found["batch"] += at
            elif stride == rows:
                found["row"] += at
            elif stride % heads == 0:
                found["head"] += at * (stride // heads)
            else:
                raise ValueError(
                    f"a tensor map of {name} has a stride of {stride} bytes, which is none of the "
                    f"array's {array.strides}"
                )
        return found["batch"], found["row"], found["head"]


def rows_left(problem: Problem, design: Design, label: Label, lane: int) -> int:
    """Rows of an O tile that one warp of four stores: those of its 32 that the sequence has."""
    return min(32, max(0, packed_rows(problem, design, label[0]) - label[2] - 32 * lane))


def _address(array: NDArray[Any]) -> int:
    """Where an array's memory begins: the same for a view of all of it."""
    return int(array.__array_interface__["data"][0])


def _sequence(starts: NDArray[Any], row: int) -> int:
    """Which packed sequence a token belongs to: the last that starts at or before it."""
    return max(0, int(np.searchsorted(starts, row, "right")) - 1)
