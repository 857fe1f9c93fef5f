"""``atom`` and ``red`` (PTX ISA 9.7.13.5 to 9.7.13.7)."""

import numpy as np

from tests.emulator.machine.case import Case

_T = np.arange(32, dtype=np.uint32)


def _halves(*values: float) -> int:
    """Two f16 in 32 bits."""
    return int(np.array(values, np.float16).view(np.uint32)[0])


def _bf16(value: float) -> int:
    return int(np.array([value], np.float32).view(np.uint32)[0] >> 16)


CASES = (
    Case(
        "atom.add gives each lane another old value",
        """setp.eq.u32 %p9, t, 0;
        @%p9 st.shared.u32 [base], 0;
        atom.global.add.u32 %a2, [src], 3;
        bar.warp.sync 0xffffffff;
        red.shared.add.u32 [base], %a2;
        bar.warp.sync 0xffffffff;
        ld.shared.u32 %a3, [base];
        ld.global.u32 %a4, [src];
        st.global.v2.u32 [mine], {%a3, %a4};""",
        np.tile(np.array([10 * 32 + 3 * 496, 10 + 96], np.uint32), 32),
        np.array([10], np.uint32),
        words=2,
        shared=16,
    ),
    Case(
        "atom.inc and dec wrap at their operand",
        """atom.global.inc.u32 %a2, [src], 4;
        atom.global.dec.u32 %a3, [src+4], 4;
        bar.warp.sync 0xffffffff;
        ld.global.u32 %a4, [src];
        ld.global.u32 %a5, [src+4];
        st.global.v2.u32 [mine], {%a4, %a5};""",
        np.tile(np.array([32 % 5, 4 - 31 % 5], np.uint32), 32),
        np.array([0, 0], np.uint32),
        words=2,
    ),
    Case(
        "red.min and max, signed and unsigned",
        """sub.s32 %a2, t, 16;
        red.global.min.s32 [src], %a2;
        red.global.max.s32 [src+4], %a2;
        red.global.min.u32 [src+8], %a2;
        red.global.max.u32 [src+12], %a2;
        bar.warp.sync 0xffffffff;
        ld.global.v4.u32 {%a3, %a4, %a5, %a6}, [src];
        st.global.v4.u32 [mine], {%a3, %a4, %a5, %a6};""",
        np.tile(np.array([-16, 15, 0, -1], np.int32).view(np.uint32), 32),
        np.array([1, 1, 1, 1], np.uint32),
        words=4,
    ),
    Case(
        "red.and, or, xor",
        """mov.u32 %a2, 1;
        shl.b32 %a2, %a2, t;
        red.global.or.b32 [src], %a2;
        not.b32 %a3, %a2;
        setp.lt.u32 %p0, t, 8;
        @%p0 red.global.and.b32 [src+4], %a3;
        red.global.xor.b32 [src+8], t;
        bar.warp.sync 0xffffffff;
        ld.global.u32 %a4, [src];
        ld.global.u32 %a5, [src+4];
        ld.global.u32 %a6, [src+8];
        st.global.u32 [mine], %a4;
        st.global.u32 [mine+4], %a5;
        st.global.u32 [mine+8], %a6;""",
        np.tile(np.array([0xFFFFFFFF, 0xFFFFFF00, 0], np.uint32), 32),
        np.array([0, 0xFFFFFFFF, 0], np.uint32),
        words=3,
    ),
    Case(
        "atom.cas lets one of all win",
        """setp.eq.u32 %p9, t, 0;
        @%p9 st.shared.u32 [base], 0;
        bar.warp.sync 0xffffffff;
        atom.shared.cas.b32 %a2, [base], 0, 9;
        setp.eq.u32 %p0, %a2, 0;
        vote.sync.ballot.b32 %a3, %p0, 0xffffffff;
        popc.b32 %a4, %a3;
        ld.shared.u32 %a5, [base];
        st.global.v2.u32 [mine], {%a4, %a5};""",
        np.tile(np.array([1, 9], np.uint32), 32),
        np.zeros(1, np.uint32),
        words=2,
        shared=16,
    ),
    Case(
        "atom.exch and cas of 128 bits",
        """setp.eq.u32 %p0, t, 0;
        @!%p0 bra done;
        ld.global.v2.b64 {%d1, %d2}, [src];
        mov.b64 %d3, 5;
        mov.b128 %q0, {%d1, %d2};
        mov.b128 %q1, {%d3, %d3};
        atom.global.cas.b128 %q2, [src], %q0, %q1;
        atom.global.exch.b128 %q3, [src], %q0;
        mov.b128 {%d4, %d5}, %q2;
        mov.b128 {%d6, %d7}, %q3;
        st.global.v2.b64 [dst], {%d4, %d5};
        st.global.v2.b64 [dst+16], {%d6, %d7};
        ld.global.v2.b64 {%d1, %d2}, [src];
        st.global.v2.b64 [dst+32], {%d1, %d2};
        done:""",
        np.array([1, 2, 3, 4, 5, 0, 5, 0, 1, 2, 3, 4], np.uint32),
        np.array([1, 2, 3, 4], np.uint32),
    ),
    Case(
        "red.add.f32 sums",
        """cvt.rn.f32.u32 %f1, t;
        red.global.add.f32 [src], %f1;
        bar.warp.sync 0xffffffff;
        ld.global.f32 %f2, [src];
        st.global.f32 [mine], %f2;""",
        np.full(32, 496.5, np.float32),
        np.array([0.5], np.float32),
    ),
    Case(
        "atom.add.f64",
        """cvt.rn.f64.u32 %g1, t;
        atom.global.add.f64 %g2, [src], %g1;
        bar.warp.sync 0xffffffff;
        ld.global.f64 %g2, [src];
        st.global.f64 [mine], %g2;""",
        np.full(32, 497.0),
        np.array([1.0]),
        words=2,
    ),
    Case(
        "atom.add.noftz in halves: f16, bf16 and pairs",
        f"""mov.b16 %h1, 0x3C00;
        setp.lt.u32 %p0, t, 4;
        mov.b32 %a2, {_halves(1.0, -2.0)};
        mov.b16 %h2, {_bf16(0.5)};
        @%p0 red.global.add.noftz.f16 [src], %h1;
        @%p0 red.global.add.noftz.f16x2 [src+4], %a2;
        @%p0 red.global.add.noftz.bf16 [src+8], %h2;
        bar.warp.sync 0xffffffff;
        ld.global.u32 %a3, [src];
        ld.global.u32 %a4, [src+4];
        ld.global.u32 %a5, [src+8];
        st.global.u32 [mine], %a3;
        st.global.u32 [mine+4], %a4;
        st.global.u32 [mine+8], %a5;""",
        np.tile(np.array([_halves(4.0, 0), _halves(4.0, -8.0), _bf16(2.0)], np.uint32), 32),
        np.zeros(3, np.uint32),
        words=3,
    ),
    Case(
        "red of a vector of f32 adds element by element",
        """cvt.rn.f32.u32 %f1, t;
        neg.f32 %f2, %f1;
        red.global.add.v4.f32 [src], {%f1, %f2, %f1, %f1};
        bar.warp.sync 0xffffffff;
        ld.global.v4.f32 {%f3, %f4, %f5, %f6}, [src];
        st.global.v4.f32 [mine], {%f3, %f4, %f5, %f6};""",
        np.tile(np.array([497, -494, 499, 500], np.float32), 32),
        np.array([1, 2, 3, 4], np.float32),
        words=4,
    ),
    Case(
        "red of a vector of bf16 pairs takes the maximum",
        f"""mov.b32 %a2, {_bf16(3.0) << 16 | _bf16(-1.0)};
        red.global.max.noftz.v2.bf16x2 [src], {{%a2, %a2}};
        bar.warp.sync 0xffffffff;
        ld.global.v2.u32 {{%a3, %a4}}, [src];
        st.global.v2.u32 [mine], {{%a3, %a4}};""",
        np.tile(np.array([_bf16(3.0) << 16, _bf16(4.0) << 16 | _bf16(-1.0)], np.uint32), 32),
        np.array([0, _bf16(4.0) << 16 | _bf16(-2.0)], np.uint32),
        words=2,
    ),
    Case(
        "an atomic in another CTA's shared memory",
        """mapa.shared::cluster.u32 %a2, base, 1;
        st.shared.u32 [base], 0;
        barrier.cluster.arrive;
        barrier.cluster.wait;
        red.shared::cluster.add.u32 [%a2], 1;
        barrier.cluster.arrive;
        barrier.cluster.wait;
        ld.shared.u32 %a3, [base];
        st.global.u32 [mine], %a3;""",
        np.repeat(np.array([0, 64], np.uint32), 32),
        np.zeros(1, np.uint32),
        ctas=2,
        cluster=2,
        shared=16,
    ),
)
