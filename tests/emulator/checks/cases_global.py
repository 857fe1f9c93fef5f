"""Twins of global memory: clusters that a flag orders, or nothing does."""

from __future__ import annotations

from tests.emulator.checks.cases_barriers import LOAD
from tests.emulator.checks.cases_threads import FIRST, STORE
from tests.emulator.checks.twins import Twin, init, wait

#: %a9 is the CTA's number, %p1 whether it is the first, %p2 whether this is thread 0.
WHO = "mov.u32 %a9, %ctaid.x; setp.eq.u32 %p1, %a9, 0; setp.eq.u32 %p2, t, 0;"
#: Addresses of the CTA's part, %d5, and of the thread's word in it, %d6.
OWN = (
    "mul.wide.u32 %d5, %a9, 256; add.u64 %d5, %d5, p0;"
    "mul.wide.u32 %d6, t, 4; add.u64 %d6, %d6, %d5;"
)
SPIN = "SPIN: ld.acquire.gpu.global.u32 %a3, [p1]; setp.eq.u32 %p4, %a3, 0; @%p4 bra SPIN;"
FLAG = (
    WHO
    + "@%p1 bra WRITE; @!%p2 bra DONE;"
    + SPIN
    + "ld.global.u32 %a2, [p0]; bra DONE;"
    + "WRITE: @!%p2 bra DONE; st.global.u32 [p0], 7; st.release.gpu.global.u32 [p1], 1; DONE:"
)

GLOBAL = {
    "each CTA writes a part of its own": Twin(
        "global-race", WHO + OWN + "st.global.u32 [%d6], t;", "%a9, 256", "%a9, 128", ctas=3
    ),
    "CTAs of different waves write parts of their own": Twin(
        "global-race",
        WHO + OWN + "add.u32 %a4, t, %a9; st.global.u32 [%d6], %a4;",
        "%a9, 256",
        "%a9, 0",
        ctas=3,
        options={"resident_ctas": 1},
    ),
    "a CTA reads behind a flag what another writes": Twin("global-race", FLAG, SPIN, ctas=2),
    "a CTA adds to what others add to": Twin(
        "global-race",
        WHO + "@%p2 red.relaxed.gpu.global.add.u32 [p0], 1;",
        "red.relaxed.gpu.global.add.u32 [p0], 1",
        "st.global.u32 [p0], %a9",
        ctas=2,
    ),
    "CTAs that write the same value do no harm": Twin(
        "global-race",
        WHO + OWN + "mov.u32 %a4, 7; st.global.u32 [p0], %a4;",
        "mov.u32 %a4, 7;",
        "add.u32 %a4, %a9, 1;",
        ctas=3,
    ),
    "a bulk copy out goes to a place of its own": Twin(
        "global-race",
        WHO
        + OWN
        + "@!%p2 bra DONE; st.shared.u32 [base], 1; fence.proxy.async;"
        + f"{STORE} [%d5], [base], 16; cp.async.bulk.commit_group;"
        + "cp.async.bulk.wait_group.read 0; DONE:",
        "%a9, 256",
        "%a9, 0",
        ctas=2,
    ),
    "a thread reads what the kernel before has written": Twin(
        "dependent-launch",
        "ld.global.u32 %a3, [p1]; griddepcontrol.wait; ld.global.u32 %a2, [p0];",
        "griddepcontrol.wait;",
        pending=(0,),
    ),
    "a thread overwrites what the kernel before wrote": Twin(
        "dependent-launch",
        "griddepcontrol.wait; st.global.u32 [p0], 1;",
        "griddepcontrol.wait;",
        "griddepcontrol.launch_dependents;",
        pending=(0, 1),
    ),
    "one warp waits for the kernel before and tells the other": Twin(
        "dependent-launch",
        FIRST + "@!%p1 bra READ; griddepcontrol.wait; READ: bar.sync 0; ld.global.u32 %a2, [p0];",
        "bar.sync 0;",
        pending=(0,),
    ),
    "threads copy what the kernel before has written": Twin(
        "dependent-launch",
        FIRST + "@!%p1 bra DONE; griddepcontrol.wait; cp.async.ca.shared.global [%a1], [p0], 4;"
        "cp.async.wait_all; DONE:",
        "griddepcontrol.wait;",
        pending=(0,),
    ),
    "a bulk copy out overwrites what the kernel before wrote": Twin(
        "dependent-launch",
        WHO
        + OWN
        + "@!%p2 bra DONE; st.shared.u32 [base], 1; fence.proxy.async; griddepcontrol.wait;"
        + f"{STORE} [%d5], [base], 16; cp.async.bulk.commit_group;"
        + "cp.async.bulk.wait_group.read 0; DONE:",
        "griddepcontrol.wait;",
        pending=(0,),
    ),
    "a bulk copy in reads what nobody writes": Twin(
        "global-race",
        init(1)
        + WHO
        + "and.pred %p5, %p1, %p2;"
        + LOAD
        + wait("a", 0)
        + "@%p5 st.global.u32 [p1], 1;",
        "[p1], 1",
        "[p0], 1",
        ctas=2,
    ),
}
