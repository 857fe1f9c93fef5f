"""Products of warpgroups: when their results appear, and who has to be there."""

from __future__ import annotations

import numpy as np
import pytest

from fa4kernel.emulator import DeadlockError, EmulationError
from tests.emulator.machine.kernels import run
from tests.emulator.machine.tables.warpgroup_products import core_matrices, descriptor

ONES = np.ones((64, 16), np.float16)
#: Ones in shared memory as A (64 x 16) and B (8 x 16); %d3 and %d4: their descriptors.
READY = f"""mul.wide.u32 %d1, t, 16; add.u64 %d1, p0, %d1;
        ld.global.v4.u32 {{%b0, %b1, %b2, %b3}}, [%d1];
        mad.lo.u32 %b4, t, 16, base;
        st.shared.v4.u32 [%b4], {{%b0, %b1, %b2, %b3}};
        setp.lt.u32 %p1, t, 16;
        @%p1 st.shared.v4.u32 [%b4+2048], {{%b0, %b1, %b2, %b3}};
        fence.proxy.async.shared::cta;
        bar.sync 0;
        and.b32 %b5, base, 0x3FFFF; shr.u32 %b5, %b5, 4; cvt.u64.u32 %d2, %b5;
        add.u64 %d3, %d2, {descriptor(1024, 128)};
        add.u64 %d4, %d2, {descriptor(128, 128) + 128};
        mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f00000000; mov.f32 %f3, 0f00000000;
        mov.f32 %f4, 0f00000000; mov.f32 %f5, 0f41200000;
        wgmma.fence.sync.aligned;
        """
PRODUCT = """wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %d3, %d4,
            1, 1, 1, 0, 0;
        """
COMMIT = "wgmma.commit_group.sync.aligned;\n"
STORE = """mul.wide.u32 %d5, t, 4; add.u64 %d5, p1, %d5; st.global.f32 [%d5], {};
        """


def results(body: str, **options: object) -> np.ndarray:
    """What 128 threads store."""
    out = np.zeros(128, np.float32)
    data = core_matrices(ONES).view(np.float16)
    run(READY + body, data, out, threads=128, shared=4096, target="sm_90a", **options)  # type: ignore[arg-type]
    return out


@pytest.mark.parametrize("schedule", ["lockstep", 1, 2, 3])
def test_products_into_the_same_registers_follow_each_other(schedule: str | int) -> None:
    body = (PRODUCT + COMMIT) * 3 + "wgmma.wait_group.sync.aligned 0;\n" + STORE.format("%f1")
    assert (results(body, schedule=schedule) == 48).all()


@pytest.mark.parametrize("schedule", ["lockstep", 1, 2])
def test_a_copy_of_registers_in_flight_gives_the_result(schedule: str | int) -> None:
    """Compilers copy accumulators between products; ptxas waits there or renames them."""
    copies = "mov.b32 %a3, %f1; add.f32 %f5, %f5, %f2;\n"
    body = PRODUCT + COMMIT + copies + PRODUCT + COMMIT + "wgmma.wait_group.sync.aligned 0;\n"
    body += "mov.b32 %f6, %a3; add.f32 %f6, %f6, %f5; add.f32 %f6, %f6, %f1;\n"
    assert (results(body + STORE.format("%f6"), schedule=schedule) == 16 + 26 + 32).all()


def test_registers_of_an_unused_result_are_kept_until_the_wait() -> None:
    unused = PRODUCT.replace("%f", "%f1")  # into %f11 to %f14, which nobody reads
    body = unused + COMMIT + "add.f32 %f6, %f5, %f5; mul.f32 %f7, %f6, %f6; mov.f32 %f8, %f7;\n"
    body += "add.f32 %f9, %f8, %f6;\nwgmma.wait_group.sync.aligned 0;\n"
    body += "add.f32 %f9, %f9, %f7; add.f32 %f9, %f9, %f6;\n"
    assert (results(body + STORE.format("%f9")) == 2 * (20 + 400)).all()


def test_waiting_for_all_but_the_newest_leaves_that_in_flight() -> None:
    other = PRODUCT.replace("%f", "%f1").replace("1, 1, 1, 0, 0", "0, -1, 1, 0, 0")
    body = PRODUCT + COMMIT + other + COMMIT + "wgmma.wait_group.sync.aligned 1;\n"
    body += "add.f32 %f5, %f1, %f5;\nwgmma.wait_group.sync.aligned 0;\nadd.f32 %f5, %f5, %f11;\n"
    assert (results(body + STORE.format("%f5")) == 16 + 10 - 16).all()


def test_operands_are_read_when_the_product_runs() -> None:
    """In lock step that is as late as possible: what is written before the wait counts."""
    body = PRODUCT + COMMIT + "st.shared.v4.u32 [%b4], {0, 0, 0, 0};\nbar.sync 0;\n"
    body += "wgmma.wait_group.sync.aligned 0;\n"
    assert (results(body + STORE.format("%f1")) == 0).all()


def test_a_warp_that_stays_away_is_waited_for() -> None:
    body = "setp.lt.u32 %p2, t, 96; @!%p2 bra away;\n" + PRODUCT + COMMIT
    body += "wgmma.wait_group.sync.aligned 0;\naway: bar.sync 0;\n"
    with pytest.raises(DeadlockError, match="other warps of its warpgroup"):
        results(body)


def test_a_matrix_outside_shared_memory_is_an_error() -> None:
    body = "add.u64 %d4, %d4, 0x3000;\n" + PRODUCT + COMMIT + "wgmma.wait_group.sync.aligned 0;\n"
    with pytest.raises(EmulationError, match=r"reaches past the .* bytes of a CTA"):
        results(body)
