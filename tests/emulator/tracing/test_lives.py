"""The ``life`` table: what lay where, from when to when."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from fa4kernel.emulator import Launch, emulate
from fa4kernel.emulator.labels import Labels, Ring
from fa4kernel.emulator.machine.layout import SHARED_START
from fa4sim.trace import NONE
from tests.emulator.kernels import COPY, copy_launch
from tests.emulator.machine.kernels import kernel

SCHEDULES = ["lockstep", 1, 2, "delay tma", "hurry tma"]
#: Ten blocks through one slot, each read by a thread before the next is fetched.
AGAIN = """setp.eq.u32 %p9, t, 0; @!%p9 bra DONE;
    mbarrier.init.shared.b64 [base+512], 1; fence.proxy.async;
    mov.u32 %a1, 0; mov.u32 %a5, 0;
    NEXT: mbarrier.arrive.expect_tx.shared.b64 %d1, [base+512], 16;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [base], [p0], 16, [base+512];
    and.b32 %a2, %a1, 1;
    W: mbarrier.try_wait.parity.shared.b64 %p8, [base+512], %a2; @!%p8 bra W;
    ld.shared.u32 %a3, [base]; add.u32 %a1, %a1, 1;
    setp.lt.u32 %p1, %a1, 10; @%p1 bra NEXT; DONE:"""


def lives(text: str, launch: Launch, schedule: str | int = "lockstep") -> list[dict[str, Any]]:
    run = emulate(text, launch, schedule=schedule, trace=True)
    assert run.trace is not None
    return list(run.trace.life.rows())


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_block_lives_from_its_copy_in_to_its_copy_out(schedule: str | int) -> None:
    launch, *_ = copy_launch()
    (life,) = lives(COPY, launch, schedule)
    assert (life["tensor"], life["space"], life["slot"]) == ("block", "smem", "mbarrier@0x500[0]")
    assert life["birth"] < life["first_use"] < life["last_use"] <= life["death"]


def test_labels_name_slots_tensors_and_barriers() -> None:
    launch, *_ = copy_launch()
    labels = Labels({0x500: "loaded"}, rings={"loaded": Ring("sBlock")})
    run = emulate(COPY, replace(launch, labels=labels), trace=True)
    assert run.trace is not None
    assert run.trace.life.unique("slot") == ["sBlock[0]"]
    assert run.trace.arrive.unique("barrier") == ["loaded"]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_slot_is_given_up_when_the_next_block_is_fetched(schedule: str | int) -> None:
    launch = Launch((1, 1, 1), (32, 1, 1), arguments=[np.zeros(8, np.uint32)])
    found = lives(kernel(AGAIN), launch, schedule)
    assert [life["block"] for life in found] == list(range(10))
    assert {life["slot"] for life in found} == {found[0]["slot"]}
    for life, following in pairwise(found):
        assert life["death"] == following["birth"]
    assert {life["first_use"] for life in found} == {NONE}  # a thread's loads are not looked at


@pytest.mark.parametrize("schedule", ["lockstep", 3, "hurry tma", "delay warp 0"])
def test_operands_and_sums_of_a_gemm(schedule: str) -> None:
    pytest.importorskip("fa4kernel.examples", reason="needs the CuTe DSL")
    from fa4kernel.examples import gemm
    from fa4kernel.examples.matrices import matrix

    blocks = 6
    a, b = (matrix(np.ones((rows, blocks * gemm.K))) for rows in (gemm.M, gemm.N))
    compiled = gemm.compile_ptx()
    launch = compiled.launch(a, b, matrix(np.zeros((gemm.M, gemm.N))))
    maps = [i for i, each in enumerate(launch.arguments) if hasattr(each, "box")]
    labels = Labels(
        tensors=dict(zip(maps, "ABC", strict=True)), rings={"full": Ring("s", "empty")},
        products={"shared": "sum"},
    )  # fmt: skip
    found = lives(compiled.ptx, replace(launch, labels=labels), schedule)
    by = {tensor: [x for x in found if x["tensor"] == tensor] for tensor in ("A", "B", "C", "sum")}
    assert {tensor: len(rows) for tensor, rows in by.items()} == {"A": 6, "B": 6, "C": 1, "sum": 1}
    for tensor in "AB":
        assert [x["slot"] for x in by[tensor]] == [f"s.{tensor}[{i % 4}]" for i in range(blocks)]
        for x in by[tensor]:
            assert 0 <= x["birth"] < x["first_use"] < x["last_use"] <= x["death"]
        for x, following in zip(by[tensor], by[tensor][4:], strict=False):
            assert x["death"] <= following["birth"]
    (total,) = by["sum"]
    assert (total["space"], total["slot"]) == ("tmem", "columns 0-127")
    assert total["birth"] == min(x["first_use"] for x in by["A"])
    assert total["first_use"] >= max(x["last_use"] for x in by["A"]) - 1
    for x in by["C"]:  # the epilogue writes what it has read, and has it copied out
        assert total["first_use"] < x["birth"] < x["first_use"] < x["last_use"] == x["death"]


#: A warp copies 512 bytes by `cp.async` twice to the same place, and reads what has come.
BY_THREADS = """setp.eq.u32 %p9, t, 0; @%p9 mbarrier.init.shared.b64 [base+512], 32; bar.sync 0;
    shl.b32 %a1, t, 4; add.u32 %a1, %a1, base; cvt.u64.u32 %d1, t; shl.b64 %d1, %d1, 4;
    add.u64 %d1, %d1, p0; mov.u32 %a2, 0;
    NEXT: cp.async.cg.shared.global [%a1], [%d1], 16;
    cp.async.mbarrier.arrive.noinc.shared.b64 [base+512];
    W: mbarrier.try_wait.parity.shared.b64 %p8, [base+512], %a2; @!%p8 bra W;
    ld.shared.u32 %a3, [%a1]; add.u32 %a2, %a2, 1; bar.sync 0;
    setp.lt.u32 %p1, %a2, 2; @%p1 bra NEXT;"""


def test_what_threads_copy_lives_in_the_slot_of_the_barrier_they_arrive_on() -> None:
    launch = Launch(
        (1, 1, 1), (32, 1, 1), arguments=[np.zeros(128, np.uint32)],
        labels=Labels(tensors={0: "X"}, barriers={SHARED_START + 512: "full[0]"}),
    )  # fmt: skip
    found = lives(kernel(BY_THREADS), launch)
    assert [(life["tensor"], life["slot"], life["block"]) for life in found] == [
        ("X", "ring[0]", 0), ("X", "ring[0]", 1)
    ]  # fmt: skip
    assert found[0]["death"] <= found[1]["birth"]
