"""Waits that time out, polling, spinning: it goes on as long as that leads anywhere."""

from __future__ import annotations

import numpy as np
import pytest

from fa4kernel.emulator import DeadlockError, EmulationError
from tests.emulator.machine.kernels import run

INIT = """setp.eq.u32 %p9, t, 0;
        @%p9 mbarrier.init.shared::cta.b64 [base], {count};
        bar.sync 0;
"""


def test_a_spin_on_global_memory_ends_when_another_warp_writes_it() -> None:
    out = np.zeros(2, np.uint32)
    run(
        """setp.ge.u32 %p1, t, 32;
        @%p1 bra writer;
        spin: ld.acquire.gpu.global.u32 %a2, [p0];
        setp.eq.u32 %p2, %a2, 0;
        @%p2 bra spin;
        st.global.u32 [p0+4], %a2;
        bra over;
        writer: mov.u32 %a3, 0;
        busy: add.u32 %a3, %a3, 1; setp.lt.u32 %p3, %a3, 5000; @%p3 bra busy;
        st.release.gpu.global.u32 [p0], 9;
        over:""",
        out,
        threads=64,
    )
    assert out.tolist() == [9, 9]


def test_a_spin_with_sleep_waits_for_a_copy() -> None:
    data, out = np.arange(4, dtype=np.uint32), np.zeros(1, np.uint32)
    run(
        INIT.format(count=1)
        + """@!%p9 bra over;
        mbarrier.arrive.expect_tx.shared::cta.b64 %d1, [base], 16;
        cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [base+16], [p0], 16, [base];
        poll: mbarrier.test_wait.shared::cta.b64 %p1, [base], %d1;
        @!%p1 nanosleep.u32 20;
        @!%p1 bra poll;
        ld.shared.u32 %a2, [base+28];
        st.global.u32 [p1], %a2;
        over:""",
        data,
        out,
    )
    assert out[0] == 3


def test_a_wait_in_a_loop_that_counts_gives_up() -> None:
    out = np.zeros(1, np.uint32)
    run(
        INIT.format(count=1)
        + """mov.u32 %a2, 0;
        more: mbarrier.try_wait.parity.shared::cta.b64 %p1, [base], 0, 1000;
        add.u32 %a2, %a2, 1;
        setp.lt.u32 %p2, %a2, 50;
        @%p2 bra more;
        st.global.u32 [p0], %a2;""",
        out,
    )
    assert out[0] == 50


@pytest.mark.parametrize("schedule", ["lockstep", 4])
def test_a_wait_that_nobody_fulfils_is_a_deadlock(schedule: str | int) -> None:
    body = (
        INIT.format(count=2)
        + """@%p9 mbarrier.arrive.shared::cta.b64 _, [base];
        wait: mbarrier.try_wait.parity.shared::cta.b64 %p1, [base], 0;
        @!%p1 bra wait;"""
    )
    with pytest.raises(DeadlockError, match=r"1 of 2 arrivals have come"):
        run(body, schedule=schedule)


@pytest.mark.parametrize(
    ("loop", "words"),
    [
        (
            "poll: mbarrier.test_wait.parity.shared::cta.b64 %p1, [base], 0; @!%p1 bra poll;",
            "0 of 1 arrivals have come",
        ),
        ("spin: ld.shared.u32 %a2, [base+8]; setp.eq.u32 %p1, %a2, 0; @%p1 bra spin;", "loop"),
        ("doze: nanosleep.u32 100; bra doze;", "sleeps"),
    ],
)
def test_going_round_without_any_change_is_a_deadlock(loop: str, words: str) -> None:
    body = INIT.format(count=1) + "st.shared.u32 [base+8], 0;\n" + loop
    with pytest.raises(DeadlockError, match=words):
        run(body)


def test_a_kernel_can_find_out_itself_that_nothing_happens() -> None:
    body = (
        INIT.format(count=1)
        + """mov.u64 %d1, %globaltimer;
        poll: mbarrier.test_wait.parity.shared::cta.b64 %p1, [base], 0;
        @%p1 bra over;
        nanosleep.u32 100;
        mov.u64 %d2, %globaltimer;
        sub.u64 %d2, %d2, %d1;
        setp.gt.u64 %p2, %d2, 5000;
        @%p2 trap;
        bra poll;
        over:"""
    )
    with pytest.raises(EmulationError, match="the kernel traps"):
        run(body)
