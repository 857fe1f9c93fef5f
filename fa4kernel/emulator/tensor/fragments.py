"""Register fragments of wgmma: which thread and register of a warpgroup holds what.

A warpgroup's 128 threads hold a tile of 64 rows. Warp w has rows 16w to 16w + 15; in it, thread t
has row t/4 and the row eight below, and pairs of neighbouring columns, which repeat every eight
columns. Source: PTX ISA 9.7.15.5.1.1 "Register fragments".
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Elements(NamedTuple):
    """Rows and columns, two arrays of shape (128 threads, elements)."""

    row: NDArray[np.intp]
    column: NDArray[np.intp]


@lru_cache(maxsize=64)
def wgmma_accumulator(n: int) -> Elements:
    """Return which elements of D each thread holds, in the order of its registers.

    Args:
        n: columns, a multiple of 8 up to 256.

    Returns:
        Row and column, each of shape (128, n / 2). With f32 or s32 an element is a register; with
        f16 a register holds two, the first in its low half.

    Raises:
        ValueError: no such ``n``.

    >>> d = wgmma_accumulator(16)
    >>> d.row[37].tolist(), d.column[37].tolist()
    ([17, 17, 25, 25, 17, 17, 25, 25], [2, 3, 2, 3, 10, 11, 10, 11])
    """
    if n % 8 or not 8 <= n <= 256:
        raise ValueError(f"n must be a multiple of 8 from 8 to 256, not {n}")
    return _elements(n // 2, per_pair=2)


@lru_cache(maxsize=8)
def wgmma_a(size: int) -> Elements:
    """Return which elements of A each thread holds when A is in registers.

    Args:
        size: bytes of an element: 1, 2 or 4.

    Returns:
        Row and column, each of shape (128, 16 / size); four registers hold them, the first element
        in the lowest bits.

    Raises:
        ValueError: no such element size.

    >>> wgmma_a(2).column[1].tolist()
    [2, 3, 2, 3, 10, 11, 10, 11]
    """
    if size not in (1, 2, 4):
        raise ValueError(f"elements have 1, 2 or 4 bytes, not {size}")
    return _elements(16 // size, per_pair=4 // size)


def _elements(count: int, per_pair: int) -> Elements:
    """Return the pattern of four groups of ``per_pair`` columns each, repeated along a row."""
    t = np.arange(128, dtype=np.intp)[:, None]
    e = np.arange(count, dtype=np.intp)[None, :]
    group = e // per_pair
    row = 16 * (t // 32) + t % 32 // 4 + 8 * (group % 2)
    column = per_pair * (4 * (group // 2) + t % 4) + e % per_pair
    row.setflags(write=False)
    column.setflags(write=False)
    return Elements(row, column)
