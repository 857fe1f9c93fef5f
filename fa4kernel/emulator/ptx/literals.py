"""Integer and floating-point literals of PTX (PTX ISA 4.5)."""

from __future__ import annotations

import re
import struct

from fa4kernel.emulator.ptx.module import FloatImmediate, Immediate, PtxError

_INTEGER = re.compile(r"([+-]?)\s*(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0([0-7]+)|(0|[1-9]\d*))U?")
_EXACT_FLOAT = re.compile(r"([+-]?)\s*0(?:[fF]([0-9a-fA-F]{8})|[dD]([0-9a-fA-F]{16}))")
_DECIMAL_FLOAT = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?")


def literal(text: str) -> Immediate | FloatImmediate | None:
    """The literal a text is, or None if it is something else.

    Raises:
        PtxError: an integer of more than 64 bits.

    >>> literal("-0x10"), literal("0b101"), literal("017"), literal("7U")
    (Immediate(value=-16), Immediate(value=5), Immediate(value=15), Immediate(value=7))
    >>> literal("0f3F800000"), literal("1.0")
    (FloatImmediate(bits=1065353216, width=32), FloatImmediate(bits=4607182418800017408, width=64))
    >>> literal("%r1") is None
    True
    """
    value = integer(text)
    if value is not None:
        if not -(1 << 63) <= value < 1 << 64:
            raise PtxError(f"{text} does not fit into 64 bits")
        return Immediate(value)
    if match := _EXACT_FLOAT.fullmatch(text):
        sign, single, double = match.groups()
        width = 32 if single else 64
        bits = int(single or double, 16)
        return FloatImmediate(bits ^ (1 << (width - 1)) if sign == "-" else bits, width)
    if _DECIMAL_FLOAT.fullmatch(text):
        return FloatImmediate(struct.unpack("<Q", struct.pack("<d", float(text)))[0], 64)
    return Immediate(32) if text == "WARP_SZ" else None


def integer(text: str) -> int | None:
    """The integer that an integer literal denotes, or None if the text is not one."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    sign, hexadecimal, binary, octal, decimal = match.groups()
    if decimal:
        value = int(decimal)
    elif hexadecimal:
        value = int(hexadecimal, 16)
    else:
        value = int(octal, 8) if octal else int(binary, 2)
    return -value if sign == "-" else value
