"""What registers hold, as far as the text tells."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4kernel.emulator.inspection.addresses import Addresses
from fa4kernel.emulator.inspection.known import ANYTHING, Known, Loaded, Shared
from fa4kernel.emulator.machine.layout import SHARED_START, AddressOf
from fa4kernel.emulator.ptx import parse
from fa4kernel.emulator.ptx.module import Register

HEAD = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 k_p, .param .u32 k_n)
{
.shared .align 8 .b8 bars[64];
.reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %rd<9>;
mov.b32 %r1, bars;
ld.param.u32 %r2, [k_n];
ld.param.u64 %rd1, [k_p];
setp.eq.s32 %p1, %r2, 0;
"""


def known(body, name="%r9"):
    module = parse(HEAD + body + "\nret;\n}")
    function = module.entry()
    register = Register(name, "b64" if "rd" in name else "b32")
    return Addresses(function, AddressOf.lay_out(module, function, 0), [register]).of(register)


def shared(offset, step=0):
    return Known(SHARED_START + offset, step, Shared())


@pytest.mark.parametrize(
    "body, expected",
    [
        ("add.s32 %r9, %r1, 8;", shared(8)),
        ("shfl.sync.idx.b32 %r9, %r1, 0, 31, -1;", shared(0)),
        ("shl.b32 %r3, %r2, 3; add.s32 %r4, %r1, %r3; add.s32 %r9, %r4, 16;", shared(16, 8)),
        ("mad.lo.s32 %r9, %r2, 24, %r1;", shared(0, 24)),
        ("and.b32 %r9, %r1, -16777217;", shared(0)),
        ("selp.b32 %r3, 8, 0, %p1; add.s32 %r9, %r1, %r3;", shared(0, 8)),
        ("ld.shared.b32 %r9, [%r1];", ANYTHING),
        ("xor.b32 %r9, %r1, %r2;", ANYTHING),
    ],
)
def test_an_address_is_a_place_and_a_multiple_of_what_is_not_known(body, expected):
    assert known(body) == expected


def test_a_slot_that_moves_on_in_a_loop_keeps_the_beginning_of_its_ring():
    body = "mov.b32 %r9, %r1; LOOP: add.s32 %r9, %r9, 8; setp.lt.s32 %p1, %r9, 99; @%p1 bra LOOP;"
    assert known(body) == shared(0, 8)


def test_what_a_parameter_holds_is_followed_to_where_it_is_used():
    assert known("add.s64 %rd2, %rd1, 64;", "%rd2") == Known(64, 0, Loaded(0))


def test_going_down_in_a_loop_ends_in_not_knowing():
    body = "mov.b32 %r9, %r1; LOOP: sub.s32 %r9, %r9, 8; setp.gt.s32 %p1, %r9, 9; @%p1 bra LOOP;"
    assert known(body) == ANYTHING


numbers = st.builds(Known, st.integers(0, 4096), st.integers(0, 64))


@given(numbers, numbers, st.integers(0, 50), st.integers(0, 50))
def test_joins_and_sums_hold_all_that_their_parts_hold(a, b, m, n):
    x, y = a.base + m * a.step, b.base + n * b.step
    for result, value in ((a.join(b), x), (a.join(b), y), (a.plus(b), x + y)):
        off = value - result.base
        assert off == 0 if result.exact else off % result.step == 0
