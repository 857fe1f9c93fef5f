"""Loads and stores: local memory, 128 bits, vectors, generic addresses, clocks."""

import numpy as np

from tests.emulator.machine.case import Case

_T = np.arange(32, dtype=np.uint32)

CASES = (
    Case(
        "each thread has its own local variable",
        """.local .align 16 .b8 kept[32];
        mov.b64 %d1, kept;
        st.local.u32 [%d1+4], t;
        st.local.v2.u32 [%d1+8], {t, 7};
        bar.warp.sync 0xffffffff;
        ld.local.u32 %a2, [kept+4];
        ld.local.v2.b32 {%a3, %a4}, [%d1+8];
        add.u32 %a2, %a2, %a3;
        add.u32 %a2, %a2, %a4;
        st.global.u32 [mine], %a2;""",
        2 * _T + 7,
        np.zeros(1, np.uint32),
    ),
    Case(
        "a generic address of a local variable reaches it",
        """.local .align 8 .b8 kept[16];
        mov.b64 %d1, kept;
        cvta.local.u64 %d2, %d1;
        st.u32 [%d2+8], t;
        ld.local.u32 %a2, [%d1+8];
        cvta.to.local.u64 %d3, %d2;
        ld.local.u32 %a3, [%d3+8];
        add.u32 %a2, %a2, %a3;
        st.global.u32 [mine], %a2;""",
        2 * _T,
        np.zeros(1, np.uint32),
    ),
    Case(
        "128 bits through shared memory, packed and unpacked",
        """cvt.u64.u32 %d1, t;
        add.u64 %d2, %d1, 0x100000000;
        mov.b128 %q0, {%d1, %d2};
        mad.lo.u32 %a2, t, 16, base;
        st.shared.b128 [%a2], %q0;
        bar.warp.sync 0xffffffff;
        xor.b32 %a3, %a2, 16;
        ld.shared.b128 %q1, [%a3];
        mov.b128 {%d3, %d4}, %q1;
        st.global.v2.b64 [mine], {%d3, %d4};""",
        np.stack([_T ^ 1, 0 * _T, _T ^ 1, 0 * _T + 1], 1),
        np.zeros(1, np.uint32),
        words=4,
        shared=512,
    ),
    Case(
        "128 bits through global memory",
        """mul.wide.u32 %d1, t, 16;
        add.u64 %d1, src, %d1;
        ld.global.b128 %q0, [%d1];
        st.global.b128 [mine], %q0;""",
        lambda x: x,
        np.random.default_rng(1).integers(0, 2**32, (32, 4), np.uint32),
        words=4,
    ),
    Case(
        "a predicate from a number is whether it is not 0",
        """mov.pred %p0, -1;
        mov.pred %p1, 0;
        selp.u32 %a2, 5, 6, %p0;
        selp.u32 %a3, 50, 60, %p1;
        add.u32 %a2, %a2, %a3;
        st.global.u32 [mine], %a2;""",
        0 * _T + 65,
        np.zeros(1, np.uint32),
    ),
    Case(
        "clocks do not run backwards, and sleeping moves them",
        """mov.u64 %d1, %globaltimer;
        mov.u32 %a2, %clock;
        nanosleep.u32 1000;
        mov.u32 %a3, %clock;
        mov.u64 %d2, %globaltimer;
        sub.u32 %a3, %a3, %a2;
        setp.ge.s32 %p0, %a3, 0;
        setp.gt.u64 %p1, %d2, %d1;
        and.pred %p0, %p0, %p1;
        selp.u32 %a4, 1, 0, %p0;
        st.global.u32 [mine], %a4;""",
        0 * _T + 1,
        np.zeros(1, np.uint32),
    ),
    Case(
        "isspacep tells where a generic address points",
        """.local .align 8 .b8 kept[16];
        mov.b64 %d1, kept;
        cvta.local.u64 %d1, %d1;
        cvt.u64.u32 %d2, base;
        cvta.shared.u64 %d2, %d2;
        isspacep.local %p1, %d1;
        isspacep.shared %p2, %d2;
        isspacep.shared::cluster %p3, %d2;
        isspacep.global %p4, src;
        isspacep.global %p5, %d1;
        isspacep.shared %p6, src;
        selp.u32 %a2, 1, 0, %p1;
        selp.u32 %a3, 2, 0, %p2; add.u32 %a2, %a2, %a3;
        selp.u32 %a3, 4, 0, %p3; add.u32 %a2, %a2, %a3;
        selp.u32 %a3, 8, 0, %p4; add.u32 %a2, %a2, %a3;
        selp.u32 %a3, 16, 0, %p5; add.u32 %a2, %a2, %a3;
        selp.u32 %a3, 32, 0, %p6; add.u32 %a2, %a2, %a3;
        st.global.u32 [mine], %a2;""",
        0 * _T + 15,
        np.zeros(1, np.uint32),
        shared=16,
    ),
    Case(
        "st.bulk zeroes a block of shared memory and no more",
        """mad.lo.u32 %a2, t, 8, base;
        st.shared.v2.u32 [%a2], {7, 7};
        bar.warp.sync 0xffffffff;
        setp.eq.u32 %p0, t, 0;
        @%p0 st.bulk.weak.shared::cta [base+64], 128, 0;
        bar.warp.sync 0xffffffff;
        ld.shared.u32 %a3, [%a2];
        st.global.u32 [mine], %a3;""",
        np.where((_T >= 8) & (_T < 24), 0, 7).astype(np.uint32),
        np.zeros(1, np.uint32),
        shared=256,
        needs="sm_100",
    ),
)
