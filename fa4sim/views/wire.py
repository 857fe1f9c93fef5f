"""The few pieces of protobuf's wire format that a Perfetto trace needs, written by hand.

A message is a row of fields, each a tag (field number and wire type) and a value: a varint, eight
bytes, or a length and that many bytes. Writing them directly is several times faster than
building message objects, and needs no library; that the bytes mean what they should is checked
by reading them back with Perfetto's own classes.

Source: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

VARINT, FIXED64, LENGTH = 0, 1, 2


def varint(value: int) -> bytes:
    """A non-negative integer, seven bits a byte, lowest first.

    >>> varint(300).hex()
    'ac02'
    """
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


#: The varints of small numbers, such as lengths of messages.
SMALL = [varint(value) for value in range(1 << 14)]


def varints(values: NDArray[np.int64]) -> list[bytes]:
    """Many non-negative integers at once.

    >>> [v.hex() for v in varints(np.array([1, 300]))]
    ['01', 'ac02']
    """
    if not len(values):
        return []
    width = max(1, -(-int(values.max()).bit_length() // 7))
    groups = values[:, None] >> 7 * np.arange(width)
    # A byte is followed by another if anything is left above it.
    more = groups >= 0x80
    data = (groups & 0x7F | more << 7).astype(np.uint8).tobytes()
    lengths = (1 + more[:, :-1].sum(axis=1)).tolist()
    starts = range(0, len(data), width)
    return [data[at : at + length] for at, length in zip(starts, lengths, strict=True)]


def sized(body: bytes) -> bytes:
    """``body`` behind its length."""
    length = len(body)
    return (SMALL[length] if length < len(SMALL) else varint(length)) + body


def signed(value: int) -> bytes:
    """An ``int64`` as protobuf writes it: two's complement in a varint."""
    return varint(value & 0xFFFF_FFFF_FFFF_FFFF)


def tag(field: int, kind: int) -> bytes:
    """What stands before a field's value."""
    return varint(field << 3 | kind)


def number(field: int, value: int) -> bytes:
    """An integer, boolean or enum field."""
    return tag(field, VARINT) + signed(value)


def fixed64(field: int, value: int) -> bytes:
    """An eight-byte field."""
    return tag(field, FIXED64) + value.to_bytes(8, "little")


def message(field: int, *parts: bytes) -> bytes:
    """A field that holds a message made of ``parts``."""
    return tag(field, LENGTH) + sized(b"".join(parts))


def text(field: int, value: str) -> bytes:
    """A string field."""
    return message(field, value.encode())
