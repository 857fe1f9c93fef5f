"""With arrays attached, what comes out of the pipeline is attention, bit for bit the reference."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from fa4sim import H200, Fault, HopperDesign, Problem, Run, simulate
from fa4sim.numerics import attention_blockwise, attention_float64, round_to
from tests.pipelines.hopper.cases import CASES, design_of


def arrays_of(problem: Problem, scale: float = 1.0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(7)
    shapes = (
        (problem.batch, problem.seqlen_q, problem.heads, problem.head_dim),
        (problem.batch, problem.seqlen_k, problem.kv_heads, problem.head_dim),
        (problem.batch, problem.seqlen_k, problem.kv_heads, problem.dim_v),
    )
    return tuple(
        round_to((scale * rng.standard_normal(shape)).astype(np.float32), problem.dtype)
        for shape in shapes
    )


def assert_right(problem: Problem, design: HopperDesign, scale: float = 1.0) -> Run:
    q, k, v = arrays_of(problem, scale)
    run = simulate(problem, design, H200, arrays=(q, k, v))
    masks = {"causal": problem.causal, "window": problem.window}
    masks["softmax_scale"] = problem.softmax_scale
    out, lse = attention_blockwise(
        q, k, v, dtype=problem.dtype, threshold=0.0, emulation_freq=0, tile_m=design.tile_m,
        tile_n=design.tile_n, q_stage=design.consumers, **masks,
    )  # fmt: skip
    assert run.outputs is not None
    assert np.array_equal(run.outputs.out, out)
    assert np.array_equal(run.outputs.lse, lse)
    exact, _ = attention_float64(q, k, v, **masks)
    room = 0.05 if problem.dtype == "bf16" else 0.01
    assert np.abs(run.outputs.out - exact).max() <= room * np.abs(exact).max()
    return run


@pytest.mark.parametrize("name", CASES)
def test_the_pipelines_output_is_the_blockwise_reference_bit_for_bit(name: str) -> None:
    assert_right(*design_of(name))


@pytest.mark.parametrize(
    "problem",
    [
        Problem(seqlen_q=1, seqlen_k=1),
        Problem(seqlen_q=5, seqlen_k=0),
        Problem(seqlen_q=129, seqlen_k=127, dtype="fp16"),
        Problem(seqlen_q=500, seqlen_k=100, causal=True),
        Problem(seqlen_q=100, seqlen_k=500, causal=True, head_dim=64),
        Problem(seqlen_q=300, seqlen_k=50, window=(10, 10)),
        Problem(batch=2, heads=2, seqlen_q=300, softmax_scale=0.3),
    ],
    ids=repr,
)
def test_edge_cases_come_out_right(problem: Problem) -> None:
    assert_right(problem, HopperDesign.for_problem(problem, H200))


def test_several_tiles_on_one_cta_keep_their_phases_apart() -> None:
    problem = Problem(heads=2, seqlen_q=512, seqlen_k=300, head_dim=64)
    design = HopperDesign.for_problem(problem, H200, kv_stages=3)
    q, k, v = arrays_of(problem)
    one = H200.with_constants(sms=1)
    run = simulate(problem, design, one, arrays=(q, k, v))
    assert len(set(run.trace.span.where(role="load")["tile"]) - {-1}) == 6
    whole = simulate(problem, design, H200, arrays=(q, k, v))
    assert run.outputs is not None and whole.outputs is not None
    assert np.array_equal(run.outputs.out, whole.outputs.out)


def test_scores_of_wide_spread_are_rescaled_right() -> None:
    assert_right(*design_of("full"), scale=4.0)


def test_products_that_wait_for_nothing_compute_on_what_is_there() -> None:
    problem, design = design_of("full")
    barriers = {"load_Q_full", "load_K_full"}
    faults = tuple(Fault("drop_wait", name) for name in sorted(barriers))
    broken = dataclasses.replace(design, faults=faults)
    run = simulate(problem, broken, H200, arrays=arrays_of(problem), on_hazard="record")
    assert {hazard.barrier for hazard in run.hazards} == barriers
    assert run.outputs is not None and np.isnan(run.outputs.out).any()
