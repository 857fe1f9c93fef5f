"""What has no defined outcome is an error that says so; what is not modelled is refused."""

from __future__ import annotations

import numpy as np
import pytest

from fa4kernel.emulator import EmulationError
from fa4kernel.emulator.ptx.module import PtxError
from tests.emulator.machine.kernels import run

INIT = "setp.eq.u32 %p9, t, 0; @%p9 mbarrier.init.shared::cta.b64 [base], 4; bar.sync 0;\n"
PEER = """barrier.cluster.arrive; barrier.cluster.wait;
mapa.shared::cluster.u32 %a8, base, 1; mapa.shared::cluster.u32 %a7, base, 0;
"""
TX = "mbarrier::complete_tx::bytes"

#: A body, and what the error says.
ERRORS = {
    "copies past shared memory": (
        "cp.async.ca.shared.global [base+1024], [p0], 4;", "a CTA has"),
    "misaligned copies": ("cp.async.ca.shared.global [base+2], [p0], 4;", "no multiple of 4"),
    "copies from nowhere": ("cp.async.ca.shared.global [base], [p0+4096], 4;", "past the end"),
    "copies of more than there is room": (
        "cp.async.ca.shared.global [base], [p0], 4, t;", "takes 31 bytes of its source into 4"),
    "copies that signal what is no barrier": (
        "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [base+8];", "never initialised"),
    "noComplete that completes": (
        INIT + "@%p9 mbarrier.arrive.noComplete.shared::cta.b64 _, [base], 4;",
        "noComplete completes the phase"),
    "dropping more than expected": (
        INIT + "@%p9 mbarrier.arrive_drop.shared::cta.b64 _, [base], 5;", "arrive_drop takes more"),
    "inval of what is no barrier": (
        "@%p9 ret; mbarrier.inval.shared::cta.b64 [base+64];", "never initialised"),
    "a generic barrier outside shared memory": (
        "mbarrier.arrive.b64 _, [p0];", "not in shared memory"),
    "half a warp at ldmatrix": (
        "setp.lt.u32 %p1, t, 16; @%p1 exit;"
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%a2}, [base];", "part of one"),
    "rows of matrices that are no rows": (
        "add.u32 %a2, base, 8; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%a3}, [%a2];",
        "no multiple of 16"),
    "local memory that is not there": (
        ".local .align 16 .b8 kept[16]; mov.b64 %d1, kept; ld.local.u32 %a2, [%d1+16];",
        "a thread has 0x10 bytes"),
    "atomics on part of an element": ("red.shared.add.u32 [base+2], 1;", "no multiple of 4"),
    "bulk copies of odd sizes": (
        INIT + f"@%p9 cp.async.bulk.shared::cta.global.{TX} [base+16], [p0], 24, [base];",
        "multiples of 16"),
    "bulk copies past shared memory": (
        INIT + f"@%p9 cp.async.bulk.shared::cta.global.{TX} [base+1008], [p0], 32, [base];",
        "a CTA has"),
    "generic addresses of several spaces": (
        "cvt.u64.u32 %d1, base; cvta.shared.u64 %d1, %d1; setp.eq.u32 %p1, t, 0;"
        "selp.b64 %d1, %d1, p0, %p1; ld.u32 %a2, [%d1];", "global and shared::cluster memory"),
}  # fmt: skip
IN_CLUSTERS = {
    "a copy to the own shared memory": (
        INIT + PEER + f"setp.ne.u32 %p2, rank, 1; @%p2 bra over; @%p9"
        f" cp.async.bulk.shared::cluster.shared::cta.{TX} [%a8+64], [base+128], 16, [%a8]; over:",
        "stays in its own CTA"),
    "a store and its barrier in different CTAs": (
        INIT + PEER + f"@%p9 st.async.shared::cluster.{TX}.u32 [%a8+64], 1, [%a7];",
        "both belong in one CTA"),
    "the state of another CTA's barrier": (
        INIT + PEER + "cvt.u64.u32 %d1, %a8; cvta.shared::cluster.u64 %d1, %d1;"
        "mbarrier.arrive.b64 %d2, [%d1];", "own CTA"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_what_is_undefined_is_an_error(name: str) -> None:
    body, words = ERRORS[name]
    with pytest.raises(EmulationError, match=words):
        run(body, np.zeros(256, np.uint8))


@pytest.mark.parametrize("name", IN_CLUSTERS)
def test_what_is_undefined_in_a_cluster_is_an_error(name: str) -> None:
    body, words = IN_CLUSTERS[name]
    with pytest.raises(EmulationError, match=words):
        run(body, ctas=2, cluster=2)


#: Lines that the emulator refuses.
REFUSED = (
    "cp.async.ca.shared.global [base], [p0], 12;",
    "cp.async.cg.shared.global [base], [p0], 8;",
    "cp.async.ca.shared.global.L3::64B [base], [p0], 4;",
    "cp.async.wait_group.read 0;",
    "cp.async.bulk.global.shared::cta.bulk_group.mbarrier::complete_tx::bytes [p0], [base], 16;",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f16 [p0], [base], 16;",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.inc.u64 [p0], [base], 16;",
    "atom.global.add.s64 %d1, [p0], %d2;",
    "atom.global.min.f32 %f1, [p0], %f2;",
    "red.shared.add.v2.f32 [base], {%f1, %f2};",
    "red.global.min.v2.f32 [p0], {%f1, %f2};",
    "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%a1}, [base];",
    "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%a1, %a2}, [base];",
    "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [base], {%a1};",
    "mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32 {%f0, %f1, %f2, %f3},"
    " {%a0, %a1, %a2, %a3}, {%b0, %b1}, {%f0, %f1, %f2, %f3};",
    "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7},"
    " {%a0, %a1}, {%b0, %b1}, {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7};",
    "wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {%f0}, %d0, %d1, 1, 1, 1, 0, 0;",
    "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%f0, %f1, %f2, %f3}, %d0, %d1,"
    " 1, 1, 1, 0, 1;",
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d0, %d1,"
    " 1, 2, 1, 0, 0;",
    "mbarrier.try_wait.parity.shared::cluster.b64 %p1, [base], 0;",
    "mbarrier.arrive.noComplete.shared::cta.b64 _, [base];",
    "mbarrier.arrive.release.cluster.shared::cluster.b64 %d1, [base];",
    "st.async.shared::cta.mbarrier::complete_tx::bytes.u32 [base], 1, [base];",
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.s64 [base], %d1,"
    " [base];",
    "st.bulk.shared::cta [base], 64, 1;",
    "clusterlaunchcontrol.query_cancel.get_first_ctaid::w.b32.b128 %a1, %q0;",
    "multimem.red.global.add.u32 [p0], 1;",
)


@pytest.mark.parametrize("line", REFUSED)
def test_what_is_not_modelled_is_refused_with_its_line_and_text(line: str) -> None:
    with pytest.raises(PtxError) as error:
        run(line, np.zeros(16, np.uint8))
    assert error.value.line == 17
    assert error.value.text.split() == line.split()
