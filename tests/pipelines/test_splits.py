"""Split keys: partial results, the kernel that combines them, and what both take."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from fa4sim import B200, Design, Fault, Problem, Run, simulate
from fa4sim.numerics import attention_blockwise, attention_float64, round_to
from fa4sim.pipelines.call import simulate_call
from fa4sim.pipelines.combine import CombineShape, simulate_combine
from fa4sim.pipelines.fa4.gpu import make_plan
from tests.pipelines.test_numerics import arrays_of

DECODE = {"heads": 8, "kv_heads": 2, "seqlen_q": 1, "seqlen_k": 1000}


def run_of(problem: Problem, seed: int = 0, **changes: Any) -> tuple[Run, tuple[Any, ...], Any]:
    """A run on random arrays, the arrays, and the sink if there is one."""
    arrays = arrays_of(problem, seed)
    sink = None
    if problem.sink:
        sink = np.random.default_rng(seed + 1).standard_normal(problem.heads).astype(np.float32)
    design = Design.for_problem(problem, B200, **changes)
    return simulate(problem, design, arrays=arrays, sink=sink), arrays, sink


def distance(run: Run, arrays: tuple[Any, ...], sink: Any = None) -> tuple[float, float]:
    """Relative error of O and largest error of LSE against float64; same rows see something."""
    problem = run.problem
    out, lse = attention_float64(
        *arrays, causal=problem.causal, window=problem.window, softcap=problem.softcap, sink=sink,
        seqlens_q=problem.seqlens_q, seqlens_k=problem.seqlens_k,
    )  # fmt: skip
    got = run.outputs
    assert got is not None
    seen = np.isfinite(lse)
    assert np.array_equal(seen, np.isfinite(got.lse))
    off = np.linalg.norm(got.out - out) / max(float(np.linalg.norm(out)), 1e-30)
    return float(off), float(np.abs(got.lse[seen] - lse[seen]).max(initial=0.0))


# -- values ------------------------------------------------------------------------------------

SPLIT = {
    "decode": ({**DECODE, "num_splits": 3}, {}),
    "as the heuristic says": ({**DECODE, "num_splits": 0}, {}),
    "more splits than blocks": ({**DECODE, "num_splits": 20}, {}),
    "fp16": ({**DECODE, "num_splits": 4, "dtype": "fp16"}, {}),
    "causal, a sink": (
        {**DECODE, "seqlen_q": 5, "num_splits": 5, "causal": True, "sink": True}, {}),
    "two Q tiles, causal": (
        {"heads": 2, "seqlen_q": 300, "seqlen_k": 900, "num_splits": 3, "causal": True}, {}),
    "fewer keys than queries": (
        {"seqlen_q": 500, "seqlen_k": 200, "num_splits": 2, "causal": True}, {}),
    "window": ({"seqlen_q": 300, "seqlen_k": 900, "num_splits": 3, "window": (200, 0)}, {}),
    "softcap": ({**DECODE, "num_splits": 4, "softcap": 5.0}, {}),
    "odd group": ({"heads": 6, "kv_heads": 2, "seqlen_q": 1, "seqlen_k": 900, "num_splits": 4}, {}),
    "heads not packed": ({**DECODE, "num_splits": 4}, {"pack_gqa": False}),
    "head dim 64": ({**DECODE, "head_dim": 64, "num_splits": 4}, {}),
    "(192, 128)": (
        {"seqlen_q": 1, "seqlen_k": 8300, "head_dim": 192, "head_dim_v": 128, "num_splits": 0},
        {"num_splits": 4}),
    "variable lengths": (
        {"heads": 6, "kv_heads": 2, "seqlens_q": (1, 7, 90, 0), "seqlens_k": (900, 130, 90, 50),
         "num_splits": 4, "causal": True}, {}),
    "variable lengths, some without keys": (
        {"heads": 4, "kv_heads": 1, "seqlens_q": (1, 3, 1), "seqlens_k": (500, 0, 1),
         "num_splits": 3}, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", SPLIT)
def test_combined_partial_results_are_attention(name: str) -> None:
    fields, changes = SPLIT[name]
    problem = Problem(**fields)
    run, arrays, sink = run_of(problem, **changes)
    assert run.design.num_splits > 1 and not run.hazards
    off, lse_off = distance(run, arrays, sink)
    assert off <= {"bf16": 3e-3, "fp16": 4e-4}[problem.dtype]
    assert lse_off < 1e-3


@pytest.mark.parametrize("splits", [2, 5, 8])
def test_splitting_changes_nothing_but_rounding(splits: int) -> None:
    whole, arrays, _ = run_of(Problem(**DECODE))
    parts = simulate(Problem(**DECODE, num_splits=splits), arrays=arrays)
    assert whole.outputs is not None and parts.outputs is not None
    assert np.abs(whole.outputs.out - parts.outputs.out).max() <= 2**-8
    assert np.abs(whole.outputs.lse - parts.outputs.lse).max() < 1e-5


def test_a_fault_in_one_split_spoils_the_whole() -> None:
    problem = Problem(**{**DECODE, "seqlen_k": 4000}, num_splits=2)
    _, arrays, _ = run_of(problem)
    design = Design.for_problem(problem, B200, faults=(Fault("swap_slots", "load_KV_full", 0),))
    with np.errstate(all="ignore"):
        broken = simulate(problem, design, arrays=arrays, on_hazard="record")
    assert broken.hazards
    with pytest.raises(AssertionError):
        off, _ = distance(broken, arrays)
        assert off < 0.05


# -- FP8 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype, limit", [("e4m3", 0.03), ("e5m2", 0.06)])
@pytest.mark.parametrize("splits", [1, 3])
def test_fp8_flows_through_the_pipeline(dtype: str, limit: float, splits: int) -> None:
    problem = Problem(
        heads=4, kv_heads=2, seqlen_q=40, seqlen_k=700, dtype=dtype, causal=True, num_splits=splits
    )
    run, arrays, _ = run_of(problem)
    off, lse_off = distance(run, arrays)
    assert off < limit and lse_off < 1e-4
    assert run.outputs is not None
    assert np.array_equal(run.outputs.out, round_to(run.outputs.out, "bf16"))
    if splits == 1:  # P has 3 or 2 bits of fraction, and that is to be seen
        assert off > limit / 8


def test_descales_belong_to_sequences_and_heads() -> None:
    problem = Problem(batch=2, heads=4, kv_heads=2, seqlen_q=8, seqlen_k=300, dtype="e4m3")
    arrays = arrays_of(problem, 3)
    rng = np.random.default_rng(4)
    q, k, v = (rng.uniform(0.25, 2, (2, 2)).astype(np.float32) for _ in range(3))
    run = simulate(problem, arrays=arrays, descales=(q, k, v))
    per_head = problem.group
    scaled = (
        arrays[0] * np.repeat(q, per_head, axis=1)[:, None, :, None],
        arrays[1] * k[:, None, :, None],
        arrays[2] * v[:, None, :, None],
    )
    off, lse_off = distance(run, scaled)
    assert off < 0.03 and lse_off < 1e-3
    only_v = simulate(problem, arrays=arrays, descales=(None, None, v))
    plain = simulate(problem, arrays=arrays)
    assert only_v.outputs is not None and plain.outputs is not None
    assert np.array_equal(only_v.outputs.lse, plain.outputs.lse)
    assert not np.array_equal(only_v.outputs.out, plain.outputs.out)


@pytest.mark.parametrize(
    "dtype, descales, words",
    [
        ("bf16", (None, None, None), "descales= are for FP8 inputs"),
        ("e4m3", (None, None), r"must be \(q, k, v\)"),
        ("e4m3", (np.ones(2), None, None), r"the descale of q has shape \(2,\); .*needs \(1, 2\)"),
        ("e4m3", (None, np.array([[1, np.nan]]), None), "the descale of k holds nan"),
        ("e4m3", (None, None, np.array([[1, 0]])), "the descale of v holds 0"),
        ("e4m3", (np.full((1, 2), 1e25), np.full((1, 2), 1e25), None), "at some head"),
    ],
)
def test_descales_that_do_not_fit(dtype: str, descales: Any, words: str) -> None:
    problem = Problem(heads=4, kv_heads=2, seqlen_q=8, seqlen_k=300, dtype=dtype)
    with pytest.raises(ValueError, match=words):
        simulate(problem, arrays=arrays_of(problem, 0), descales=descales)
    with pytest.raises(ValueError, match="descales= needs arrays"):
        simulate(problem, descales=descales)


# -- the combine kernel ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "heads, dv, q, splits, tile, max_splits, ctas",
    [
        (32, 128, 1, 18, (8, 128), 32, 4),
        (32, 128, 1, 33, (8, 128), 64, 4),
        (33, 96, 1, 2, (8, 128), 32, 5),
        (32, 64, 3, 2, (16, 64), 16, 6),
        (32, 64, 3, 256, (16, 64), 256, 6),
    ],
)
def test_the_combine_kernels_tiles(
    heads: int, dv: int, q: int, splits: int, tile: tuple[int, int], max_splits: int, ctas: int
) -> None:
    problem = Problem(heads=heads, seqlen_q=q, seqlen_k=40000, head_dim=dv)
    shape = CombineShape.of(problem, [splits])
    assert (shape.tile_m, shape.tile_k) == tile
    assert shape.max_splits == max_splits and len(shape.ctas) == ctas
    assert sum(cta.rows for cta in shape.ctas) == heads * q
    assert shape.stage_bytes == 4096


def test_it_reads_every_partial_result_and_writes_o_once() -> None:
    problem = Problem(heads=32, seqlen_q=40, seqlen_k=8192)
    result = simulate_combine(problem, [5], B200, in_l2=True)
    o, lse = 32 * 40 * 128, 32 * 40
    assert result.totals.l2_bytes == 5 * (o + lse) * 4 + o * 2
    assert result.totals.hbm_bytes == o * 2
    from_hbm = simulate_combine(problem, [5], B200, in_l2=False)
    assert from_hbm.totals.hbm_bytes == from_hbm.totals.l2_bytes
    assert from_hbm.cycles > result.cycles
    least = result.totals.l2_bytes / B200.l2_bytes_per_cycle
    assert result.cycles > least


def test_its_time_grows_with_the_splits_that_follow_one_another() -> None:
    problem = Problem(heads=8, seqlen_q=1, seqlen_k=65536)
    times = [simulate_combine(problem, [s], B200, in_l2=True).cycles for s in (2, 8, 32, 128)]
    assert times == sorted(times)
    # From a few splits on three copies are in flight and one latency buys three of them.
    per_split = (times[3] - times[2]) / 96
    assert per_split == pytest.approx(B200.cp_async_latency_cycles / 3, rel=0.25)


@pytest.mark.parametrize("q", [300, 2000])
def test_rounds_that_repeat_are_not_simulated_again(q: int) -> None:
    problem = Problem(heads=32, seqlen_q=q, seqlen_k=8192)
    reuse = simulate_combine(problem, [4], B200, in_l2=True)
    exact = simulate_combine(problem, [4], B200, in_l2=True, exact=True)
    assert reuse.cycles == pytest.approx(exact.cycles, rel=0.02)
    assert reuse.totals.l2_bytes == pytest.approx(exact.totals.l2_bytes, rel=1e-6)
    assert reuse.events < exact.events or q == 300


def test_no_cycle_of_a_combining_warp_is_unexplained() -> None:
    problem = Problem(heads=32, seqlen_q=20, seqlen_k=8192)
    trace = simulate_combine(problem, [7], B200, in_l2=True).trace
    rows = [
        (row["cta"], row["warp"], row["start"], row["end"])
        for table in (trace.span, trace.wait)
        for row in table.rows()
    ]
    lives: dict[tuple[Any, Any], list[tuple[int, int]]] = {}
    for cta, warp, start, end in rows:
        if end > start:
            lives.setdefault((cta, warp), []).append((start, end))
    assert len(lives) == 8 * len({cta for cta, _ in lives})
    for spans in lives.values():
        spans.sort()
        assert all(a[1] == b[0] for a, b in pairwise(spans))


# -- the call ----------------------------------------------------------------------------------


def test_a_call_with_splits_is_two_kernels_and_a_launch_between_them() -> None:
    problem = Problem(**{**DECODE, "seqlen_k": 20000}, num_splits=0)
    report = simulate(problem).report
    attention, combine = report.kernels
    launch = round(B200.launch_seconds * B200.clock_hz)
    assert (attention.name, combine.name) == ("attention", "combine")
    assert (attention.start, combine.start) == (0, attention.cycles + launch)
    assert report.cycles == combine.start + combine.cycles
    assert report.ctas == attention.ctas == 2 * 74


def test_launched_as_dependent_the_second_kernel_comes_earlier() -> None:
    problem = Problem(**{**DECODE, "seqlen_k": 20000}, num_splits=0)
    design = Design.for_problem(problem, B200)
    apart = simulate_call(problem, design, B200)
    together = simulate_call(problem, replace(design, dependent_launch=True), B200)
    saved = B200.launch_seconds - B200.dependent_launch_seconds
    assert apart.cycles - together.cycles >= round(saved * B200.clock_hz)
    assert apart.attention.cycles == together.attention.cycles


def test_lengths_that_differ_are_cut_by_their_lengths() -> None:
    problem = Problem(
        heads=32, kv_heads=8, seqlens_q=(1,) * 4, seqlens_k=(60000, 6000, 600, 60), num_splits=0
    )
    design = Design.for_problem(problem, B200)
    assert (design.scheduler, design.num_splits) == ("dynamic_varlen", 4)
    plan = make_plan(problem, design, B200)
    assert plan.splits == (4, 2, 1, 1)
    report = simulate(problem, design).report
    assert [kernel.name for kernel in report.kernels] == ["prepare", "attention", "combine"]
    assert report.kernels[0].cycles < 3000


@pytest.mark.parametrize("dtype", ["bf16", "e4m3"])
def test_each_sequence_has_the_bits_of_its_own_number_of_splits(dtype: str) -> None:
    problem = Problem(
        heads=8, kv_heads=2, seqlens_q=(300, 1, 5), seqlens_k=(100, 500, 1300), num_splits=7,
        causal=True, dtype=dtype,
    )  # fmt: skip
    run, (q, k, v), _ = run_of(problem)
    splits = make_plan(problem, run.design, B200).splits
    assert len(set(splits)) == 3 and run.outputs is not None
    for b, own in enumerate(splits):
        rows, keys = problem.lengths(b)
        out, lse = attention_blockwise(
            q[b : b + 1, :rows], k[b : b + 1, :keys], v[b : b + 1, :keys], num_splits=own,
            causal=True, dtype=dtype, pack_gqa=run.design.pack_gqa, q_stage=run.design.q_stages,
            threshold=run.design.rescale_threshold, max_offset=run.design.max_offset,
            emulation_freq=run.design.exp2_period, emulation_res=run.design.exp2_emulated,
            emulation_start=run.design.exp2_first_fragment,
            split_pv=run.design.p_first_columns / run.design.tile_n,
        )  # fmt: skip
        assert np.array_equal(run.outputs.out[b, :rows], out[0])
        assert np.array_equal(run.outputs.lse[b, :, :rows], lse[0])


def test_partial_results_go_to_hbm_only_if_l2_is_too_small() -> None:
    problem = Problem(heads=16, seqlen_q=2048, seqlen_k=8192, num_splits=4)
    design = Design.for_problem(problem, B200)
    small = B200.with_constants(l2_bytes=8 * 2**20)
    moved = [simulate_call(problem, design, m).totals.hbm_bytes for m in (B200, small)]
    partial = 4 * 16 * 2048 * 129 * 4
    assert not any(t.o_to_l2 for t in make_plan(problem, design, small).tiles)
    assert moved[1] - moved[0] >= 2 * partial * 0.99


def test_a_sequence_without_keys_loses_its_sink_though_it_has_one_split() -> None:
    problem = Problem(
        heads=4, kv_heads=1, seqlens_q=(1, 300, 5), seqlens_k=(1, 0, 1300), num_splits=5, sink=True
    )
    plan = make_plan(problem, Design.for_problem(problem, B200), B200)
    assert plan.splits == (1, 1, 5)
    firsts = [tile for tile in plan.tiles if tile.split == 0]
    assert all(bool(tile.blocks) == (tile.batch != 1) for tile in firsts)
    run, _, _ = run_of(problem)
    assert run.outputs is not None
    assert np.isneginf(run.outputs.lse[1]).all() and not run.outputs.out[1].any()
    assert np.isfinite(run.outputs.lse[0, :, 0]).all()


def test_empty_splits_take_a_moment_and_no_memory() -> None:
    problem = Problem(**DECODE, num_splits=20)
    plan = make_plan(problem, Design.for_problem(problem, B200), B200)
    empty = [tile for tile in plan.tiles if not tile.blocks]
    assert len(empty) == 2 * (20 - 8)
    run = simulate(problem, scope="cta", tile=empty[0].index)
    assert run.report.cycles < 2500 and run.report.units["tensor"] == 0
    assert run.report.units["hbm"] == 0


def test_splitting_pays_where_sms_are_idle_and_costs_where_they_are_not() -> None:
    def time(batch: int, keys: int, splits: int) -> float:
        problem = Problem(
            batch=batch, heads=32, kv_heads=4, seqlen_q=1, seqlen_k=keys, num_splits=splits
        )
        return simulate(problem).report.time_us

    assert time(1, 65536, 1) > 5 * time(1, 65536, 0)
    assert time(1, 256, 2) > time(1, 256, 1)  # two blocks: a second launch costs more
    assert time(37, 8192, 1) < time(37, 8192, 3)


# -- rows --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields, useful",
    [
        ({"heads": 8, "seqlen_q": 1}, 1 / 128),
        ({"heads": 8, "kv_heads": 1, "seqlen_q": 1}, 8 / 128),
        ({"heads": 6, "kv_heads": 2, "seqlen_q": 1}, 3 / 128),
        ({"seqlen_q": 128}, 1.0),
        ({"seqlen_q": 129}, 129 / 256),
        ({"seqlen_q": 4096}, 1.0),
        ({"heads": 8, "kv_heads": 1, "seqlen_q": 1, "num_splits": 4}, 8 / 128),
    ],
)
def test_rows_that_the_problem_does_not_have_are_counted(
    fields: dict[str, Any], useful: float
) -> None:
    assert simulate(Problem(**fields, seqlen_k=2048)).report.useful_rows == pytest.approx(useful)


def test_padding_is_neither_read_nor_written() -> None:
    problem = Problem(heads=1, seqlen_q=1, seqlen_k=2048, causal=True)
    report = simulate(problem, scope="cta").report
    # Two rows of 256 bytes, Q and O, beside K and V.
    moved = report.units["hbm"] * B200.hbm_bytes_per_cycle / 1 * report.cycles
    assert moved == pytest.approx(2048 * 512 + 2 * 256, abs=64)
