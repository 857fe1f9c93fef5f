"""Which code each warp runs."""

import pytest

from fa4kernel.emulator.inspection.warps import code_of_warps
from fa4kernel.emulator.ptx import parse

HEAD = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u32 k_n)
{
.reg .pred %p<9>; .reg .b32 %r<9>;
mov.u32 %r1, %tid.x;
shr.u32 %r2, %r1, 5;
shfl.sync.idx.b32 %r3, %r2, 0, 31, -1;
"""
TAIL = "\n@%p1 bra THERE;\nmov.b32 %r8, 1;\nTHERE: ret;\n}"


def warps_that_stay(condition, threads=256):
    """Warps that may run what a branch under this condition jumps over."""
    function = parse(HEAD + condition + TAIL).entry()
    inside = next(i for i, each in enumerate(function.instructions) if "%r8" in each.text)
    code = code_of_warps(function, (threads, 1, 1))
    return [warp for warp, mine in enumerate(code) if inside in mine]


@pytest.mark.parametrize(
    "condition, warps",
    [
        ("setp.ne.b32 %p1, %r3, 5;", [5]),
        ("setp.gt.s32 %p1, %r3, 2;", [0, 1, 2]),
        ("setp.lt.u32 %p1, %r1, 128;", [4, 5, 6, 7]),
        ("and.b32 %r4, %r3, -4; setp.ne.b32 %p1, %r4, 4;", [4, 5, 6, 7]),
        ("setp.lt.s32 %p2, %r3, 2; setp.gt.s32 %p3, %r3, 4; or.pred %p1, %p2, %p3;", [2, 3, 4]),
        ("setp.eq.b32 %p2, %r3, 6; not.pred %p1, %p2;", [6]),
    ],
)
def test_a_comparison_of_the_warps_number_sends_warps_different_ways(condition, warps):
    assert warps_that_stay(condition) == warps


@pytest.mark.parametrize(
    "condition",
    [
        "ld.param.u32 %r4, [k_n]; setp.eq.b32 %p1, %r4, 0;",
        "elect.sync %r4|%p1, -1;",
        "setp.eq.b32 %p1, %r1, 7;",  # one thread of warp 0; of the others none jumps
    ],
)
def test_other_branches_may_go_either_way(condition):
    assert set(warps_that_stay(condition)) == set(range(8))


def test_code_behind_a_return_that_is_always_taken_is_not_reached():
    function = parse(HEAD + "ret;\nmov.b32 %r8, 1;\nret;\n}").entry()
    assert all(len(mine) == 4 for mine in code_of_warps(function, (64, 1, 1)))
