"""Arrivals that come too early: over what they move, and where they stop."""

from __future__ import annotations

from fa4kernel.emulator.mutation.moves import moved_arrivals
from fa4kernel.emulator.mutation.sites import Sites
from fa4kernel.emulator.ptx import parse

HEAD = ".entry e() {\n.reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;\n"


def moved(body: str) -> list[tuple[str, dict[str, str | None]]]:
    """For each mutant the change, and by original text what stands there instead."""
    function = parse(f"{HEAD}{body}\nret;\n}}").entry()
    sites = Sites(function)
    return [
        (change, {function.instructions[e.index].text: e.text for e in edits})
        for index in range(len(function.instructions))
        for _, change, edits in moved_arrivals(sites, index)
    ]


ARRIVE = "mbarrier.arrive.shared.b64 %rd1, [%r1];"


def test_arrival_moves_over_the_fence_before_it() -> None:
    fence = "fence.proxy.async.shared::cta;"
    assert moved(f"{fence} add.s32 %r2, %r2, 1; {ARRIVE}") == [
        ("over a fence", {fence: f"{ARRIVE} {fence}", ARRIVE: None})
    ]


def test_arrival_moves_over_all_the_loads_that_stand_together() -> None:
    loads = "ld.shared.b32 %r2, [%r3];", "ld.shared.b32 %r4, [%r3+4];"
    assert moved(f"{' '.join(loads)} {ARRIVE}") == [
        ("over a load", {loads[0]: f"{ARRIVE} {loads[0]}", ARRIVE: None})
    ]


def test_arrival_stays_behind_what_computes_its_address() -> None:
    load = "ld.shared.b32 %r1, [%r3];"
    assert moved(f"{load} {ARRIVE}") == []


def test_fence_moves_down_where_the_arrival_cannot_move_up() -> None:
    fence = "fence.proxy.async.shared::cta;"
    compute = "add.s32 %r1, %r2, 8;"
    assert moved(f"{fence} {compute} {ARRIVE}\nadd.s32 %r5, %r5, 1;") == [
        ("over a fence", {fence: None, "add.s32 %r5, %r5, 1;": f"{fence} add.s32 %r5, %r5, 1;"})
    ]


def test_fence_moves_behind_the_branch_around_a_lone_arrival() -> None:
    fence = "fence.proxy.async.shared::cta;"
    ((change, edits),) = moved(f"{fence} @%p1 bra L; {ARRIVE}\nL: add.s32 %r5, %r5, 1;")
    assert change == "over a fence"
    assert edits == {fence: None, "add.s32 %r5, %r5, 1;": f"{fence} add.s32 %r5, %r5, 1;"}


def test_arrival_moves_over_a_whole_wait_loop() -> None:
    wait = "mbarrier.try_wait.parity.shared.b64 %p1, [%r4], %r5;"
    loop = f"add.s32 %r2, %r2, 1;\nL: {wait} @%p1 bra D; bra L;\nD: {ARRIVE}"
    assert moved(loop) == [
        ("over a wait", {"add.s32 %r2, %r2, 1;": f"add.s32 %r2, %r2, 1; {ARRIVE}", ARRIVE: None})
    ]


def test_arrival_does_not_cross_a_label_that_others_jump_to() -> None:
    fence = "fence.proxy.async.shared::cta;"
    assert moved(f"@%p2 bra L; {fence}\nL: {ARRIVE}") == []


def test_an_arrival_for_copies_moves_over_the_copies_before_it_and_nothing_else() -> None:
    arrive = "cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];"
    copies = tuple(f"cp.async.cg.shared.global [%r3+{at}], [%rd2+{at}], 16;" for at in (16, 32))
    load = "ld.shared.b32 %r5, [%r3];"
    before = f"{load} {copies[0]} add.s32 %r2, %r2, 1; {load} {copies[1]}"
    assert moved(f"{before} {arrive}") == [
        ("over a copy", {copies[0]: f"{arrive} {copies[0]}", arrive: None})
    ]
    assert moved(f"{load} {arrive}") == []
