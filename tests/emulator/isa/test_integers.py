"""Integer instructions against the manual's own pseudo-code, bit by bit in plain Python."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.emulator.isa.case import values

WORD = st.one_of(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 2**31, 2**31 - 1, 2**32 - 1]))
LONG = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 2**63, 2**63 - 1, 2**64 - 1]))
SMALL = st.one_of(st.integers(0, 80), st.integers(0, 300))


def one(text: str, kinds: str, *row: int) -> int:
    """The single result of a line for one row."""
    (result,) = values(text, kinds, row)
    return result[0]


def signed(x: int, bits: int) -> int:
    """Two's complement."""
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> bits - 1 else x


def number(x: int, kind: str) -> int:
    """The integer that bits of a type stand for."""
    bits = int(kind[1:])
    return signed(x, bits) if kind[0] == "s" else x & ((1 << bits) - 1)


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
@given(a=LONG, b=LONG, c=LONG)
def test_products_have_the_bits_of_the_whole_product(kind: str, a: int, b: int, c: int) -> None:
    bits = int(kind[1:])
    a, b, c = (x & ((1 << bits) - 1) for x in (a, b, c))
    exact = number(a, kind) * number(b, kind)
    pair, triple = f"{kind} {kind} -> {kind}", f"{kind} {kind} {kind} -> {kind}"
    mask = (1 << bits) - 1
    assert one(f"mul.lo.{kind} d, a, b;", pair, a, b) == exact & mask
    assert one(f"mul.hi.{kind} d, a, b;", pair, a, b) == exact >> bits & mask
    assert one(f"mad.lo.{kind} d, a, b, c;", triple, a, b, c) == (exact + c) & mask
    assert one(f"mad.hi.{kind} d, a, b, c;", triple, a, b, c) == ((exact >> bits) + c) & mask
    if bits < 64:
        wide = f"{kind[0]}{2 * bits}"
        got = one(f"mul.wide.{kind} d, a, b;", f"{kind} {kind} -> {wide}", a, b)
        assert got == exact % (1 << 2 * bits)


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
@given(a=LONG, b=LONG)
def test_quotient_and_remainder_put_the_dividend_together(kind: str, a: int, b: int) -> None:
    bits = int(kind[1:])
    a, b = a & ((1 << bits) - 1), b & ((1 << bits) - 1) or 1
    x, y = number(a, kind), number(b, kind)
    quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    pair = f"{kind} {kind} -> {kind}"
    assert one(f"div.{kind} d, a, b;", pair, a, b) == quotient % (1 << bits)
    assert one(f"rem.{kind} d, a, b;", pair, a, b) == (x - quotient * y) % (1 << bits)


@pytest.mark.parametrize("kind", ["u32", "s32"])
@pytest.mark.parametrize("part", ["lo", "hi"])
@given(a=WORD, b=WORD)
def test_24_bit_products_have_48_bits(kind: str, part: str, a: int, b: int) -> None:
    x, y = (signed(v, 24) if kind == "s32" else v & 0xFFFFFF for v in (a, b))
    want = x * y >> (16 if part == "hi" else 0)
    got = one(f"mul24.{part}.{kind} d, a, b;", f"{kind} {kind} -> {kind}", a, b)
    assert got == want & 0xFFFFFFFF


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
@given(a=LONG, b=SMALL, c=SMALL)
def test_bit_fields_are_extracted_as_written(kind: str, a: int, b: int, c: int) -> None:
    msb = int(kind[1:]) - 1
    a &= (2 << msb) - 1
    start, length = (b & 0xFF, c & 0xFF) if msb == 31 else (b, c)  # as an H200 takes them
    length = min(length, 64)
    sign = 0
    if kind[0] == "s" and length:
        sign = a >> min(start + length - 1, msb) & 1
    want = 0
    for i in range(msb + 1):
        bit = a >> start + i & 1 if i < length and start + i <= msb else sign
        want |= bit << i
    assert one(f"bfe.{kind} d, a, b, c;", f"{kind} u32 u32 -> {kind}", a, b, c) == want


@pytest.mark.parametrize("kind", ["b32", "b64"])
@given(a=LONG, b=LONG, c=SMALL, d=SMALL)
def test_bit_fields_are_inserted_as_written(kind: str, a: int, b: int, c: int, d: int) -> None:
    bits = int(kind[1:])
    a, b = a & ((1 << bits) - 1), b & ((1 << bits) - 1)
    want = b
    start, length = (c & 0xFF, d & 0xFF) if bits == 32 else (c, d)  # as an H200 takes them
    for i in range(min(length, 64)):
        if start + i < bits:
            want = want & ~(1 << start + i) | (a >> i & 1) << start + i
    assert one(f"bfi.{kind} d, a, b, c, f;", f"{kind} {kind} u32 u32 -> {kind}", a, b, c, d) == want


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
@given(a=WORD, b=WORD, c=st.one_of(SMALL, WORD))
def test_funnel_shifts_shift_the_pair(mode: str, a: int, b: int, c: int) -> None:
    n = min(c, 32) if mode == "clamp" else c & 31
    pair = b << 32 | a
    kinds = "b32 b32 u32 -> b32"
    left = one(f"shf.l.{mode}.b32 d, a, b, c;", kinds, a, b, c)
    assert left == pair << n >> 32 & 0xFFFFFFFF
    assert one(f"shf.r.{mode}.b32 d, a, b, c;", kinds, a, b, c) == pair >> n & 0xFFFFFFFF


@pytest.mark.parametrize("kind", ["u16", "u32", "u64", "s16", "s32", "s64"])
@given(a=LONG, n=st.one_of(SMALL, WORD))
def test_shift_counts_are_clamped(kind: str, a: int, n: int) -> None:
    bits = int(kind[1:])
    a &= (1 << bits) - 1
    want = number(a, kind) >> min(n, bits)
    assert one(f"shr.{kind} d, a, b;", f"{kind} u32 -> {kind}", a, n) == want & ((1 << bits) - 1)
    bare = f"b{bits}"
    left = one(f"shl.{bare} d, a, b;", f"{bare} u32 -> {bare}", a, n)
    assert left == (a << min(n, bits)) & ((1 << bits) - 1)


@given(a=WORD, b=WORD, c=WORD)
def test_bytes_are_picked_by_nibbles(a: int, b: int, c: int) -> None:
    source = b << 32 | a
    want = 0
    for i in range(4):
        nibble = c >> 4 * i & 15
        byte = source >> 8 * (nibble & 7) & 0xFF
        if nibble & 8:
            byte = 0xFF if byte & 0x80 else 0
        want |= byte << 8 * i
    assert one("prmt.b32 d, a, b, c;", "b32 b32 b32 -> b32", a, b, c) == want


@given(a=WORD, b=WORD, c=WORD, table=st.integers(0, 255))
def test_lop3_looks_every_bit_up(a: int, b: int, c: int, table: int) -> None:
    want = 0
    for i in range(32):
        index = (a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1
        want |= (table >> index & 1) << i
    assert one(f"lop3.b32 d, a, b, c, {table};", "b32 b32 b32 -> b32", a, b, c) == want


@pytest.mark.parametrize("bits", [32, 64])
@given(a=LONG)
def test_bits_are_counted_and_found(bits: int, a: int) -> None:
    a &= (1 << bits) - 1
    assert one(f"popc.b{bits} d, a;", f"b{bits} -> u32", a) == bin(a).count("1")
    assert one(f"clz.b{bits} d, a;", f"b{bits} -> u32", a) == bits - a.bit_length()
    assert one(f"brev.b{bits} d, a;", f"b{bits} -> b{bits}", a) == int(f"{a:0{bits}b}"[::-1], 2)
    found = (a.bit_length() - 1) & 0xFFFFFFFF
    assert one(f"bfind.u{bits} d, a;", f"u{bits} -> u32", a) == found
    inverted = ~a & ((1 << bits) - 1) if a >> bits - 1 else a
    found = (inverted.bit_length() - 1) & 0xFFFFFFFF
    assert one(f"bfind.s{bits} d, a;", f"s{bits} -> u32", a) == found


@given(mask=WORD, base=st.integers(0, 31), offset=st.integers(-33, 33))
def test_the_nth_set_bit_is_found_by_counting(mask: int, base: int, offset: int) -> None:
    want, place, left = 0xFFFFFFFF, base, abs(offset) - 1
    if offset == 0:
        want = base if mask >> base & 1 else want
    else:
        while 0 <= place < 32:
            if mask >> place & 1:
                if left == 0:
                    want = place
                    break
                left -= 1
            place += 1 if offset > 0 else -1
    got = one("fns.b32 d, a, b, c;", "b32 u32 s32 -> b32", mask, base, offset & 0xFFFFFFFF)
    assert got == want


@pytest.mark.parametrize("kind", ["u32", "s32"])
@pytest.mark.parametrize("mode", ["clamp", "wrap"])
@given(a=WORD, b=st.one_of(SMALL, WORD))
def test_low_bits_are_extended(kind: str, mode: str, a: int, b: int) -> None:
    if mode == "clamp" and b >= 32:
        want = a
    else:
        n = b & 31
        low = a & ((1 << n) - 1)
        want = signed(low, n) & 0xFFFFFFFF if kind == "s32" and n else low
    assert one(f"szext.{mode}.{kind} d, a, b;", f"{kind} u32 -> {kind}", a, b) == want


@given(a=WORD, b=WORD, c=WORD)
@pytest.mark.parametrize("first", ["u32", "s32"])
@pytest.mark.parametrize("second", ["u32", "s32"])
def test_dot_products_of_bytes(first: str, second: str, a: int, b: int, c: int) -> None:
    def part(x: int, kind: str, i: int, bits: int) -> int:
        x = x >> bits * i & (1 << bits) - 1
        return signed(x, bits) if kind == "s32" else x

    into = "u32" if (first, second) == ("u32", "u32") else "s32"
    kinds = f"{first} {second} {into} -> {into}"
    total = c + sum(part(a, first, i, 8) * part(b, second, i, 8) for i in range(4))
    got = one(f"dp4a.{first}.{second} d, a, b, c;", kinds, a, b, c)
    assert got == total & 0xFFFFFFFF
    for mode, start in (("lo", 0), ("hi", 2)):
        total = c + sum(part(a, first, i, 16) * part(b, second, start + i, 8) for i in range(2))
        got = one(f"dp2a.{mode}.{first}.{second} d, a, b, c;", kinds, a, b, c)
        assert got == total & 0xFFFFFFFF
