"""Instructions that are executed together give what they give one after the other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fa4kernel.emulator import Launch, emulate
from fa4kernel.emulator.machine import fusion, group_binding
from fa4kernel.emulator.machine.fusion import plan
from fa4kernel.emulator.machine.program import Context, Program, Run
from fa4kernel.emulator.ptx import parse

COUNT = 12  # registers of the random programs

FORMS = (
    "add.s32 %r{d}, %r{a}, %r{b};",
    "xor.b32 %r{d}, %r{a}, %r{b};",
    "mul.lo.s32 %r{d}, %r{a}, 77;",
    "shl.b32 %r{d}, %r{a}, 3;",
    "fma.rn.f32 %r{d}, %r{a}, %r{b}, %r{c};",
    "max.f32 %r{d}, %r{a}, %r{b}, %r{c};",
    "cvt.rn.bf16x2.f32 %r{d}, %r{a}, %r{b};",
    "mov.b64 %q{q}, {{%r{a}, %r{b}}}; add.rn.f32x2 %q{q}, %q{q}, %q{q};"
    " mov.b64 {{%r{d}, %r{c}}}, %q{q};",
    "setp.lt.s32 %p{q}, %r{a}, %r{b}; selp.b32 %r{d}, %r{b}, %r{c}, %p{q};",
    "@%p{q} add.s32 %r{d}, %r{d}, %r{a};",
    "mov.b32 %r{d}, %r{a};",
)

NUMBERS = st.fixed_dictionaries(
    {
        "form": st.sampled_from(FORMS),
        **{name: st.integers(1, COUNT) for name in "abcd"},
        "q": st.integers(1, 3),
    }
)


def kernel(lines):
    loads = "".join(f"ld.global.b32 %r{i}, [%a+{512 * (i - 1)}];" for i in range(1, COUNT + 1))
    stores = "".join(f"st.global.b32 [%b+{512 * (i - 1)}], %r{i};" for i in range(1, COUNT + 1))
    body = "\n".join(lines)
    return f"""
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 from, .param .u64 to)
{{
.reg .pred %p<4>; .reg .b32 %r<{COUNT + 1}>; .reg .b32 %t; .reg .b64 %a, %b, %o, %q<4>;
ld.param.u64 %a, [from]; ld.param.u64 %b, [to];
mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; add.s64 %a, %a, %o; add.s64 %b, %b, %o;
setp.lt.u32 %p1, %t, 9; setp.lt.u32 %p2, %t, 99; setp.eq.u32 %p3, %t, 5;
mov.b64 %q1, 0; mov.b64 %q2, 1; mov.b64 %q3, 2;
{loads}
{body}
{stores}
ret;
}}
"""


def run(ptx, values):
    out = np.zeros_like(values)
    emulate(ptx, Launch((1, 1, 1), (128, 1, 1), arguments=[values, out]))
    return out


@settings(max_examples=60)
@given(st.lists(NUMBERS, min_size=1, max_size=40), st.integers(0, 2**32 - 1))
def test_joined_instructions_give_what_single_ones_give(numbers, seed):
    ptx = kernel([n["form"].format(**n) for n in numbers])
    values = np.random.default_rng(seed).integers(0, 2**32, (COUNT, 128), np.uint32)
    joined = run(ptx, values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fusion, "MOST_TOGETHER", 1)
        single = run(ptx, values)
    np.testing.assert_array_equal(joined, single)


def groups(body):
    module = parse(kernel([body]))
    context = Context(module, module.entry(), 0)
    runs = [item for item in Program(context).item_at if isinstance(item, Run)]
    parts = [part for item in runs for part in item.parts if part[0].opcode == "fma"]
    return plan(parts, context.cells, context.rows)


def test_independent_instructions_are_joined():
    body = "".join(f"fma.rn.f32 %r{i}, %r{i}, %r1, %r2;" for i in range(3, 11))
    assert [len(g.targets) for g in groups(body)] == [8]


def test_a_chain_is_not_joined():
    body = "".join(f"fma.rn.f32 %r{i + 1}, %r{i}, %r1, %r2;" for i in range(3, 9))
    assert [len(g.targets) for g in groups(body)] == [1] * 6


def test_instructions_of_different_rounding_are_not_joined():
    body = "fma.rn.f32 %r3, %r3, %r1, %r2; fma.rz.f32 %r4, %r4, %r1, %r2;"
    assert [len(g.targets) for g in groups(body)] == [1, 1]


def test_one_call_handles_as_many_rows_as_the_limit_allows(monkeypatch):
    body = "".join(f"fma.rn.f32 %r{i}, %r{i}, %r1, %r2;" for i in range(3, 11))
    values = np.random.default_rng(1).integers(0, 2**31, (COUNT, 128), np.uint32)
    whole = run(kernel([body]), values)
    monkeypatch.setattr(group_binding, "MOST_VALUES", 384)
    np.testing.assert_array_equal(run(kernel([body]), values), whole)


def test_chains_that_do_not_depend_on_each_other_are_joined_link_by_link():
    chains = [range(3, 6), range(7, 10)]
    body = "".join(f"fma.rn.f32 %r{i + 1}, %r{i}, %r1, %r2;" for chain in chains for i in chain)
    assert [len(g.targets) for g in groups(body)] == [2] * 3


def test_like_instructions_write_neighbouring_rows():
    sums = "".join(
        f"add.s32 %r{i}, %r1, {i}; xor.b32 %r{i + 5}, %r2, {i}; " for i in (3, 7, 4, 6, 5)
    )
    uses = "".join(f"add.s32 %r1, %r1, %r{i}; " for i in range(3, 13))
    module = parse(kernel([sums + uses]))
    context = Context(module, module.entry(), 0)
    rows = context.rows.of
    for names in ((3, 7, 4, 6, 5), (8, 12, 9, 11, 10)):
        cells = [context.cells.of[f"%r{i}"][0] for i in names]
        taken = [rows[cell.number] for cell in cells]
        assert taken == list(range(taken[0], taken[0] + 5))
