"""Numbers as PTX writes them."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4kernel.emulator.ptx.literals import integer, literal
from fa4kernel.emulator.ptx.module import FloatImmediate, Immediate


@given(st.integers(-(2**63), 2**64 - 1), st.sampled_from(["", "U"]))
def test_an_integer_means_the_same_in_every_base(value: int, suffix: str) -> None:
    sign, size = ("-" if value < 0 else ""), abs(value)
    texts = [f"{size}", f"{size:#x}", f"{size:#X}", f"{size:#b}", f"0{size:o}"]
    assert [integer(sign + text + suffix) for text in texts] == [value] * 5


@given(st.floats(width=32), st.floats())
def test_exact_floats_keep_their_bits(single: float, double: float) -> None:
    (bits32,) = struct.unpack("<I", struct.pack("<f", single))
    (bits64,) = struct.unpack("<Q", struct.pack("<d", double))
    assert literal(f"0f{bits32:08x}") == literal(f"0F{bits32:08X}") == FloatImmediate(bits32, 32)
    assert literal(f"0d{bits64:016X}") == FloatImmediate(bits64, 64)
    assert literal(f"-0f{bits32:08x}") == FloatImmediate(bits32 ^ 0x80000000, 32)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_decimal_floats_are_double_precision(value: float) -> None:
    text = repr(value)
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    assert literal(text) == FloatImmediate(bits, 64)


@pytest.mark.parametrize("text", ["", "-", "0x", "12ab", "0f3F80", "%r1", "1.2.3", "_", "p", "08"])
def test_other_texts_are_no_literals(text: str) -> None:
    assert literal(text) is None


def test_the_warp_size_has_a_name() -> None:
    assert literal("WARP_SZ") == Immediate(32)
