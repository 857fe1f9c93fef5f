"""Verdicts on designs of which it is known what holds them back."""

import pytest

from fa4sim import B200, Design, Problem, Run, simulate
from fa4sim.analysis import Evidence, critical_path, gather, verdict
from fa4sim.analysis.bottleneck import UNITS
from tests.analysis.runs import run_of


def judge(run: Run):
    """The verdict on a run, with what only the whole run knows."""
    occupancy = launch = None
    if run.gpu is not None:
        busy = sum(end - start for _, start, end, _ in run.occupancy) * run.design.cta_group
        occupancy = min(1.0, busy / (run.report.cycles * run.machine.sms))
        launch = run.report.launch_us / run.report.time_us
    return verdict(
        gather(run.trace, run.report.units, 1.0 if occupancy is None else occupancy, launch or 0.0)
    )


@pytest.mark.parametrize(
    "name, kind",
    [
        ("two ring slots, slow TMA", "K/V ring"),
        ("slow MUFU", "MUFU"),
        ("one Q tile", "softmax latency chain"),
        ("pair", "softmax latency chain"),
        ("causal", "softmax latency chain"),
        ("fp8", "rescaling of O"),
        ("pair, one block", "fill and drain"),
    ],
)
def test_a_design_with_a_known_fault_gets_the_verdict(name, kind):
    assert judge(run_of(name)).kind == kind


def test_a_slow_tensor_pipe_is_saturated():
    slow = B200.with_constants(tensor_flops_per_cycle_16bit=4096)
    problem = Problem(seqlen_q=4096)
    result = judge(simulate(problem, Design.for_problem(problem, slow), slow, scope="cta"))
    assert result.kind == "tensor pipe"
    assert result.text.startswith("The tensor pipe is saturated")


def test_narrow_shared_memory_is_saturated():
    narrow = B200.with_constants(smem_bytes_per_cycle=64)
    problem = Problem(seqlen_q=4096)
    design = Design.for_problem(problem, narrow, cta_group=1)
    assert judge(simulate(problem, design, narrow, scope="cta")).kind == "shared memory"


def test_a_tiny_problem_is_all_launch_and_tail():
    result = judge(simulate(Problem(batch=1, heads=1, seqlen_q=128)))
    assert result.kind == "launch and tail"
    assert "under 1% of the time" in result.text


def test_many_short_sequences_are_bound_by_hbm():
    assert judge(simulate(Problem(batch=64, heads=16, seqlen_q=128))).kind == "HBM"


def test_a_warp_may_stand_at_the_ring_without_losing_time_by_it():
    # With two slots the MMA warp can wait for K and V for longer than for P while a block takes as
    # long as with three: the path says so, the waits alone would blame the ring.
    waits = {("mma", "load_KV_full"): 0.6, ("mma", "P_full_O_rescaled"): 0.2}
    path = {("softmax0", "exp2"): 800, ("tensor", "QK"): 500, ("tma", "load K"): 150}
    units = {"tensor": 0.65}
    assert verdict(Evidence(units, waits)).kind == "K/V ring"
    assert verdict(Evidence(units, waits, path)).kind == "softmax latency chain"


def test_the_figures_stand_behind_the_verdict():
    result = judge(run_of("causal"))
    text = str(result)
    assert text.startswith(result.text)
    for source in ("units: ", "the MMA warp waits for: ", "critical path: ", "longest on it: "):
        assert source in text
    assert "P_full_O_rescaled" in text and "exp2" in text


def test_a_path_that_was_walked_already_is_used():
    run = run_of("causal")
    path = critical_path(run.trace)
    assert gather(run.trace, run.report.units, path=path).path_totals == path.totals()


@pytest.mark.parametrize("unit", UNITS)
def test_every_unit_can_be_the_bottleneck(unit):
    waits = {("mma", "load_KV_full"): 0.5}
    assert verdict(Evidence({"tensor": 0.3, unit: 0.97}, waits)).kind == UNITS[unit][1]


def test_memory_that_is_busy_but_never_waited_for_holds_nothing_up():
    units = {"tensor": 0.6, "hbm": 0.95}
    chain, loads = ({("mma", on): 0.5} for on in ("P_full_O_rescaled", "load_KV_full"))
    assert verdict(Evidence(units, chain)).kind == "softmax latency chain"
    assert verdict(Evidence(units, loads)).kind == "HBM"


def test_units_are_judged_by_the_time_in_which_there_is_work():
    units = {"tensor": 0.72}
    assert verdict(Evidence(units)).kind != "tensor pipe"
    assert verdict(Evidence(units, occupancy=0.8)).kind == "tensor pipe"


def test_idle_sms_count_only_if_they_cost_most():
    assert verdict(Evidence({"tensor": 0.3}, occupancy=0.5)).kind == "launch and tail"
    assert verdict(Evidence({"tensor": 0.48}, occupancy=0.5)).kind == "launch and tail"
    assert verdict(Evidence({"tensor": 0.3}, occupancy=0.7)).kind == "softmax latency chain"
    assert verdict(Evidence({"tensor": 0.3}, launch=0.6)).kind == "launch and tail"


def test_without_a_path_the_mma_warp_s_waits_decide():
    ring = {("mma", "load_KV_full"): 0.6, ("mma", "P_full_O_rescaled"): 0.2}
    chain = {("mma", "load_KV_full"): 0.1, ("mma", "P_full_O_rescaled"): 0.7}
    assert verdict(Evidence({"tensor": 0.5}, ring)).kind == "K/V ring"
    assert verdict(Evidence({"tensor": 0.5}, chain)).kind == "softmax latency chain"


def test_a_path_of_unknown_causes_is_no_ground():
    waits = {("mma", "load_KV_full"): 0.6}
    path = {("mma", "wait P_full_O_rescaled"): 700, ("softmax0", "exp2"): 300}
    assert verdict(Evidence({"tensor": 0.5}, waits, path)).kind == "K/V ring"


def test_nothing_to_do_is_said_so():
    assert verdict(Evidence({})).kind == "nothing to do"
    assert verdict(Evidence({"tensor": 0.0})).kind == "nothing to do"


@pytest.mark.parametrize("field", ["occupancy", "launch"])
def test_fractions_are_fractions(field):
    with pytest.raises(ValueError, match=rf"{field}=1.5 is a fraction, 0 to 1"):
        Evidence({"tensor": 0.5}, **{field: 1.5})
