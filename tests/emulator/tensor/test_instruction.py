"""Instruction descriptors: fields, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4kernel.emulator.tensor.instruction import RESULTS, TYPES, InstructionDescriptor


def encoded(kind, a, b, d, m=128, n=64, extra=0):
    code = {name: i for i, name in TYPES[kind].items()}
    result = {name: i for i, name in RESULTS[kind].items()}
    fields = result[d] << 4 | code[a] << 7 | code[b] << 10 | n // 8 << 17 | m // 16 << 24
    return fields | extra


@pytest.mark.parametrize(
    ("value", "m", "b_major"),
    [
        (0x08200490, 128, "K"),
        (0x08210490, 128, "MN"),
        (0x10200490, 256, "K"),
        (0x10210490, 256, "MN"),
    ],
)
def test_the_descriptors_of_fa4(value, m, b_major):
    d = InstructionDescriptor.decode(value, "f16")
    assert d == InstructionDescriptor("f16", m, 128, "bf16", "bf16", "f32", "K", b_major)
    assert d.k == 16
    d.check_shape(cta_group=m // 128)


@given(st.data())
def test_every_field_is_found_again(data):
    kind = data.draw(st.sampled_from(list(TYPES)))
    a = data.draw(st.sampled_from([*TYPES[kind].values()]))
    b = data.draw(st.sampled_from([*TYPES[kind].values()]))
    d = data.draw(st.sampled_from([*RESULTS[kind].values()]))
    m, n = data.draw(st.sampled_from([32, 64, 128, 256])), data.draw(st.integers(1, 32)) * 8
    flags = {13: "negate_a", 14: "negate_b"} if kind != "i8" else {3: "saturate"}
    set_ = [bit for bit in flags if data.draw(st.booleans())]
    majors = [bit for bit in (15, 16) if data.draw(st.booleans())]
    shift = data.draw(st.integers(0, 3))
    extra = sum(1 << bit for bit in (*set_, *majors)) | shift << 30
    narrow = [
        dtype in ("e2m3", "e3m2", "e2m1") for dtype, bit in ((a, 15), (b, 16)) if bit in majors
    ]
    value = encoded(kind, a, b, d, m, n, extra)
    if any(narrow) or (kind == "f16" and d == "f16" and "bf16" in (a, b)):
        with pytest.raises(ValueError, match=f"kind::{kind}"):
            InstructionDescriptor.decode(value, kind)
        return
    decoded = InstructionDescriptor.decode(value, kind)
    assert (decoded.m, decoded.n) == (m, n)
    assert (decoded.a_dtype, decoded.b_dtype, decoded.d_dtype) == (a, b, d)
    assert decoded.a_major == ("MN" if 15 in majors else "K")
    assert decoded.b_major == ("MN" if 16 in majors else "K")
    for bit, name in flags.items():
        assert getattr(decoded, name) == (bit in set_)
    assert decoded.max_shift == (0, 8, 16, 32)[shift]
    assert decoded.k * decoded.operand_bytes == 32


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (0x08200490, "mxf4", "kind 'mxf4' is not modelled"),
        (0x08200490 | 1 << 6, "f16", "reserved bits"),
        (0x08200490 | 1 << 23, "f16", "reserved bits"),
        (0x08200490 | 1 << 29, "f16", "reserved bits"),
        (0x08200490 | 1 << 2, "f16", "sparse"),
        (0x08200490 | 1 << 3, "f16", "only integers saturate"),
        (0x08200490, "tf32", "types of A and B are 1 and 1"),
        (0x08200490 ^ 3 << 4, "f16", "type of D is 2"),
        (0x08200490 ^ 1 << 4, "f16", "D in f16 needs"),
        (encoded("i8", "u8", "s8", "s32", extra=1 << 13), "i8", "cannot be negated"),
    ],
)
def test_forbidden_fields_are_refused_with_the_value(value, kind, message):
    with pytest.raises(ValueError, match=message):
        InstructionDescriptor.decode(value, kind)


def allowed(kind, dtype, result, cta_group, ws, extra=0):
    """Return the shapes that a form of the instruction allows."""
    shapes = set()
    for m in (32, 64, 128, 256):
        for n in range(8, 257, 8):
            value = encoded(kind, dtype, dtype, result, m, n, extra)
            try:
                InstructionDescriptor.decode(value, kind).check_shape(cta_group, ws)
            except ValueError:
                continue
            shapes.add((m, n))
    return {m for m, _ in shapes}, {n for _, n in shapes}


def test_shapes_are_those_of_the_manual():
    eights, sixteens = set(range(8, 257, 8)), set(range(16, 257, 16))
    for kind, dtype, result in [("f16", "bf16", "f32"), ("tf32", "tf32", "f32")]:
        assert allowed(kind, dtype, result, 1, False) == ({64, 128}, eights)
        assert allowed(kind, dtype, result, 2, False) == ({128, 256}, sixteens)
        assert allowed(kind, dtype, result, 1, True) == ({32, 64, 128}, {64, 128, 256})
        assert allowed(kind, dtype, result, 2, True) == (set(), set())
    assert allowed("f8f6f4", "e4m3", "f32", 1, False) == ({64, 128}, eights)
    assert allowed("f8f6f4", "e4m3", "f32", 1, False, 1 << 16) == ({64, 128}, sixteens)
    thirty_twos = set(range(32, 257, 32))
    assert allowed("f8f6f4", "e4m3", "f32", 2, False, 1 << 16) == ({128, 256}, thirty_twos)
    assert allowed("i8", "s8", "s32", 1, False) == ({64, 128}, {8, 24} | sixteens)
    assert allowed("i8", "s8", "s32", 2, False) == ({128, 256}, thirty_twos)
