"""Barriers of a CTA some of whose warps have ended: what an H200 does with each was tried."""

from __future__ import annotations

import numpy as np
import pytest

from fa4kernel.emulator import DeadlockError
from tests.emulator.machine.kernels import run

LEAVE = "setp.lt.u32 %p1, t, 32; @%p1 bra DONE;"
#: Warp 0 ends long after the others have come.
LATE = """setp.ge.u32 %p1, t, 32; @%p1 bra GO;
mov.u32 %a1, 0; LOOP: add.u32 %a1, %a1, 1; setp.lt.u32 %p2, %a1, 50; @%p2 bra LOOP;
bra DONE;
GO:
"""
STORE = """mul.wide.u32 %d1, t, 4; add.u64 %d1, %d1, p0; mov.u32 %a2, 7; st.global.u32 [%d1], %a2;
DONE:
"""
SCHEDULES = ("lockstep", 1, 2, "delay warp 0", "hurry warp 0")


def stored(body: str, schedule: str | int) -> int:
    """How many of 96 threads get past a barrier and store."""
    out = np.zeros(96, np.uint32)
    run(body + STORE, out, threads=96, schedule=schedule, checks="default")
    return int((out == 7).sum())


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "body, past",
    [
        (LEAVE + "bar.sync 0;", 64),
        (LATE + "bar.sync 0;", 64),
        (LATE + "bar.sync 0; bar.sync 0; bar.sync 3;", 64),
        (LEAVE + "bar.sync 3;", 64),
        (LEAVE + "bar.sync 0, 64;", 64),
        ("setp.lt.u32 %p1, t, 9; @%p1 bra DONE; bar.sync 0;", 87),
        ("bar.sync 0;" + LATE + "bar.sync 0;", 64),
    ],
)
def test_a_barrier_without_a_count_does_not_wait_for_warps_that_ended(body, past, schedule):
    assert stored(body, schedule) == past


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_reduction_counts_those_that_came(schedule):
    out = np.zeros(96, np.uint32)
    body = LATE + "setp.lt.u32 %p3, t, 70; bar.red.popc.u32 %a3, 0, %p3;"
    run(body + STORE.replace("mov.u32 %a2, 7;", "mov.u32 %a2, %a3;"), out, threads=96,
        schedule=schedule)  # fmt: skip
    assert out.tolist() == 32 * [0] + 64 * [38]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "body, ended",
    [
        (LEAVE + "bar.sync 0, 96;", True),
        (LATE + "bar.sync 0, 96;", True),
        (LEAVE + "setp.lt.u32 %p2, t, 64; @%p2 bar.arrive 1, 96; @%p2 bra X; bar.sync 1, 96; X:",
         True),
        ("bar.sync 0, 128;", False),
    ],
)  # fmt: skip
def test_a_barrier_with_a_count_waits_for_so_many(body, ended, schedule):
    with pytest.raises(DeadlockError) as error:
        stored(body, schedule)
    asked = "threads too high, or should warp 0, which ended, have come?" in str(error.value)
    assert asked == ended


def test_who_has_not_ended_is_waited_for():
    body = "setp.lt.u32 %p1, t, 32; @%p1 bar.sync 1, 64; bar.sync 0;"
    with pytest.raises(DeadlockError, match="2 of 3 warps have come"):
        stored(body, "lockstep")
