"""Twins of mbarriers: phases, inits, copies that signal them."""

from __future__ import annotations

from tests.emulator.checks.twins import Twin, init, wait

COPY = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
FIRST = "setp.lt.u32 %p1, t, 32; shl.b32 %a1, t, 2; and.b32 %a1, %a1, 127; add.u32 %a1, %a1, base;"
LOAD = (
    "@%p9 mbarrier.arrive.expect_tx.shared.b64 _, [base], 256;"
    f"@%p9 {COPY} [base+1024], [p0], 256, [base];"
)
#: Two barriers, "full" at 0 and "empty" at 8; warp 0 fills a slot of 128 bytes, warp 1 reads it.
RING = f"""setp.eq.u32 %p9, t, 0;
@%p9 mbarrier.init.shared.b64 [base], 32;
@%p9 mbarrier.init.shared.b64 [base+8], 32;
bar.sync 0;
{FIRST}
mov.u32 %a4, 0;
@!%p1 bra TAKE;
GIVE: and.b32 %a5, %a4, 1;
xor.b32 %a6, %a5, 1;
{wait("e", "%a6", "base+8")}
st.shared.u32 [%a1+1024], t;
mbarrier.arrive.shared.b64 _, [base];
add.u32 %a4, %a4, 1;
setp.lt.u32 %p2, %a4, 4;
@%p2 bra GIVE;
bra DONE;
TAKE: and.b32 %a5, %a4, 1;
{wait("f", "%a5")}
ld.shared.u32 %a2, [%a1+1024];
mbarrier.arrive.shared.b64 _, [base+8];
add.u32 %a4, %a4, 1;
setp.lt.u32 %p2, %a4, 4;
@%p2 bra TAKE;
DONE:
"""

BARRIERS = {
    "who waits for a copy reads what it wrote": Twin(
        "read-before-write",
        init(1) + LOAD + wait("a", 0) + "ld.shared.u32 %a2, [base+1024];",
        wait("a", 0),
    ),
    "a copy overwrites what threads have read": Twin(
        "overwrite-while-read",
        init(1)
        + LOAD
        + wait("a", 0)
        + "ld.shared.u32 %a2, [base+1024]; bar.sync 1;"
        + LOAD
        + wait("b", 1),
        "bar.sync 1;",
    ),
    "two copies under way": Twin(
        "overwrite-while-written",
        init(1) + "@%p9 mbarrier.arrive.expect_tx.shared.b64 _, [base], 512;"
        f"@%p9 {COPY} [base+1024], [p0], 256, [base];"
        f"@%p9 {COPY} [base+1280], [p0], 256, [base];" + wait("a", 0),
        "[base+1280]",
        "[base+1152]",
    ),
    "a copy overwrites what threads wrote": Twin(
        "missing-proxy-fence",
        init(1)
        + "@%p9 st.shared.u32 [base+1024], 1; fence.proxy.async; bar.sync 1;"
        + LOAD
        + wait("a", 0),
        "fence.proxy.async;",
    ),
    "a copy signals a barrier whose init it can see": Twin(
        "uninitialised-barrier",
        init(1) + LOAD + wait("a", 0),
        "@%p9 fence.mbarrier_init.release.cluster;",
    ),
    "threads see the init of a barrier": Twin(
        "uninitialised-barrier", init(64) + "mbarrier.arrive.shared.b64 _, [base];", "bar.sync 0;"
    ),
    "a ring: the consumer waits": Twin("read-before-write", RING, wait("f", "%a5")),
    "a ring: the producer waits": Twin("ambiguous-wait", RING, wait("e", "%a6", "base+8")),
    "a look between two arrivals": Twin(
        "early-phase",
        init(2)
        + "@!%p9 bra DONE; mov.u32 %a1, 0; NEXT: and.b32 %a2, %a1, 1;"
        + "mbarrier.arrive.shared.b64 _, [base];"
        + "mbarrier.test_wait.parity.shared.b64 %p8, [base], %a2;"
        + "mbarrier.arrive.shared.b64 _, [base];"
        + wait("a", "%a2")
        + "add.u32 %a1, %a1, 1; setp.lt.u32 %p1, %a1, 4; @%p1 bra NEXT; DONE:",
        wait("a", "%a2"),
    ),
    "a lane's barrier is its warp's after they have met": Twin(
        "uninitialised-barrier",
        "setp.eq.u32 %p9, t, 0; @%p9 mbarrier.init.shared.b64 [base], 1; bar.warp.sync -1;"
        "@%p9 mbarrier.arrive.shared.b64 _, [base];" + wait("a", 0),
        "bar.warp.sync -1;",
        threads=32,
    ),
    "two warps arrive phase by phase": Twin(
        "early-phase",
        init(64)
        + "mbarrier.arrive.shared.b64 _, [base];"
        + wait("a", 0)
        + "mbarrier.arrive.shared.b64 _, [base];"
        + wait("b", 1),
        wait("a", 0),
    ),
    "warps that arrive in one step are as many as the count": Twin(
        "early-phase",
        init(2)
        + "and.b32 %a1, t, 31; setp.eq.u32 %p1, %a1, 0;"
        + "@%p1 mbarrier.arrive.shared.b64 _, [base];"
        + wait("a", 0),
        "[base], 2;",
        "[base], 1;",
    ),
    "the lanes of a warp arrive in one phase": Twin(
        "split-arrival",
        init(64) + "mbarrier.arrive.shared.b64 _, [base];",
        "[base], 64;",
        "[base], 48;",
    ),
    "the next phase completes when all have seen the one before": Twin(
        "overrun",
        init(32)
        + FIRST
        + "@%p1 mbarrier.arrive.shared.b64 _, [base]; @%p1 bra ON;"
        + wait("a", 0)
        + "ON: bar.sync 1; @%p1 mbarrier.arrive.shared.b64 _, [base];",
        "ON: bar.sync 1;",
        "ON:",
    ),
    "a barrier is made twice": Twin(
        "live-barrier",
        init(1) + "@%p9 mbarrier.inval.shared.b64 [base];@%p9 mbarrier.init.shared.b64 [base], 2;",
        "@%p9 mbarrier.inval.shared.b64 [base];",
    ),
    "a barrier is no place for data": Twin(
        "live-barrier", init(1) + "st.shared.u32 [base+8], t;", "base+8", "base+4", threads=1
    ),
    "cp.async and wait_all": Twin(
        "read-before-write",
        "cp.async.ca.shared.global [base], [p0], 16; cp.async.wait_all; bar.sync 0;"
        "ld.shared.u32 %a2, [base];",
        "cp.async.wait_all;",
        threads=1,
    ),
    "cp.async and wait_group": Twin(
        "read-before-write",
        "cp.async.ca.shared.global [base], [p0], 16; cp.async.commit_group;"
        "cp.async.ca.shared.global [base+16], [p0], 16; cp.async.commit_group;"
        "cp.async.wait_group 1; ld.shared.u32 %a2, [base]; cp.async.wait_group 0;"
        "ld.shared.u32 %a2, [base+16];",
        "cp.async.wait_group 1;",
        "cp.async.wait_group 2;",
        threads=1,
    ),
    "cp.async that arrives on a barrier": Twin(
        "read-before-write",
        init(32) + "setp.lt.u32 %p1, t, 32; shl.b32 %a1, t, 4; add.u32 %a1, %a1, base;"
        "@%p1 cp.async.ca.shared.global [%a1+1024], [p0], 16;"
        "@%p1 cp.async.mbarrier.arrive.noinc.shared.b64 [base];"
        + wait("a", 0)
        + "ld.shared.u32 %a2, [base+1024];",
        wait("a", 0),
    ),
}
