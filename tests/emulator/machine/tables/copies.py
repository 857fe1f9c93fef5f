"""``cp.async`` (PTX ISA 9.7.9.25.3, 9.7.13.15.15)."""

import numpy as np

from tests.emulator.machine.case import Case

_DATA = np.random.default_rng(2).integers(0, 2**32, 32 * 4, np.uint32)
_ROWS = _DATA.reshape(32, 4)


def _taken(sizes: np.ndarray) -> np.ndarray:
    """Each lane's 16 bytes, of which only the first so many are copied."""
    raw = _ROWS.view(np.uint8).copy()
    raw[np.arange(16) >= sizes[:, None]] = 0
    return raw.view(np.uint32)


_PLACES = """mul.wide.u32 %d1, t, 16;
        add.u64 %d1, src, %d1;
        mad.lo.u32 %a2, t, 16, base;
        """
_RESULT = """ld.shared.v4.u32 {%a3, %a4, %a5, %a6}, [%a2];
        st.global.v4.u32 [mine], {%a3, %a4, %a5, %a6};"""

CASES = (
    Case(
        "cp.async of 16 bytes each",
        _PLACES
        + """cp.async.cg.shared.global [%a2], [%d1], 16;
        cp.async.wait_all;
        """
        + _RESULT,
        _DATA,
        _DATA,
        words=4,
        shared=512,
    ),
    Case(
        "cp.async of 4 and 8 bytes, with hints",
        _PLACES
        + """mov.b64 %d2, 0;
        createpolicy.fractional.L2::evict_last.b64 %d2, 1.0;
        cp.async.ca.shared::cta.global.L2::128B [%a2], [%d1], 4;
        cp.async.ca.shared.global.L2::cache_hint [%a2+8], [%d1+8], 8, %d2;
        cp.async.ca.shared.global [%a2+4], [%d1+4], 4;
        cp.async.commit_group;
        cp.async.wait_group 0;
        """
        + _RESULT,
        _DATA,
        _DATA,
        words=4,
        shared=512,
    ),
    Case(
        "a source size fills up with zeros",
        _PLACES
        + """and.b32 %a7, t, 15;
        cp.async.cg.shared.global [%a2], [%d1], 16, %a7;
        cp.async.wait_all;
        """
        + _RESULT,
        _taken(np.arange(32) & 15),
        _DATA,
        words=4,
        shared=512,
    ),
    Case(
        "an ignored source is zeros, wherever it points",
        _PLACES
        + """setp.gt.u32 %p1, t, 9;
        @%p1 add.u64 %d1, %d1, 0x10000000;
        cp.async.cg.shared.global [%a2], [%d1], 16, %p1;
        cp.async.wait_all;
        """
        + _RESULT,
        _taken(np.where(np.arange(32) > 9, 0, 16)),
        _DATA,
        words=4,
        shared=512,
    ),
    Case(
        "waiting for all but the newest group gives the older one",
        _PLACES
        + """cp.async.ca.shared.global [%a2], [%d1], 8;
        cp.async.commit_group;
        cp.async.ca.shared.global [%a2+8], [%d1+8], 8;
        cp.async.commit_group;
        cp.async.wait_group 1;
        ld.shared.v2.u32 {%a3, %a4}, [%a2];
        cp.async.wait_group 0;
        ld.shared.v2.u32 {%a5, %a6}, [%a2+8];
        st.global.v4.u32 [mine], {%a3, %a4, %a5, %a6};""",
        _DATA,
        _DATA,
        words=4,
        shared=512,
    ),
    Case(
        "copies arrive on an mbarrier that counts them (noinc)",
        _PLACES
        + """setp.eq.u32 %p9, t, 0;
        @%p9 mbarrier.init.shared::cta.b64 [base+512], 32;
        bar.warp.sync 0xffffffff;
        cp.async.cg.shared.global [%a2], [%d1], 16;
        cp.async.mbarrier.arrive.noinc.shared::cta.b64 [base+512];
        wait: mbarrier.try_wait.parity.shared::cta.b64 %p1, [base+512], 0;
        @!%p1 bra wait;
        xor.b32 %a2, %a2, 16;
        """
        + _RESULT,
        _ROWS[np.arange(32) ^ 1],
        _DATA,
        words=4,
        shared=1024,
    ),
    Case(
        "without noinc the copies' arrivals come on top",
        _PLACES
        + """setp.eq.u32 %p9, t, 0;
        @%p9 mbarrier.init.shared::cta.b64 [base+512], 32;
        bar.warp.sync 0xffffffff;
        cp.async.cg.shared.global [%a2], [%d1], 16;
        cp.async.mbarrier.arrive.shared::cta.b64 [base+512];
        mbarrier.arrive.shared::cta.b64 %d3, [base+512];
        wait: mbarrier.try_wait.shared::cta.b64 %p1, [base+512], %d3;
        @!%p1 bra wait;
        xor.b32 %a2, %a2, 16;
        """
        + _RESULT,
        _ROWS[np.arange(32) ^ 1],
        _DATA,
        words=4,
        shared=1024,
    ),
)
