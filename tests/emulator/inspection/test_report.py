"""What `inspect` finds in a module, and the launch description it writes."""

import numpy as np
import pytest

from fa4kernel.emulator import Launch, emulate
from fa4kernel.emulator.inspection.report import inspect
from fa4kernel.emulator.inspection.template import template
from fa4kernel.emulator.ptx.module import PtxError
from tests.emulator.kernels import COPY, ring

HEAD = ".version 8.8\n.target sm_100a\n.address_size 64\n"
PARAMETERS = (
    HEAD
    + """
.visible .entry k(.param .align 64 .b8 k_map[128], .param .align 8 .b8 k_struct[40],
    .param .f32 k_scale, .param .align 4 .b8 k_divisor[12], .param .u64 k_nothing,
    .param .u64 k_out)
.reqntid 32, 1, 1
{
.extern .shared .align 128 .b8 room[];
.reg .b32 %r<9>; .reg .f32 %f<4>; .reg .b64 %rd<9>; .reg .b16 %rs<4>;
mov.b64 %rd1, k_map;
cvta.param.u64 %rd2, %rd1;
mov.b32 %r1, room;
cp.async.bulk.tensor.3d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r1+1024],
    [%rd2, {%r2, %r2, %r2}], [%r1];
ld.param.u64 %rd3, [k_struct];
ld.param.v2.u32 {%r3, %r4}, [k_struct+16];
ld.global.b32 %r5, [%rd3+8];
ld.param.f32 %f1, [k_scale];
ld.param.b32 %r6, [k_divisor];
ld.param.b32 %r7, [k_divisor+4];
ld.param.v2.b8 {%rs1, %rs2}, [k_divisor+8];
ld.param.u64 %rd4, [k_out];
mul.wide.u32 %rd5, %r3, 4;
add.s64 %rd6, %rd4, %rd5;
st.global.f32 [%rd6], %f1;
ret;
}
"""
)


def test_parameters_are_what_reads_them():
    (kernel,) = inspect(PARAMETERS)
    assert [p.words for p in kernel.parameters] == [
        "3-D tensor map, read",
        "struct: pointer at byte 0, u32 at byte 16, u32 at byte 20",
        "scalar f32",
        "divisor prepared for fast division",
        "never read",
        "pointer",
    ]
    assert kernel.dynamic_bytes >= 1024


def test_the_template_is_python_that_gives_a_launch_of_the_kernel():
    names = {}
    (kernel,) = inspect(PARAMETERS)
    exec(template(kernel), names)
    launch = names["launch"]()
    assert isinstance(launch, Launch)
    assert len(launch.arguments) == len(kernel.parameters)
    assert launch.block == (32, 1, 1)
    assert max(map(len, template(kernel).splitlines())) < 200


def test_the_template_of_a_kernel_that_needs_no_more_runs_as_it_is():
    names = {}
    (kernel,) = inspect(COPY)
    exec(template(kernel), names)
    names["array_0"][:64] = np.arange(64)
    emulate(COPY, names["launch"](), checks="off")
    assert np.array_equal(names["array_1"][:64], np.arange(64))


def test_barriers_have_their_counts_names_and_sides(tmp_path):
    (kernel,) = inspect(ring(tmp_path))
    assert [(b.name, b.count) for b in kernel.mbarriers] == [
        ("ring.full[0]", 1), ("ring.full[1]", 1), ("ring.empty[0]", 32), ("ring.empty[1]", 32),
    ]  # fmt: skip
    full = kernel.mbarriers[1]
    assert full.lines("wait") == ["ring.py:14"]
    assert full.lines("arrive") == ["ring.py:10"]
    assert [b.name for b in kernel.named_barriers] == ["CTA barrier"]


def test_roles_are_the_functions_that_their_warps_alone_run(tmp_path):
    (kernel,) = inspect(ring(tmp_path))
    assert [(role.name, role.warps) for role in kernel.roles] == [
        ("produce", (0,)), ("consume", (1,)),
    ]  # fmt: skip


def test_code_without_a_place_is_not_taken_for_that_of_the_role_before_it(tmp_path):
    unplaced = "CONSUME:\n    .loc 1 14 0\n    mov.b32 %r12, 0;\n    .loc 1 14 4\n"
    text = ring(tmp_path).replace("CONSUME:\n    .loc 1 14 4\n", unplaced)
    assert unplaced in text
    (kernel,) = inspect(text)
    assert [role.name for role in kernel.roles] == ["produce", "consume"]


def test_without_source_barriers_go_by_offset_and_roles_by_warp(tmp_path):
    text = ring(tmp_path).replace("ring.py", "absent.py")
    (kernel,) = inspect(text)
    assert [b.name for b in kernel.mbarriers] == [
        "mbarrier@0x400[0]", "mbarrier@0x400[1]", "mbarrier@0x410[0]", "mbarrier@0x410[1]",
    ]  # fmt: skip
    assert [role.name for role in kernel.roles] == ["warp 0", "warp 1"]


def test_every_unsupported_instruction_is_listed():
    body = "tex.2d.v4.f32.s32 {%r1,%r1,%r1,%r1}, [%rd1, {%r1,%r1}];\nadd.u32 %r1, %r1, 1;\n"
    body += "add.nowhere.u32 %r1, %r1, 1;\nmbarrier.nowhere.b64 [%rd1];\nret;\n}"
    text = f"{HEAD}.visible .entry k() {{ .reg .b32 %r<3>; .reg .b64 %rd<3>;\n{body}"
    (kernel,) = inspect(text)
    assert [each.line for each in kernel.refused] == [5, 7, 8]
    assert all(each.why for each in kernel.refused)


def test_a_module_without_a_kernel_is_refused():
    with pytest.raises(PtxError, match="wanted one entry"):
        inspect(HEAD)
