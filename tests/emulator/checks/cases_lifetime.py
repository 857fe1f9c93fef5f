"""Twins of what must be over when a CTA ends."""

from __future__ import annotations

from tests.emulator.checks.cases_barriers import LOAD
from tests.emulator.checks.cases_threads import STORE
from tests.emulator.checks.twins import Twin, init, wait

MEET = "barrier.cluster.arrive; barrier.cluster.wait;"
#: Every CTA has a barrier; %a8 is that of rank 1, %p1 says whether this is rank 0.
PAIR = init(1) + MEET + "mapa.shared::cluster.u32 %a8, base, 1; setp.eq.u32 %p1, rank, 0;"

LIFETIME = {
    "a CTA waits for arrivals from its peer": Twin(
        "unfinished-at-exit",
        PAIR + "@!%p1 bra MINE; @%p9 mbarrier.arrive.shared::cluster.b64 _, [%a8]; bra DONE;"
        "MINE:" + wait("a", 0) + "DONE:",
        wait("a", 0),
        ctas=2,
        cluster=2,
    ),
    "a CTA stays while its peer writes into it": Twin(
        "unfinished-at-exit",
        PAIR
        + "@%p1 st.shared::cluster.u32 [%a8+512], t;"
        + MEET.replace(";", ".aligned;")
        + "ld.shared.u32 %a3, [base+512];",
        MEET.replace(";", ".aligned;"),
        threads=32,
        ctas=2,
        cluster=2,
    ),
    "a CTA stays while a copy writes into it": Twin(
        "unfinished-at-exit", init(1) + LOAD + wait("a", 0), wait("a", 0)
    ),
    "a CTA stays while a store reads it": Twin(
        "unfinished-at-exit",
        "setp.eq.u32 %p2, t, 0; @!%p2 bra DONE; st.shared.u32 [base], 1; fence.proxy.async;"
        f"{STORE} [p0], [base], 16; cp.async.bulk.commit_group;"
        "cp.async.bulk.wait_group.read 0; DONE:",
        "cp.async.bulk.wait_group.read 0;",
    ),
    "a slot is free when a store and another reader are done": Twin(
        "overwrite-while-read",
        "setp.eq.u32 %p2, t, 0; setp.eq.u32 %p3, t, 32;"
        "@%p2 st.shared.u32 [base], 1; fence.proxy.async; bar.sync 0;"
        "@%p3 ld.shared.u32 %a2, [base];"
        f"@!%p2 bra MEET; {STORE} [p0], [base], 16; cp.async.bulk.commit_group;"
        "cp.async.bulk.wait_group.read 0; MEET: bar.sync 1; @%p2 st.shared.u32 [base], 2;",
        "cp.async.bulk.wait_group.read 0;",
    ),
    "nobody writes into a CTA that has ended": Twin(
        "used-after-exit",
        PAIR + "@%p1 bra MINE; barrier.cluster.arrive.release; barrier.cluster.wait; exit;"
        "MINE: st.shared::cluster.u32 [%a8+512], t;" + MEET,
        "barrier.cluster.arrive.release; barrier.cluster.wait; exit;",
        "exit;",
        threads=32,
        ctas=2,
        cluster=2,
    ),
}
