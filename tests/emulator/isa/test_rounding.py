"""Sums, products and conversions are rounded once: held against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fa4kernel.emulator.isa.rounding import odd_integer
from tests.emulator.isa.case import values
from tests.emulator.isa.exact import FORMS, is_finite, rounded, value

MODES = ("rn", "rz", "rm", "rp")


def finite(kind: str) -> st.SearchStrategy[int]:
    """Bits of finite numbers, with a liking for few bits, subnormals and the ends of the range."""
    form = FORMS[kind]
    top = (1 << form.bits - 1 - form.fraction) - 2
    fraction = st.one_of(
        st.integers(0, (1 << form.fraction) - 1),
        st.sampled_from([0, 1, (1 << form.fraction) - 1, 1 << form.fraction - 1]),
        st.integers(0, form.fraction - 1).map(lambda shift: 1 << shift),
    )
    middle = 1 - form.least
    field = st.one_of(
        st.integers(0, top),
        st.integers(max(0, middle - 30), min(top, middle + 30)),
        st.sampled_from([0, top]),
    )
    return st.builds(
        lambda sign, e, f: sign << form.bits - 1 | e << form.fraction | f,
        st.integers(0, 1),
        field,
        fraction,
    )


F32 = finite("f32")


def sign_of_zero(mode: str, x: Fraction, x_bits: int, y: Fraction, y_bits: int, bits: int) -> int:
    """The sign of an exact zero sum (IEEE 754, 6.3)."""
    first, second = x_bits >> bits - 1, y_bits >> bits - 1
    if first == second and x == 0 and y == 0:
        return first
    return 1 if mode == "rm" else 0


@pytest.mark.parametrize("mode", MODES)
@given(rows=st.lists(st.tuples(F32, F32), min_size=1, max_size=20))
@settings(max_examples=60)
def test_a_sum_is_rounded_once(mode: str, rows: list[tuple[int, int]]) -> None:
    results = values(f"add.{mode}.f32 d, a, b;", "f32 f32 -> f32", *rows)
    for (a, b), (d,) in zip(rows, results, strict=True):
        x, y = value(a, "f32"), value(b, "f32")
        want = rounded(x + y, "f32", mode, sign_of_zero(mode, x, a, y, b, 32))
        assert d == want, (hex(a), hex(b), hex(d), hex(want))


@pytest.mark.parametrize("mode", MODES)
@given(rows=st.lists(st.tuples(F32, F32), min_size=1, max_size=20))
@settings(max_examples=60)
def test_a_product_is_rounded_once(mode: str, rows: list[tuple[int, int]]) -> None:
    results = values(f"mul.{mode}.f32 d, a, b;", "f32 f32 -> f32", *rows)
    for (a, b), (d,) in zip(rows, results, strict=True):
        want = rounded(value(a, "f32") * value(b, "f32"), "f32", mode, (a ^ b) >> 31)
        assert d == want, (hex(a), hex(b), hex(d), hex(want))


@pytest.mark.parametrize("mode", MODES)
@given(rows=st.lists(st.tuples(F32, F32, F32), min_size=1, max_size=20))
@settings(max_examples=100)
def test_a_fused_multiply_add_is_rounded_once(mode: str, rows: list[tuple[int, int, int]]) -> None:
    results = values(f"fma.{mode}.f32 d, a, b, c;", "f32 f32 f32 -> f32", *rows)
    for (a, b, c), (d,) in zip(rows, results, strict=True):
        x, y = value(a, "f32") * value(b, "f32"), value(c, "f32")
        want = rounded(x + y, "f32", mode, sign_of_zero(mode, x, a ^ b, y, c, 32))
        assert d == want, (hex(a), hex(b), hex(c), hex(d), hex(want))


@pytest.mark.parametrize("mode", MODES)
def test_a_fused_multiply_add_next_to_a_midpoint_is_rounded_once(mode: str) -> None:
    """Odd products of 25 bits are midpoints of float32; float64 loses the tiny term beside them."""
    rng = np.random.default_rng(20260305)
    rows = []
    for _ in range(400):
        a = 2 * int(rng.integers(2048, 4096)) + 1
        b = int(rng.integers(2**24 // a + 1, 2**25 // a)) | 1
        assert 2**24 < a * b < 2**25
        scale = 2.0 ** int(rng.integers(-60, 60))
        sign, side = (float(x) for x in rng.choice([-1.0, 1.0], 2))
        rows.append((sign * a * scale, float(b), side * 2.0 ** int(rng.integers(-126, -70))))
    results = values(f"fma.{mode}.f32 d, a, b, c;", "f32 f32 f32 -> f32", *rows)
    for (x, y, z), (d,) in zip(rows, results, strict=True):
        want = rounded(Fraction(x) * Fraction(y) + Fraction(z), "f32", mode)
        assert d == want, (x, y, z, hex(d), hex(want))


@pytest.mark.parametrize("mode", MODES)
@given(rows=st.lists(st.tuples(F32, F32), min_size=1, max_size=20))
@settings(max_examples=60)
def test_a_quotient_is_rounded_once(mode: str, rows: list[tuple[int, int]]) -> None:
    rows = [(a, b) for a, b in rows if value(b, "f32")] or [(0x3F800000, 0x40400000)]
    results = values(f"div.{mode}.f32 d, a, b;", "f32 f32 -> f32", *rows)
    for (a, b), (d,) in zip(rows, results, strict=True):
        want = rounded(value(a, "f32") / value(b, "f32"), "f32", mode, (a ^ b) >> 31)
        assert d == want, (hex(a), hex(b), hex(d), hex(want))


@pytest.mark.parametrize("mode", MODES)
@given(rows=st.lists(F32, min_size=1, max_size=20))
@settings(max_examples=60)
def test_a_square_root_is_on_the_right_side(mode: str, rows: list[int]) -> None:
    rows = [a & 0x7FFFFFFF for a in rows]
    results = values(f"sqrt.{mode}.f32 d, a;", "f32 -> f32", *((a,) for a in rows))
    for a, (d,) in zip(rows, results, strict=True):
        x, root = value(a, "f32"), value(d, "f32")
        above, below = value(d + 1, "f32"), value(max(d - 1, 0), "f32")
        if mode in ("rz", "rm"):
            assert root**2 <= x < above**2 or x == 0
        elif mode == "rp":
            assert below**2 < x <= root**2 or x == 0
        else:
            assert ((root + below) / 2) ** 2 <= x <= ((root + above) / 2) ** 2


@pytest.mark.parametrize(
    ("kind", "source"), [("f16", "f32"), ("bf16", "f32"), ("f32", "f64"), ("bf16", "f16")]
)
@pytest.mark.parametrize("mode", MODES)
@given(data=st.data())
@settings(max_examples=40)
def test_a_narrowing_conversion_is_rounded_once(
    kind: str, source: str, mode: str, data: st.DataObject
) -> None:
    rows = data.draw(st.lists(finite(source), min_size=1, max_size=20))
    results = values(
        f"cvt.{mode}.{kind}.{source} d, a;", f"{source} -> {kind}", *((a,) for a in rows)
    )
    for a, (d,) in zip(rows, results, strict=True):
        want = rounded(value(a, source), kind, mode, a >> FORMS[source].bits - 1)
        assert d == want, (hex(a), hex(d), hex(want))


@given(a=F32, b=F32)
def test_packing_to_bfloat16_rounds_as_the_single_conversion(a: int, b: int) -> None:
    ((d,),) = values("cvt.rn.bf16x2.f32 d, a, b;", "f32 f32 -> bf16x2", (a, b))
    assert d >> 16 == rounded(value(a, "f32"), "bf16", "rn", a >> 31)
    assert d & 0xFFFF == rounded(value(b, "f32"), "bf16", "rn", b >> 31)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@given(data=st.data())
@settings(max_examples=80)
def test_arithmetic_of_16_bits_is_rounded_once(kind: str, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.tuples(*(finite(kind),) * 3), min_size=1, max_size=20))
    kinds = f"{kind} {kind}"
    sums = values(f"add.{kind} d, a, b;", f"{kinds} -> {kind}", *(r[:2] for r in rows))
    products = values(f"mul.{kind} d, a, b;", f"{kinds} -> {kind}", *(r[:2] for r in rows))
    fused = values(f"fma.rn.{kind} d, a, b, c;", f"{kinds} {kind} -> {kind}", *rows)
    for (a, b, c), (s,), (p,), (f,) in zip(rows, sums, products, fused, strict=True):
        x, y, z = value(a, kind), value(b, kind), value(c, kind)
        assert s == rounded(x + y, kind, "rn", sign_of_zero("rn", x, a, y, b, 16))
        assert p == rounded(x * y, kind, "rn", (a ^ b) >> 15)
        zero = sign_of_zero("rn", x * y, a ^ b, z, c, 16)
        assert f == rounded(x * y + z, kind, "rn", zero), (hex(a), hex(b), hex(c), hex(f))


@given(rows=st.lists(st.tuples(*(finite("f64"),) * 3), min_size=1, max_size=5))
@settings(max_examples=60)
def test_a_fused_multiply_add_of_float64_is_rounded_once(rows: list[tuple[int, int, int]]) -> None:
    results = values("fma.rn.f64 d, a, b, c;", "f64 f64 f64 -> f64", *rows)
    for (a, b, c), (d,) in zip(rows, results, strict=True):
        x, y = value(a, "f64") * value(b, "f64"), value(c, "f64")
        assert d == rounded(x + y, "f64", "rn", sign_of_zero("rn", x, a ^ b, y, c, 64))


@pytest.mark.parametrize("kind", ["s64", "u64"])
@pytest.mark.parametrize("mode", MODES)
@given(x=st.integers(0, 2**64 - 1), shift=st.integers(0, 63))
def test_a_long_integer_becomes_a_float_rounded_once(
    kind: str, mode: str, x: int, shift: int
) -> None:
    x >>= shift
    ((d,),) = values(f"cvt.{mode}.f32.{kind} d, a;", f"{kind} -> f32", (x,))
    signed = x - 2**64 if kind == "s64" and x >> 63 else x
    assert d == rounded(Fraction(signed), "f32", mode)


@given(x=st.integers(-(2**63), 2**63 - 1))
def test_an_odd_rounded_integer_is_close_and_on_the_same_side_of_coarse_values(x: int) -> None:
    got = int(odd_integer(np.array([x], np.int64))[0])
    assert abs(got - x) < 2**11
    assert (got >> 12 == x >> 12) or got == x


@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u64", "s16", "u8"])
@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
@given(a=F32)
def test_a_float_becomes_the_nearest_integer_of_the_range(kind: str, mode: str, a: int) -> None:
    wide = {"s16": "s16", "u8": "b16"}.get(kind, kind)
    ((d,),) = values(f"cvt.{mode}.{kind}.f32 d, a;", f"f32 -> {wide}", (a,))
    x = value(a, "f32")
    down = x.numerator // x.denominator
    rest = x - down
    whole = {
        "rni": down + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and down % 2 == 1)),
        "rzi": down if x >= 0 or rest == 0 else down + 1,
        "rmi": down,
        "rpi": down + (rest > 0),
    }[mode]
    bits = int(kind[1:])
    least, most = (
        (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    )
    assert d == max(least, min(most, whole)) % (1 << bits)
    assert is_finite(a, "f32")
