"""Register fragments of ``mma.sync``: which thread and register of a warp holds what.

Thread t of a warp works on row t/4 (and, with 16 rows, the row eight below), and on a group of
neighbouring columns by its place t%4 in a group of four threads. Registers of A alternate between
the two rows and then move along K; those of B move along K. Write P for the elements in a register
of 32 bits (1 for 64-bit elements), r for a register and e for the element in it.

===========  =====================  =======================
matrix       row                    column
===========  =====================  =======================
A, 16 rows   ``t//4 + 8 (r%2)``     ``P (4 (r//2) + t%4) + e``
A, 8 rows    ``t//4``               ``P (4 r + t%4) + e``
B            ``P (4 r + t%4) + e``  ``t//4``
C and D      ``t//4 + 8 (i//2)``    ``2 (t%4) + i%2``
===========  =====================  =======================

(i counts the elements of C.) Source: PTX ISA 9.7.14.5.2 to 9.7.14.5.11, where this is told case by
case for every shape.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.tensor.fragments import Elements


@lru_cache(maxsize=64)
def warp_a(m: int, k: int, size: int) -> Elements:
    """Return which elements of A each thread holds, in the order of its registers.

    Args:
        m: rows, 8 or 16.
        k: columns.
        size: bytes of an element: 1, 2, 4 or 8.

    Returns:
        Row and column, each of shape (32, m k / 32).

    >>> a = warp_a(16, 16, 2)
    >>> a.row[5].tolist(), a.column[5].tolist()
    ([1, 1, 9, 9, 1, 1, 9, 9], [2, 3, 2, 3, 10, 11, 10, 11])
    """
    t, register, e, per = _places(m * k // 32, size)
    halves = m // 8
    row = t // 4 + 8 * (register % halves)
    return _fixed(row, per * (4 * (register // halves) + t % 4) + e)


@lru_cache(maxsize=64)
def warp_b(k: int, size: int) -> Elements:
    """Return which elements of B (k rows, 8 columns) each thread holds.

    >>> b = warp_b(16, 2)
    >>> b.row[5].tolist(), b.column[5].tolist()
    ([2, 3, 10, 11], [1, 1, 1, 1])
    """
    t, register, e, per = _places(k * 8 // 32, size)
    return _fixed(per * (4 * register + t % 4) + e, t // 4 + 0 * register)


@lru_cache(maxsize=4)
def warp_c(m: int) -> Elements:
    """Return which elements of C and D (m rows, 8 columns) each thread holds.

    >>> warp_c(16).row[5].tolist(), warp_c(16).column[5].tolist()
    ([1, 1, 9, 9], [2, 3, 2, 3])
    """
    t = np.arange(32, dtype=np.intp)[:, None]
    i = np.arange(m * 8 // 32, dtype=np.intp)[None, :]
    return _fixed(t // 4 + 8 * (i // 2), 2 * (t % 4) + i % 2)


def _places(
    count: int, size: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp], int]:
    """Threads, registers and places in a register of ``count`` elements, and elements in one."""
    per = max(1, 4 // size)
    elements = np.arange(count, dtype=np.intp)[None, :]
    return np.arange(32, dtype=np.intp)[:, None], elements // per, elements % per, per


def _fixed(row: NDArray[np.intp], column: NDArray[np.intp]) -> Elements:
    row, column = np.broadcast_arrays(row, column)
    found = Elements(np.ascontiguousarray(row), np.ascontiguousarray(column))
    for each in found:
        each.setflags(write=False)
    return found
