"""Arithmetic on f16, bf16 and their pairs, and mixed with f32 (PTX ISA 9.7.4, 9.7.5)."""

from tests.emulator.isa.case import op

INF, NAN = float("inf"), float("nan")
_QNAN = 0x7FFF
_ULP16 = 2.0**-10  # of f16, after 1
_ULPB = 2.0**-7  # of bf16, after 1

CASES = (
    op(
        "add.f16 d, a, b;",
        "f16 f16 -> f16",
        (1.0, _ULP16 / 2, 1.0),
        (1 + _ULP16, _ULP16 / 2, 1 + 2 * _ULP16),
        (65504.0, 16.0, INF),
        (65504.0, 15.0, 65504.0),
        (2.0**-24, 2.0**-24, 2.0**-23),
        (1.0, -1.0, 0.0),
        (NAN, 1.0, _QNAN),
        (INF, -INF, _QNAN),
    ),
    op(
        "add.ftz.f16 d, a, b;",
        "f16 f16 -> f16",
        (2.0**-24, 1.0, 1.0),
        (2.0**-14, -(2.0**-24), 2.0**-14),
    ),
    op(
        "add.sat.f16 d, a, b;", "f16 f16 -> f16", (1.0, 1.0, 1.0), (-1.0, 0.5, 0.0), (NAN, 1.0, 0.0)
    ),
    op("sub.f16 d, a, b;", "f16 f16 -> f16", (3.0, 1.0, 2.0)),
    op(
        "mul.f16 d, a, b;",
        "f16 f16 -> f16",
        (1 + _ULP16, 1 + _ULP16, 1 + 2 * _ULP16),
        (256.0, 256.0, INF),
        (2.0**-14, 0.5, 2.0**-15),
        (2.0**-24, 0.5, 0.0),
    ),
    op(
        "mul.ftz.f16 d, a, b;",
        "f16 f16 -> f16",
        (0x0400, 0x3BFF, 0.0),  # rounding alone would give the smallest normal number
        (0x2001, 0x1FFE, 0x0400),  # so close to it that 11 bits can't tell
    ),
    op(
        "fma.rn.ftz.f16 d, a, b, c;",
        "f16 f16 f16 -> f16",
        (0x0400, 0x8F80, 0x0400, 0.0),
        (0x0400, 0x8400, 0x0400, 0x0400),
    ),
    op(
        "fma.rn.f16 d, a, b, c;",
        "f16 f16 f16 -> f16",
        (1 + _ULP16, 1 + _ULP16, -1.0, 2 * _ULP16 + _ULP16**2),
        (1 + _ULP16, 1.5, 2.0**-24, 1.5 + 2 * _ULP16),  # a midpoint, and a little above it
        (1 + _ULP16, 1.5, -(2.0**-24), 1.5 + _ULP16),
        (INF, 0.0, 1.0, _QNAN),
    ),
    op(
        "fma.rn.relu.f16 d, a, b, c;",
        "f16 f16 f16 -> f16",
        (1.0, -2.0, 1.0, 0.0),
        (NAN, 1.0, 1.0, _QNAN),
        (1.0, 2.0, 1.0, 3.0),
    ),
    op("fma.rn.sat.f16 d, a, b, c;", "f16 f16 f16 -> f16", (1.0, 2.0, 1.0, 1.0)),
    op("add.f16x2 d, a, b;", "f16x2 f16x2 -> f16x2", (0x3C00C000, 0x3C004000, 0x40000000)),
    op("mul.f16x2 d, a, b;", "f16x2 f16x2 -> f16x2", (0x40004200, 0xC0004000, 0xC4004600)),
    op(
        "fma.rn.f16x2 d, a, b, c;",
        "f16x2 f16x2 f16x2 -> f16x2",
        (0x40004200, 0x40004000, 0x3C003C00, 0x45004700),
    ),
    op(
        "add.bf16 d, a, b;",
        "bf16 bf16 -> bf16",
        (1.0, _ULPB / 2, 1.0),
        (1 + _ULPB, _ULPB / 2, 1 + 2 * _ULPB),
        (1.0, 2.0**-100, 1.0),
        (0x7F7F, 0x7F7F, INF),
        (0x0001, 0x0001, 0x0002),
        (NAN, 1.0, _QNAN),
    ),
    op("sub.bf16 d, a, b;", "bf16 bf16 -> bf16", (3.0, 1.0, 2.0), (1.0, 1.0, 0.0)),
    op(
        "mul.bf16 d, a, b;",
        "bf16 bf16 -> bf16",
        (1 + _ULPB, 1 + _ULPB, 1 + 2 * _ULPB),
        (0x0080, 0.5, 0x0040),
    ),
    op(
        "fma.rn.bf16 d, a, b, c;",
        "bf16 bf16 bf16 -> bf16",
        (2.0, 3.0, 1.0, 7.0),
        (7.0, 37.0, 2.0**-100, 260.0),  # 259 is a midpoint of 258 and 260
        (7.0, 37.0, -(2.0**-100), 258.0),
        (7.0, 37.0, 0.0, 260.0),
    ),
    op(
        "fma.rn.relu.bf16x2 d, a, b, c;",
        "bf16x2 bf16x2 bf16x2 -> bf16x2",
        (0x3F80BF80, 0x40004000, 0, 0x40000000),
    ),
    op("add.rn.bf16x2 d, a, b;", "bf16x2 bf16x2 -> bf16x2", (0x3F80BF80, 0x40004000, 0x40403F80)),
    op(
        "max.f16 d, a, b;",
        "f16 f16 -> f16",
        (1.0, 2.0, 2.0),
        (NAN, 2.0, 2.0),
        (-0.0, 0.0, 0.0),
        (NAN, NAN, _QNAN),
    ),
    op("min.NaN.f16 d, a, b;", "f16 f16 -> f16", (1.0, 2.0, 1.0), (NAN, 2.0, _QNAN)),
    op("max.bf16x2 d, a, b;", "bf16x2 bf16x2 -> bf16x2", (0x3F80BF80, 0x40008000, 0x40008000)),
    op("max.NaN.bf16x2 d, a, b;", "bf16x2 bf16x2 -> bf16x2", (0x3F80FFC1, 0x40008000, 0x40007FFF)),
    op("min.xorsign.abs.bf16 d, a, b;", "bf16 bf16 -> bf16", (-3.0, 2.0, -2.0), (-1.0, -2.0, 1.0)),
    op("min.ftz.f16x2 d, a, b;", "f16x2 f16x2 -> f16x2", (0x00013C00, 0x3C003C00, 0x00003C00)),
    op("abs.f16 d, a;", "f16 -> f16", (-2.0, 2.0), (-0.0, 0.0)),
    op("abs.bf16x2 d, a;", "bf16x2 -> bf16x2", (0xBF80BF80, 0x3F803F80)),
    op("neg.f16x2 d, a;", "f16x2 -> f16x2", (0x3C00BC00, 0xBC003C00)),
    op("neg.bf16 d, a;", "bf16 -> bf16", (2.0, -2.0), (0.0, -0.0)),
    op("add.f32.bf16 d, a, b;", "bf16 f32 -> f32", (1.0, 2.0**-25, 1.0), needs="sm_100a"),
    op("add.rp.f32.bf16 d, a, b;", "bf16 f32 -> f32", (1.0, 2.0**-25, 0x3F800001), needs="sm_100a"),
    op(
        "sub.rm.f32.f16 d, a, b;",
        "f16 f32 -> f32",
        (1.0, 1.0, -0.0),
        (1.0, 2.0**-40, 0x3F7FFFFF),
        needs="sm_100a",
    ),
    op(
        "fma.rz.f32.f16 d, a, b, c;",
        "f16 f16 f32 -> f32",
        (2.0, 3.0, -(2.0**-40), 0x40BFFFFF),
        needs="sm_100a",
    ),
)
