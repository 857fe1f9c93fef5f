"""Bits to test with: the same on every machine and with every version of NumPy.

A counter is scrambled (splitmix64, by Steele, Lea and Flood), and what comes out chooses for each
value between special ones, ordinary ones with few fraction bits (so that ties occur), and any bits.
"""

from __future__ import annotations

import base64
import zlib

import numpy as np

#: Exponent and fraction bits of the types with a sign bit in front.
_FLOATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52), "tf32": (8, 23)}
_HALVES = {"f16x2": "f16", "bf16x2": "bf16"}
_INTEGERS = {"8": 16, "16": 16, "32": 32, "64": 64}


def scrambled(count: int, seed: int) -> np.ndarray:
    """Random uint64.

    >>> [hex(int(x)) for x in scrambled(2, 0)]
    ['0xe220a8397b1dcdaf', '0x6e789e6aa1b965f4']
    """
    z = (np.arange(1, count + 1, dtype=np.uint64) + np.uint64(seed << 32)) * np.uint64(
        0x9E3779B97F4A7C15
    )
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _special_floats(exponent: int, fraction: int) -> list[int]:
    """Zero, ones, the ends of all ranges, infinity and NaNs, with both signs."""
    inf = ((1 << exponent) - 1) << fraction
    bias = (1 << exponent - 1) - 1
    one = bias << fraction
    quiet = inf | 1 << fraction - 1
    last = (1 << fraction) - 1
    found = [0, 1, last, 1 << fraction, one, one + 1, one - 1, inf, inf - 1, inf | 1, quiet,
             quiet | 1, inf | last, one + (1 << fraction), one - (1 << fraction)]  # fmt: skip
    for power in (7, 8, 15, 16, 23, 24, 31, 32, 52, 53, 63, 64):
        if power <= bias:
            found += [(bias + power) << fraction, ((bias + power) << fraction) - 1]
    found += [one | 1 << fraction - 1, one | 3 << fraction - 2]
    sign = 1 << exponent + fraction
    return [x | s for x in found for s in (0, sign)]


def floats(kind: str, count: int, seed: int, spread: int = 20) -> np.ndarray:
    """Bits of a float type: a third special, a third ordinary, a third anything."""
    exponent, fraction = _FLOATS[kind]
    width = 1 + exponent + fraction
    mask = np.uint64((1 << width) - 1)
    which, choice, any_bits, kept = (scrambled(count, 4 * seed + i) for i in range(4))
    special = np.array(_special_floats(exponent, fraction), np.uint64)
    bias = (1 << exponent - 1) - 1
    spread = min(spread, bias - 1)
    e = np.uint64(bias - spread) + choice % np.uint64(2 * spread + 1)
    dropped = kept % np.uint64(fraction + 1)
    f = (any_bits & np.uint64((1 << fraction) - 1)) >> dropped << dropped
    sign = (any_bits >> np.uint64(63)) << np.uint64(width - 1)
    ordinary = sign | e << np.uint64(fraction) | f
    third = which % np.uint64(3)
    found = np.where(third == 0, special[choice % np.uint64(len(special))], any_bits & mask)
    return np.where(third == 1, ordinary, found)


def integers(width: int, count: int, seed: int) -> np.ndarray:
    """Bits of integers: near zero and the limits, small ones, and any."""
    mask = np.uint64((1 << width) - 1)
    which, choice, any_bits = (scrambled(count, 3 * seed + 1000 + i) for i in range(3))
    top = 1 << width - 1
    edges = np.array([0, 1, 2, top - 1, top, top + 1, 2 * top - 1, 2 * top - 2], np.uint64)
    third = which % np.uint64(3)
    found = np.where(third == 0, edges[choice % np.uint64(8)], any_bits & mask)
    return np.where(third == 1, choice % np.uint64(80), found)


def values(kind: str, count: int, seed: int) -> np.ndarray:
    """Bits for a register of a PTX type, uint64."""
    if kind == "pred":
        return scrambled(count, seed) & np.uint64(1)
    if kind in _HALVES:
        low, high = (floats(_HALVES[kind], count, 2 * seed + 500 + i) for i in (0, 1))
        return low | high << np.uint64(16)
    if kind in _FLOATS:
        return floats(kind, count, seed)
    digits = "".join(c for c in kind if c.isdigit())
    if kind[0] in "usb" and digits in _INTEGERS:
        return integers(_INTEGERS[digits], count, seed)
    return scrambled(count, seed) & np.uint64(0xFFFF)  # pairs of 8-bit floats


def canonical(raw: np.ndarray, kind: str) -> np.ndarray:
    """The same bits with every NaN of a float type as all ones but the sign."""
    if kind in _HALVES:
        low = canonical(raw & np.uint64(0xFFFF), _HALVES[kind])
        return low | canonical(raw >> np.uint64(16), _HALVES[kind]) << np.uint64(16)
    if kind not in _FLOATS:
        return raw
    exponent, fraction = _FLOATS[kind]
    low = np.uint64((1 << exponent + fraction) - 1)
    inf = np.uint64(((1 << exponent) - 1) << fraction)
    return np.where((raw & low) > inf, low, raw)


def packed(raw: np.ndarray) -> str:
    """An array's bytes as text: differences of 32-bit words, compressed."""
    data = np.ascontiguousarray(raw).tobytes()
    words = np.frombuffer(data + bytes(-len(data) % 4), "<u4")
    steps = np.diff(words, prepend=words.dtype.type(0))
    return f"{len(data)}:" + base64.b85encode(zlib.compress(steps.tobytes(), 9)).decode()


def unpacked(text: str, dtype: str) -> np.ndarray:
    """What `packed` made a text of.

    >>> unpacked(packed(np.arange(3)), "i8")
    array([0, 1, 2])
    """
    size, _, body = text.partition(":")
    steps = np.frombuffer(zlib.decompress(base64.b85decode(body)), "<u4")
    words = np.cumsum(steps, dtype=np.uint32)
    return np.frombuffer(words.tobytes()[: int(size)], dtype)


def digest(raw: np.ndarray) -> str:
    """A checksum of an array's bytes."""
    return f"{zlib.crc32(np.ascontiguousarray(raw).tobytes()):08x}"
