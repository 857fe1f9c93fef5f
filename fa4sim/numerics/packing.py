"""Packing: the query heads of a group in one tile of rows.

With grouped queries, ratio = heads / kv_heads query heads read the same key head. A tile of 128
rows costs the tensor cores the same however many of them are in use, so with few queries the
kernel fills it with all heads of a group: **row r is query r // ratio of head r % ratio**. The mask
follows the query, so ratio rows in a row have the same limits. Any ratio will do; one that doesn't
divide 128 lets a query's heads fall into two tiles, which only the kernel's copies mind.

Source: flash_attn/cute/pack_gqa.py.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fa4sim.numerics.scales import is_whole

Scalar = TypeVar("Scalar", bound=np.generic)


def pack_heads(array: NDArray[Scalar], kv_heads: int) -> NDArray[Scalar]:
    """Lay the heads of each group behind each other, within the rows: q or an output, packed.

    Args:
        array: (..., seqlen_q, heads, head_dim).
        kv_heads: groups; divides heads.

    Returns:
        array (..., seqlen_q * ratio, kv_heads, head_dim), where ratio = heads // kv_heads.

    Raises:
        ValueError: there are fewer than three axes, or the heads don't make whole groups.

    >>> q = np.arange(6).reshape(1, 2, 3, 1)  # two queries, three heads
    >>> pack_heads(q, kv_heads=1).shape, pack_heads(q, kv_heads=1).ravel()
    ((1, 6, 1, 1), array([0, 1, 2, 3, 4, 5]))
    """
    _check_axes("array", array, 3, "(..., seqlen_q, heads, head_dim)")
    *outer, seqlen_q, heads, dim = array.shape
    ratio = _ratio(heads, kv_heads)
    groups = array.reshape(*outer, seqlen_q, kv_heads, ratio, dim).swapaxes(-3, -2)
    return groups.reshape(*outer, seqlen_q * ratio, kv_heads, dim)


def unpack_heads(packed: NDArray[Scalar], ratio: int) -> NDArray[Scalar]:
    """Undo :func:`pack_heads`.

    Args:
        packed: (..., seqlen_q * ratio, kv_heads, head_dim).
        ratio: query heads per key head.

    Returns:
        array (..., seqlen_q, kv_heads * ratio, head_dim).

    Raises:
        ValueError: there are fewer than three axes, or ``ratio`` doesn't divide the rows.

    >>> q = np.arange(24).reshape(1, 2, 6, 2)
    >>> np.array_equal(unpack_heads(pack_heads(q, kv_heads=2), ratio=3), q)
    True
    """
    _check_axes("packed", packed, 3, "(..., rows, kv_heads, head_dim)")
    *outer, rows, kv_heads, dim = packed.shape
    seqlen_q = _queries(rows, ratio)
    groups = packed.reshape(*outer, seqlen_q, ratio, kv_heads, dim).swapaxes(-3, -2)
    return groups.reshape(*outer, seqlen_q, kv_heads * ratio, dim)


def pack_lse(lse: NDArray[Scalar], kv_heads: int) -> NDArray[Scalar]:
    """Pack a log-sum-exp, (..., heads, seqlen_q) to (..., kv_heads, seqlen_q * ratio).

    Raises:
        ValueError: there are fewer than two axes, or the heads don't make whole groups.

    >>> pack_lse(np.array([[0, 1], [10, 11]]), kv_heads=1)  # two heads of two queries
    array([[ 0, 10,  1, 11]])
    """
    _check_axes("lse", lse, 2, "(..., heads, seqlen_q)")
    packed = pack_heads(lse.swapaxes(-1, -2)[..., None], kv_heads)
    return packed[..., 0].swapaxes(-1, -2)


def unpack_lse(packed: NDArray[Scalar], ratio: int) -> NDArray[Scalar]:
    """Unpack a log-sum-exp, (..., kv_heads, seqlen_q * ratio) to (..., heads, seqlen_q).

    Raises:
        ValueError: there are fewer than two axes, or ``ratio`` doesn't divide the rows.

    >>> unpack_lse(np.array([[0, 10, 1, 11]]), ratio=2)
    array([[ 0,  1],
           [10, 11]])
    """
    _check_axes("packed", packed, 2, "(..., kv_heads, rows)")
    lse = unpack_heads(packed.swapaxes(-1, -2)[..., None], ratio)
    return lse[..., 0].swapaxes(-1, -2)


def _check_axes(name: str, array: NDArray[Any], axes: int, layout: str) -> None:
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{name} is a {type(array).__name__}, no NumPy array; {layout} is needed")
    if array.ndim < axes:
        raise ValueError(f"{name} of shape {array.shape} has too few axes; {layout} is needed")


def _ratio(heads: int, kv_heads: int) -> int:
    if not is_whole(kv_heads) or kv_heads < 1 or heads % kv_heads:
        raise ValueError(
            f"{heads} heads don't make {kv_heads!r} groups of equal size; kv_heads must divide "
            "heads"
        )
    return heads // kv_heads


def _queries(rows: int, ratio: int) -> int:
    if not is_whole(ratio) or ratio < 1 or rows % ratio:
        raise ValueError(f"{rows} packed rows are no multiple of ratio={ratio!r}")
    return rows // ratio
