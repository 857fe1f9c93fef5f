"""Conversions that fill a register with several values (PTX ISA 9.7.9.21, 9.7.9.22)."""

from tests.emulator.isa.case import op

INF, NAN = float("inf"), float("nan")
_MAX = 0x7F7FFFFF
_ULPB = 2.0**-7

CASES = (
    op(
        "cvt.rn.bf16x2.f32 d, a, b;",
        "f32 f32 -> bf16x2",
        (1.0, -2.0, 0x3F80C000),
        (1 + _ULPB / 2, 1 + 3 * _ULPB / 2, 0x3F803F82),
        (NAN, 0xFFFFFFFF, 0x7FFF7FFF),
        (_MAX, 0xFF7FFFFF, 0x7F80FF80),
        (INF, -INF, 0x7F80FF80),
        (0x00008000, 0x00008001, 0x00000001),
    ),
    op("cvt.rz.bf16x2.f32 d, a, b;", "f32 f32 -> bf16x2", (0x3F80FFFF, 0xBF80FFFF, 0x3F80BF80)),
    op(
        "cvt.rn.relu.bf16x2.f32 d, a, b;",
        "f32 f32 -> bf16x2",
        (-1.0, 2.0, 0x00004000),
        (NAN, -0.0, 0x7FFF0000),
    ),
    op("cvt.rn.satfinite.bf16x2.f32 d, a, b;", "f32 f32 -> bf16x2", (INF, -INF, 0x7F7FFF7F)),
    op(
        "cvt.rn.f16x2.f32 d, a, b;",
        "f32 f32 -> f16x2",
        (1.0, -2.0, 0x3C00C000),
        (1e9, NAN, 0x7C007FFF),
    ),
    op("cvt.rz.f16x2.f32 d, a, b;", "f32 f32 -> f16x2", (1e9, 0x3F801FFF, 0x7BFF3C00)),
    op("cvt.rn.relu.satfinite.f16x2.f32 d, a, b;", "f32 f32 -> f16x2", (1e9, -1.0, 0x7BFF0000)),
    op(
        "cvt.rn.satfinite.e4m3x2.f32 d, a, b;",
        "f32 f32 -> e4m3x2",
        (1.0, -2.0, 0x38C0),
        (1e9, -INF, 0x7EFE),
        (NAN, 464.0, 0x7F7E),
        (1.0625, 1.1875, 0x383A),  # midpoints go to the even neighbour
        (2.0**-10, 3 * 2.0**-10, 0x0002),
        (-0.0, 2.0**-9, 0x8001),
        (0.0166015625, 0.015625, 0x0808),
    ),
    op(
        "cvt.rn.satfinite.relu.e4m3x2.f32 d, a, b;",
        "f32 f32 -> e4m3x2",
        (-1.0, 448.0, 0x007E),
        (NAN, -0.0, 0x7F00),
    ),
    op(
        "cvt.rn.satfinite.e5m2x2.f32 d, a, b;",
        "f32 f32 -> e5m2x2",
        (1.0, -2.0, 0x3CC0),
        (1e9, NAN, 0x7B7F),
        (57344.0, 2.0**-16, 0x7B01),
    ),
    op(
        "cvt.rn.satfinite.e4m3x2.f16x2 d, a;",
        "f16x2 -> e4m3x2",
        (0x3C00C000, 0x38C0),
        (0x7BFF7E00, 0x7E7F),
    ),
    op("cvt.rn.satfinite.relu.e5m2x2.f16x2 d, a;", "f16x2 -> e5m2x2", (0x3C00C000, 0x3C00)),
    op(
        "cvt.rn.satfinite.e4m3x2.bf16x2 d, a;",
        "bf16x2 -> e4m3x2",
        (0x3F80C000, 0x38C0),
        needs="sm_100f",
    ),
    op(
        "cvt.rn.f16x2.e4m3x2 d, a;",
        "e4m3x2 -> f16x2",
        (0x38C0, 0x3C00C000),
        (0x7F01, 0x7FFF1800),
        (0x7EFE, 0x5F00DF00),
    ),
    op("cvt.rn.f16x2.e5m2x2 d, a;", "e5m2x2 -> f16x2", (0x3CC0, 0x3C00C000), (0x7C01, 0x7C000100)),
    op("cvt.rn.relu.f16x2.e5m2x2 d, a;", "e5m2x2 -> f16x2", (0x3CC0, 0x3C000000)),
    op(
        "cvt.rn.satfinite.e2m1x2.f32 d, a, b;",
        "f32 f32 -> e2m1x2",
        (1.0, -6.0, 0x2F),
        (100.0, NAN, 0x77),
        (2.5, 0.25, 0x40),
        needs="sm_100a",
    ),
    op(
        "cvt.rn.satfinite.e2m3x2.f32 d, a, b;",
        "f32 f32 -> e2m3x2",
        (1.0, -7.5, 0x083F),
        (NAN, 0.125, 0x1F01),
        needs="sm_100a",
    ),
    op(
        "cvt.rn.satfinite.e3m2x2.f32 d, a, b;",
        "f32 f32 -> e3m2x2",
        (1.0, -28.0, 0x0C3F),
        needs="sm_100a",
    ),
    op("cvt.rn.f16x2.e2m1x2 d, a;", "e2m1x2 -> f16x2", (0x2F, 0x3C00C600), needs="sm_100a"),
    op("cvt.rn.f16x2.e3m2x2 d, a;", "e3m2x2 -> f16x2", (0x0C3F, 0x3C00CF00), needs="sm_100a"),
    op("cvt.pack.sat.s16.s32 d, a, b;", "s32 s32 -> u32", (0x00012345, 0xFFFF0000, 0x7FFF8000)),
    op("cvt.pack.sat.u16.s32 d, a, b;", "s32 s32 -> u32", (0x00012345, 0xFFFF0000, 0xFFFF0000)),
    op(
        "cvt.pack.sat.u8.s32.b32 d, a, b, c;",
        "s32 s32 b32 -> u32",
        (300, 5, 0x11223344, 0x3344FF05),
    ),
    op("cvt.pack.sat.s4.s32.b32 d, a, b, c;", "s32 s32 b32 -> u32", (0xFFFFFFFF, 20, 1, 0x1F7)),
)
