"""Columns of numbers as one block of bytes, which a page reads as typed arrays."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: Where a column lies: its type, the byte it starts at, and how many numbers it has.
Place = tuple[str, int, int]

#: Types by name, the smallest first. JavaScript has a typed array for each.
TYPES = {"i1": "int8", "i2": "int16", "i4": "int32", "f8": "float64"}
#: A typed array starts at a multiple of its numbers' size.
ALIGNMENT = 8


class Pack:
    """Collects columns; :meth:`bytes` gives them all, compressed by zlib.

    >>> pack = Pack()
    >>> pack.add([1, -1, 100]), pack.add([70_000])
    (('i1', 0, 3), ('i4', 8, 1))
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._length = 0

    def add(self, values: ArrayLike) -> Place:
        """Add whole numbers of one dimension in the smallest type that holds them.

        Numbers beyond 32 bits become float64: raises ``ValueError`` for those beyond 2**53, which
        it cannot hold.
        """
        numbers = np.asarray(values, dtype=np.int64)
        low, high = int(numbers.min(initial=0)), int(numbers.max(initial=0))
        if max(-low, high) > 2**53:
            raise ValueError(f"{max(-low, high)} is more than a page can count to, 2**53")
        name = next(
            name
            for name, kind in TYPES.items()
            if name == "f8" or (np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
        )
        data = numbers.astype(f"<{name}").tobytes()
        place = (name, self._length, len(numbers))
        padded = data + bytes(-len(data) % ALIGNMENT)
        self._parts.append(padded)
        self._length += len(padded)
        return place

    def bytes(self) -> bytes:
        """All columns."""
        return zlib.compress(b"".join(self._parts), 9)


def unpack(data: bytes, place: Place) -> NDArray[np.float64]:
    """The numbers of one column of ``Pack.bytes``, as a page reads them."""
    kind, start, count = place
    column = np.frombuffer(zlib.decompress(data), f"<{kind}", count, start)
    return column.astype(np.float64)
