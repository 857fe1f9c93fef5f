"""Our kernel does what the simulator does."""

from __future__ import annotations

import pytest

from fa4kernel.crosscheck.cases import CASES, Case
from fa4kernel.crosscheck.check import crosscheck
from fa4kernel.crosscheck.costs import compare_costs, design_from_kernel
from fa4sim.specs import B200, Design, Problem

pytest.importorskip("cutlass", reason="our kernel needs the CuTe DSL: pip install 'fa4sim[kernel]'")


WHOLE = [case for case in CASES if not case.copies_rows]
COPIED = [case for case in CASES if case.copies_rows]


def complaints(case: Case, seed: int) -> list[str]:
    """What differs, and hazards."""
    check = crosscheck(
        case.problem, case.design, case.machine, against="ours", seed=seed, costs=False
    )
    return [part.words() for part in check.parts if not part.agrees] + check.hazards


@pytest.mark.parametrize("case", [CASES[0]], ids=lambda case: case.name)
def test_simulator_kernel_and_reference_agree(case: Case, seed: int) -> None:
    assert complaints(case, seed) == []


@pytest.mark.slow
@pytest.mark.sample(4)
@pytest.mark.parametrize("case", WHOLE[1:], ids=lambda case: case.name)
def test_they_agree_on_the_pages_other_problems(case: Case, seed: int) -> None:
    assert complaints(case, seed) == []


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("case", COPIED, ids=lambda case: case.name)
def test_they_agree_on_rows_that_threads_copy(case: Case, seed: int) -> None:
    assert complaints(case, seed) == []


@pytest.mark.slow
@pytest.mark.parametrize("heads", [3, 4])
def test_packed_heads_have_the_kernels_exponentials(heads: int) -> None:
    problem = Problem(heads=heads, kv_heads=1, seqlen_q=9, seqlen_k=2048)
    design = Design.for_problem(problem, B200)
    assert (design.q_stages, design.exp2_period) == (1, 10)
    assert compare_costs("ours", problem, design, B200).differences == []


@pytest.mark.slow
def test_the_simulators_instruction_counts_are_the_kernels() -> None:
    problem = Problem(seqlen_q=2048)
    design = Design.for_problem(problem, B200, cta_group=1)
    assert compare_costs("ours", problem, design, B200).differences == []
    found = design_from_kernel("ours", problem, B200, cta_group=1)
    assert found.registers_softmax == design.registers_softmax
    assert found.softmax_overhead_slots < design.softmax_overhead_slots
