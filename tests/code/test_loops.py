"""Loops out of the control flow."""

from fa4kernel.code.loops import around, loops_of
from fa4kernel.emulator.ptx import parse
from tests.emulator.kernels import RING
from tests.emulator.ptx.snippets import entry


def words(function, loop):
    return [function.instructions[i].text for i in sorted(loop.body)]


def test_a_ring_has_a_loop_for_each_role_and_one_for_each_wait():
    function = parse(RING.format(path="ring.py")).entry()
    loops = loops_of(function)
    assert [len(loop.body) for loop in loops] == [2, 2, 11, 13]
    assert words(function, loops[0]) == [
        "mbarrier.try_wait.parity.shared.b64 %p3, [%r9+16], %r12;",
        "@!%p3 bra EMPTY;",
    ]


def test_the_smallest_loop_around_is_found_or_none():
    function = parse(RING.format(path="ring.py")).entry()
    loops = loops_of(function)
    arrive, end = (
        next(i for i, each in enumerate(function.instructions) if each.text.startswith(text))
        for text in ("@%p4 mbarrier.arrive", "st.global")
    )
    poll = min(loops[0].body)
    assert around(loops, [poll]) is loops[0]
    assert around(loops, [poll, arrive]) is loops[3]
    assert around(loops, [arrive, end]) is None
    assert around(loops, []) is None


def test_loops_nest_and_one_with_two_ways_back_is_one():
    function = entry(
        "OUTER: add.s32 %r1, %r1, 1;\n"
        "INNER: setp.eq.s32 %p1, %r1, 3;\n@%p1 bra INNER;\n"
        "setp.eq.s32 %p2, %r1, 4;\n@%p2 bra OUTER;\n"
        "setp.eq.s32 %p3, %r1, 5;\n@%p3 bra OUTER;\nret;"
    )
    assert [sorted(loop.body) for loop in loops_of(function)] == [[1, 2], [0, 1, 2, 3, 4, 5, 6]]


def test_what_is_entered_in_two_places_is_no_natural_loop():
    function = entry(
        "setp.eq.s32 %p1, %r1, 3;\n@%p1 bra B;\n"
        "A: add.s32 %r1, %r1, 1;\nB: setp.eq.s32 %p2, %r1, 9;\n@%p2 bra A;\nret;"
    )
    assert loops_of(function) == []
