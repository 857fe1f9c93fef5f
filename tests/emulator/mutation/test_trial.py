"""What counts as detected."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from fa4kernel.emulator.errors import shortened
from fa4kernel.emulator.mutation.mutant import Edit, Mutant
from fa4kernel.emulator.mutation.mutants import mutants_of
from fa4kernel.emulator.mutation.problem import Prepared, Problem
from fa4kernel.emulator.mutation.trial import (
    BaselineError,
    Original,
    OutOfTimeError,
    attempt,
    differences,
    limit,
    measure,
)
from tests.emulator.mutation.ring import PTX, ring


@pytest.fixture(scope="module")
def original() -> Original:
    return measure(ring(), ("lockstep", 1))


def mutant(original: Original, line_text: str, change: str) -> Mutant:
    """The mutant of the line with this text."""
    code = original.program.context.function.instructions
    return next(m for m in mutants_of(original.program.context.function)
                if code[m.index].text.startswith(line_text) and m.change == change)  # fmt: skip


def swapped(original: Original, old: str, new: str) -> Mutant:
    """A mutant made by hand: an instruction of the text replaced."""
    code = original.program.context.function.instructions
    index = next(i for i, each in enumerate(code) if each.text == old)
    return Mutant("test", "by hand", index, code[index].line, old, "", (Edit(index, new),))


def test_missing_arrival_is_a_deadlock_and_the_report_names_the_barrier(
    original: Original,
) -> None:
    outcome = attempt(original, mutant(original, "mbarrier.arrive", "dropped"))
    assert outcome.result == "deadlock" and outcome.detected
    assert "mbarrier" in outcome.report and "try_wait" in outcome.report


def test_dropped_meeting_is_a_hazard_though_the_sums_are_right(original: Original) -> None:
    meeting = mutant(original, "bar.sync", "dropped")
    assert attempt(original, meeting, ("lockstep",), checks="off").result == "survived"
    outcome = attempt(original, meeting)
    assert outcome.result == "hazard" and outcome.detected
    assert "line 23" in outcome.report and "line 38" in outcome.report


def test_wrong_numbers_are_detected_without_any_report(original: Original) -> None:
    wrong = swapped(original, "add.s32 %r9, %r9, %r26;", "add.s32 %r9, %r9, 1;")
    outcome = attempt(original, wrong)
    assert outcome.result == "wrong output" and outcome.detected
    assert outcome.report == "output 0: 32 of 32 values are wrong"


def test_missing_barrier_is_an_invalid_state(original: Original) -> None:
    outcome = attempt(original, mutant(original, "mbarrier.init", "dropped"))
    assert outcome.result == "invalid state" and "never initialised" in outcome.report


def test_kernel_that_spins_is_given_up_and_not_counted(original: Original) -> None:
    spins = swapped(original, "setp.lt.s32 %p8, %r8, 5;", "L: add.s32 %r8, %r8, 1; bra L;")
    outcome = attempt(original, spins)
    assert outcome.result == "timed out" and not outcome.detected


def test_mutant_has_only_so_much_time(original: Original) -> None:
    with pytest.raises(OutOfTimeError), limit(0.05):
        time.sleep(1)
    spins = swapped(original, "setp.lt.s32 %p8, %r8, 5;", "L: add.s32 %r8, %r8, 1; bra L;")
    slow = Original(original.problem, original.program, original.outputs, 10**9)
    assert attempt(slow, spins, seconds=0.2).result == "timed out"


def test_what_cannot_be_read_is_refused_and_not_counted(original: Original) -> None:
    outcome = attempt(original, swapped(original, "bar.sync 0;", "frobnicate.b32 %r1;"))
    assert outcome.result == "refused" and not outcome.detected


def test_schedules_are_tried_until_one_detects(original: Original) -> None:
    same = swapped(original, "add.s32 %r9, %r9, %r26;", "add.s32 %r9, %r26, %r9;")
    outcome = attempt(original, same, ("lockstep", 1, 2))
    assert (outcome.result, outcome.schedules, outcome.schedule) == ("survived", 3, 2)
    outcome = attempt(original, mutant(original, "mbarrier.arrive", "dropped"), ("lockstep", 1))
    assert (outcome.schedules, outcome.schedule) == (1, "lockstep")


def test_incorrect_original_is_not_mutated() -> None:
    with pytest.raises(BaselineError, match="wrong sums"):
        measure(ring(PTX.replace("add.s32 %r16, %r3, %r8;", "add.s32 %r16, %r3, 7;")))
    with pytest.raises(BaselineError, match=r"read-before-write|uninitialised-barrier"):
        measure(ring(PTX.replace("bar.sync 0;", "")))


def test_difference_within_the_tolerance_is_none() -> None:
    right = [np.array([1.0, np.inf, np.nan])]
    assert differences([np.array([1.25, np.inf, np.nan])], right, [0.25]) == []
    assert differences([np.array([1.5, np.inf, 0.0])], right, [0.25]) == [
        "output 0: 2 of 3 values are wrong"
    ]


def test_a_rule_of_the_manual_broken_by_the_mutant_alone_counts_where_it_was_asked_for() -> None:
    pytest.importorskip("fa4kernel.examples", reason="needs the CuTe DSL")
    kernel = measure(gemm(), ("lockstep",), checks="strict-isa")
    fences = [m for m in mutants_of(kernel.program.context.function) if m.kind == "tcgen05 fence"]
    outcomes = [attempt(kernel, each, ("lockstep",), checks="strict-isa") for each in fences]
    told = [(m, o) for m, o in zip(fences, outcomes, strict=True) if o.result == "advisory"]
    texts = {shortened(i.text): i.text for i in kernel.program.context.function.instructions}
    assert told and kernel.advisories
    for fence, outcome in told:
        assert outcome.detected and "tmem-fence" in outcome.report
        assert attempt(kernel, fence, ("lockstep",)).result == "survived"
        instruction = texts[outcome.report.split("`")[1]]
        assert ("tmem-fence", instruction) not in kernel.advisories
        known = replace(kernel, advisories=kernel.advisories | {("tmem-fence", instruction)})
        again = attempt(known, fence, ("lockstep",), checks="strict-isa")
        assert shortened(instruction) not in again.report


def gemm() -> Problem:
    """A product of matrices on the tensor core."""
    from fa4kernel.examples import gemm
    from fa4kernel.examples.matrices import matrix

    compiled = gemm.compile_ptx()
    rng = np.random.default_rng(0)
    a, b = (matrix(rng.integers(-1, 2, (rows, 2 * gemm.K))) for rows in (gemm.M, gemm.N))

    def prepare() -> Prepared:
        c = matrix(np.full((gemm.M, gemm.N), np.nan))
        return Prepared(compiled.launch(a, b, c), lambda: [c])

    return Problem("gemm", "gemm", compiled.ptx, prepare, [0.0])
