"""Boxes of global memory as NumPy views, many at a time.

A box may stick out of its tensor on any side; what of it exists is a smaller box (`Part`). Boxes of
which the same part exists, in most cases all of it, are moved together: `windows` is a view of all
the boxes of one size that memory could hold, one per start byte, so that reading many of them is
one fancy index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from fa4kernel.emulator.tensor.tensor_map import TensorMap


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What exists of some boxes, the same of each.

    Args:
        first: first element that exists, per dimension, counted in the box.
        counts: how many elements from there on, per dimension; none is 0.
        members: which boxes, shape (n,).
        starts: byte of each one's first element in the map's memory, shape (n,).
    """

    first: tuple[int, ...]
    counts: tuple[int, ...]
    members: NDArray[np.intp]
    starts: NDArray[np.int64]

    def of_memory(self, tensor_map: TensorMap) -> NDArray[Any]:
        """Return every place in memory that the part could have, to be indexed by ``starts``.

        Returns:
            A view, shape (start bytes, slowest, ..., dimension 1); an item is a run of bytes along
            dimension 0.

        Raises:
            IndexError: one of the boxes touches what the caller's array doesn't have.
        """
        every = windows(tensor_map, self.counts)
        outside = self.starts.view(np.uint64) >= len(every)
        if outside.any():
            start = int(self.starts[outside.argmax()])
            end = start + _extent(tensor_map, self.counts)
            raise IndexError(
                f"a box touches bytes {start} to {end} of an array of "
                f"{tensor_map.memory.size} bytes"
            )
        return every

    def of_boxes(self, tensor_map: TensorMap, boxes: NDArray[np.uint8]) -> NDArray[Any]:
        """Return the part of dense boxes, shape (boxes, box bytes), as a view like `of_memory`."""
        size = tensor_map.element_size
        shape = (*tensor_map.counts[:0:-1], tensor_map.counts[0] * size)
        inside = [slice(a, a + n) for a, n in zip(self.first, self.counts, strict=True)]
        run = slice(inside[0].start * size, inside[0].stop * size)
        part = boxes.reshape(len(boxes), *shape)[(slice(None), *inside[:0:-1], run)]
        return part.view(_item(self.counts[0] * size))[..., 0]


def parts_of(tensor_map: TensorMap, places: NDArray[np.int64]) -> list[Part]:
    """Sort boxes by what of them lies inside the tensor; those of which nothing does are left out.

    Args:
        tensor_map: the tensor.
        places: coordinates of each box's first element, dimension 0 first, shape (n, rank).

    >>> m = TensorMap(np.zeros((4, 8), np.float32), (8, 4), box=(4, 2))
    >>> [p] = parts_of(m, np.array([[6, -1], [8, 0]]))
    >>> p.first, p.counts, p.members, p.starts
    ((0, 1), (2, 1), array([0]), array([24]))
    """
    g = _geometry(tensor_map)
    rank = tensor_map.rank
    if ((places >= 0) & (places <= g.last)).all():
        starts = places @ g.pitches + tensor_map.origin
        whole = Part((0,) * rank, tensor_map.counts, np.arange(len(places)), starts)
        return [whole] if len(places) else []
    first = np.maximum(0, -(places // g.steps))  # the first i with place + i * step >= 0
    after = np.minimum(g.counts, -((places - g.dims) // g.steps))
    # Addresses have 64 bits and wrap round, as do these sums; there are maps that rely on it.
    starts = (places + first * g.steps) @ g.pitches + tensor_map.origin
    groups: dict[tuple[int, ...], list[int]] = {}
    for i, key in enumerate(np.concatenate([first, after - first], axis=1).tolist()):
        if min(key[rank:]) > 0:
            groups.setdefault(tuple(key), []).append(i)
    return [
        Part(key[:rank], key[rank:], np.array(members), starts[members])
        for key, members in groups.items()
    ]


class _Geometry:
    """What follows from a map, as arrays of shape (rank,), and the windows made so far."""

    def __init__(self, m: TensorMap) -> None:
        self.steps = np.array((1, *m.element_strides[1:]))
        self.pitches = np.array((m.element_size, *m.strides))
        self.counts = np.array(m.counts)
        self.dims = np.array(m.dims)
        self.last = self.dims - (self.counts - 1) * self.steps - 1
        self.windows: dict[tuple[int, ...], NDArray[Any]] = {}


_KNOWN: WeakKeyDictionary[TensorMap, _Geometry] = WeakKeyDictionary()
"""Geometry of the maps that are alive."""


def _geometry(tensor_map: TensorMap) -> _Geometry:
    """Return what follows from a map."""
    known = _KNOWN.get(tensor_map)
    if known is None:
        known = _KNOWN[tensor_map] = _Geometry(tensor_map)
    return known


def windows(tensor_map: TensorMap, counts: tuple[int, ...]) -> NDArray[Any]:
    """Return every box of some size that a tensor map's memory could hold, as `Part.of_memory`.

    Args:
        tensor_map: the tensor.
        counts: elements of the box in each dimension.

    >>> windows(TensorMap(np.zeros((4, 8), np.float32), (8, 4), box=(4, 2)), (4, 2)).shape
    (81, 2)
    """
    known = _geometry(tensor_map).windows
    if counts not in known:
        m = tensor_map
        run = _item(counts[0] * m.element_size)
        starts = max(0, m.memory.size - _extent(m, counts) + 1)
        base = np.ndarray((1,), run, m.memory) if starts else np.empty(0, run)
        strides = (1, *_strides(m)[::-1])
        shape = (starts, *counts[:0:-1])
        known[counts] = as_strided(base, shape, strides, writeable=base.flags.writeable)
    return known[counts]


def _strides(m: TensorMap) -> list[int]:
    """Return bytes between neighbours of a box in dimensions 1 and up."""
    return [s * step for s, step in zip(m.strides, m.element_strides[1:], strict=True)]


def _extent(m: TensorMap, counts: tuple[int, ...]) -> int:
    """Return bytes from the first to the last of a box, that one included."""
    inner = counts[0] * m.element_size
    return inner + sum((n - 1) * s for n, s in zip(counts[1:], _strides(m), strict=True))


def _item(nbytes: int) -> np.dtype[Any]:
    """Return an opaque type of ``nbytes`` bytes."""
    return np.dtype((np.void, nbytes))
