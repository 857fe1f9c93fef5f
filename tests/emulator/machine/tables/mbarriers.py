"""``mbarrier`` (PTX ISA 9.7.13.15): counts, states, drops, waits that fail."""

import numpy as np

from tests.emulator.machine.case import Case

_NOTHING = np.zeros(1, np.uint32)

_INIT = """setp.eq.u32 %p9, t, 0;
        @%p9 mbarrier.init.shared::cta.b64 [base], {count};
        bar.warp.sync 0xffffffff;
"""

CASES = (
    Case(
        "a state is older than the phase that its arrival completes",
        _INIT.format(count=32)
        + """mbarrier.arrive.shared::cta.b64 %d1, [base];
        wait: mbarrier.try_wait.shared::cta.b64 %p1, [base], %d1;
        @!%p1 bra wait;
        mbarrier.test_wait.parity.shared::cta.b64 %p2, [base], 1;
        selp.u32 %a2, 1, 0, %p2;
        st.global.u32 [mine], %a2;""",
        np.zeros(32, np.uint32),
        _NOTHING,
        shared=16,
    ),
    Case(
        "test_wait does not wait",
        _INIT.format(count=33)
        + """mbarrier.arrive.shared::cta.b64 %d1, [base];
        mbarrier.test_wait.shared::cta.b64 %p1, [base], %d1;
        bar.warp.sync 0xffffffff;
        @%p9 mbarrier.arrive.shared::cta.b64 _, [base];
        bar.warp.sync 0xffffffff;
        mbarrier.test_wait.shared::cta.b64 %p2, [base], %d1;
        selp.u32 %a2, 2, 0, %p1;
        selp.u32 %a3, 1, 0, %p2;
        add.u32 %a2, %a2, %a3;
        st.global.u32 [mine], %a2;""",
        np.ones(32, np.uint32),
        _NOTHING,
        shared=16,
    ),
    Case(
        "pending_count is the count before a noComplete arrival",
        _INIT.format(count=100)
        + """@!%p9 bra rest;
        mbarrier.arrive.noComplete.shared::cta.b64 %d1, [base], 3;
        mbarrier.arrive.noComplete.shared::cta.b64 %d2, [base], 7;
        mbarrier.pending_count.b64 %a2, %d1;
        mbarrier.pending_count.b64 %a3, %d2;
        st.global.v2.u32 [dst], {%a2, %a3};
        rest:""",
        np.array([100, 97], np.uint32),
        _NOTHING,
        shared=16,
    ),
    Case(
        "arrive_drop lowers the count of later phases",
        _INIT.format(count=32)
        + """setp.lt.u32 %p1, t, 30;
        @%p1 mbarrier.arrive_drop.shared::cta.b64 %d1, [base];
        @!%p1 mbarrier.arrive.shared::cta.b64 %d1, [base];
        first: mbarrier.try_wait.shared::cta.b64 %p2, [base], %d1;
        @!%p2 bra first;
        @%p1 bra rest;
        mbarrier.arrive.shared::cta.b64 %d1, [base];
        second: mbarrier.try_wait.shared::cta.b64 %p2, [base], %d1;
        @!%p2 bra second;
        rest: st.global.u32 [mine], t;""",
        np.arange(32, dtype=np.uint32),
        _NOTHING,
        shared=16,
    ),
    Case(
        "expected bytes hold a phase up until as many are completed",
        _INIT.format(count=1)
        + """@!%p9 bra rest;
        mbarrier.arrive.expect_tx.relaxed.cta.shared::cta.b64 %d1, [base], 48;
        mbarrier.complete_tx.shared::cta.b64 [base], 32;
        mbarrier.test_wait.shared::cta.b64 %p1, [base], %d1;
        mbarrier.complete_tx.shared::cta.b64 [base], 16;
        mbarrier.test_wait.shared::cta.b64 %p2, [base], %d1;
        selp.u32 %a2, 1, 0, %p1;
        selp.u32 %a3, 1, 0, %p2;
        st.global.v2.u32 [dst], {%a2, %a3};
        rest:""",
        np.array([0, 1], np.uint32),
        _NOTHING,
        shared=16,
    ),
    Case(
        "bytes may come before they are expected",
        _INIT.format(count=1)
        + """@!%p9 bra rest;
        mbarrier.complete_tx.relaxed.cluster.shared::cta.b64 [base], 64;
        mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [base], 64;
        mbarrier.test_wait.parity.shared::cta.b64 %p1, [base], 0;
        mbarrier.arrive.shared::cta.b64 _, [base], 1;
        mbarrier.test_wait.parity.shared::cta.b64 %p2, [base], 0;
        selp.u32 %a2, 1, 0, %p1;
        selp.u32 %a3, 1, 0, %p2;
        st.global.v2.u32 [dst], {%a2, %a3};
        rest:""",
        np.array([0, 1], np.uint32),
        _NOTHING,
        shared=16,
    ),
    Case(
        "generic addresses reach barriers, another CTA's too",
        """cvt.u64.u32 %d1, base;
        cvta.shared.u64 %d1, %d1;
        setp.eq.u32 %p9, t, 0;
        @%p9 mbarrier.init.b64 [%d1], 64;
        barrier.cluster.arrive;
        barrier.cluster.wait;
        mapa.u64 %d2, %d1, 1;
        mbarrier.arrive.release.cluster.b64 _, [%d2];
        setp.eq.u32 %p1, rank, 0;
        @%p1 bra rest;
        wait: mbarrier.try_wait.parity.acquire.cluster.b64 %p2, [%d1], 0, 100;
        @!%p2 bra wait;
        rest: st.global.u32 [mine], rank;""",
        np.repeat(np.array([0, 1], np.uint32), 32),
        _NOTHING,
        ctas=2,
        cluster=2,
        shared=16,
    ),
    Case(
        "a wait that fails lets its warp do what the wait is for",
        _INIT.format(count=1)
        + """@!%p9 bra rest;
        mov.u32 %a2, 0;
        mbarrier.try_wait.parity.shared::cta.b64 %p1, [base], 0;
        @%p1 bra over;
        mov.u32 %a2, 1;
        mbarrier.arrive.shared::cta.b64 _, [base];
        over: mbarrier.try_wait.parity.shared::cta.b64 %p1, [base], 0;
        @!%p1 bra over;
        st.global.u32 [dst], %a2;
        rest:""",
        np.array([1], np.uint32),
        _NOTHING,
        shared=16,
    ),
    Case(
        "memory that was a barrier is memory again after inval",
        _INIT.format(count=5)
        + """@!%p9 bra rest;
        mbarrier.inval.shared::cta.b64 [base];
        st.shared.u64 [base], 7;
        ld.shared.u64 %d1, [base];
        st.global.u64 [dst], %d1;
        mbarrier.init.shared::cta.b64 [base], 1;
        mbarrier.arrive.shared::cta.b64 _, [base];
        rest:""",
        np.array([7, 0], np.uint32),
        _NOTHING,
        shared=16,
    ),
)
