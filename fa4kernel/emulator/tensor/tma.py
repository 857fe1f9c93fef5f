"""TMA copies: a box of a tensor map to dense bytes and back.

A box is dense in shared memory, dimension 0 fastest, before the swizzle (`swizzle`). Coordinates
are signed element indices, dimension 0 first, and may point anywhere: what lies outside the tensor
reads as zero (or NaN) and is not written. A copy always counts its full box as transaction bytes.

Source: PTX ISA 5.5.3 "Tiled mode" and "cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor".
Not in the manual, but what an H200 does: the fill "nan" has the bits 0x7ff7 in every 16; the tf32
types round to nearest, ties to even; the ``ftz`` of a type flushes nothing in a copy; a box has to
start at a multiple of 16 bytes (else it is an illegal instruction), and a store at no negative
coordinate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.tensor import formats
from fa4kernel.emulator.tensor.boxes import parts_of
from fa4kernel.emulator.tensor.reductions import Reduction, reduced
from fa4kernel.emulator.tensor.tensor_map import ELEMENT_TYPES, TensorMap

_NAN = np.uint16(0x7FF7)
"""Bits of the fill "nan", in every 16."""


def bytes(tensor_map: TensorMap) -> int:
    """Return the bytes of one box, in shared memory and as transaction bytes.

    >>> bytes(TensorMap(np.zeros((8, 64), np.float16), (64, 8), box=(64, 8)))
    1024
    """
    return tensor_map.box_bytes


def load_box(tensor_map: TensorMap, coordinates: NDArray[np.integer[Any]]) -> NDArray[np.uint8]:
    """Read boxes from global memory.

    Args:
        tensor_map: the tensor.
        coordinates: where each box starts, in elements, shape (n, rank); dimension 0 first.

    Returns:
        The boxes, dense, shape (n, box bytes).

    Raises:
        ValueError: ``coordinates`` has another shape, or a box starts at no multiple of 16 bytes.
        IndexError: a box touches memory outside the caller's array.

    >>> x = np.arange(32, dtype=np.float32).reshape(4, 8)
    >>> m = TensorMap(x, (8, 4), box=(4, 2))
    >>> load_box(m, np.array([[4, -1]])).view(np.float32)
    array([[0., 0., 0., 0., 4., 5., 6., 7.]], dtype=float32)
    """
    places = _check_coordinates(tensor_map, coordinates)
    n = len(places)
    parts = parts_of(tensor_map, places)
    if (
        len(parts) == 1
        and parts[0].counts == tensor_map.counts
        and len(parts[0].starts) == len(places)
    ):
        whole = parts[0].of_memory(tensor_map)[parts[0].starts]
        boxes: NDArray[np.uint8] = whole.view(np.uint8).reshape(len(places), -1)
    else:
        boxes = _filled(tensor_map, n)
        for part in parts:
            source = part.of_memory(tensor_map)[part.starts]
            part.of_boxes(tensor_map, boxes)[part.members] = source
    if tensor_map.dtype in ("tf32", "tf32_ftz"):
        _round(boxes, tensor_map)
    return boxes


def gather_rows(tensor_map: TensorMap, coordinates: NDArray[np.integer[Any]]) -> NDArray[np.uint8]:
    """Read four rows of a two-dimensional tensor each (``.tile::gather4``).

    Args:
        tensor_map: a map of rank 2 whose box is one row high.
        coordinates: column and four rows, shape (n, 5).

    Returns:
        The rows one below the other, shape (n, 4 x box bytes).

    Raises:
        ValueError: the map or ``coordinates`` has another shape.

    >>> x = np.arange(32, dtype=np.float32).reshape(8, 4)
    >>> m = TensorMap(x, (4, 8), box=(4, 1))
    >>> gather_rows(m, np.array([[0, 7, 1, 9, 0]])).view(np.float32)[0, ::4]
    array([28.,  4.,  0.,  0.], dtype=float32)
    """
    rows = row_coordinates(tensor_map, coordinates)
    return load_box(tensor_map, rows).reshape(len(coordinates), -1)


def row_coordinates(
    tensor_map: TensorMap, coordinates: NDArray[np.integer[Any]]
) -> NDArray[np.int64]:
    """Return the coordinates of the four boxes that ``.tile::gather4`` or ``scatter4`` moves.

    Args:
        tensor_map: a map of rank 2 whose box is one row high.
        coordinates: column and four rows, shape (n, 5).

    Returns:
        Shape (4 n, 2).

    Raises:
        ValueError: the map or ``coordinates`` has another shape.

    >>> row_coordinates(
    ...     TensorMap(np.zeros((8, 4), np.float32), (4, 8), box=(4, 1)), np.array([[0, 7, 1, 9, 0]])
    ... ).tolist()
    [[0, 7], [0, 1], [0, 9], [0, 0]]
    """
    if tensor_map.rank != 2 or tensor_map.box[1] != 1:
        raise ValueError(
            f"gather4 and scatter4 need two dimensions and a box one row high, not dims "
            f"{tensor_map.dims} and box {tensor_map.box}"
        )
    if coordinates.ndim != 2 or coordinates.shape[1] != 5:
        raise ValueError(f"coordinates must have shape (n, 5), not {coordinates.shape}")
    columns = np.repeat(coordinates[:, 0], 4)
    return np.stack([columns, coordinates[:, 1:].ravel()], axis=1).astype(np.int64)


def store_box(
    tensor_map: TensorMap,
    coordinates: NDArray[np.integer[Any]],
    data: NDArray[np.uint8],
    reduce: Reduction | None = None,
) -> None:
    """Write boxes to global memory, or reduce them into it, one after the other.

    Args:
        tensor_map: the tensor; the caller's array is changed.
        coordinates: where each box starts, in elements, shape (n, rank).
        data: the boxes, dense, shape (n, box bytes).
        reduce: how an element is combined with what is there; default: it replaces it.

    Raises:
        ValueError: an argument has another shape, the array is read-only, the element type has no
            such reduction, or a coordinate is negative or at no multiple of 16 bytes.
        IndexError: a box touches memory outside the caller's array.

    >>> x = np.ones((2, 6), np.float32)
    >>> box = np.arange(4, dtype=np.float32).view(np.uint8)[None]
    >>> m = TensorMap(x, (6, 2), box=(4, 1), strides=(32,))
    >>> store_box(m, np.array([[4, 0]]), box, "add")
    >>> x[0]
    array([1., 1., 1., 1., 1., 2.], dtype=float32)
    """
    places = _check_coordinates(tensor_map, coordinates)
    if (places < 0).any():
        raise ValueError(f"a box is stored at negative coordinates {places.min(axis=0).tolist()}")
    if data.shape != (len(places), tensor_map.box_bytes):
        raise ValueError(f"data must have shape {(len(places), tensor_map.box_bytes)}")
    if not tensor_map.memory.flags.writeable:
        raise ValueError("the tensor map's array is read-only")
    data = np.ascontiguousarray(data)
    kind = ELEMENT_TYPES[tensor_map.dtype]
    moves = []
    for part in parts_of(tensor_map, places):
        target, source = part.of_memory(tensor_map), part.of_boxes(tensor_map, data)
        moves += [
            (i, target[start : start + 1], source[i : i + 1])
            for i, start in zip(part.members.tolist(), part.starts.tolist(), strict=True)
        ]
    for _, old, new in sorted(moves, key=lambda move: move[0]):
        if reduce is None:
            old[...] = new
        else:
            elements = old[..., None].view(kind)
            elements[...] = reduced(elements, new[..., None].view(kind), tensor_map.dtype, reduce)


def _check_coordinates(
    tensor_map: TensorMap, coordinates: NDArray[np.integer[Any]]
) -> NDArray[np.int64]:
    """Return coordinates as int64, shape (n, rank)."""
    if coordinates.ndim != 2 or coordinates.shape[1] != tensor_map.rank:
        raise ValueError(
            f"coordinates must have shape (n, {tensor_map.rank}), not {coordinates.shape}"
        )
    odd = coordinates[:, 0] * tensor_map.element_size % 16 != 0
    if odd.any():
        first = int(coordinates[odd, 0][0])
        raise ValueError(
            f"a box starts at element {first} of {tensor_map.element_size} bytes in dimension 0: "
            f"it must start at a multiple of 16 bytes"
        )
    return coordinates.astype(np.int64, copy=False)


def _filled(tensor_map: TensorMap, n: int) -> NDArray[np.uint8]:
    """Return ``n`` boxes of what reads outside the tensor."""
    boxes = np.zeros((n, tensor_map.box_bytes), np.uint8)
    if tensor_map.oob == "nan":
        boxes.view(np.uint16)[...] = _NAN
    return boxes


def _round(boxes: NDArray[np.uint8], tensor_map: TensorMap) -> None:
    """Round float32 to tf32 in place, all but the fill "nan"."""
    bits = boxes.view(np.uint32)
    filled = bits == np.uint32(0x7FF77FF7) if tensor_map.oob == "nan" else False
    rounded = formats.encode(boxes.view(np.float32), "tf32", "rn")
    bits[...] = np.where(filled, bits, rounded)
