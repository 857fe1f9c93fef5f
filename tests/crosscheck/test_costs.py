"""The cost model against a measurement that is made up."""

from __future__ import annotations

import dataclasses

import pytest

from fa4kernel.code.kernels import Kernel, Shape, config_of
from fa4kernel.code.measure import Measurement, Mix, Role
from fa4kernel.crosscheck import costs
from fa4kernel.crosscheck.cases import CASES, Case
from fa4sim.pipelines.fa4.costs import softmax_costs
from fa4sim.specs import B200, Design, Problem

PROBLEM = Problem(seqlen_q=2048)
DESIGN = Design.for_problem(PROBLEM, B200, cta_group=1)
#: One step of the official kernel (docs/validation/kernel_code.md), "integer, logic" so that the
#: issue slots are those the simulator assumes.
STEP = {
    "MUFU": 113.0, "packed FMA": 176.0, "maximum": 82.0, "conversion": 64.0, "TMEM load": 4.0,
    "TMEM store": 4.0, "integer, logic": 72.0,
}  # fmt: skip
RESCALED = {"packed FMA": 128.0, "TMEM load": 16.0, "TMEM store": 16.0}
TILE = {"packed FMA": 128.0, "conversion": 128.0, "TMEM load": 16.0}


def role(name: str, registers: int, step: Mix, rescaled: Mix, tile: Mix) -> Role:
    units = (*STEP, *RESCALED, *TILE)
    whole = [dict.fromkeys(units, 0.0) | mix for mix in (step, rescaled, tile)]
    return Role(name, (0,), registers, whole[0], whole[1], whole[2], None, True, True)


def measured(**changes: float) -> Measurement:
    roles = (
        role("softmax", 184, STEP | changes, {}, {}),
        role("correction", 88, {}, RESCALED, TILE),
        role("mma", 56, {}, {}, {}),
    )
    kernel = Kernel("made up", "a kernel that is made up", "", None)  # type: ignore[arg-type]
    return Measurement(Shape("made up"), kernel, 0, 0, roles, {}, {}, True)


def use(monkeypatch: pytest.MonkeyPatch, **changes: float) -> None:
    monkeypatch.setattr(costs, "measurement", lambda against, shape: measured(**changes))


def test_counts_that_are_the_simulators_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch)
    part = costs.compare_costs("made up", PROBLEM, DESIGN, B200)
    assert part.differences == [] and part.compared == 13


@pytest.mark.parametrize(
    ("unit", "named"),
    [("MUFU", "MUFU"), ("packed FMA", "packed FMA beside polynomials"),
     ("maximum", "maxima beside polynomials"), ("conversion", "conversions"),
     ("TMEM load", "TMEM loads"), ("TMEM store", "TMEM stores")],
)  # fmt: skip
def test_another_count_is_named(monkeypatch: pytest.MonkeyPatch, unit: str, named: str) -> None:
    use(monkeypatch, **{unit: STEP[unit] + 1})
    part = costs.compare_costs("made up", PROBLEM, DESIGN, B200)
    assert len(part.differences) == 1
    assert part.differences[0].startswith(f"softmax step: {named}: simulator")


def test_many_more_issue_slots_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, **{"integer, logic": STEP["integer, logic"] + 40})
    (difference,) = costs.compare_costs("made up", PROBLEM, DESIGN, B200).differences
    assert "issue slots of a softmax step: simulator 515, kernel 555" in difference


def test_a_design_takes_registers_and_slots_from_the_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(monkeypatch, **{"integer, logic": STEP["integer, logic"] - 20})
    found = costs.design_from_kernel("made up", PROBLEM, B200, cta_group=1)
    assert found == dataclasses.replace(
        DESIGN, softmax_overhead_slots=18, registers_softmax=184, registers_correction=88,
        registers_other=56,
    )  # fmt: skip


def test_slots_grow_with_the_designs_overhead() -> None:
    more = dataclasses.replace(DESIGN, softmax_overhead_slots=48)
    slots = [costs.assumed_slots(softmax_costs(PROBLEM, d, B200)) for d in (DESIGN, more)]
    assert slots == [515, 525]


@pytest.mark.parametrize(
    ("changes", "cta_group", "slots"),
    [({}, 1, 498), ({}, 2, 535), ({"causal": True}, 1, 562)],
)  # fmt: skip
def test_fp8_takes_the_slots_of_its_machine_code(
    changes: dict[str, bool], cta_group: int, slots: int
) -> None:
    # The loop of an unmasked step in flash-attn-4 4.0.0b27 for sm_100a, ptxas 13.4.
    problem = Problem(seqlen_q=2048, dtype="e4m3", **changes)  # type: ignore[arg-type]
    design = Design.for_problem(problem, B200, cta_group=cta_group)
    assert costs.assumed_slots(softmax_costs(problem, design, B200)) == slots


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_kernel_that_is_measured_has_the_exponentials_of_the_design(case: Case) -> None:
    names = ("exp2_period", "exp2_emulated", "exp2_first_fragment", "exp2_degree")
    config = config_of(costs.shape_of(case.problem, case.design))
    assert [getattr(config, n) for n in names] == [getattr(case.design, n) for n in names]


def test_a_shape_has_packed_heads_and_varied_lengths() -> None:
    for heads, group in ((4, 4), (16, 4), (3, 3), (7, 3), (1, 1)):
        problem = Problem(heads=heads, kv_heads=1, seqlens_q=(70, 30))
        shape = costs.shape_of(problem, Design.for_problem(problem, B200))
        assert (shape.group, shape.varlen) == (group, heads > 1), heads
    for masked in ({"causal": True}, {"window": (200, 30)}):
        problem = Problem(heads=4, kv_heads=1, seqlens_q=(70, 30), **masked)  # type: ignore[arg-type]
        shape = costs.shape_of(problem, Design.for_problem(problem, B200))
        assert (shape.group, shape.varlen) == (1, False)
    apart = Problem(heads=4, kv_heads=1, seqlen_q=512)
    design = Design.for_problem(apart, B200, pack_gqa=False)
    assert costs.shape_of(apart, design).group == 1


def test_another_kernels_shape_is_that_of_the_problem() -> None:
    assert costs.shape_of(PROBLEM, DESIGN).name == "full-128"
    pair = Design.for_problem(PROBLEM, B200)
    assert costs.shape_of(PROBLEM, pair).name == "pair-128"
    small = Problem(seqlen_q=512, head_dim=64, causal=True, dtype="fp16")
    shape = costs.shape_of(small, Design.for_problem(small, B200))
    assert (shape.head_dim, shape.causal, shape.dtype, shape.pair) == (64, True, "fp16", False)
