"""``bar.red`` (PTX ISA 9.7.13.1)."""

import numpy as np

from tests.emulator.machine.case import Case

_T = np.arange(128, dtype=np.uint32)

CASES = (
    Case(
        "bar.red counts and combines the predicates of all threads",
        """setp.lt.u32 %p1, t, 70;
        setp.lt.u32 %p2, t, 128;
        bar.red.popc.u32 %a2, 0, %p1;
        bar.red.popc.u32 %a3, 1, 128, !%p1;
        bar.red.and.pred %p3, 0, %p1;
        barrier.cta.red.and.aligned.pred %p4, 0, %p2;
        bar.red.or.pred %p5, 0, %p1;
        bar.red.or.pred %p6, 2, !%p2;
        selp.u32 %a4, 1, 0, %p3;
        selp.u32 %a5, 2, 0, %p4; add.u32 %a4, %a4, %a5;
        selp.u32 %a5, 4, 0, %p5; add.u32 %a4, %a4, %a5;
        selp.u32 %a5, 8, 0, %p6; add.u32 %a4, %a4, %a5;
        st.global.v4.u32 [mine], {%a2, %a3, %a4, t};""",
        np.stack([0 * _T + 70, 0 * _T + 58, 0 * _T + 6, _T], 1),
        np.zeros(1, np.uint32),
        words=4,
        threads=128,
    ),
    Case(
        "bar.red of two warps among four",
        """setp.ge.u32 %p1, t, 64;
        mov.u32 %a2, 0;
        @%p1 bra others;
        setp.eq.u32 %p2, t, 33;
        bar.red.popc.u32 %a2, 3, 64, %p2;
        bar.red.popc.u32 %a3, 3, 64, %p2;
        add.u32 %a2, %a2, %a3;
        others: st.global.u32 [mine], %a2;""",
        np.where(_T < 64, 2, 0).astype(np.uint32),
        np.zeros(1, np.uint32),
        threads=128,
    ),
)
