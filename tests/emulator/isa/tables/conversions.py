"""Conversions of one value (PTX ISA 9.7.9.21)."""

from tests.emulator.isa.case import Case, op

INF, NAN = float("inf"), float("nan")
_MAX = 0x7F7FFFFF
_ULP16, _ULPB, _ULPT = 2.0**-10, 2.0**-7, 2.0**-10


def _bf16(mode: str, up: float, down: float, tie: float) -> Case:
    """f32 to bf16: a value just above 1, its negative, and a midpoint."""
    return op(
        f"cvt.{mode}.bf16.f32 d, a;",
        "f32 -> bf16",
        (1 + 2.0**-20, up),
        (-1 - 2.0**-20, down),
        (1 + _ULPB / 2, tie),
        (-0.0, -0.0),
        (INF, INF),
        (NAN, 0x7FFF),
    )


def _whole(mode: str, rows: tuple[int, int, int, int, int]) -> Case:
    """f32 to s32: 2.5, 3.5, -2.5, 1.25, -1.75."""
    values = (2.5, 3.5, -2.5, 1.25, -1.75)
    return op(
        f"cvt.{mode}.s32.f32 d, a;",
        "f32 -> s32",
        *((v, r & 0xFFFFFFFF) for v, r in zip(values, rows, strict=True)),
        (3e9, 0x7FFFFFFF),
        (-3e9, 0x80000000),
        (INF, 0x7FFFFFFF),
        (NAN, 0),
        (1e-40, 1 if mode == "rpi" else 0),
    )


CASES = (
    # integers
    op("cvt.u16.u32 d, a;", "u32 -> u16", (0x12345678, 0x5678)),
    op("cvt.u32.u16 d, a;", "u16 -> u32", (0xFFFF, 0xFFFF)),
    op("cvt.s64.s32 d, a;", "s32 -> s64", (0xFFFFFFFF, 2**64 - 1), (5, 5)),
    op("cvt.u64.u32 d, a;", "u32 -> u64", (0xFFFFFFFF, 0xFFFFFFFF)),
    op("cvt.s64.u32 d, a;", "u32 -> s64", (0xFFFFFFFF, 0xFFFFFFFF)),
    op("cvt.u32.s16 d, a;", "s16 -> u32", (0xFFFF, 0xFFFFFFFF)),
    op("cvt.u32.u64 d, a;", "u64 -> u32", (2**40 + 7, 7)),
    op("cvt.u32.u8 d, a;", "b16 -> u32", (0x1280, 0x80)),
    op("cvt.s32.s8 d, a;", "b16 -> s32", (0x1280, 0xFFFFFF80)),
    op("cvt.s32.s8 d, a;", "b32 -> s32", (0x12345680, 0xFFFFFF80)),
    op("cvt.u8.u32 d, a;", "u32 -> b16", (0x1280, 0x80)),
    op("cvt.s8.s32 d, a;", "s32 -> b32", (0x1280, 0xFFFFFF80)),
    op("cvt.s16.s32 d, a;", "s32 -> b32", (0x12348000, 0xFFFF8000)),
    op("cvt.u16.u32 d, a;", "u32 -> b32", (0x1234FFFF, 0xFFFF)),
    op("cvt.sat.u8.s32 d, a;", "s32 -> b16", (300, 255), (0xFFFFFFFF, 0), (7, 7)),
    op("cvt.sat.s8.s32 d, a;", "s32 -> b16", (300, 127), (0xFFFFFF00, 0xFF80)),
    op("cvt.sat.s32.u32 d, a;", "u32 -> s32", (0xFFFFFFFF, 0x7FFFFFFF)),
    op("cvt.sat.u32.s64 d, a;", "s64 -> u32", (2**64 - 1, 0), (2**40, 0xFFFFFFFF)),
    # integers to floats
    op(
        "cvt.rn.f32.s32 d, a;",
        "s32 -> f32",
        (0xFFFFFFFF, -1.0),
        (0x01000001, 16777216.0),
        (0x01000003, 16777220.0),
    ),
    op("cvt.rz.f32.s32 d, a;", "s32 -> f32", (0x01000003, 16777218.0), (0xFEFFFFFD, -16777218.0)),
    op("cvt.rm.f32.s32 d, a;", "s32 -> f32", (0x01000003, 16777218.0), (0xFEFFFFFD, -16777220.0)),
    op("cvt.rp.f32.u32 d, a;", "u32 -> f32", (0x01000001, 16777218.0), (0xFFFFFFFF, 2.0**32)),
    op(
        "cvt.rn.f32.u64 d, a;",
        "u64 -> f32",
        (2**64 - 1, 2.0**64),
        (2**40 + 2**16, 2.0**40),
        (2**40 + 2**16 + 1, 2.0**40 + 2.0**17),
    ),
    op("cvt.rz.f32.u64 d, a;", "u64 -> f32", (2**64 - 1, 2.0**64 - 2.0**40)),
    op(
        "cvt.rp.f32.s64 d, a;",
        "s64 -> f32",
        (2**63 + 1, -(2.0**63) + 2.0**39),
        (2**62 + 1, 2.0**62 + 2.0**39),
    ),
    op("cvt.rn.f64.s32 d, a;", "s32 -> f64", (0x80000000, -(2.0**31))),
    op("cvt.rn.f64.u64 d, a;", "u64 -> f64", (2**64 - 1, 2.0**64)),
    op("cvt.rn.f16.u32 d, a;", "u32 -> f16", (65519, 65504.0), (65520, INF), (2049, 2048.0)),
    op("cvt.rn.bf16.s32 d, a;", "s32 -> bf16", (257, 256.0), (259, 260.0)),
    op("cvt.rn.f32.u8 d, a;", "b16 -> f32", (0x12FF, 255.0)),
    op("cvt.rn.f32.s8 d, a;", "b16 -> f32", (0x12FF, -1.0)),
    # floats to integers
    _whole("rni", (2, 4, -2, 1, -2)),
    _whole("rzi", (2, 3, -2, 1, -1)),
    _whole("rmi", (2, 3, -3, 1, -2)),
    _whole("rpi", (3, 4, -2, 2, -1)),
    op(
        "cvt.rzi.u32.f32 d, a;",
        "f32 -> u32",
        (-1.5, 0),
        (4.2e9, 4200000000),
        (5e9, 0xFFFFFFFF),
        (NAN, 0),
    ),
    op(
        "cvt.rzi.s64.f32 d, a;",
        "f32 -> s64",
        (2.0**62, 2**62),
        (1e30, 2**63 - 1),
        (-1e30, 2**63),
        (NAN, 2**63),
    ),
    op("cvt.rzi.u64.f64 d, a;", "f64 -> u64", (1e30, 2**64 - 1), (-1.0, 0), (NAN, 2**63)),
    op("cvt.rzi.s32.f64 d, a;", "f64 -> s32", (-2.9, 0xFFFFFFFE), (NAN, 0x80000000)),
    op("cvt.rzi.u16.f32 d, a;", "f32 -> u16", (70000.0, 65535), (-3.0, 0)),
    op("cvt.rzi.s8.f32 d, a;", "f32 -> b16", (200.0, 127), (-200.0, 0xFF80)),
    op("cvt.rni.ftz.s32.f32 d, a;", "f32 -> s32", (1e-40, 0), (2.0, 2)),
    op("cvt.rpi.ftz.s32.f32 d, a;", "f32 -> s32", (1e-40, 0)),
    op("cvt.rzi.s32.f16 d, a;", "f16 -> s32", (-2.5, 0xFFFFFFFE), (INF, 0x7FFFFFFF)),
    op("cvt.rni.s32.bf16 d, a;", "bf16 -> s32", (2.5, 2)),
    # floats to floats
    op("cvt.rni.f32.f32 d, a;", "f32 -> f32", (2.5, 2.0), (-0.25, -0.0)),
    op("cvt.rmi.f32.f32 d, a;", "f32 -> f32", (-0.25, -1.0)),
    op("cvt.rzi.f16.f16 d, a;", "f16 -> f16", (2.75, 2.0)),
    op("cvt.ftz.f32.f32 d, a;", "f32 -> f32", (0x80000001, -0.0), (1.0, 1.0)),
    op("cvt.sat.f32.f32 d, a;", "f32 -> f32", (2.0, 1.0), (-2.0, 0.0), (NAN, 0.0)),
    op("cvt.f64.f32 d, a;", "f32 -> f64", (1e-45, 2.0**-149)),
    op(
        "cvt.rn.f32.f64 d, a;",
        "f64 -> f32",
        (1 + 2.0**-24, 1.0),
        (1e300, INF),
        (1e-46, 0.0),
        (NAN, NAN),
    ),
    op("cvt.rz.f32.f64 d, a;", "f64 -> f32", (1e300, _MAX), (-1e300, 0xFF7FFFFF)),
    op("cvt.rm.f32.f64 d, a;", "f64 -> f32", (1e300, _MAX), (-1e-300, 0x80000001)),
    op("cvt.rp.f32.f64 d, a;", "f64 -> f32", (1 + 2.0**-50, 0x3F800001), (-1e300, 0xFF7FFFFF)),
    op(
        "cvt.f32.f16 d, a;",
        "f16 -> f32",
        (0x0001, 2.0**-24),
        (65504.0, 65504.0),
        (INF, INF),
        (NAN, NAN),
    ),
    op("cvt.f32.bf16 d, a;", "bf16 -> f32", (0x0001, 0x00010000), (-1.5, -1.5)),
    op(
        "cvt.rn.f16.f32 d, a;",
        "f32 -> f16",
        (1 + _ULP16 / 2, 1.0),
        (65520.0, INF),
        (65519.0, 65504.0),
        (2.0**-25, 0.0),
        (NAN, 0x7FFF),
    ),
    op("cvt.rz.f16.f32 d, a;", "f32 -> f16", (1e9, 65504.0), (1 + _ULP16 * 0.9, 1.0)),
    op(
        "cvt.rn.relu.f16.f32 d, a;",
        "f32 -> f16",
        (-1.0, 0.0),
        (-0.0, 0.0),
        (NAN, 0x7FFF),
        (2.0, 2.0),
    ),
    op(
        "cvt.rn.satfinite.f16.f32 d, a;",
        "f32 -> f16",
        (1e9, 65504.0),
        (-INF, -65504.0),
        (NAN, 0x7FFF),
    ),
    _bf16("rn", 1.0, -1.0, 1.0),
    _bf16("rz", 1.0, -1.0, 1.0),
    _bf16("rm", 1.0, -1 - _ULPB, 1.0),
    _bf16("rp", 1 + _ULPB, -1.0, 1 + _ULPB),
    op("cvt.rn.satfinite.bf16.f32 d, a;", "f32 -> bf16", (_MAX, 0x7F7F), (INF, 0x7F7F)),
    op("cvt.rn.bf16.f16 d, a;", "f16 -> bf16", (1 + 3 * _ULP16, 1.0), (1 + 6 * _ULP16, 1 + _ULPB)),
    op(
        "cvt.rn.tf32.f32 d, a;",
        "f32 -> tf32",
        (1 + _ULPT / 2, 0x3F800000),
        (0x3F803000, 0x3F804000),
        needs="sm_90",
    ),
    op(
        "cvt.rna.tf32.f32 d, a;",
        "f32 -> tf32",
        (1 + _ULPT / 2, 0x3F802000),
        (-1 - _ULPT / 2, 0xBF802000),
        (1.0, 0x3F800000),
    ),
    op("cvt.rz.tf32.f32 d, a;", "f32 -> tf32", (0x3F801FFF, 0x3F800000)),
    op("cvt.rn.relu.tf32.f32 d, a;", "f32 -> tf32", (-1.0, 0)),
    op("cvt.rna.satfinite.tf32.f32 d, a;", "f32 -> tf32", (INF, 0x7F7FE000)),
)
