"""Bulk copies and reductions of plain blocks (PTX ISA 9.7.9.25.4)."""

import numpy as np

from tests.emulator.machine.case import Case

_DATA = np.arange(64, dtype=np.uint32) + 1000
_T = np.arange(32, dtype=np.uint32)

#: Thread 0 copies 128 bytes from ``src`` to shared memory and all wait for them.
_LOADED = """setp.eq.u32 %p9, t, 0;
        @!%p9 bra loaded;
        mbarrier.init.shared::cta.b64 [base+512], 1;
        fence.mbarrier_init.release.cluster;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [base+512], 128;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
            [base], [src], 128, [base+512];
        loaded: bar.warp.sync 0xffffffff;
        wait: mbarrier.try_wait.parity.shared::cta.b64 %p1, [base+512], 0;
        @!%p1 bra wait;
        mad.lo.u32 %a2, t, 4, base;
        """


def _reduced(name: str, op: str, first: np.ndarray, expected: np.ndarray, **more: object) -> Case:
    """Reduces 128 bytes of shared memory (its threads' words) into those at ``src + 128``."""
    raw = np.concatenate([first.view(np.uint32), np.zeros(32, np.uint32)])
    raw[32:] = _T if not more else more["start"].view(np.uint32)  # type: ignore[attr-defined]
    return Case(
        name,
        _LOADED
        + f"""fence.proxy.async.shared::cta;
        bar.warp.sync 0xffffffff;
        @!%p9 bra rest;
        cp.reduce.async.bulk.global.shared::cta.bulk_group.{op} [src+128], [base], 128;
        cp.async.bulk.commit_group;
        cp.async.bulk.wait_group 0;
        rest: bar.warp.sync 0xffffffff;
        mul.wide.u32 %d1, t, 4;
        add.u64 %d1, src, %d1;
        ld.global.u32 %a3, [%d1+128];
        st.global.u32 [mine], %a3;""",
        expected,
        raw,
        shared=1024,
    )


_FLOATS = np.linspace(-4, 4, 32, dtype=np.float32)
_HALVES = np.linspace(-4, 4, 64, dtype=np.float32).astype(np.float16)

CASES = (
    Case(
        "a block from global to shared memory",
        _LOADED + "ld.shared.u32 %a3, [%a2]; st.global.u32 [mine], %a3;",
        _DATA[:32],
        _DATA,
        shared=1024,
    ),
    Case(
        "a block from shared to global memory",
        _LOADED
        + """ld.shared.u32 %a3, [%a2];
        add.u32 %a3, %a3, 1;
        st.shared.u32 [%a2], %a3;
        fence.proxy.async.shared::cta;
        bar.warp.sync 0xffffffff;
        @!%p9 bra rest;
        cp.async.bulk.global.shared::cta.bulk_group [dst], [base], 128;
        cp.async.bulk.commit_group;
        cp.async.bulk.wait_group 0;
        rest:""",
        _DATA[:32] + 1,
        _DATA,
        shared=1024,
    ),
    Case(
        "a mask chooses the bytes of every sixteen",
        _LOADED
        + """st.global.u32 [mine], t;
        fence.proxy.async;
        bar.warp.sync 0xffffffff;
        @!%p9 bra rest;
        mov.b16 %h1, 0x0F0F;
        mov.b32 %a4, 0x0F0F;
        cp.async.bulk.global.shared::cta.bulk_group.cp_mask [dst], [base], 128, %h1;
        cp.async.bulk.commit_group;
        cp.async.bulk.wait_group 0;
        rest:""",
        np.where(_T % 2 == 0, _DATA[:32], _T),
        _DATA,
        shared=1024,
        needs="sm_100",
    ),
    Case(
        "a block to the same place in every CTA of a mask",
        """setp.eq.u32 %p9, t, 0;
        @!%p9 bra loaded;
        mbarrier.init.shared::cta.b64 [base+512], 1;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [base+512], 128;
        fence.mbarrier_init.release.cluster;
        loaded: barrier.cluster.arrive;
        barrier.cluster.wait;
        setp.eq.u32 %p2, rank, 1;
        and.pred %p2, %p2, %p9;
        mov.b16 %h1, 5;
        @%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
            [base], [src], 128, [base+512], %h1;
        setp.eq.u32 %p3, rank, 1;
        @%p3 bra rest;
        setp.eq.u32 %p3, rank, 3;
        @%p3 bra rest;
        wait: mbarrier.try_wait.parity.shared::cta.b64 %p1, [base+512], 0;
        @!%p1 bra wait;
        mad.lo.u32 %a2, t, 4, base;
        ld.shared.u32 %a3, [%a2];
        st.global.u32 [mine], %a3;
        rest: barrier.cluster.arrive;
        barrier.cluster.wait;""",
        np.concatenate([_DATA[:32], 0 * _T + 0xABABABAB, _DATA[:32], 0 * _T + 0xABABABAB]).astype(
            np.uint32
        ),
        _DATA,
        ctas=4,
        cluster=4,
        shared=1024,
    ),
    Case(
        "groups of bulk stores are waited for by their number",
        _LOADED
        + """@!%p9 bra rest;
        cp.async.bulk.global.shared::cta.bulk_group [dst], [base], 64;
        cp.async.bulk.commit_group;
        cp.async.bulk.commit_group;
        cp.async.bulk.wait_group 1;
        ld.global.u32 %a3, [dst+60];
        st.global.u32 [dst], %a3;
        rest:""",
        np.concatenate([_DATA[15:16], _DATA[1:16]]),
        _DATA,
        shared=1024,
    ),
    _reduced("bulk add.u32", "add.u32", _DATA[:32], _DATA[:32] + _T),
    _reduced("bulk min.s32", "min.s32", 16 - _T.astype(np.int32),
             np.minimum(16 - _T.astype(np.int32), _T.astype(np.int32))),
    _reduced("bulk max.u32", "max.u32", 31 - _T, np.maximum(31 - _T, _T)),
    _reduced("bulk inc.u32", "inc.u32", 0 * _T + 9, np.where(_T >= 9, 0, _T + 1).astype(np.uint32)),
    _reduced("bulk xor.b32", "xor.b32", 0 * _T + 5, _T ^ 5),
    _reduced("bulk and.b64", "and.b64", 0 * _T + 6, _T & 6),
    _reduced("bulk add.f32", "add.f32", _FLOATS, _FLOATS + _FLOATS[::-1],
             start=np.ascontiguousarray(_FLOATS[::-1])),
    _reduced("bulk add.noftz.f16", "add.noftz.f16", _HALVES, _HALVES + _HALVES, start=_HALVES),
)  # fmt: skip
