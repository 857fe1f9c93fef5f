"""Each rule excludes what it is for, and nothing of the ring, where all mutants matter but two."""

from __future__ import annotations

from collections import Counter

import pytest

from fa4kernel.emulator.emulate import decode
from fa4kernel.emulator.mutation.equivalence import RULES, excuse
from fa4kernel.emulator.mutation.evidence import Evidence
from fa4kernel.emulator.mutation.mutants import mutants_of
from fa4kernel.emulator.mutation.trial import Original, attempt
from tests.emulator.mutation.ring import PTX, ring


def excuses(ptx: str) -> dict[str, str]:
    """By name of a mutant, the rule that would excuse it."""
    problem = ring(ptx)
    program = decode(ptx, problem.prepare().launch)
    evidence = Evidence(Original(problem, program, [], 200))
    found = {m.name: excuse(m, evidence) for m in mutants_of(program.context.function)}
    return {name: rule for name, rule in found.items() if rule is not None}


def new_excuses(old: str, new: str) -> set[tuple[str, str]]:
    """Rules and names, without lines, that come in when the ring's text is changed so."""
    assert PTX.count(old) == 1

    def counted(ptx: str) -> Counter[tuple[str, str]]:
        found = excuses(ptx).items()
        return Counter((rule, name.partition(",")[0]) for name, rule in found)

    return set(counted(PTX.replace(old, new)) - counted(PTX))


def test_ring_has_nothing_to_excuse_but_what_its_last_turns_leave_open() -> None:
    assert set(excuses(PTX).values()) <= {"renamed", "same value"}


def test_excused_mutants_of_the_ring_survive() -> None:
    problem = ring()
    program = decode(PTX, problem.prepare().launch)
    launch = problem.prepare()
    original = Original(problem, program, launch.outputs(), 200)
    names = excuses(PTX)
    for mutant in mutants_of(program.context.function):
        if mutant.name in names:
            outcome = attempt(original, mutant)
            assert outcome.result in ("survived", "wrong output"), mutant.name


def test_instruction_that_never_ran() -> None:
    new = "ret;\n    fence.proxy.async.shared::cta;\nCONSUMER:"
    assert new_excuses("ret;\nCONSUMER:", new) == {("never ran", "fence dropped")}


def test_barrier_that_nobody_uses() -> None:
    init = "mbarrier.init.shared.b64 [%r2+24], %r5;"
    found = new_excuses(init, f"{init} mbarrier.init.shared.b64 [%r2+280], 7;")
    assert found == {
        ("unused barrier", f"init {change}")
        for change in ("dropped", "count + 1", "count − 1", "of the next barrier")
    }


def test_arrival_that_nobody_waits_for() -> None:
    init = "mbarrier.init.shared.b64 [%r2+24], %r5;"
    ptx = PTX.replace(init, f"{init} mbarrier.init.shared.b64 [%r2+280], 9;")
    ptx = ptx.replace("st.global", "mbarrier.arrive.shared.b64 %rd7, [%r2+280], 1;\n    st.global")
    excused = excuses(ptx)
    found = {name.partition(",")[0] for name in excused if excused[name] == "nobody waits"}
    assert {"arrive dropped", "arrive count + 1", "arrive on the next barrier"} <= found


def test_wait_that_tells_nothing() -> None:
    again = """FULL2:
    mbarrier.try_wait.parity.shared.b64 %p6, [%r21], %r7;
    @!%p6 bra FULL2;
    shl.b32 %r23"""
    found = new_excuses("shl.b32 %r23", again)
    assert ("known anyway", "wait dropped") in found
    assert {rule for rule, _ in found} <= {"known anyway", "later barrier"}


def test_last_arrival_of_a_row_that_only_a_last_wait_waits_for() -> None:
    tail = """xor.b32 %r12, %r7, 1;
TAIL:
    mbarrier.try_wait.parity.shared.b64 %p3, [%r2+24], 1;
    @!%p3 bra TAIL;
    ret;
CONSUMER:"""
    found = excuses(PTX.replace("ret;\nCONSUMER:", tail))
    assert found["wait dropped, line 58"] == "known anyway"


def test_accesses_that_the_next_arrival_does_not_order() -> None:
    assert not any(name.startswith("moved arrival") for name in excuses(PTX))
    alone = "ld.shared.b32 %r26, [%r25+32];"
    other = f"{alone}\n    ld.shared.b32 %r30, [%r2+288];\n    mbarrier.arrive.shared.b64 %rd2"
    ptx = PTX.replace("[288]", "[304]").replace(
        f"{alone}\n    add.s32 %r9, %r9, %r26;\n    mbarrier.arrive.shared.b64 %rd2", other
    )
    assert ptx.count("[%r2+288]") == 1
    assert "moved arrival over a load, line 68" not in excuses(ptx)


def test_fence_that_comes_again() -> None:
    fence = "fence.mbarrier_init.release.cluster;"
    new = f"{fence}\n mov.b32 %r30, 7;\n {fence} bar.sync 0;"
    assert new_excuses("bar.sync 0;", new) == {("fenced again", "fence dropped")}
    other = f"{fence}\n bar.warp.sync -1;\n {fence} bar.sync 0;"
    assert new_excuses("bar.sync 0;", other) == set()


def test_warp_barrier_before_an_election() -> None:
    new = "bar.warp.sync -1; elect.sync %r30|%p9, -1; mov.b32 %r6, 0;"
    assert new_excuses("mov.b32 %r6, 0;", new) == {("elects anyway", "warp barrier dropped")}
    other = "bar.warp.sync -1; ld.shared.b32 %r30, [%r2]; mov.b32 %r6, 0;"
    assert new_excuses("mov.b32 %r6, 0;", other) == set()


def test_warps_that_wait_where_they_only_had_to_arrive() -> None:
    new = "bar.sync 1, 64; bar.arrive 2, 128; bar.sync 3;\nREADY:"
    found = excuses(PTX.replace("bar.sync 0;", "bar.sync 0; bar.arrive 2, 128;"))
    assert any(rule == "stricter" for rule in found.values()), new


def test_named_barrier_that_all_use_here_may_have_another_number() -> None:
    assert "renamed" in excuses(PTX).values()
    twice = PTX.replace("bar.sync 0;", "bar.sync 0; bar.sync 1;")
    names = [name for name, rule in excuses(twice).items() if rule == "renamed"]
    assert len(names) == 1  # barrier 1 may become 2; barrier 0 may not become 1


def test_registers_and_permits_say_nothing_in_ptx() -> None:
    new = "setmaxnreg.dec.sync.aligned.u32 40; bar.sync 0;"
    found = new_excuses("bar.sync 0;", new)
    assert ("registers", "registers dropped") in found


def test_altered_value_that_is_the_same_each_time() -> None:
    found = new_excuses("setp.eq.s32 %p7, %r27, 2;", "setp.ge.s32 %p7, %r27, 2;")
    assert ("same value", "ring one slot longer") not in found
    short = PTX.replace("%r8, 5", "%r8, 1")
    assert "same value" in excuses(short).values()


@pytest.mark.parametrize("name", RULES)
def test_rules_say_why(name: str) -> None:
    assert len(RULES[name].why) > 20
