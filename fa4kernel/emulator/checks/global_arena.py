"""The arrays that a launch reads and writes, and who did so last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

#: Bytes of a piece of memory.
PIECE = 4


class Layer:
    """The last access to each piece: by which cluster (its number + 1), at which count, which."""

    def __init__(self, pieces: int) -> None:
        self.cluster = np.zeros(pieces, np.int32)
        self.time = np.zeros(pieces, np.int32)
        self.access = np.zeros(pieces, np.int32)

    def put(self, at: Ints, clusters: Any, times: Any, access: int) -> None:
        """Remember an access."""
        self.cluster[at], self.time[at], self.access[at] = clusters + 1, times, access


class Arena:
    """An array of the caller's, or several that overlap.

    Attributes:
        base, size: where this computer keeps it.
        name: for reports.
        written, read: None until somebody has written.
    """

    def __init__(self, base: int, size: int, name: str) -> None:
        self.base = base
        self.size = size
        self.name = name
        self.written: Layer | None = None
        self.read: Layer | None = None
        self.pending: list[tuple[Callable[[], Ints], Any, Any, int]] = []

    def open(self) -> tuple[Layer, Layer]:
        """Both layers, with the reads so far."""
        if self.written is None or self.read is None:
            pieces = self.size // PIECE + 1
            self.written, self.read = Layer(pieces), Layer(pieces)
            for where, clusters, times, access in self.pending:
                self.read.put(where(), clusters, times, access)
            self.pending.clear()
        return self.written, self.read


def arenas_of(views: list[tuple[Bytes, str]]) -> list[Arena]:
    """Arenas for views, those that overlap put together; each has the name of the first in it.

    >>> block = np.zeros(64, np.uint8)
    >>> [(a.name, a.size) for a in arenas_of([(block[:16], "x"), (block[32:], "z"), (block, "y")])]
    [('x', 64)]
    """
    ranges = [(v.__array_interface__["data"][0], len(v), name) for v, name in views if len(v)]
    found: list[Arena] = []
    for start, size, name in sorted(ranges, key=lambda r: (r[0], -r[1])):
        last = found[-1] if found else None
        if last is not None and start < last.base + last.size:
            last.size = max(last.size, start + size - last.base)
        else:
            found.append(Arena(start, size, name))
    for arena in found:
        inside = [n for s, _, n in ranges if arena.base <= s < arena.base + arena.size]
        arena.name = inside[0]
    return found
