"""Swizzles: how the bytes of a box are shuffled in shared memory so that banks don't clash.

A swizzle is a function of the address alone. Some address bits above bit 7 (the 128-byte line) are
XORed onto lower bits, so that the same column of successive lines falls into different banks. TMA
applies it when it writes or reads a box, and the tensor core when it reads an operand; both use
the absolute shared-memory address, which is why the two agree without being told of each other.

===================  =============================================  =======
mode                 effect on address a                            repeats
===================  =============================================  =======
none                 a                                              –
32B                  a ^ ((a >> 7) & 1) << 4                        256 B
64B                  a ^ ((a >> 7) & 3) << 4                        512 B
128B                 a ^ ((a >> 7) & 7) << 4                        1024 B
128B_ATOM_32B        a ^ ((a >> 7) & 3) << 5                        512 B
128B_ATOM_32B_FLIP_8B  as before, and bit 3 flips in odd lines      512 B
128B_ATOM_64B        a ^ ((a >> 7) & 1) << 6                        256 B
===================  =============================================  =======

Source: the tables of PTX ISA 5.5.7 "Swizzling modes"; names as in ``CUtensorMapSwizzle``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Rule(NamedTuple):
    """One swizzle: line bits ``mask`` are XORed onto the address from bit ``shift`` up."""

    mask: int
    shift: int
    width: int
    """Bytes within which data stay: the widest allowed inner box dimension."""
    atom: int
    """Bytes that stay together, which is also how a buffer has to be aligned."""
    flips: bool = False


RULES: dict[str, Rule] = {
    "none": Rule(0, 4, 0, 16),
    "32B": Rule(1, 4, 32, 16),
    "64B": Rule(3, 4, 64, 16),
    "128B": Rule(7, 4, 128, 16),
    "128B_ATOM_32B": Rule(3, 5, 128, 32),
    "128B_ATOM_32B_FLIP_8B": Rule(3, 5, 128, 32, flips=True),
    "128B_ATOM_64B": Rule(1, 6, 128, 64),
}


def rule_of(mode: str) -> Rule:
    """Return the rule of a swizzle mode.

    Raises:
        ValueError: ``mode`` is not known.

    >>> rule_of("64B").width
    64
    """
    if mode not in RULES:
        raise ValueError(f"swizzle {mode!r} is not known; use one of {', '.join(RULES)}")
    return RULES[mode]


def apply(addresses: NDArray[Any], mode: str) -> NDArray[Any]:
    """Return where swizzled bytes lie. Applying it twice gives the addresses back.

    Args:
        addresses: byte addresses in shared memory, integers of any shape.
        mode: swizzle mode.

    Raises:
        ValueError: ``mode`` is not known.

    >>> apply(np.array([0, 128, 1024 - 128]), "128B")
    array([   0,  144, 1008])
    """
    rule = rule_of(mode)
    if not rule.mask:
        return addresses
    line = addresses >> 7
    swizzled: NDArray[Any] = addresses ^ ((line & rule.mask) << rule.shift)
    if rule.flips:
        swizzled = swizzled ^ ((line & 1) << 3)
    return swizzled


def chunk_permutation(start: int, nbytes: int, mode: str) -> NDArray[np.intp]:
    """Return the 16-byte chunks of shared memory that hold a box, in the order of the box.

    ``shared[:, permutation] = box`` writes a box and ``shared[:, permutation]`` reads it, where
    both are viewed as 16-byte chunks.

    Args:
        start: byte address of the box, a multiple of 16.
        nbytes: size of the box, a multiple of 16.
        mode: swizzle mode that keeps 16-byte chunks whole (all but "128B_ATOM_32B_FLIP_8B").

    Returns:
        Absolute chunk indices (byte address / 16), read-only, shape (nbytes / 16,).

    Raises:
        ValueError: ``start`` or ``nbytes`` is no multiple of 16, or the mode splits chunks.

    >>> chunk_permutation(1024 + 128, 64, "128B") - 72
    array([1, 0, 3, 2])
    """
    if rule_of(mode).flips:
        raise ValueError(f"swizzle {mode!r} splits 16-byte chunks; use `read` and `write`")
    return _plan(start, nbytes, mode).places


def write(
    shared: NDArray[np.uint8],
    ctas: NDArray[np.intp] | slice,
    start: int,
    box: NDArray[np.uint8],
    mode: str,
    row: int = 0,
) -> None:
    """Write a dense box into shared memory, swizzled.

    Args:
        shared: shared memories, shape (all CTAs, size), C-contiguous; changed in place.
        ctas: which of them, n.
        start: byte address of the box in each of them, a multiple of 16.
        box: shape (n, bytes).
        mode: swizzle mode.
        row: bytes of a row of the box, if that is less than the swizzle's width, in which case
            rows still begin that width apart.

    Raises:
        ValueError: the address or the size is no multiple of 16.
        IndexError: the box reaches past the end of shared memory.

    >>> shared = np.zeros((1, 2048), np.uint8)
    >>> write(shared, slice(None), 128, np.arange(128, dtype=np.uint8)[None], "128B")
    >>> shared[0, 128:160:16]
    array([16,  0], dtype=uint8)
    """
    plan = _plan(start, box.shape[-1], mode, row)
    plan.check(shared)
    granules = np.ascontiguousarray(box).view(plan.granule)
    target = shared.view(plan.granule)
    if plan.inverse is None:
        target[_outer(ctas, plan.places)] = granules
        return
    if mode != "none":
        granules = granules.take(plan.inverse, axis=1, mode="clip")
    target[ctas, plan.first : plan.first + plan.places.size] = granules


def read(
    shared: NDArray[np.uint8],
    ctas: NDArray[np.intp] | slice,
    start: int,
    nbytes: int,
    mode: str,
    row: int = 0,
) -> NDArray[np.uint8]:
    """Read a swizzled box from shared memory, dense: the inverse of `write`.

    Args:
        shared: shared memories, shape (all CTAs, size), C-contiguous.
        ctas: which of them, n.
        start: byte address of the box in each of them, a multiple of 16.
        nbytes: size of the box, a multiple of 16.
        mode: swizzle mode.
        row: as in `write`.

    Returns:
        A copy, shape (n, nbytes).

    Raises:
        ValueError: the address or the size is no multiple of 16.
        IndexError: the box reaches past the end of shared memory.

    >>> shared = np.arange(256, dtype=np.uint8)[None]
    >>> read(shared, slice(None), 128, 128, "64B")[0, ::16]
    array([144, 128, 176, 160, 208, 192, 240, 224], dtype=uint8)
    """
    plan = _plan(start, nbytes, mode, row)
    plan.check(shared)
    source = shared.view(plan.granule)
    if isinstance(ctas, slice):
        box: NDArray[Any] = source[ctas].take(plan.places, axis=1, mode="clip")
    else:
        box = source[_outer(ctas, plan.places)]
    return box.view(np.uint8)


class _Plan(NamedTuple):
    """How one box is moved.

    Rules:
        A granule is what the swizzle moves as a whole; its type is only ever copied. ``places``
        says where the granules of the box lie, ``inverse`` which granule lies at each place, if
        the box stays within its own bytes (it doesn't when it covers part of a 128-byte line).
    """

    granule: np.dtype[Any]
    places: NDArray[np.intp]
    inverse: NDArray[np.intp] | None
    first: int
    end: int

    def check(self, shared: NDArray[np.uint8]) -> None:
        """Refuse a box that reaches outside shared memory."""
        if self.first < 0 or self.end > shared.shape[1]:
            raise IndexError(
                f"bytes {self.first * self.granule.itemsize} to {self.end} lie outside shared "
                f"memory of {shared.shape[1]} bytes"
            )


@lru_cache(maxsize=4096)
def _plan(start: int, nbytes: int, mode: str, row: int = 0) -> _Plan:
    """Return how to move a box."""
    if start % 16 or nbytes % 16 or nbytes <= 0:
        raise ValueError(
            f"start {start} and size {nbytes} of a swizzled box must be multiples of 16"
        )
    granule = np.dtype(np.uint64 if rule_of(mode).flips else np.complex128)
    size = granule.itemsize
    dense = np.arange(0, nbytes, size, dtype=np.intp)
    if 0 < row < rule_of(mode).width:
        dense = dense // row * rule_of(mode).width + dense % row
    places = apply(start + dense, mode) // size
    first, last = int(places.min()), int(places.max())
    together = last - first + 1 == places.size
    inverse = np.argsort(places) if together else None
    for array in (places, inverse):
        if array is not None:
            array.setflags(write=False)
    return _Plan(granule, places, inverse, first, (last + 1) * size)


def _outer(ctas: NDArray[np.intp] | slice, places: NDArray[np.intp]) -> tuple[Any, Any]:
    """Return the index of the same places in several CTAs."""
    return (ctas, places) if isinstance(ctas, slice) else (ctas[:, None], places)
