"""The memory behind a NumPy array, as plain bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def memory_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the bytes from an array's lowest to its highest address, as a view.

    Args:
        array: any shape and strides, negative ones too.

    >>> x = np.arange(6, dtype=np.uint8)[::-2]
    >>> memory_of(x), first_byte(x)
    (array([1, 2, 3, 4, 5], dtype=uint8), 4)
    """
    return np.asarray(_Bytes(array))


def first_byte(array: NDArray[Any]) -> int:
    """Return where the array's first element lies in `memory_of` it."""
    below: int = sum(min(0, (n - 1) * s) for n, s in zip(array.shape, array.strides, strict=True))
    return -below


class _Bytes:
    """An array's memory as NumPy's array interface describes it; keeps the array alive."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        lengths = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
        below = first_byte(array)
        above = sum(max(0, length) for length in lengths)
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": (below + above + array.itemsize if array.size else 0,),
            "data": (array.__array_interface__["data"][0] - below, not array.flags.writeable),
        }
