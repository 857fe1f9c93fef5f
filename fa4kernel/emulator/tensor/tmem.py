"""Tensor memory: which lane and column holds what.

Tensor memory is a grid of 128 lanes and 512 columns of 32 bits per CTA. An address is a base lane
in the upper 16 bits and a base column in the lower. Everything here is relative to that base:
maps of lanes and columns, shaped like what they describe, cached and read-only.

- `fragment`: ``tcgen05.ld`` and ``.st``, register by register of a warp.
- `accumulator`: the matrix D of an MMA, as one CTA holds it.
- `packed_a`: the matrix A of an MMA that takes it from tensor memory.

A warp reaches only the quarter of the lanes that its number modulo 4 names (`check_access`).

Sources: PTX ISA 9.7.16.1 to 9.7.16.10. The manual draws these layouts; the formulas follow the
layouts that CUTLASS states (``cute/atom/copy_traits_sm100.hpp``, ``mma_traits_sm100_frag.hpp``).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LANES = 128
COLUMNS = 512

IndexArray = NDArray[np.intp]

REGISTERS = {"32x32b": 1, "16x64b": 1, "16x32bx2": 1, "16x128b": 2, "16x256b": 4}
"""Registers of each thread that one repetition of a load or store shape fills."""


class Places(NamedTuple):
    """Lanes and columns, two arrays of one shape, relative to an address."""

    lane: IndexArray
    column: IndexArray


def split_address(address: int) -> tuple[int, int]:
    """Return base lane and base column of a tensor-memory address.

    >>> split_address(0x00200080)
    (32, 128)
    """
    return address >> 16, address & 0xFFFF


def registers(shape: str, num: int) -> int:
    """Return how many registers a load or store fills in each thread.

    Args:
        shape: as in the instruction, without the dot.
        num: repetitions (``.x16`` is 16).

    Raises:
        ValueError: the shape is not known or may not be repeated so often.

    >>> registers("16x256b", 4)
    16
    """
    if shape not in REGISTERS:
        raise ValueError(f"shape {shape!r} is not known; use one of {', '.join(REGISTERS)}")
    total = REGISTERS[shape] * num
    if num < 1 or num & (num - 1) or total > 128:
        raise ValueError(
            f"shape {shape!r} repeats a power of two of times, up to {128 // REGISTERS[shape]}, "
            f"not {num}"
        )
    return total


@lru_cache(maxsize=256)
def fragment(shape: str, num: int, *, half_split: int = 0, packed: bool = False) -> Places:
    """Return where each register of each thread of a warp lies.

    Args:
        shape: "32x32b", "16x64b", "16x128b", "16x256b" or "16x32bx2".
        num: repetitions, a power of two.
        half_split: for "16x32bx2": columns from the first half to the second (``immHalfSplitoff``).
        packed: ``.pack::16b`` or ``.unpack::16b``: a register's low half is the low half of the
            named column, its high half the low half of the column after.

    Returns:
        Lane and column, each of shape (32 threads, registers).

    Raises:
        ValueError: no such shape or repetition.

    Source: PTX ISA 9.7.16.2.3 and 9.7.16.8.

    >>> places = fragment("16x256b", 1)
    >>> places.lane[5].tolist(), places.column[5].tolist()
    ([1, 1, 9, 9], [2, 3, 2, 3])
    """
    r = np.arange(registers(shape, num), dtype=np.intp)[None, :]
    t = np.arange(32, dtype=np.intp)[:, None]
    second = 0 * t
    if shape == "32x32b":
        lane, column = t + 0 * r, r + 0 * t
    elif shape == "16x64b":
        lane, column = t // 4 + 8 * (t % 2) + 0 * r, 2 * r + t // 2 % 2
    elif shape == "16x128b":
        lane, column = t // 4 + 8 * (r % 2), 4 * (r // 2) + t % 4
    elif shape == "16x256b":
        lane, column = t // 4 + 8 * (r % 4 // 2), 8 * (r // 4) + 2 * (t % 4) + r % 2
    else:
        lane, column, second = t % 16 + 0 * r, r + 0 * t, t // 16 * half_split
    return _frozen(lane, column * (2 if packed else 1) + second)


def fragment_columns(shape: str, num: int, *, half_split: int = 0, packed: bool = False) -> int:
    """Return how many columns a load or store spans, from its base to its last.

    >>> fragment_columns("32x32b", 32), fragment_columns("16x32bx2", 4, half_split=64)
    (32, 68)
    """
    places = fragment(shape, num, half_split=half_split, packed=packed)
    return int(places.column.max()) + (2 if packed else 1)


def check_access(shape: str, warp: int, address: int) -> None:
    """Refuse a load or store that a warp cannot do.

    Args:
        shape: load or store shape.
        warp: the warp's number in its CTA.
        address: tensor-memory address.

    Raises:
        ValueError: the lanes are not in the warp's quarter, or not aligned in it.

    Source: PTX ISA 9.7.16.8.1 "Access restrictions".

    >>> check_access("32x32b", 5, 0x00200000)
    >>> check_access("32x32b", 0, 0x00200000)
    Traceback (most recent call last):
        ...
    ValueError: warp 0 can access lanes 0 to 31 with 32x32b, not base lane 32
    """
    lane, _ = split_address(address)
    low = 32 * (warp % 4)
    allowed = (low,) if shape == "32x32b" else (low, low + 16)
    if lane not in allowed:
        raise ValueError(
            f"warp {warp} can access lanes {low} to {low + 31} with {shape}, not base lane {lane}"
        )


@lru_cache(maxsize=256)
def accumulator(m: int, n: int, cta_group: int = 1, ws: bool = False) -> Places:
    """Return where one CTA holds the matrix D of an MMA.

    Args:
        m, n: shape of the MMA, over both CTAs of a pair.
        cta_group: CTAs that take part, 1 or 2. Each of two holds ``m / 2`` rows, the even CTA the
            first ones.
        ws: weight-stationary form (``.ws``).

    Returns:
        Lane and column of each element, each of shape (m / cta_group, n). D in f16 uses the low
        half of a column, one element each.

    Raises:
        ValueError: no such layout.

    Source: PTX ISA 9.7.16.10.5, layouts A, B, D to G (dense).

    >>> places = accumulator(128, 32, cta_group=2)
    >>> int(places.lane[3, 20]), int(places.column[3, 20])
    (67, 4)
    """
    i = np.arange(m // cta_group, dtype=np.intp)[:, None]
    j = np.arange(n, dtype=np.intp)[None, :]
    layout = _layout(m, cta_group, ws)
    if layout in ("A", "D"):
        return _frozen(i + 0 * j, j + 0 * i)
    if layout == "F":
        return _frozen(i % 16 + 32 * (i // 16) + 0 * j, j + 0 * i)
    parts = LANES // (m // cta_group)
    if n % parts:
        raise ValueError(f"n = {n} must be a multiple of {parts} for m = {m}")
    width = n // parts
    return _frozen(i + m // cta_group * (j // width), j % width + 0 * i)


def copies_of_a(m: int, cta_group: int = 1, ws: bool = False) -> int:
    """Return how many times A stands in tensor memory, one below the other.

    Where D is spread over several groups of lanes (layouts B, E and G), each group multiplies with
    the rows of A that stand in its own lanes: copy c serves columns ``c n / copies`` and up.

    >>> copies_of_a(128), copies_of_a(128, cta_group=2), copies_of_a(32, ws=True)
    (1, 2, 4)
    """
    return LANES // (m // cta_group) if _layout(m, cta_group, ws) in ("B", "E", "G") else 1


@lru_cache(maxsize=256)
def packed_a(m: int, row_bytes: int, cta_group: int = 1, ws: bool = False, copy: int = 0) -> Places:
    """Return where one CTA holds the matrix A of an MMA that reads it from tensor memory.

    A is packed: a 32-bit column holds two 16-bit or four 8-bit elements of a row, the first in the
    lowest bits. So the words of a row, viewed as elements, are the row.

    Args:
        m: rows of the MMA, over both CTAs of a pair.
        row_bytes: bytes of a row, K times the element size; 32 for a dense MMA.
        cta_group: CTAs that take part, 1 or 2.
        ws: weight-stationary form.
        copy: which copy of A, below `copies_of_a`.

    Returns:
        Lane and column of each 32-bit word, each of shape (m / cta_group, row_bytes / 4).

    Raises:
        ValueError: no such layout or copy.

    >>> places = packed_a(64, 32)
    >>> int(places.lane[17, 0]), places.column[17].tolist()
    (33, [0, 1, 2, 3, 4, 5, 6, 7])
    """
    if not 0 <= copy < copies_of_a(m, cta_group, ws):
        raise ValueError(f"copy {copy} of A does not exist for m = {m}, cta_group = {cta_group}")
    i = np.arange(m // cta_group, dtype=np.intp)[:, None]
    w = np.arange(row_bytes // 4, dtype=np.intp)[None, :]
    if _layout(m, cta_group, ws) == "F":
        i = i % 16 + 32 * (i // 16)
    return _frozen(i + copy * (m // cta_group) + 0 * w, w + 0 * i)


def _layout(m: int, cta_group: int, ws: bool) -> str:
    """Return the letter that PTX ISA 9.7.16.10.5 gives a layout."""
    layouts = {
        (256, 2, False): "A",
        (128, 2, False): "B",
        (128, 1, False): "D",
        (128, 1, True): "D",
        (64, 1, True): "E",
        (64, 1, False): "F",
        (32, 1, True): "G",
    }
    if (m, cta_group, ws) not in layouts:
        form = ".ws" if ws else "dense"
        raise ValueError(f"there is no {form} MMA with m = {m} and cta_group::{cta_group}")
    return layouts[m, cta_group, ws]


def _frozen(lane: IndexArray, column: IndexArray) -> Places:
    """Return two arrays as read-only places."""
    lane, column = np.ascontiguousarray(lane), np.ascontiguousarray(column)
    lane.setflags(write=False)
    column.setflags(write=False)
    return Places(lane, column)
