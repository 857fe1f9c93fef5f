"""Orders that delay or hurry something show what depends on luck."""

from __future__ import annotations

import numpy as np
import pytest

from fa4kernel.emulator import emulate
from fa4kernel.emulator.launch import Launch
from fa4kernel.emulator.machine.adversary import schedule_of
from fa4kernel.emulator.machine.agents import UNITS
from tests.emulator.machine.kernels import kernel

#: One warp (or CTA) writes, another passes on what it finds; nothing orders them.
RACE = """@%p1 bra WRITE;
    mov.u32 %a1, 0;
    LATE: add.u32 %a1, %a1, 1; setp.lt.u32 %p2, %a1, 3; @%p2 bra LATE;
    ld.volatile.global.u32 %a2, [p0]; st.global.u32 [p0+4], %a2; bra DONE;
    WRITE: mov.u32 %a1, 0;
    BUSY: add.u32 %a1, %a1, 1; setp.lt.u32 %p2, %a1, 3; @%p2 bra BUSY;
    st.volatile.global.u32 [p0], 1; DONE:"""
WARPS = "setp.ge.u32 %p1, t, 32;" + RACE
CTAS = "mov.u32 %a9, %ctaid.x; setp.eq.u32 %p1, %a9, 1;" + RACE
#: Two copies, in and out, of which nobody waits for the one that comes in.
COPIES = """setp.eq.u32 %p9, t, 0; @!%p9 bra DONE;
    mbarrier.init.shared.b64 [base+512], 1;
    st.shared.u32 [base+256], 7; fence.proxy.async;
    mbarrier.arrive.expect_tx.shared.b64 %d1, [base+512], 16;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [base], [p0], 16, [base+512];
    cp.async.bulk.global.shared::cta.bulk_group [p1], [base+256], 16;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    ld.shared.u32 %a2, [base]; st.global.u32 [p0+16], %a2; DONE:"""


def run(body: str, schedule: str, threads: int = 32, ctas: int = 1) -> list[int]:
    """The first memory after a run."""
    memory = [np.array([5, 0, 0, 0, 9, 0, 0, 0], np.uint32), np.zeros(4, np.uint32)]
    if body != COPIES:
        memory[0][:] = 0
    launch = Launch((ctas, 1, 1), (threads, 1, 1), arguments=memory)
    emulate(kernel(body, 2, 1024), launch, schedule=schedule, checks="off")
    return memory[0].tolist()


@pytest.mark.parametrize("seed", ["", " seed 5", " seed 6"])
@pytest.mark.parametrize(
    "schedule, seen",
    [("delay warp 1", 0), ("hurry warp 0", 0), ("delay warp 0", 1), ("hurry warp 1", 1)],
)
def test_a_warp_comes_last_or_first(schedule: str, seen: int, seed: str) -> None:
    assert run(WARPS, schedule + seed, threads=64)[1] == seen


@pytest.mark.parametrize("seed", ["", " seed 5"])
@pytest.mark.parametrize(
    "schedule, seen", [("delay cta 1", 0), ("hurry cta 0", 0), ("delay cta 0", 1)]
)
def test_a_cta_comes_last_or_first(schedule: str, seen: int, seed: str) -> None:
    assert run(CTAS, schedule + seed, ctas=2)[1] == seen


@pytest.mark.parametrize(
    "schedule, seen", [("delay tma", 0), ("hurry tma_store", 0), ("hurry tma", 5)]
)
def test_a_unit_comes_last_or_first(schedule: str, seen: int) -> None:
    assert run(COPIES, schedule)[4] == seen


def test_the_same_order_gives_the_same_run() -> None:
    memory = [np.zeros(8, np.uint32), np.zeros(4, np.uint32)]
    launch = Launch((1, 1, 1), (64, 1, 1), arguments=memory)
    runs = [
        emulate(kernel(WARPS, 2, 1024), launch, schedule="delay warp 1 seed 3", trace=True)
        for _ in range(2)
    ]
    spans = [each.trace.span for each in runs if each.trace is not None]
    assert np.array_equal(spans[0].array, spans[1].array)


@pytest.mark.parametrize("way", ["delay", "hurry"])
@pytest.mark.parametrize("what", [*UNITS, "warp 3", "cta 0"])
def test_orders_keep_their_names(way: str, what: str) -> None:
    for text in (f"{way} {what}", f"{way} {what} seed 9"):
        assert schedule_of(text).name == text


@pytest.mark.parametrize("wrong", ["", "delay", "hurry mma", "delay warp", "-1", "delay tma 3"])
def test_others_are_refused_with_what_there_is(wrong: str) -> None:
    with pytest.raises(ValueError, match="lockstep, a number as a seed, or delay or hurry"):
        schedule_of(wrong)
