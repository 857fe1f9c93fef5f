"""``tcgen05.cp`` and ``tcgen05.shift``: from shared to tensor memory, and a row down."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class CopyShape(NamedTuple):
    """What one ``tcgen05.cp`` moves.

    Rules:
        Row ``source[i]`` of the matrix in shared memory, ``words`` columns wide, goes to lane
        ``lane[i]``, relative to the address. A multicast names a row several times.
    """

    rows: int
    words: int
    source: NDArray[np.intp]
    lane: NDArray[np.intp]


_MULTICAST = {"64x128b": ("warpx2::02_13", "warpx2::01_23"), "32x128b": ("warpx4",)}


@lru_cache(maxsize=16)
def copy_shape(shape: str, multicast: str = "") -> CopyShape:
    """Return which rows of shared memory go to which lanes.

    Args:
        shape: "128x256b", "4x256b", "128x128b", "64x128b" or "32x128b". The source is a K-major
            matrix of that many rows and 32 or 16 bytes a row.
        multicast: "warpx2::02_13" or "warpx2::01_23" with 64x128b, "warpx4" with 32x128b.

    Raises:
        ValueError: the shape is not known or doesn't go with the multicast.

    Sources: PTX ISA 9.7.16.9.2; CUTLASS ``cute/atom/copy_traits_sm100.hpp`` (UTCCP), also for
    4x256b: its rows go to the same lane of the four quarters.

    >>> shape = copy_shape("64x128b", "warpx2::01_23")
    >>> shape.words, shape.lane[shape.source == 40].tolist()
    (4, [72, 104])
    """
    allowed = _MULTICAST.get(shape, ("",))
    if multicast not in allowed:
        wanted = " or ".join(repr(name) for name in allowed)
        raise ValueError(f"tcgen05.cp.{shape} needs multicast {wanted}, not {multicast!r}")
    lane = np.arange(128, dtype=np.intp)
    if shape in ("128x256b", "128x128b"):
        source = lane
    elif shape == "4x256b":
        source, lane = np.arange(4, dtype=np.intp), 32 * np.arange(4, dtype=np.intp)
    elif shape == "32x128b":
        source = lane % 32
    elif shape == "64x128b":
        source = lane % 64 if multicast == "warpx2::02_13" else lane % 32 + 32 * (lane // 64)
    else:
        raise ValueError(f"tcgen05.cp has no shape {shape!r}")
    words = 8 if shape.endswith("256b") else 4
    for array in (source, lane):
        array.setflags(write=False)
    return CopyShape(int(shape.split("x")[0]), words, source, lane)


def shift_down(block: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return 32 lanes after ``tcgen05.shift.down``: each lane but the last takes the next one's.

    Args:
        block: 32 lanes and 8 columns (32 bytes), shape (..., 32, 8).

    Returns:
        A copy of the same shape; the last lane is unchanged.

    Source: PTX ISA 9.7.16.9.3. That lane i takes what lane i + 1 held is our reading: it leaves the
    last lane of each quarter to be refreshed by ``tcgen05.cp.4x256b``.

    >>> shift_down(np.arange(256, dtype=np.uint32).reshape(32, 8))[::31, 0].tolist()
    [8, 248]
    """
    shifted = block.copy()
    shifted[..., :-1, :] = block[..., 1:, :]
    return shifted
