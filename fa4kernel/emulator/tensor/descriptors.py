"""Shared-memory descriptors: how tcgen05 and wgmma find a matrix operand.

A descriptor names a start address, two strides and a swizzle. The matrix is made of *core
matrices* of 8 rows by 16 bytes. Write ``mn`` for the row of A (or column of B), ``k`` for the
position along K, T for the elements in 16 bytes and S for the 16-byte chunks of a swizzled line (1,
2, 4 or 8). The element lies at ``start`` plus

=====  ========  ================================================================================
major  swizzle   offset in bytes
=====  ========  ================================================================================
K      yes       ``mn%8 * 16S + mn//8 * stride + k*size``
K      none      ``mn%8 * 16 + mn//8 * stride + k//T * leading + k%T * size``
MN     yes       ``mn%T * size + c%S * 16 + c//S * leading + k%8 * 16S + k//8 * stride``, c = mn//T
MN     none      ``mn%T * size + c * stride + k%8 * 16 + k//8 * leading``
=====  ========  ================================================================================

and then the swizzle is applied to the whole address. (128-byte swizzle with 32-byte atoms, MN-major
only: groups of four k instead of eight.) Since the swizzle looks at the address alone, a start that
is moved along K inside a swizzled line simply works.

Sources: PTX ISA 9.7.16.3 "Major-ness supported by strides", 9.7.16.4.1 "Shared memory descriptor"
and 9.7.15.5.1.2 for wgmma. How the base offset enters is our reading of its definition; an H200
reads the same elements for all descriptors of `tests/emulator/device`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.tensor import swizzle as swizzles

Major = Literal["K", "MN"]

_TCGEN05 = {0: "none", 1: "128B_ATOM_32B", 2: "128B", 4: "64B", 6: "32B"}
_WGMMA = {0: "none", 1: "128B", 2: "64B", 3: "32B"}


@dataclass(frozen=True, slots=True)
class SmemDescriptor:
    """What a 64-bit matrix descriptor says.

    Args:
        start: byte address in the CTA's shared memory.
        leading: leading-dimension byte offset (LBO).
        stride: stride-dimension byte offset (SBO).
        swizzle: mode of `fa4kernel.emulator.tensor.swizzle`.
        base_offset: 128-byte lines by which the swizzle pattern is displaced, 0 to 7.

    >>> d = SmemDescriptor.decode(0x4000_4040_0001_0040)
    >>> d.start, d.leading, d.stride, d.swizzle
    (1024, 16, 1024, '128B')
    """

    start: int
    leading: int
    stride: int
    swizzle: str
    base_offset: int = 0

    @classmethod
    def decode(cls, value: int) -> SmemDescriptor:
        """Read a tcgen05 descriptor.

        Args:
            value: the 64 bits.

        Raises:
            ValueError: a field holds what the manual forbids, or the absolute leading-dimension
                mode of sm_103, which is not modelled.

        Source: PTX ISA 9.7.16.4.1, table 40.
        """
        value = int(value)
        if value >> 46 & 7 != 1:
            raise ValueError(
                f"bits 46 to 48 of a tcgen05 descriptor must be 0b001, not "
                f"{value >> 46 & 7:#05b}: {value:#018x}"
            )
        if value >> 52 & 1:
            raise ValueError(f"absolute leading dimension (bit 52) needs sm_103: {value:#018x}")
        if value >> 53 & 0xFF:
            raise ValueError(f"bits 53 to 60 of a tcgen05 descriptor must be 0: {value:#018x}")
        return cls._decoded(value, value >> 61, _TCGEN05)

    @classmethod
    def decode_wgmma(cls, value: int) -> SmemDescriptor:
        """Read a wgmma descriptor (Hopper).

        Args:
            value: the 64 bits.

        Source: PTX ISA 9.7.15.5.1.2.2.

        >>> SmemDescriptor.decode_wgmma(0x4000_0040_0001_0040).swizzle
        '128B'
        """
        value = int(value)
        return cls._decoded(value, value >> 62, _WGMMA)

    @classmethod
    def _decoded(cls, value: int, mode: int, modes: dict[int, str]) -> SmemDescriptor:
        if mode not in modes:
            raise ValueError(f"swizzle mode {mode} is invalid in descriptor {value:#018x}")
        return cls(
            start=(value & 0x3FFF) << 4,
            leading=(value >> 16 & 0x3FFF) << 4,
            stride=(value >> 32 & 0x3FFF) << 4,
            swizzle=modes[mode],
            base_offset=value >> 49 & 7,
        )

    def offsets(self, rows: int, k: int, size: int, major: Major = "K") -> NDArray[np.int32]:
        """Return where each element lies, start and swizzle included.

        Args:
            rows: rows of A or columns of B in this CTA, a multiple of 8.
            k: elements along K.
            size: bytes of an element, 1, 2 or 4.
            major: the direction in which neighbours lie together in memory.

        Returns:
            Byte addresses in the CTA's shared memory, shape (rows, k), cached and read-only.

        Raises:
            ValueError: the swizzle or the sizes don't go with the direction.

        >>> d = SmemDescriptor(1024, 16, 1024, "128B")
        >>> d.offsets(16, 16, 2)[[0, 1, 9], 0]
        array([1024, 1168, 2192], dtype=int32)
        """
        return _offsets(self, rows, k, size, major)

    def chunks(self, rows: int, k: int, size: int, major: Major = "K") -> NDArray[np.intp]:
        """Return the 16-byte chunks that hold the matrix, in the order of its direction.

        Args:
            rows, k, size, major: as in `offsets`.

        Returns:
            Chunk indices (byte address / 16), cached and read-only: shape (rows, k size / 16) when
            K-major, (k, rows size / 16) when MN-major.

        Raises:
            ValueError: as in `offsets`, or the direction isn't made of whole chunks.

        >>> SmemDescriptor(1024, 16, 1024, "128B").chunks(8, 16, 2)[2]
        array([82, 83])
        """
        return _chunks(self, rows, k, size, major)


def read(
    shared: NDArray[np.uint8],
    descriptor: SmemDescriptor,
    rows: int,
    k: int,
    kind: np.dtype[Any],
    major: Major = "K",
) -> NDArray[Any]:
    """Read a matrix from the shared memories of several CTAs.

    Args:
        shared: shape (n, size), C-contiguous.
        descriptor: where the matrix lies in each.
        rows: rows of A or columns of B, a multiple of 8.
        k: elements along K.
        kind: what an element is kept in, of 1, 2 or 4 bytes.
        major: the direction in which neighbours lie together.

    Returns:
        Shape (n, rows, k), a copy; transposed in memory if ``major`` is "MN".

    Raises:
        ValueError: as in `SmemDescriptor.chunks`.
        IndexError: the matrix reaches past the end of shared memory.

    >>> shared = np.arange(1024, dtype=np.uint16).view(np.uint8)[None]
    >>> d = SmemDescriptor(0, 128, 256, "none")
    >>> read(shared, d, 8, 16, np.dtype(np.uint16))[0, 1, [0, 8]]
    array([ 8, 72], dtype=uint16)
    """
    chunks = descriptor.chunks(rows, k, kind.itemsize, major)
    highest = _highest(descriptor, rows, k, kind.itemsize, major)
    if highest >= shared.shape[1] // 16:
        raise IndexError(
            f"the matrix reaches byte {16 * highest + 16} of a shared memory of "
            f"{shared.shape[1]} bytes: {descriptor}"
        )
    matrix = shared.view(np.complex128).take(chunks, axis=1, mode="clip").view(kind)
    return matrix if major == "K" else matrix.swapaxes(-1, -2)


@lru_cache(maxsize=4096)
def _offsets(d: SmemDescriptor, rows: int, k: int, size: int, major: Major) -> NDArray[np.int32]:
    if size not in (1, 2, 4):
        raise ValueError(f"elements have 1, 2 or 4 bytes, not {size}")
    if rows % 8 or rows <= 0:
        raise ValueError(f"rows must be a multiple of 8, not {rows}")
    t = 16 // size
    mn = np.arange(rows, dtype=np.int32)[:, None]
    kk = np.arange(k, dtype=np.int32)[None, :]
    rule = swizzles.rule_of(d.swizzle)
    line = max(rule.width, 16)
    if rule.atom == 32 and (major == "K" or size != 4):
        raise ValueError("128-byte swizzle with 32-byte atoms needs MN-major 32-bit elements")
    if major == "MN" and size == 4 and rule.atom != 32:
        raise ValueError("MN-major 32-bit elements need 128-byte swizzle with 32-byte atoms")
    if major == "K":
        offset = mn % 8 * line + mn // 8 * d.stride
        if d.swizzle == "none":
            offset = offset + kk // t * d.leading + kk % t * size
        else:
            offset = offset + kk * size
    else:
        c = mn // t
        if d.swizzle == "none":
            offset = mn % t * size + c * d.stride + kk % 8 * 16 + kk // 8 * d.leading
        else:
            s, group = line // 16, 4 if rule.atom == 32 else 8
            offset = mn % t * size + c % s * 16 + c // s * d.leading
            offset = offset + kk % group * line + kk // group * d.stride
    displaced = offset + (d.start - 128 * d.base_offset)
    addresses: NDArray[np.int32] = swizzles.apply(displaced, d.swizzle) + 128 * d.base_offset
    addresses = np.ascontiguousarray(addresses, np.int32)
    addresses.setflags(write=False)
    return addresses


@lru_cache(maxsize=4096)
def _chunks(d: SmemDescriptor, rows: int, k: int, size: int, major: Major) -> NDArray[np.intp]:
    t = 16 // size
    if (k if major == "K" else rows) % t:
        raise ValueError(f"{k} x {rows} elements of {size} bytes are not made of 16-byte chunks")
    offsets = _offsets(d, rows, k, size, major)
    first = offsets[:, ::t] if major == "K" else offsets[::t].T
    chunks = np.ascontiguousarray(first >> 4, np.intp)
    chunks.setflags(write=False)
    return chunks


@lru_cache(maxsize=4096)
def _highest(d: SmemDescriptor, rows: int, k: int, size: int, major: Major) -> int:
    """Return the last chunk that a matrix touches."""
    return int(_chunks(d, rows, k, size, major).max())
