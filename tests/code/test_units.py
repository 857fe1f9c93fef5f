"""Instructions by unit."""

import pytest

from fa4kernel.code.units import UNITS, unit_of
from fa4kernel.emulator.ptx import parse
from fa4sim.specs import B200
from tests.emulator.kernels import COPY, RING
from tests.emulator.ptx.snippets import entry

CASES = {
    "ex2.approx.ftz.f32 %f1, %f1": "MUFU",
    "rcp.approx.ftz.f32 %f1, %f1": "MUFU",
    "fma.rn.f32x2 %rd1, %rd1, %rd1, %rd1": "packed FMA",
    "add.rm.f32x2 %rd1, %rd1, %rd1": "packed FMA",
    "mul.f32 %f1, %f1, %f1": "scalar FMA",
    "fma.rn.bf16x2 %r1, %r1, %r1, %r1": "scalar FMA",
    "max.f32 %f1, %f1, %f1, %f1": "maximum",
    "max.s32 %r1, %r1, %r1": "integer, logic",
    "cvt.rn.bf16x2.f32 %r1, %f1, %f1": "conversion",
    "cvt.rn.f32.s32 %f1, %r1": "conversion",
    "cvt.u64.u32 %rd1, %r1": "move",
    "mov.b64 %rd1, {%r1, %r1}": "move",
    "not.pred %p1, %p1": "move",
    "not.b32 %r1, %r1": "integer, logic",
    "and.pred %p1, %p1, %p1": "integer, logic",
    "selp.f32 %f1, %f1, %f1, %p1": "integer, logic",
    "setp.neu.f32 %p1, %f1, %f1": "integer, logic",
    "mul.wide.u16 %r1, %h1, %h1": "integer, logic",
    "shl.b32 %r1, %r1, 2": "shift left",
    "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r1]": "TMEM load",
    "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1], {%r1}": "TMEM store",
    "tcgen05.wait::st.sync.aligned": "TMEM wait",
    "tcgen05.fence::after_thread_sync": "fence",
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r1]": "commit",
    "tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd1, %r1, %p1": "MMA",
    "cp.async.bulk.commit_group": "TMA groups",
    "cp.async.bulk.wait_group.read 0": "TMA groups",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 16, [%r1]":
        "TMA",
    "mbarrier.try_wait.parity.shared.b64 %p1, [%r1], %r1": "mbarrier wait",
    "mbarrier.arrive.shared.b64 %rd1, [%r1]": "mbarrier arrive",
    "mbarrier.arrive.expect_tx.shared.b64 %rd1, [%r1], 256": "mbarrier arrive",
    "bar.sync 1, 64": "named barrier",
    "bar.warp.sync -1": "named barrier",
    "fence.proxy.async.shared::cta": "proxy fence",
    "fence.mbarrier_init.release.cluster": "fence",
    "ld.shared.b32 %r1, [%r1]": "shared memory",
    "st.shared.v4.b32 [%r1], {%r1, %r1, %r1, %r1}": "shared memory",
    "ld.param.u32 %r1, [%r1]": "parameter",
    "st.global.b32 [%rd1], %r1": "global memory",
    "shfl.sync.idx.b32 %r1, %r1, 0, 31, -1": "warp",
    "elect.sync %r1|%p1, -1": "warp",
    "bra END": "branch",
    "bra.uni END": "jump",
    "setmaxnreg.inc.sync.aligned.u32 192": "other",
}  # fmt: skip


def instruction(text):
    """The instruction that a text is."""
    return entry(f".reg .f32 %f<9>; .reg .b16 %h<9>;\n{text};\nEND: ret;").instructions[0]


@pytest.mark.parametrize("text, unit", CASES.items())
def test_an_instruction_goes_to_its_unit(text, unit):
    assert unit_of(instruction(text)) == unit


def test_every_unit_but_the_rest_has_a_case():
    assert set(CASES.values()) == set(UNITS)


def test_whole_kernels_have_a_unit_for_each_instruction():
    for text in (RING.format(path="ring.py"), COPY):
        for each in parse(text).entry().instructions:
            assert unit_of(each) in UNITS
            assert unit_of(each) != "other"


def test_pipes_have_a_constant_of_the_simulated_machine():
    assert {unit.pipe for unit in UNITS.values()} == {"", "MUFU", "FMA", "ALU"}
    for unit in UNITS.values():
        assert bool(unit.pipe) == bool(unit.constant)
        if unit.constant:
            assert getattr(B200, unit.constant) > 0
            assert unit.constant in B200.origins
