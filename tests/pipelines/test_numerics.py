"""With arrays attached, what comes out of the pipeline is attention, bit for bit the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fa4sim import B200, Design, Problem, Run, simulate
from fa4sim.numerics import attention_blockwise, attention_float64, round_to
from fa4sim.pipelines.fa4.data import Data
from fa4sim.pipelines.fa4.tiles import work_tile


def arrays_of(problem: Problem, seed: int, scale: float = 1.0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    shapes = (
        (problem.batch, problem.seqlen_q, problem.heads, problem.head_dim),
        (problem.batch, problem.seqlen_k, problem.kv_heads, problem.head_dim),
        (problem.batch, problem.seqlen_k, problem.kv_heads, problem.dim_v),
    )
    return tuple(
        round_to((scale * rng.standard_normal(shape)).astype(np.float32), problem.dtype)
        for shape in shapes
    )


def run_both(
    problem: Problem, changes: dict[str, Any] | None = None, seed: int = 0, scale: float = 1.0
) -> tuple[Run, tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    design = Design.for_problem(problem, B200, **(changes or {}))
    q, k, v = arrays_of(problem, seed, scale)
    sink = None
    if problem.sink:
        rng = np.random.default_rng(seed + 1)
        sink = round_to(rng.standard_normal(problem.heads).astype(np.float32), problem.dtype)
    run = simulate(problem, design, arrays=(q, k, v), sink=sink)
    options: dict[str, Any] = {
        "causal": problem.causal,
        "window": problem.window,
        "softmax_scale": problem.softmax_scale,
        "softcap": problem.softcap,
        "sink": sink,
        "seqlens_q": problem.seqlens_q,
        "seqlens_k": problem.seqlens_k,
    }
    blockwise = attention_blockwise(
        q, k, v, **options, dtype=problem.dtype, tile_n=design.tile_n, q_stage=design.q_stages,
        threshold=design.rescale_threshold, emulation_freq=design.exp2_period,
        emulation_res=design.exp2_emulated, emulation_start=design.exp2_first_fragment,
        emulation_degree=design.exp2_degree, pack_gqa=design.pack_gqa,
        split_pv=design.p_first_columns / design.tile_n, max_offset=design.max_offset,
        num_splits=design.num_splits,
    )  # fmt: skip
    return run, blockwise, attention_float64(q, k, v, **options)


def assert_right(problem: Problem, changes: dict[str, Any] | None = None, **more: Any) -> Run:
    run, (out, lse), (exact, exact_lse) = run_both(problem, changes, **more)
    got = run.outputs
    assert got is not None
    assert np.array_equal(got.out, out) and np.array_equal(got.lse, lse)
    limit = {"bf16": 3e-3, "fp16": 4e-4, "e4m3": 0.03, "e5m2": 0.06}[problem.dtype]
    assert np.linalg.norm(got.out - exact) <= limit * max(np.linalg.norm(exact), 1e-30)
    seen = np.isfinite(exact_lse)
    assert np.array_equal(seen, np.isfinite(got.lse))
    assert np.abs(got.lse[seen] - exact_lse[seen]).max(initial=0) < 1e-3
    return run


DESIGNS: dict[str, tuple[Problem, dict[str, Any]]] = {
    "a pair": (Problem(heads=2, seqlen_q=512), {}),
    "causal": (Problem(heads=1, seqlen_q=640, causal=True), {}),
    "head dim 64": (Problem(seqlen_q=384, head_dim=64), {}),
    "head dim 96, fp16": (Problem(seqlen_q=300, head_dim=96, dtype="fp16"), {}),
    "head dims that need padding": (Problem(seqlen_q=300, head_dim=72, head_dim_v=40), {}),
    "(192, 128) in the uneven ring": (
        Problem(seqlen_q=512, head_dim=192, head_dim_v=128, causal=True), {}),
    "(192, 128) as a pair": (Problem(seqlen_q=512, head_dim=192, head_dim_v=128), {}),
    "grouped heads, packed": (Problem(heads=4, kv_heads=2, seqlen_q=200, seqlen_k=300), {}),
    "grouped heads, not packed": (
        Problem(heads=4, kv_heads=2, seqlen_q=200, seqlen_k=300), {"pack_gqa": False}),
    "a group that does not divide 128": (Problem(heads=6, kv_heads=2, seqlen_q=200), {}),
    "one Q tile": (Problem(seqlen_q=100, seqlen_k=500), {}),
    "one Q tile, odd group": (Problem(heads=6, kv_heads=2, seqlen_q=30, seqlen_k=300), {}),
    "window": (Problem(seqlen_q=600, window=(100, 20)), {}),
    "window and sink": (Problem(heads=2, seqlen_q=300, window=(100, 0), sink=True), {}),
    "softcap": (Problem(seqlen_q=256, softcap=15.0), {}),
    "variable lengths": (
        Problem(heads=1, seqlens_q=(300, 0, 17, 129), seqlens_k=(300, 5, 0, 400)), {}),
    "variable lengths, packed, causal, sink": (
        Problem(heads=4, kv_heads=1, seqlens_q=(90, 3), seqlens_k=(300, 0), causal=True,
                sink=True), {}),
    "dynamic scheduler": (
        Problem(heads=2, seqlen_q=512, causal=True), {"scheduler": "dynamic"}),
    "P in one part": (Problem(seqlen_q=256), {"p_first_columns": 128}),
    "P in halves, stored early": (
        Problem(seqlen_q=256), {"p_first_columns": 64, "p_store_early": True}),
    "blocks of 64 keys": (Problem(seqlen_q=256), {"tile_n": 64}),
    "two ring slots": (Problem(seqlen_q=256, seqlen_k=640), {"kv_stages": 2}),
    "no software exponential": (Problem(seqlen_q=256), {"exp2_period": 0}),
    "half of the exponentials in software, degree 5": (
        Problem(seqlen_q=256), {"exp2_period": 8, "exp2_degree": 5}),
    "always rescale": (Problem(seqlen_q=256, seqlen_k=512), {"rescale_threshold": 0.0}),
    "split": (Problem(heads=4, kv_heads=2, seqlen_q=1, seqlen_k=900, num_splits=3), {}),
    "more splits than blocks": (Problem(heads=2, seqlen_q=1, seqlen_k=500, num_splits=9), {}),
    "split, causal, two Q tiles": (
        Problem(heads=2, seqlen_q=300, seqlen_k=900, num_splits=3, causal=True), {}),
    "split, window, sink": (
        Problem(heads=2, seqlen_q=300, seqlen_k=900, num_splits=3, window=(200, 0), sink=True),
        {}),
    "split, odd group": (
        Problem(heads=6, kv_heads=2, seqlen_q=9, seqlen_k=900, num_splits=4, dtype="fp16"), {}),
    "split, head dim 64": (Problem(seqlen_q=9, seqlen_k=900, head_dim=64, num_splits=4), {}),
    "e4m3": (Problem(heads=2, seqlen_q=512, dtype="e4m3"), {}),
    "e4m3, causal": (Problem(heads=4, kv_heads=2, seqlen_q=300, causal=True, dtype="e4m3"), {}),
    "e5m2": (Problem(seqlen_q=384, head_dim=64, dtype="e5m2"), {}),
    "e4m3, split": (
        Problem(heads=4, kv_heads=2, seqlen_q=1, seqlen_k=900, num_splits=3, dtype="e4m3"), {}),
    "e5m2, split, softcap": (
        Problem(heads=2, seqlen_q=40, seqlen_k=900, num_splits=5, dtype="e5m2", softcap=9.0), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", DESIGNS)
def test_the_pipelines_output_is_the_blockwise_reference_bit_for_bit(name: str) -> None:
    problem, changes = DESIGNS[name]
    assert_right(problem, changes)


@pytest.mark.parametrize(
    "problem",
    [
        Problem(seqlen_q=1, seqlen_k=1),
        Problem(seqlen_q=1, seqlen_k=1, causal=True),
        Problem(seqlen_q=5, seqlen_k=0),
        Problem(heads=2, seqlen_q=5, seqlen_k=0, sink=True),
        Problem(seqlen_q=129, seqlen_k=127),
        Problem(seqlen_q=500, seqlen_k=100, causal=True),
        Problem(seqlen_q=257, seqlen_k=1, causal=True),
        Problem(seqlen_q=300, seqlen_k=50, window=(10, 10)),
        Problem(seqlen_q=100, head_dim=8),
        Problem(seqlen_q=300, head_dim=16, causal=True),
    ],
    ids=repr,
)
def test_the_edge_cases_that_users_hit_come_out_right(problem: Problem) -> None:
    assert_right(problem)


def test_three_tiles_on_one_cta_keep_their_phases_apart() -> None:
    # 150 tiles on 148 clusters would do as well; a persistent list of one cluster is quicker.
    problem = Problem(batch=1, heads=1, seqlen_q=256 * 4, seqlen_k=256, head_dim=64)
    design = Design.for_problem(problem, B200)
    machine = B200.with_constants(sms=1)
    q, k, v = arrays_of(problem, 3)
    run = simulate(problem, design, machine, arrays=(q, k, v))
    assert len(set(run.trace.span.where(role="mma")["tile"]) - {-1}) == 4
    out, lse = attention_blockwise(q, k, v, emulation_freq=design.exp2_period)
    assert run.outputs is not None
    assert np.array_equal(run.outputs.out, out) and np.array_equal(run.outputs.lse, lse)


def test_scores_of_wide_spread_make_the_correction_rescale() -> None:
    run = assert_right(Problem(seqlen_q=256, seqlen_k=1024), scale=3.0)
    assert run.outputs is not None
    assert 0 < run.outputs.rescales < run.outputs.votes
    assert len(run.trace.span.where(op="rescale O")) > 0


def test_the_obligatory_rescale_of_a_causal_tile_happens_with_and_without_data() -> None:
    problem = Problem(seqlen_q=256, seqlen_k=256, causal=True)
    with_data = assert_right(problem)
    assert with_data.outputs is not None
    assert (with_data.outputs.rescales, with_data.outputs.votes) == (4, 8)
    rescaled = with_data.trace.span.where(op="rescale O", unit="tmem", stage=0)
    without = simulate(problem, scope="cta").trace.span.where(op="rescale O", unit="tmem", stage=0)
    assert sorted(set(rescaled["warp"])) == sorted(set(without["warp"])) == [8, 9, 10, 11]


@pytest.mark.parametrize(
    ("name", "shape"), [("q", (1, 256, 1, 64)), ("k", (1, 256, 2, 128)), ("v", (1, 1, 1, 128))]
)
def test_arrays_that_do_not_fit_are_refused_with_their_shape(
    name: str, shape: tuple[int, ...]
) -> None:
    problem = Problem(seqlen_q=256)
    arrays = dict(zip("qkv", arrays_of(problem, 0), strict=True))
    arrays[name] = np.zeros(shape, dtype=np.float32)
    with pytest.raises(ValueError, match=rf"{name} has shape .*needs \(1, 256, 1, 128\)"):
        simulate(problem, arrays=tuple(arrays.values()))


def test_a_sink_must_come_with_a_problem_that_has_one() -> None:
    arrays = arrays_of(Problem(seqlen_q=64), 0)
    with pytest.raises(ValueError, match="set sink=True"):
        simulate(Problem(seqlen_q=64), arrays=arrays, sink=[0.0])
    with pytest.raises(ValueError, match=r"give sink= with shape \(1,\)"):
        simulate(Problem(seqlen_q=64, sink=True), arrays=arrays)


def test_rows_past_the_end_of_a_packed_sequence_are_those_of_the_next() -> None:
    problem = Problem(heads=1, seqlens_q=(130, 40), seqlens_k=(200, 100))
    design = Design.for_problem(problem, B200)
    q = np.zeros((2, 130, 1, 128), np.float32)
    q[0] += 1
    q[1, :40] += 2
    k = np.zeros((2, 200, 1, 128), np.float32)
    data = Data(problem, design, q, k, k)
    rows = data._q_rows(work_tile(problem, design, 0, 0, 0, 0), 128)[:, 0]
    assert rows.tolist() == [1] * 2 + [2] * 40 + [0] * 86
    rows = data._q_rows(work_tile(problem, design, 1, 0, 0, 1), 0)[:, 0]
    assert rows.tolist() == [2] * 40 + [0] * 88


def test_rows_past_the_end_of_a_padded_sequence_are_zero() -> None:
    problem = Problem(heads=1, batch=2, seqlen_q=130, seqlen_k=100)
    design = Design.for_problem(problem, B200)
    q, k = np.ones((2, 130, 1, 128), np.float32), np.zeros((2, 100, 1, 128), np.float32)
    rows = Data(problem, design, q, k, k)._q_rows(work_tile(problem, design, 0, 0, 0, 0), 128)
    assert rows[:, 0].tolist() == [1] * 2 + [0] * 126
