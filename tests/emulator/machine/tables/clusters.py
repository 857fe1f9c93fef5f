"""Shared memory of other CTAs: stores that signal, copies, reductions."""

import numpy as np

from tests.emulator.machine.case import Case

_T = np.arange(32, dtype=np.uint32)
_NOTHING = np.zeros(1, np.uint32)

#: Both CTAs of a pair have a barrier at ``base+512`` that expects ``bytes``; ``%a8`` and ``%a9``
#: are the other CTA's ``smem`` and barrier.
_PAIR = """setp.eq.u32 %p9, t, 0;
        @!%p9 bra ready;
        mbarrier.init.shared::cta.b64 [base+512], 1;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [base+512], {bytes};
        fence.mbarrier_init.release.cluster;
        ready: mad.lo.u32 %a2, t, 4, base;
        mad.lo.u32 %a3, rank, 100, t;
        st.shared.u32 [%a2], %a3;
        st.shared.u32 [%a2+128], 0;
        st.shared.u32 [%a2+256], 0;
        fence.proxy.async.shared::cta;
        barrier.cluster.arrive;
        barrier.cluster.wait;
        xor.b32 %a7, rank, 1;
        mapa.shared::cluster.u32 %a8, base, %a7;
        add.u32 %a9, %a8, 512;
        """
_WAIT = """wait: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [base+512], 0;
        @!%p1 bra wait;
        """
_END = """barrier.cluster.arrive;
        barrier.cluster.wait;"""


def _red(op: str, operand: str, expected: np.ndarray, bytes: int = 128) -> Case:
    """``red.async`` of every thread onto its own word (pair of words) of the other CTA."""
    size = bytes // 32
    kind = "u64" if size == 8 else "u32"
    return Case(
        f"red.async.{op}",
        _PAIR.format(bytes=bytes)
        + f"""mad.lo.u32 %a10, t, {size}, %a8;
        {operand}
        red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{op}
            [%a10], %{"d" if size == 8 else "a"}11, [%a9];
        """
        + _WAIT
        + f"""mad.lo.u32 %a10, t, {size}, base;
        ld.shared.{kind} %{"d" if size == 8 else "a"}12, [%a10];
        st.global.{kind} [mine], %{"d" if size == 8 else "a"}12;
        """
        + _END,
        expected,
        _NOTHING,
        words=size // 4,
        ctas=2,
        cluster=2,
        shared=1024,
    )


#: What each CTA has in its first 64 words, as 32 numbers of 64 bits, plus 0 to 31.
_WIDE = np.concatenate([_T, 0 * _T]).view(np.uint64) + _T
_WIDE_OTHER = np.concatenate([_T + 100, 0 * _T]).view(np.uint64) + _T
_OWN = np.concatenate([_T, _T + 100])

CASES = (
    Case(
        "st.async gives the other CTA values and signals its barrier",
        _PAIR.format(bytes=128)
        + """mad.lo.u32 %a10, t, 4, %a8;
        st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%a10+128], %a3, [%a9];
        """
        + _WAIT
        + """ld.shared.u32 %a12, [%a2+128];
        st.global.u32 [mine], %a12;
        """
        + _END,
        np.concatenate([_T + 100, _T]),
        _NOTHING,
        ctas=2,
        cluster=2,
        shared=1024,
    ),
    Case(
        "st.async of vectors",
        _PAIR.format(bytes=512)
        + """mad.lo.u32 %a10, t, 16, %a8;
        add.u32 %a11, %a3, 1;
        st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32
            [%a10], {%a3, %a11, %a3, 7}, [%a9];
        """
        + _WAIT
        + """mad.lo.u32 %a10, t, 16, base;
        ld.shared.v4.u32 {%a12, %a13, %a14, %a15}, [%a10];
        st.global.v4.u32 [mine], {%a12, %a13, %a14, %a15};
        """
        + _END,
        np.concatenate(
            [np.stack([x, x + 1, x, 0 * x + 7], 1) for x in (_T + 100, _T)]
        ),
        _NOTHING,
        words=4,
        ctas=2,
        cluster=2,
        shared=1024,
    ),
    _red("add.u32", "mov.u32 %a11, 5;", _OWN + 5),
    _red("inc.u32", "mov.u32 %a11, 120;", np.where(_OWN >= 120, 0, _OWN + 1).astype(np.uint32)),
    _red("min.s32", "sub.s32 %a11, t, 20;",
         np.minimum(np.tile(_T.astype(np.int32) - 20, 2), _OWN.astype(np.int32))),
    _red("or.b32", "mov.u32 %a11, 512;", _OWN | 512),
    _red("add.u64", "cvt.u64.u32 %d11, t;", np.concatenate([_WIDE, _WIDE_OTHER]), 256),
    Case(
        "a bulk copy from one CTA's shared memory into another's",
        _PAIR.format(bytes=128)
        + """add.u32 %a10, %a8, 128;
        @%p9 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes
            [%a10], [base], 128, [%a9];
        """
        + _WAIT
        + """ld.shared.u32 %a12, [%a2+128];
        st.global.u32 [mine], %a12;
        """
        + _END,
        np.concatenate([_T + 100, _T]),
        _NOTHING,
        ctas=2,
        cluster=2,
        shared=1024,
    ),
    Case(
        "a bulk reduction from one CTA's shared memory into another's",
        _PAIR.format(bytes=128)
        + """st.shared.u32 [%a2+128], t;
        fence.proxy.async.shared::cta;
        barrier.cluster.arrive;
        barrier.cluster.wait;
        add.u32 %a10, %a8, 128;
        @%p9 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32
            [%a10], [base], 128, [%a9];
        """
        + _WAIT
        + """ld.shared.u32 %a12, [%a2+128];
        st.global.u32 [mine], %a12;
        """
        + _END,
        np.concatenate([2 * _T + 100, 2 * _T]),
        _NOTHING,
        ctas=2,
        cluster=2,
        shared=1024,
    ),
)  # fmt: skip
