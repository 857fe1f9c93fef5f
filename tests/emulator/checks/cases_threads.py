"""Twins of threads: loads, stores, lanes, named barriers, flags, proxies."""

from __future__ import annotations

from tests.emulator.checks.twins import Twin

FIRST = "setp.lt.u32 %p1, t, 32; shl.b32 %a1, t, 2; and.b32 %a1, %a1, 127; add.u32 %a1, %a1, base;"
LONE = "setp.eq.u32 %p2, t, 0;"
STORE = "cp.async.bulk.global.shared::cta.bulk_group"

THREADS = {
    "one warp reads what another writes": Twin(
        "read-before-write",
        FIRST + "@%p1 st.shared.u32 [%a1], t; bar.sync 0; @!%p1 ld.shared.u32 %a2, [%a1];",
        "bar.sync 0;",
    ),
    "one warp overwrites what another reads": Twin(
        "overwrite-while-read",
        FIRST + "@%p1 st.shared.u32 [%a1], t; bar.sync 0; @!%p1 ld.shared.u32 %a2, [%a1];"
        "bar.sync 1; @%p1 st.shared.u32 [%a1], t;",
        "bar.sync 1;",
    ),
    "two warps write the same": Twin(
        "overwrite-while-written",
        FIRST + "@%p1 st.shared.u32 [%a1], t; bar.sync 0; @!%p1 st.shared.u32 [%a1], t;",
        "bar.sync 0;",
    ),
    "a named barrier of producer and consumer": Twin(
        "read-before-write",
        FIRST + "@!%p1 bra READ; st.shared.u32 [%a1], t; bar.arrive 3, 64; bra DONE;"
        "READ: bar.sync 3, 64; ld.shared.u32 %a2, [%a1]; DONE:",
        "READ: bar.sync 3, 64;",
        "READ: bar.arrive 3, 64;",
    ),
    "a lane reads what another lane of its warp wrote": Twin(
        "lane-race",
        FIRST + "st.shared.u32 [%a1], t; bar.warp.sync -1; xor.b32 %a1, %a1, 4;"
        "ld.shared.u32 %a2, [%a1];",
        "bar.warp.sync -1;",
        threads=32,
    ),
    "lanes read what the next stores in two words": Twin(
        "lane-race",
        FIRST + "@!%p1 bra DONE; shl.b32 %a1, t, 3; add.u32 %a1, %a1, base;"
        "st.shared.v2.u32 [%a1], {t, t}; bar.sync 3, 32; ld.shared.u32 %a2, [%a1+8]; DONE:",
        "bar.sync 3, 32;",
    ),
    "one lane alone reads what another alone wrote": Twin(
        "lane-race",
        "setp.eq.u32 %p2, t, 0; setp.eq.u32 %p3, t, 1; @%p2 st.shared.u32 [base], t;"
        "bar.warp.sync -1; @%p3 ld.shared.u32 %a2, [base];",
        "bar.warp.sync -1;",
        threads=32,
    ),
    "a lone lane reads what its warp wrote": Twin(
        "read-before-write",
        FIRST + LONE + "st.shared.u32 [%a1], t; bar.warp.sync -1;"
        "@%p2 ld.shared.u32 %a2, [base+64];",
        "bar.warp.sync -1;",
        threads=32,
    ),
    "an elected lane passes on what its warp wrote": Twin(
        "read-before-write",
        "setp.eq.u32 %p9, t, 0; @%p9 mbarrier.init.shared.b64 [base+256], 1; bar.sync 0;"
        + FIRST
        + "@!%p1 bra READ; st.shared.u32 [%a1], t; bar.warp.sync -1; elect.sync _|%p3, -1;"
        "@%p3 mbarrier.arrive.shared.b64 _, [base+256]; bra DONE;"
        "READ: mbarrier.try_wait.parity.shared.b64 %p8, [base+256], 0; @!%p8 bra READ;"
        "ld.shared.u32 %a2, [%a1]; DONE:",
        "bar.warp.sync -1;",
    ),
    "a flag that is released and acquired": Twin(
        "read-before-write",
        FIRST + LONE + "@%p2 st.volatile.shared.u32 [base+512], 0; bar.sync 0;"
        "@!%p1 bra READ; st.shared.u32 [%a1], t; bar.warp.sync -1;"
        "@%p2 st.release.cta.shared.u32 [base+512], 1; bra DONE;"
        "READ: ld.acquire.cta.shared.u32 %a3, [base+512]; setp.eq.u32 %p4, %a3, 0; @%p4 bra READ;"
        "ld.shared.u32 %a2, [%a1]; DONE:",
        "ld.acquire.cta",
        "ld.relaxed.cta",
    ),
    "a flag with fences around it": Twin(
        "read-before-write",
        FIRST + LONE + "@%p2 st.volatile.shared.u32 [base+512], 0; bar.sync 0;"
        "@!%p1 bra READ; st.shared.u32 [%a1], t; bar.warp.sync -1; fence.acq_rel.cta;"
        "@%p2 st.relaxed.cta.shared.u32 [base+512], 1; bra DONE;"
        "READ: ld.relaxed.cta.shared.u32 %a3, [base+512]; setp.eq.u32 %p4, %a3, 0; @%p4 bra READ;"
        "fence.acq_rel.cta; ld.shared.u32 %a2, [%a1]; DONE:",
        "fence.acq_rel.cta; ld.shared",
        "ld.shared",
    ),
    "counting with atomics": Twin(
        "overwrite-while-written",
        LONE + "@%p2 st.shared.u32 [base], 0; bar.sync 0; red.shared.add.u32 [base], 1;"
        "bar.sync 1; ld.shared.u32 %a2, [base];",
        "red.shared.add.u32 [base], 1;",
        "st.shared.u32 [base], 1;",
    ),
    "the last warp to count reads what the other wrote": Twin(
        "read-before-write",
        LONE + "@%p2 st.volatile.shared.u32 [base], 0; bar.sync 0; shl.b32 %a1, t, 2;"
        "add.u32 %a1, %a1, base; st.shared.u32 [%a1+512], t; bar.warp.sync -1;"
        "and.b32 %a3, t, 31; setp.eq.u32 %p3, %a3, 0;"
        "@%p3 atom.acq_rel.cta.shared.add.u32 %a4, [base], 1;"
        "shfl.sync.idx.b32 %a4, %a4, 0, 31, -1; setp.eq.u32 %p4, %a4, 1; bar.warp.sync -1;"
        "xor.b32 %a1, %a1, 128; @%p4 ld.shared.u32 %a5, [%a1+512];",
        "atom.acq_rel.cta",
        "atom.relaxed.cta",
    ),
    "a store by the TMA unit of what threads wrote": Twin(
        "missing-proxy-fence",
        FIRST + LONE + "st.shared.u32 [%a1], t; fence.proxy.async.shared::cta; bar.sync 0;"
        f"@%p2 {STORE} [p0], [base], 128; @%p2 cp.async.bulk.commit_group;"
        "@%p2 cp.async.bulk.wait_group 0;",
        "fence.proxy.async.shared::cta;",
        threads=32,
    ),
    "a fence sees only what stands before it": Twin(
        "missing-proxy-fence",
        FIRST + LONE + "st.shared.u32 [%a1], t; fence.proxy.async.shared::cta; bar.sync 0;"
        f"@%p2 {STORE} [p0], [base], 128; @%p2 cp.async.bulk.commit_group;"
        "@%p2 cp.async.bulk.wait_group 0;",
        "st.shared.u32 [%a1], t; fence.proxy.async.shared::cta;",
        "fence.proxy.async.shared::cta; st.shared.u32 [%a1], t;",
        threads=32,
    ),
    "memory that a store has read is used again": Twin(
        "overwrite-while-read",
        FIRST + LONE + "st.shared.u32 [%a1], t; fence.proxy.async.shared::cta; bar.sync 0;"
        f"@%p2 {STORE} [p0], [base], 128; @%p2 cp.async.bulk.commit_group;"
        "@%p2 cp.async.bulk.wait_group.read 0; bar.sync 1; st.shared.u32 [%a1], 7;",
        "@%p2 cp.async.bulk.wait_group.read 0;",
        threads=32,
    ),
}
