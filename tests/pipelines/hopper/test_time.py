"""Times that no machine could beat, that repeat, and that leave no cycle unexplained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.text import Text

from fa4sim import H100, H200, HopperDesign, Problem, predict, simulate
from fa4sim.analysis import critical_path, unexplained_gaps
from fa4sim.pipelines.common.cluster import Surroundings
from fa4sim.pipelines.fa3.costs import row_costs
from fa4sim.pipelines.fa4.detail import simulate_cluster
from fa4sim.specs.measured import h200_value
from fa4sim.views import memory_map, timeline
from tests.pipelines.hopper.cases import CASES, NO_TURNS, PLAIN, WAITED, design_of, tiles_of


def cycles(changes: dict[str, Any] | None = None, **fields: Any) -> int:
    problem = Problem(**fields)
    return predict(problem, HopperDesign.for_problem(problem, H200, **(changes or {})), H200).cycles


@pytest.mark.parametrize("name", CASES)
def test_every_cycle_of_every_warp_is_in_one_span_or_one_wait(name: str) -> None:
    problem, design = design_of(name)
    detail = simulate_cluster(problem, design, H200, tiles_of(problem, design, 3), Surroundings())
    assert unexplained_gaps(detail.trace) == []
    path = critical_path(detail.trace.expand())
    assert path.cycles > 0.9 * detail.cycles


SHAPES = st.fixed_dictionaries(
    {
        "heads": st.integers(1, 6), "seqlen_q": st.integers(1, 1500),
        "seqlen_k": st.integers(1, 3000), "head_dim": st.sampled_from([32, 64, 96, 128]),
        "causal": st.booleans(), "batch": st.integers(1, 4),
    }
)  # fmt: skip
CHANGES = st.sampled_from([{}, WAITED, NO_TURNS, WAITED | NO_TURNS, PLAIN, {"consumers": 1}])


@settings(max_examples=25, deadline=None)
@given(SHAPES, CHANGES)
def test_no_run_beats_its_roofline(fields: dict[str, Any], changes: dict[str, Any]) -> None:
    problem = Problem(**fields)
    design = HopperDesign.for_problem(problem, H200, **changes)
    run = simulate(problem, design, H200)
    rate = H200.tensor_flops_per_cycle_16bit * H200.sms
    assert run.gpu is not None
    blocks = sum(tile.blocks for tile in run.gpu.plan.tiles)
    per_block = design.work_rows * design.tile_n
    dims = design.head_dim_padded + design.head_dim_v_padded
    assert run.report.cycles >= 2 * per_block * dims * blocks / rate
    assert run.report.cycles >= per_block * blocks / 16 / H200.sms  # 16 exponentials per cycle
    assert all(0 <= busy <= 1 for busy in run.report.units.values())
    # Nothing is done that is not asked for, and all of it: tensor work is exactly that of blocks.
    busy = run.report.units["tensor"] * run.report.cycles * H200.sms
    qk = design.consumers * blocks * (design.head_dim_padded // 16) * (design.tile_n // 2)
    pv = design.consumers * blocks * (design.tile_n // 16) * (design.head_dim_v_padded // 2)
    assert busy == pytest.approx(qk + pv)


def test_the_same_run_gives_the_same_trace() -> None:
    problem, design = design_of("causal")
    one, two = (simulate(problem, design, H200).trace for _ in range(2))
    assert one.strings == two.strings
    assert np.array_equal(one.span.array, two.span.array)
    assert np.array_equal(one.wait.array, two.wait.array)


def test_a_prediction_is_what_a_simulation_says() -> None:
    problem = Problem(heads=16, seqlen_q=2048, causal=True)
    machine = H200.with_constants(clock_hz=1.7e9)
    found, run = predict(problem, machine=machine), simulate(problem, machine=machine)
    assert found.cycles == run.report.cycles
    assert found.seconds == pytest.approx((run.report.time_us - run.report.launch_us) / 1e6)
    assert found.tflops == pytest.approx(problem.flops / found.seconds / 1e12)


@pytest.mark.parametrize("causal", [False, True])
def test_overlap_and_turns_pay_together(causal: bool) -> None:
    shape = {"batch": 4, "heads": 16, "seqlen_q": 4096, "causal": causal}
    both, plain = cycles(**shape), cycles(PLAIN, **shape)
    for less in (NO_TURNS, WAITED, WAITED | NO_TURNS):
        # On an H200 turns alone are worth 4 %, causal 0.6 % (docs/validation/h200.md).
        assert both < cycles(less, **shape) < 0.97 * plain
    # As compiled, turns without overlap are held on to during the softmax: worse than none.
    assert cycles(WAITED | NO_TURNS, **shape) < cycles(WAITED, **shape)


def test_a_ring_of_one_more_slot_is_no_slower() -> None:
    shape = {"batch": 2, "heads": 16, "seqlen_q": 4096, "head_dim": 64}
    assert cycles({"kv_stages": 3}, **shape) <= 1.01 * cycles({"kv_stages": 2}, **shape)


def test_an_h100_takes_as_many_cycles_where_memory_does_not_limit() -> None:
    problem = Problem(batch=2, heads=16, seqlen_q=4096)
    one, two = predict(problem, machine=H100), predict(problem, machine=H200)
    assert one.cycles == pytest.approx(two.cycles, rel=0.02)
    assert one.seconds < two.seconds  # published clock against the one measured under load


def test_a_softmax_step_takes_what_it_was_measured_to_take() -> None:
    # Of 128 columns a lane of a Hopper consumer holds 64: half of the row step that was measured
    # with all 128 in a lane, and so without shuffles: 1446 to 1494 cycles.
    problem, design = design_of("full")
    costs = row_costs(problem, design, H200)
    groups = (*costs.maximum, *costs.scale, *costs.mixed_first)
    alone = sum(max(g.issue, g.mufu, g.fma, g.alu) for g in groups)
    assert alone + costs.exp2_latency == pytest.approx(1470 / 2, rel=0.1)


def test_exponentials_and_what_stands_among_them_take_what_was_measured_beside_wgmma() -> None:
    # 64 MUFU, 64 FADD, 64 FMUL and 32 F2FP, woven; an eighth of the MUFU stand before in a step.
    problem, design = design_of("full")
    costs = row_costs(problem, design, H200)
    early = sum(group.mufu for group in costs.scale) / H200.mufu_cycles_per_warp
    port = H200.beside_mma_mufu_issue_factor * early
    for warps, found in (
        (1, sum(group.lone for group in costs.mixed) + port),
        (2, sum(group.pressed_issue for group in costs.mixed) + port),
    ):
        measured = 224 * h200_value(f"woven_{warps}_warps_beside_wgmma_cycles_per_warp")
        assert early == 8 and found == pytest.approx(measured, rel=0.15)


def test_maxima_and_multiplications_take_what_was_measured_beside_wgmma() -> None:
    problem, design = design_of("full")
    costs = row_costs(problem, design, H200)
    for groups, name in ((costs.maximum, "fmnmx"), (costs.rescale, "fmul")):
        measured = h200_value(f"{name}_1_warps_beside_wgmma_cycles_per_warp")
        found = sum(max(g.pressed_issue, g.lone, *g.pressed) for g in groups)
        assert found == pytest.approx(64 * measured, rel=0.05)
    left = h200_value("wgmma_n128_beside_fmul_1_warps_flop_per_cycle") / 4096
    took = 64 * h200_value("fmul_1_warps_beside_wgmma_cycles_per_warp")
    assert sum(g.steals for g in costs.rescale) == pytest.approx((1 - left) * took, rel=0.05)


def test_a_step_has_as_many_instructions_as_the_compiled_kernels() -> None:
    # Without what issues products, waits and signals: 497 - 16 HGMMA - 52 around them - 17.
    problem, design = design_of("full")
    costs = row_costs(problem, design, H200)
    groups = (costs.overhead, *costs.maximum, costs.reduce, *costs.scale, *costs.mixed)
    assert sum(group.issue for group in groups) == pytest.approx(412, rel=0.05)


def test_the_pictures_say_what_lies_where() -> None:
    problem, design = design_of("causal")
    trace = simulate(problem, design, H200, scope="cta").trace
    written = {text.get_text() for text in memory_map(trace).findobj(Text)}
    assert {"sQ[0], 16 KiB", "sK[1], 32 KiB", "sO[1], in sQ"} <= written
    written = {text.get_text() for text in timeline(trace).findobj(Text)}
    assert "consumer1, warp 8" in written


def test_a_period_is_told_of_single_tiles_only() -> None:
    # Of several tiles whole ones may be skipped, too, and then a period of steps is not all of it.
    problem, design = design_of("full")
    one, three = (
        simulate_cluster(problem, design, H200, tiles_of(problem, design, n), Surroundings())
        for n in (1, 3)
    )
    assert three.per_period is None
    assert (one.per_period is not None) == (len(one.proofs) == 1 and one.proofs[0].times > 0)
