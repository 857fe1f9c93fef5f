"""Comparisons and selections (PTX ISA 9.3.1, 9.7.3.1, 9.7.6, 9.7.7)."""

from tests.emulator.isa.case import Case, op

NAN = float("nan")
_SNAN = 0x7F800001
_TINY = 0x00000001  # the smallest subnormal
_MINUS = 0x80000000  # -0, or the smallest s32


def _floats(name: str, less: int, equal: int, greater: int, unordered: int) -> Case:
    """One comparison operator on f32, over every way two values can stand to each other."""
    return op(
        f"setp.{name}.f32 p, a, b;",
        "f32 f32 -> pred",
        (1.0, 2.0, less),
        (2.0, 2.0, equal),
        (3.0, 2.0, greater),
        (-0.0, 0.0, equal),
        (NAN, 2.0, unordered),
        (2.0, NAN, unordered),
        (_SNAN, _SNAN, unordered),
        (float("-inf"), float("inf"), less),
        (_TINY, 0.0, greater),
    )


def _integers(name: str, kind: str, less: int, equal: int, greater: int) -> Case:
    """One comparison operator on integers; 0xffffffff is -1 or the largest."""
    wide = kind in ("s32",)
    return op(
        f"setp.{name}.{kind} p, a, b;",
        f"{kind} {kind} -> pred",
        (1, 2, less),
        (2, 2, equal),
        (3, 2, greater),
        (0xFFFFFFFF, 0, less if wide else greater),
    )


CASES = (
    _floats("eq", 0, 1, 0, 0),
    _floats("ne", 1, 0, 1, 0),
    _floats("lt", 1, 0, 0, 0),
    _floats("le", 1, 1, 0, 0),
    _floats("gt", 0, 0, 1, 0),
    _floats("ge", 0, 1, 1, 0),
    _floats("equ", 0, 1, 0, 1),
    _floats("neu", 1, 0, 1, 1),
    _floats("ltu", 1, 0, 0, 1),
    _floats("leu", 1, 1, 0, 1),
    _floats("gtu", 0, 0, 1, 1),
    _floats("geu", 0, 1, 1, 1),
    _floats("num", 1, 1, 1, 0),
    _floats("nan", 0, 0, 0, 1),
    _integers("eq", "b32", 0, 1, 0),
    _integers("ne", "b32", 1, 0, 1),
    _integers("eq", "s32", 0, 1, 0),
    _integers("ne", "u32", 1, 0, 1),
    _integers("lt", "s32", 1, 0, 0),
    _integers("le", "s32", 1, 1, 0),
    _integers("gt", "s32", 0, 0, 1),
    _integers("ge", "s32", 0, 1, 1),
    _integers("lt", "u32", 1, 0, 0),
    _integers("lo", "u32", 1, 0, 0),
    _integers("ls", "u32", 1, 1, 0),
    _integers("hi", "u32", 0, 0, 1),
    _integers("hs", "u32", 0, 1, 1),
    op("setp.eq.b16 p, a, b;", "b16 b16 -> pred", (0xFFFF, 0xFFFF, 1), (1, 2, 0)),
    op("setp.lt.s16 p, a, b;", "s16 s16 -> pred", (0xFFFF, 0, 1), (1, 0, 0)),
    op("setp.gt.u64 p, a, b;", "u64 u64 -> pred", (2**64 - 1, 0, 1)),
    op("setp.lt.s64 p, a, b;", "s64 s64 -> pred", (2**64 - 1, 0, 1)),
    op("setp.lt.f64 p, a, b;", "f64 f64 -> pred", (1.0, 2.0, 1), (NAN, 2.0, 0)),
    op("setp.eq.ftz.f32 p, a, b;", "f32 f32 -> pred", (_TINY, 0.0, 1), (_TINY, 0x00800000, 0)),
    op("setp.lt.ftz.f32 p, a, b;", "f32 f32 -> pred", (0.0, _TINY, 0)),
    op("setp.lt.s32 p|q, a, b;", "s32 s32 -> pred pred", (1, 2, 1, 0), (2, 2, 0, 1)),
    op("setp.lt.f32 p|q, a, b;", "f32 f32 -> pred pred", (1.0, 2.0, 1, 0), (NAN, 2.0, 0, 1)),
    op(
        "setp.lt.and.s32 p|q, a, b, c;",
        "s32 s32 pred -> pred pred",
        (1, 2, 1, 1, 0),
        (1, 2, 0, 0, 0),
        (2, 1, 1, 0, 1),
        (2, 1, 0, 0, 0),
    ),
    op(
        "setp.lt.or.s32 p|q, a, b, c;",
        "s32 s32 pred -> pred pred",
        (1, 2, 1, 1, 1),
        (1, 2, 0, 1, 0),
        (2, 1, 0, 0, 1),
    ),
    op(
        "setp.lt.xor.s32 p|q, a, b, c;",
        "s32 s32 pred -> pred pred",
        (1, 2, 1, 0, 1),
        (1, 2, 0, 1, 0),
    ),
    op("setp.eq.and.b32 p, a, b, !c;", "b32 b32 pred -> pred", (1, 1, 0, 1), (1, 1, 1, 0)),
    op("setp.lt.f16 p, a, b;", "f16 f16 -> pred", (1.0, 2.0, 1), (NAN, 2.0, 0)),
    op("setp.gtu.bf16 p, a, b;", "bf16 bf16 -> pred", (1.0, -2.0, 1), (NAN, 2.0, 1)),
    op(
        "setp.lt.f16x2 p|q, a, b;",
        "f16x2 f16x2 -> pred pred",
        (0x3C00C000, 0x40004000, 1, 1),
        (0x3C004000, 0x40004000, 0, 1),
        (0x40003C00, 0x40004000, 1, 0),
    ),
    op(
        "setp.ge.and.bf16x2 p|q, a, b, c;",
        "bf16x2 bf16x2 pred -> pred pred",
        (0x3F804000, 0x40004000, 1, 1, 0),
        (0x3F804000, 0x40004000, 0, 0, 0),
    ),
    op("setp.eq.ftz.f16 p, a, b;", "f16 f16 -> pred", (0x0001, 0.0, 1)),
    op("set.lt.f16x2.f16x2 d, a, b;", "f16x2 f16x2 -> f16x2", (0x3C004000, 0x40004000, 0x3C000000)),
    op(
        "set.lt.or.bf16x2.bf16x2 d, a, b, c;",
        "bf16x2 bf16x2 pred -> bf16x2",
        (0x3F804000, 0x40004000, 0, 0x3F800000),
        (0, 0, 1, 0x3F803F80),
    ),
    op("set.lt.u32.f16x2 d, a, b;", "f16x2 f16x2 -> u32", (0x3C004000, 0x40004000, 0xFFFF0000)),
    op("set.lt.u32.s32 d, a, b;", "s32 s32 -> u32", (0xFFFFFFFF, 0, 0xFFFFFFFF), (0, 0, 0)),
    op("set.eq.f32.f32 d, a, b;", "f32 f32 -> f32", (2.0, 2.0, 1.0), (NAN, 2.0, 0.0)),
    op(
        "set.gt.and.s32.f32 d, a, b, c;",
        "f32 f32 pred -> s32",
        (3.0, 2.0, 1, 0xFFFFFFFF),
        (3.0, 2.0, 0, 0),
    ),
    op("set.lt.u16.f16 d, a, b;", "f16 f16 -> u16", (1.0, 2.0, 0xFFFF), (2.0, 2.0, 0)),
    op("set.lt.bf16.bf16 d, a, b;", "bf16 bf16 -> bf16", (1.0, 2.0, 1.0), (2.0, 2.0, 0.0)),
    op("slct.b32.s32 d, a, b, c;", "b32 b32 s32 -> b32", (1, 2, 0, 1), (1, 2, _MINUS, 2)),
    op(
        "slct.f32.f32 d, a, b, c;",
        "f32 f32 f32 -> f32",
        (1.0, 2.0, -0.0, 1.0),
        (1.0, 2.0, NAN, 2.0),
        (1.0, 2.0, 0x80000001, 2.0),
    ),
    op(
        "slct.ftz.u64.f32 d, a, b, c;", "u64 u64 f32 -> u64", (1, 2, 0x80000001, 1), (1, 2, -1.0, 2)
    ),
    op("testp.finite.f32 p, a;", "f32 -> pred", (1.0, 1), (float("inf"), 0), (NAN, 0)),
    op("testp.infinite.f32 p, a;", "f32 -> pred", (1.0, 0), (float("-inf"), 1), (NAN, 0)),
    op("testp.number.f32 p, a;", "f32 -> pred", (1.0, 1), (float("inf"), 1), (NAN, 0)),
    op("testp.notanumber.f64 p, a;", "f64 -> pred", (1.0, 0), (NAN, 1)),
    op(
        "testp.normal.f32 p, a;",
        "f32 -> pred",
        (1.0, 1),
        (-0.0, 1),
        (_TINY, 0),
        (float("inf"), 0),
        (NAN, 0),
    ),
    op("testp.subnormal.f32 p, a;", "f32 -> pred", (1.0, 0), (0.0, 0), (_TINY, 1), (NAN, 0)),
)
