"""The official kernel, compiled here, does what the simulator does."""

from __future__ import annotations

import pytest

from fa4kernel.crosscheck.cases import Case, cases_for
from fa4kernel.crosscheck.check import Crosscheck, crosscheck, kernel_of
from fa4kernel.crosscheck.costs import compare_costs, design_from_kernel
from fa4kernel.crosscheck.emulated import emulated
from fa4kernel.crosscheck.inputs import draw
from fa4kernel.crosscheck.lives import compare_lives
from fa4kernel.crosscheck.order import compare_order
from fa4kernel.official.compile import missing
from fa4sim.specs import B200, Design, Problem
from tests.crosscheck import stored

pytestmark = pytest.mark.official


@pytest.fixture(autouse=True)
def official() -> None:
    if reason := missing():
        pytest.skip(reason)


def complaints(check: Crosscheck) -> list[str]:
    """What differs, and hazards."""
    return [part.words() for part in check.parts if not part.agrees] + check.hazards


@pytest.mark.sample(3)
@pytest.mark.parametrize("case", cases_for("official"), ids=lambda case: case.name)
def test_simulator_kernel_and_reference_agree(case: Case, seed: int) -> None:
    check = crosscheck(
        case.problem, case.design, case.machine, against="official", seed=seed, costs=False
    )
    assert complaints(check) == []


def test_the_stored_record_is_what_the_kernel_does() -> None:
    case = stored.CASES["one_cta"]
    inputs = draw(case.problem, stored.SEED, rising=True)
    kernel = kernel_of("official", case.problem, case.design, case.machine, inputs)
    fresh = emulated(kernel).record
    old = stored.stored("one_cta")
    assert compare_order(fresh, old).agrees and compare_lives(fresh, old).agrees
    assert fresh.amounts == old.amounts and fresh.never_used == old.never_used
    for place, use in old.barriers.items():
        mine = fresh.barriers[place]
        assert (mine.count, mine.completions, mine.parties()) == (
            use.count, use.completions, use.parties(),
        )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "problem",
    [Problem(seqlen_q=2048, dtype="e4m3"), Problem(heads=3, kv_heads=1, seqlens_q=(9, 70)),
     Problem(heads=4, kv_heads=1, seqlen_q=9, seqlens_k=(2048,), page_size=16)],
    ids=["FP8, one CTA", "three heads packed, varied lengths", "four heads packed, pages"],
)  # fmt: skip
def test_fp8_and_packed_heads_cost_what_the_kernel_executes(problem: Problem) -> None:
    design = Design.for_problem(problem, B200, cta_group=1)
    assert compare_costs("official", problem, design, B200).differences == []


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
def test_the_simulators_instruction_counts_are_the_kernels(causal: bool) -> None:
    problem = Problem(seqlen_q=2048, causal=causal)
    design = Design.for_problem(problem, B200, cta_group=1)
    assert compare_costs("official", problem, design, B200).differences == []
    found = design_from_kernel("official", problem, B200, cta_group=1)
    assert 20 <= found.softmax_overhead_slots <= 40
    assert (
        found.replace(problem, B200, softmax_overhead_slots=design.softmax_overhead_slots) == design
    )
