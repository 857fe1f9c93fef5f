"""Arithmetic on f32, f32x2 and f64 (PTX ISA 9.7.3)."""

from tests.emulator.isa.case import Case, op

INF, NAN = float("inf"), float("nan")
_ULP = 0x3F800001  # the float after 1
_TINY, _MINUS_TINY = 0x00000001, 0x80000001  # the smallest subnormals
_MAX, _LEAST = 0x7F7FFFFF, 0x00800000  # the largest float, the smallest normal one
_MAGIC = 12582912.0  # 1.5 * 2**23
_HALF_ULP = 2.0**-24


def _pair(low: int, high: int) -> int:
    return high << 32 | low


def _sums(
    mode: str, up: int, down: int, tiny_down: float, zero: float, over: int, under: int
) -> Case:
    """Addition with one rounding: of 1 + 2^-25, -1 - 2^-25, magic - tiny, 1 - 1, and overflow."""
    return op(
        f"add.{mode}.f32 d, a, b;",
        "f32 f32 -> f32",
        (1.0, 2.0**-25, up),
        (-1.0, -(2.0**-25), down),
        (_MAGIC, -1e-30, tiny_down),
        (_MAGIC, 0.75, _MAGIC + (1 if mode in ("rn", "rp") else 0)),
        (_MAGIC, -0.25, _MAGIC - (1 if mode in ("rz", "rm") else 0)),
        (1.0, -1.0, zero),
        (0.0, 0.0, 0.0),
        (-0.0, -0.0, -0.0),
        (0.0, -0.0, zero),
        (_MAX, _MAX, over),
        (_MAX | 1 << 31, _MAX | 1 << 31, under),
        (INF, 1.0, INF),
        (INF, -INF, NAN),
        (NAN, 1.0, NAN),
        (_TINY, _TINY, 2),
        (_LEAST, _MINUS_TINY, 0x007FFFFF),
    )


def _products(mode: str, third: int, minus: int, tiny: int, over: int) -> Case:
    """Multiplication with one rounding: (1 + ulp)^2, its negative, an underflow, an overflow."""
    return op(
        f"mul.{mode}.f32 d, a, b;",
        "f32 f32 -> f32",
        (_ULP, _ULP, third),
        (_ULP, _ULP | 1 << 31, minus),
        (_TINY, 0.25, tiny),
        (_MAX, 2.0, over),
        (-0.0, 5.0, -0.0),
        (INF, 0.0, NAN),
        (3.0, 5.0, 15.0),
    )


def _fused(mode: str, big: int, small: int) -> Case:
    """Fused multiply-add with one rounding: 1 - 2^-80 and -1 + 2^-80, and exact results."""
    down = -0.0 if mode == "rm" else 0.0
    return op(
        f"fma.{mode}.f32 d, a, b, c;",
        "f32 f32 f32 -> f32",
        (2.0**-40, -(2.0**-40), 1.0, big),
        (2.0**-40, 2.0**-40, -1.0, small),
        (3.0, 5.0, -15.0, down),
        (1 + 2.0**-12, 1 + 2.0**-12, -1.0, 2.0**-11 + 2.0**-24),
        (-0.0, 5.0, -0.0, -0.0),
        (INF, 0.0, 1.0, NAN),
        (3.4e38, 2.0, -INF, -INF),
    )


CASES = (
    _sums("rn", 0x3F800000, 0xBF800000, _MAGIC, 0.0, 0x7F800000, 0xFF800000),
    _sums("rz", 0x3F800000, 0xBF800000, _MAGIC - 1, 0.0, _MAX, 0xFF7FFFFF),
    _sums("rm", 0x3F800000, 0xBF800001, _MAGIC - 1, -0.0, _MAX, 0xFF800000),
    _sums("rp", _ULP, 0xBF800000, _MAGIC, 0.0, 0x7F800000, 0xFF7FFFFF),
    op("add.f32 d, a, b;", "f32 f32 -> f32", (1.0, _HALF_ULP, 1.0), (_ULP, _HALF_ULP, 0x3F800002)),
    op(
        "add.ftz.f32 d, a, b;",
        "f32 f32 -> f32",
        (_TINY, 1.0, 1.0),
        (_TINY, _TINY, 0.0),
        (_MINUS_TINY, -0.0, -0.0),
        (_LEAST, 0x807FFFFF, _LEAST),
        (0x00800001, 0x80800000, 0.0),
        (0x80800001, 0x00800000, -0.0),
    ),
    op(
        "add.rm.ftz.f32 d, a, b;",
        "f32 f32 -> f32",
        (1.0, _MINUS_TINY, 1.0),
        (1.0, -(2.0**-126), 0x3F7FFFFF),
    ),
    op(
        "add.sat.f32 d, a, b;",
        "f32 f32 -> f32",
        (1.0, 1.0, 1.0),
        (-1.0, 0.5, 0.0),
        (0.25, 0.25, 0.5),
        (NAN, 1.0, 0.0),
        (-0.0, -0.0, 0.0),
    ),
    op("sub.f32 d, a, b;", "f32 f32 -> f32", (3.0, 1.0, 2.0), (-INF, -INF, NAN), (-0.0, 0.0, -0.0)),
    op("sub.rm.f32 d, a, b;", "f32 f32 -> f32", (1.0, 1e-30, 0x3F7FFFFF), (1.0, 1.0, -0.0)),
    op("sub.rp.f32 d, a, b;", "f32 f32 -> f32", (1.0, -1e-30, _ULP), (1.0, 1.0, 0.0)),
    op(
        "sub.rz.f32 d, a, b;",
        "f32 f32 -> f32",
        (1.0, 1e-30, 0x3F7FFFFF),
        (-1.0, -1e-30, 0xBF7FFFFF),
    ),
    _products("rn", 0x3F800002, 0xBF800002, 0, 0x7F800000),
    _products("rz", 0x3F800002, 0xBF800002, 0, _MAX),
    _products("rm", 0x3F800002, 0xBF800003, 0, _MAX),
    _products("rp", 0x3F800003, 0xBF800002, _TINY, 0x7F800000),
    op(
        "mul.ftz.f32 d, a, b;",
        "f32 f32 -> f32",
        (_TINY, 2.0**30, 0.0),
        (_LEAST, -0.5, -0.0),
        (_LEAST, 1 - 2.0**-24, 0.0),  # rounding alone would give the smallest normal number
        (0x205187F5, 0x1F9C6326, _LEAST),  # so close to it that 24 bits can't tell
    ),
    op("mul.sat.f32 d, a, b;", "f32 f32 -> f32", (2.0, 3.0, 1.0), (2.0, -3.0, 0.0)),
    _fused("rn", 0x3F800000, 0xBF800000),
    _fused("rz", 0x3F7FFFFF, 0xBF7FFFFF),
    _fused("rm", 0x3F7FFFFF, 0xBF800000),
    _fused("rp", 0x3F800000, 0xBF7FFFFF),
    op("mad.rn.f32 d, a, b, c;", "f32 f32 f32 -> f32", (2.0, 3.0, 4.0, 10.0)),
    op(
        "fma.rn.ftz.f32 d, a, b, c;",
        "f32 f32 f32 -> f32",
        (_TINY, 1.0, 1.0, 1.0),
        (_LEAST, 0.5, 0.0, 0.0),
        (2.0**-70, -(2.0**-80), _LEAST, 0.0),  # too little for what 24 bits can tell from _LEAST
        (2.0**-70, -(2.0**-81), _LEAST, _LEAST),
        (2.0**-70, -(2.0**-100), _LEAST, _LEAST),
    ),
    op(
        "fma.rn.sat.f32 d, a, b, c;",
        "f32 f32 f32 -> f32",
        (2.0, 3.0, 4.0, 1.0),
        (NAN, 3.0, 4.0, 0.0),
    ),
    op(
        "fma.rn.f32 d, a, b, 0f00000000;",
        "f32 f32 -> f32",
        (0x1F800000, 0x1F800000, 0x00200000),  # 2^-64 squared is 2^-128
        (0x1A000001, 0x1A000001, 1),  # (1 + ulp)^2 2^-150: just over half of the last subnormal
        (0x1A000000, 0x1A000000, 0),  # 2^-150: half of it
    ),
    # The product is 2^-150 (1 - 2^-46): half of the last subnormal, less than float64 can tell.
    op(
        "fma.rn.f32 d, b, a, c;",
        "f32 f32 f32 -> f32",
        (0x1A000001, 0x19FFFFFE, 0x00400001, 0x00400001),
        (0x1A000001, 0x99FFFFFE, 0x00400001, 0x00400001),
        (0x1A000001, 0x19FFFFFE, 0x00400002, 0x00400002),
    ),
    op(
        "add.rn.f32x2 d, a, b;",
        "f32x2 f32x2 -> f32x2",
        (
            _pair(0x3F800000, 0x40000000),
            _pair(0x3F800000, 0x40400000),
            _pair(0x40000000, 0x40A00000),
        ),
        needs="sm_100a",
    ),
    op(
        "add.rm.f32x2 d, a, b;",
        "f32x2 f32x2 -> f32x2",
        (
            _pair(0x4B400000, 0x4B400000),
            _pair(0xBE800000, 0x3F400000),
            _pair(0x4B3FFFFF, 0x4B400000),
        ),
        needs="sm_100a",
    ),
    op(
        "sub.rn.f32x2 d, a, b;",
        "f32x2 f32x2 -> f32x2",
        (
            _pair(0x40000000, 0x40400000),
            _pair(0x3F800000, 0x3F800000),
            _pair(0x3F800000, 0x40000000),
        ),
        needs="sm_100a",
    ),
    op(
        "mul.rn.ftz.f32x2 d, a, b;",
        "f32x2 f32x2 -> f32x2",
        (_pair(_TINY, 0x40400000), _pair(0x7F000000, 0x40000000), _pair(0, 0x40C00000)),
        needs="sm_100a",
    ),
    op(
        "fma.rn.f32x2 d, a, b, c;",
        "f32x2 f32x2 f32x2 -> f32x2",
        (
            _pair(0x40000000, 0x40400000),
            _pair(0x40000000, 0x40000000),
            _pair(0x3F800000, 0),
            _pair(0x40A00000, 0x40C00000),
        ),
        needs="sm_100a",
    ),
    op("add.f64 d, a, b;", "f64 f64 -> f64", (1.0, 2.0**-53, 1.0), (0.1, 0.2, 0.1 + 0.2)),
    op("sub.rn.f64 d, a, b;", "f64 f64 -> f64", (1.0, 0.9, 1.0 - 0.9)),
    op("mul.f64 d, a, b;", "f64 f64 -> f64", (0.1, 0.2, 0.1 * 0.2)),
    op(
        "fma.rn.f64 d, a, b, c;",
        "f64 f64 f64 -> f64",
        (1 + 2.0**-30, 1 + 2.0**-30, -1.0, 2.0**-29 + 2.0**-60),
        (1e200, 1e200, 0.0, INF),
        (1e200, 1e200, -INF, -INF),
        (2.0, 3.0, -6.0, 0.0),
        (NAN, 3.0, -6.0, NAN),
        (1e-200, 1e-200, -0.0, 0.0),
        (1.7e308, 10.0, -1.7e308, INF),
    ),
)
