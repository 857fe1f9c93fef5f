"""Whole runs: reports that add up, times that no machine could beat, and refusals.

What the pipeline does inside is tested in tests/pipelines; here a run is looked at from outside.
"""

import dataclasses
import math
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fa4sim
from fa4sim import B200, B300, Design, Problem, simulate
from fa4sim.analysis import Rates, block_work, bounds
from fa4sim.numerics.masks import block_steps
from fa4sim.pipelines.fa4.tiles import WorkTile, first_row
from fa4sim.pipelines.fa4.votes import RescaleVotes
from fa4sim.simulate import tile_flops

UNEQUAL = {"head_dim": 192, "head_dim_v": 128}
SHAPES = {
    "pairs": {"heads": 4, "seqlen_q": 2048},
    "pairs that stay": {"batch": 4, "heads": 16, "seqlen_q": 2048},
    "causal": {"heads": 4, "seqlen_q": 2048, "causal": True},
    "causal, several waves": {"batch": 2, "heads": 16, "seqlen_q": 4096, "causal": True},
    "fewer keys than queries": {"seqlen_q": 1000, "seqlen_k": 300, "causal": True},
    "more keys than queries": {"heads": 3, "seqlen_q": 300, "seqlen_k": 5000, "causal": True},
    "window": {"heads": 4, "seqlen_q": 4096, "window": (511, 0)},
    "head dim 64": {"heads": 8, "seqlen_q": 2048, "head_dim": 64},
    "head dim 16": {"heads": 8, "seqlen_q": 2048, "head_dim": 16},
    "padded head dims": {"heads": 2, "seqlen_q": 1000, "head_dim": 72, "head_dim_v": 40},
    "(192, 128)": {"heads": 8, "seqlen_q": 2048, **UNEQUAL},
    "(192, 128), causal": {"heads": 8, "seqlen_q": 2048, "causal": True, **UNEQUAL},
    "FP8": {"heads": 8, "seqlen_q": 2048, "dtype": "e4m3"},
    "FP8, causal": {"heads": 8, "seqlen_q": 2048, "dtype": "e5m2", "causal": True},
    "one query": {"heads": 64, "seqlen_q": 1, "seqlen_k": 4096},
    "one query, one key": {"seqlen_q": 1, "seqlen_k": 1},
    "packed heads": {"heads": 16, "kv_heads": 2, "seqlen_q": 1024},
    "odd group": {"heads": 12, "kv_heads": 4, "seqlen_q": 700},
    "variable lengths": {"heads": 8, "seqlens_q": (9, 1000, 0, 3000), "seqlens_k": (9, 99, 5, 0)},
    "variable lengths, causal": {"heads": 8, "seqlens_q": (100, 1000, 0, 3000), "causal": True},
    "variable keys": {"heads": 8, "seqlen_q": 512, "seqlens_k": (100, 1000, 0, 3000)},
    "softcap and sink": {"heads": 4, "seqlen_q": 1024, "softcap": 30.0, "sink": True},
    "split": {"heads": 8, "kv_heads": 2, "seqlen_q": 1, "seqlen_k": 20000, "num_splits": 0},
    "split, causal": {"heads": 4, "seqlen_q": 1000, "causal": True, "num_splits": 3},
    "split, more than blocks": {"heads": 4, "seqlen_q": 7, "seqlen_k": 900, "num_splits": 20},
    "split, variable lengths": {
        "heads": 8,
        "kv_heads": 2,
        "seqlens_q": (1, 1, 300, 0, 1),
        "seqlens_k": (9000, 1, 300, 5, 0),
        "num_splits": 0,
    },
}
MACHINES = {"B200": B200, "B300": B300}
CASES = [(name, machine) for name in SHAPES for machine in MACHINES]


@cache
def run_of(name, machine="B200"):
    return simulate(Problem(**SHAPES[name]), machine=MACHINES[machine])


def cycles(machine=B200, changes=None, **fields):
    problem = Problem(**fields)
    design = Design.for_problem(problem, machine, **(changes or {}))
    return simulate(problem, design, machine).report.cycles


# -- the report --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHAPES)
def test_the_figures_of_a_report_agree_with_each_other(name):
    run = run_of(name)
    report, machine = run.report, run.machine
    assert report.launch_us == machine.launch_seconds * 1e6
    assert report.time_us == pytest.approx(
        report.launch_us + report.cycles / machine.clock_hz * 1e6
    )
    assert report.tflops == pytest.approx(run.problem.flops / report.time_us / 1e6)
    assert (
        report.sms == machine.sms and 0 < report.ctas <= len(run.occupancy) * run.design.cta_group
    )
    assert 0 < report.detailed_runs <= max(len(run.occupancy), sum(k.ctas for k in report.kernels))
    assert [kernel.name for kernel in report.kernels][-1:] == (
        ["combine"] if run.design.num_splits > 1 else ["attention"]
    )
    assert report.events > 0 and report.wall_s > 0
    assert report.bottleneck and report.evidence


@pytest.mark.parametrize("name, machine", CASES)
def test_every_unit_is_busy_for_a_part_of_the_time(name, machine):
    report = run_of(name, machine).report
    named = {"tensor", "mufu", "fma", "alu", "issue", "smem", "tmem", "l2", "hbm"}
    assert set(report.units) == named
    for unit, busy in report.units.items():
        assert 0 < busy <= 1, unit


@pytest.mark.parametrize("name", SHAPES)
def test_waits_are_parts_of_lives_longest_first(name):
    run = run_of(name)
    shares = [wait.share for wait in run.report.waits]
    assert shares == sorted(shares, reverse=True) and all(0 < share <= 1 for share in shares)
    by_role = {}
    for wait in run.report.waits:
        assert 0 < wait.cycles <= run.report.cycles
        by_role[wait.role] = by_role.get(wait.role, 0) + wait.share
    assert all(share <= 1 + 1e-9 for share in by_role.values())
    roles = {"load", "mma", "softmax0", "correction"}
    assert roles <= set(by_role)


@pytest.mark.parametrize("name", SHAPES)
def test_the_trace_says_what_it_is_a_trace_of(name):
    run = run_of(name)
    meta = run.trace.meta
    assert meta["machine"] == "B200" and meta["clock_hz"] == B200.clock_hz
    assert meta["problem"]["heads"] == run.problem.heads
    assert meta["design"]["kv_stages"] == run.design.kv_stages == len(meta["ring_slots"])
    assert run.trace.clock == "cycles" and len(run.trace.span) > 0
    assert run.hazards == () and run.outputs is None


# -- bounds ------------------------------------------------------------------------------------


def work_per_block(run):
    design = run.design
    return block_work(
        design.work_rows,
        design.tile_n,
        design.head_dim_padded,
        design.head_dim_v_padded,
        element_bytes=run.problem.element_bytes,
        cta_group=design.cta_group,
        emulated=design.emulated_share,
    )


def rates_of(run):
    machine = run.machine
    return Rates(
        tensor_flops_per_cycle=machine.tensor_flops_per_cycle(run.problem.element_bytes),
        smem_bytes_per_cycle=machine.smem_bytes_per_cycle,
        mufu_exps_per_cycle=128 / machine.mufu_cycles_per_warp,
        l2_bytes_per_cycle=machine.l2_bytes_per_cycle,
        hbm_bytes_per_cycle=machine.hbm_bytes_per_cycle,
    )


def blocks_by_sm(run):
    blocks = {}
    for sm, _, _, tiles in run.occupancy:
        done = sum(run.gpu.plan.tiles[tile].blocks for tile in tiles)
        for rank in range(run.design.cta_group):
            blocks[sm + rank] = blocks.get(sm + rank, 0) + done
    return blocks


@pytest.mark.parametrize("name, machine", CASES)
def test_no_sm_does_its_work_faster_than_its_units_can(name, machine):
    run = run_of(name, machine)
    limits = bounds(work_per_block(run), rates_of(run))
    ends = {}
    for sm, _, end, _ in run.occupancy:
        for rank in range(run.design.cta_group):
            ends[sm + rank] = max(end, ends.get(sm + rank, 0))
    for sm, blocks in blocks_by_sm(run).items():
        for unit in ("tensor", "smem", "mufu"):
            assert ends[sm] >= blocks * limits[unit], (sm, unit)


@pytest.mark.parametrize("name, machine", CASES)
def test_units_are_busy_for_at_least_the_work_there_is(name, machine):
    run = run_of(name, machine)
    limits = bounds(work_per_block(run), rates_of(run))
    blocks = sum(blocks_by_sm(run).values())
    worked = {
        unit: busy * run.report.cycles * run.report.sms for unit, busy in run.report.units.items()
    }
    assert worked["tensor"] == pytest.approx(blocks * limits["tensor"])
    assert worked["smem"] >= blocks * limits["smem"]
    assert worked["mufu"] >= blocks * limits["mufu"]


@pytest.mark.parametrize("name, machine", CASES)
def test_no_run_moves_q_o_and_the_keys_it_sees_faster_than_hbm(name, machine):
    run = run_of(name, machine)
    problem, design = run.problem, run.design
    rows = sum(problem.lengths(b)[0] for b in range(problem.batch))
    size = rows * problem.heads * (problem.head_dim + problem.dim_v) * problem.element_bytes
    if not problem.is_local:
        seen = {
            (tile.batch, tile.head if design.pack_gqa else tile.head // problem.group, step.n_block)
            for tile in run.gpu.plan.tiles
            for step in tile.steps
        }
        for batch, _, block in seen:
            keys = min(design.tile_n, problem.lengths(batch)[1] - block * design.tile_n)
            size += max(0, keys) * (problem.head_dim + problem.dim_v) * problem.element_bytes
    assert run.report.cycles >= size / run.machine.hbm_bytes_per_cycle


@settings(max_examples=25, deadline=None)
@given(
    heads=st.sampled_from([(1, 1), (3, 3), (8, 2)]), q=st.integers(1, 1500),
    k=st.integers(1, 1500), d=st.sampled_from([(16, 16), (64, 64), (128, 128), (192, 128)]),
    mask=st.sampled_from([{}, {"causal": True}, {"window": (300, 40)}]),
    sms=st.sampled_from([2, 5, 148]), dtype=st.sampled_from(["bf16", "e4m3"]),
)  # fmt: skip
def test_no_problem_beats_the_roofline(heads, q, k, d, mask, sms, dtype):
    try:
        problem = Problem(
            heads=heads[0], kv_heads=heads[1], seqlen_q=q, seqlen_k=k, head_dim=d[0],
            head_dim_v=d[1], dtype=dtype, **mask,
        )  # fmt: skip
    except ValueError:  # a window that shows nobody anything
        return
    run = simulate(problem, machine=B200.with_constants(sms=sms))
    blocks = sum(blocks_by_sm(run).values())
    limits = bounds(work_per_block(run), rates_of(run))
    assert run.report.cycles * sms >= blocks * max(limits.values())
    seconds = run.report.time_us * 1e-6
    peak = run.machine.tensor_flops_per_cycle(problem.element_bytes) * sms * run.machine.clock_hz
    visible = sum(problem.visible_pairs(*problem.lengths(b)) for b in range(problem.batch))
    needed = 2 * problem.heads * visible * (problem.head_dim + problem.dim_v)
    assert seconds >= needed / peak


# -- the whole GPU is the sum of its clusters --------------------------------------------------


@pytest.mark.parametrize("name", SHAPES)
def test_every_tile_runs_once_and_no_sm_does_two_things_at_once(name):
    run = run_of(name)
    plan = run.gpu.plan
    assert sorted(t for _, _, _, tiles in run.occupancy for t in tiles) == [
        tile.index for tile in plan.tiles
    ]
    assert max(end for _, _, end, _ in run.occupancy) == run.gpu.cycles
    assert run.design.num_splits > 1 or run.gpu.cycles == run.report.cycles
    by_sm = {}
    for sm, start, end, _ in run.occupancy:
        assert 0 <= sm <= run.machine.sms - run.design.cta_group and sm % run.design.cta_group == 0
        assert 0 <= start < end
        by_sm.setdefault(sm, []).append((start, end))
    turnover = run.machine.cta_turnover_cycles
    for spans in by_sm.values():
        for (_, end), (start, _) in pairwise(sorted(spans)):
            assert start >= end + turnover


@pytest.mark.parametrize("name", ["pairs", "causal", "window", "one query", "odd group"])
def test_a_tile_that_is_placed_took_as_long_as_alone(name):
    run = run_of(name)
    for sm, start, end, tiles in run.occupancy[:: max(1, len(run.occupancy) // 3)]:
        alone = simulate(run.problem, run.design, run.machine, scope="cta", tile=tiles[0])
        assert alone.report.cycles == end - start, sm


@pytest.mark.parametrize("name", ["causal", "pairs", "variable lengths"])
def test_one_cta_is_reported_for_itself(name):
    run = run_of(name)
    one = simulate(run.problem, run.design, run.machine, scope="cta")
    report = one.report
    assert (report.sms, report.ctas, report.launch_us) == (run.design.cta_group,) * 2 + (0,)
    assert report.time_us == pytest.approx(report.cycles / run.machine.clock_hz * 1e6)
    blocks = run.gpu.plan.tiles[0].blocks
    flops = tile_flops(run.problem, run.design, blocks)
    assert report.tflops == pytest.approx(flops / report.time_us / 1e6)
    assert one.occupancy == [] and one.trace.repeats == []
    assert one.trace.end == report.cycles


# -- same inputs, same run ---------------------------------------------------------------------


def facts(report):
    return {k: v for k, v in dataclasses.asdict(report).items() if k != "wall_s"}


@pytest.mark.parametrize("name", ["causal", "pairs", "variable lengths, causal"])
def test_the_same_inputs_give_the_same_run(name):
    first, again = run_of(name), simulate(Problem(**SHAPES[name]))
    assert facts(first.report) == facts(again.report)
    assert first.occupancy == again.occupancy
    assert first.trace.strings == again.trace.strings
    for table in ("span", "wait", "arrive", "life", "counter"):
        assert np.array_equal(first.trace.table(table).array, again.trace.table(table).array)


def test_the_seed_draws_the_votes_and_nothing_else():
    problem = Problem(heads=2, seqlen_q=1024, seqlen_k=2048)
    lazy = [facts(simulate(problem, seed=seed).report) for seed in (0, 1, 2)]
    assert lazy[0] == lazy[1] == lazy[2], "with a threshold nothing is left to chance"
    eager = Design.for_problem(problem, B200, rescale_threshold=0.0)
    runs = [simulate(problem, eager, seed=seed).report.cycles for seed in range(6)]
    assert len(set(runs)) > 1
    assert runs[0] == simulate(problem, eager, seed=0).report.cycles
    assert min(runs) > lazy[0]["cycles"], "more rescales take longer"


# -- more and less -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"heads": 4, "batch": 2, "causal": True, "seqlen_q": 1024},
        {"heads": 8, "seqlen_q": 768, "head_dim": 64},
        {"heads": 5, "seqlen_q": 2048, "window": (300, 0)},
    ],
    ids=str,
)
def test_more_sms_never_take_longer(fields):
    times = [cycles(B200.with_constants(sms=n), **fields) for n in (1, 2, 5, 8, 16, 31, 64, 148)]
    assert times == sorted(times, reverse=True)
    assert times[0] > 7 * times[3]


@pytest.mark.parametrize("fields", [{}, {"head_dim": 64}, {"heads": 2, "head_dim": 16}], ids=str)
def test_more_keys_never_take_less(fields):
    lengths = (1, 128, 129, 256, 300, 512, 1000, 2048, 4096)
    times = [cycles(seqlen_q=256, seqlen_k=n, **fields) for n in lengths]
    assert times == sorted(times)
    assert times[1] == times[0] and times[2] == times[3], "a block is a block"


@pytest.mark.parametrize("fields", [{"heads": 2}, {"heads": 2, "causal": True}], ids=str)
def test_more_queries_never_take_less(fields):
    times = [cycles(seqlen_q=n, **fields) for n in (1, 128, 129, 256, 512, 1024, 1500, 2048)]
    assert times == sorted(times) and times[1] < 1.2 * times[0]  # rows of padding are not loaded


@pytest.mark.parametrize("fields", [{"causal": True}, {}], ids=str)
def test_more_sequences_hardly_take_less(fields):
    # Sharing HBM with others may smooth a tile's start by a few cycles; work takes its time.
    times = [cycles(seqlen_q=1024, batch=b, **fields) for b in (1, 4, 16, 38, 75, 150)]
    assert all(later >= 0.99 * earlier for earlier, later in pairwise(times))
    assert times[-1] > 2 * times[0]


def test_a_mask_that_hides_half_saves_time_on_a_full_gpu():
    full = cycles(heads=16, seqlen_q=4096, changes={"cta_group": 1})
    causal = cycles(heads=16, seqlen_q=4096, causal=True)
    local = cycles(heads=16, seqlen_q=4096, window=(512, 0))
    assert local < causal < full


@pytest.mark.parametrize(
    "constant, factor",
    [("mufu_cycles_per_warp", 2), ("fma_cycles_per_warp", 3), ("mbarrier_resume_cycles", 4),
     ("tma_l2_latency_cycles", 4), ("tmem_load_latency_cycles", 8), ("cta_prologue_cycles", 5),
     ("hbm_bytes_per_second", 0.1), ("smem_bytes_per_cycle", 0.5),
     ("tensor_flops_per_cycle_16bit", 0.25)],
)  # fmt: skip
def test_a_slower_machine_is_slower(constant, factor):
    fields = {"heads": 8, "seqlen_q": 1024, "causal": True}
    slower = B200.with_constants(**{constant: getattr(B200, constant) * factor})
    assert cycles(slower, **fields) > cycles(**fields)


def test_a_clock_changes_time_but_only_the_cycles_that_wait_for_memory():
    fields = {"heads": 8, "seqlen_q": 1024, "causal": True}
    half = B200.with_constants(clock_hz=B200.clock_hz / 2)
    quick, slow = (simulate(Problem(**fields), machine=m).report for m in (B200, half))
    assert slow.cycles <= quick.cycles
    assert slow.time_us - slow.launch_us > 1.8 * (quick.time_us - quick.launch_us)


# -- nothing to do -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"seqlen_q": 300, "seqlen_k": 0},
        {"seqlen_q": 300, "seqlen_k": 0, "causal": True},
        {"heads": 4, "seqlens_q": (0, 0), "seqlens_k": (5, 6)},
        {"heads": 4, "seqlens_q": (7, 8), "seqlens_k": (0, 0)},
    ],
    ids=str,
)
@pytest.mark.parametrize("scope", ["gpu", "cta"])
def test_without_queries_or_keys_there_is_only_the_launch(fields, scope):
    run = simulate(Problem(**fields), scope=scope)
    report = run.report
    assert (report.cycles, report.events, report.tflops, report.ctas) == (0, 0, 0, 0)
    assert report.time_us == report.launch_us == B200.launch_seconds * 1e6
    assert all(busy == 0 for busy in report.units.values()) and report.waits == ()
    assert run.occupancy == [] and len(run.trace.span) == 0
    assert all(math.isfinite(v) for v in (report.time_us, report.tflops, report.wall_s))


def test_without_keys_the_output_is_zero_and_its_weight_minus_infinity():
    problem = Problem(heads=2, seqlen_q=5, seqlen_k=0, head_dim=64)
    arrays = (np.ones((1, 5, 2, 64)), np.ones((1, 0, 2, 64)), np.ones((1, 0, 2, 64)))
    out = simulate(problem, arrays=arrays).outputs
    assert (out.out == 0).all() and (out.lse == -np.inf).all()
    assert (out.rescales, out.votes) == (0, 0)


# -- values change nothing about time ----------------------------------------------------------


@pytest.mark.parametrize(
    "fields, changes",
    [
        ({"heads": 6, "seqlen_q": 256, "head_dim": 16, "causal": True}, {}),
        ({"heads": 3, "seqlen_q": 512, "head_dim": 64}, {}),
        ({"heads": 6, "seqlen_q": 512, "head_dim": 64}, {"scheduler": "dynamic"}),
    ],
    ids=str,
)
def test_tiles_with_values_queue_for_the_same_sms(fields, changes):
    machine = B200.with_constants(sms=2)
    problem = Problem(**fields)
    design = Design.for_problem(problem, machine, **changes)
    rng = np.random.default_rng(1)
    shape = (1, problem.seqlen_q, problem.heads, problem.head_dim)
    run = simulate(problem, design, machine, arrays=[rng.standard_normal(shape) for _ in range(3)])
    plain = simulate(problem, design, machine)
    assert run.report.cycles == pytest.approx(plain.report.cycles, rel=0.1)
    assert run.report.ctas == plain.report.ctas and run.report.sms == 2
    assert len(run.occupancy) == len(plain.occupancy)


# -- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"scope": "sm"}, "scope='sm' must be one of gpu, cta"),
        ({"scope": "cta", "tile": 4}, "tile 4 is not one of this problem's 4 work tiles"),
        ({"scope": "cta", "tile": -1}, r"tile -1 is not one of .* \(0 to 3\)"),
        ({"arrays": (1, 2)}, r"arrays=\(1, 2\) must be \(q, k, v\)"),
        ({"arrays": 5}, r"arrays=5 must be \(q, k, v\)"),
        ({"arrays": (0, 0, 0), "scope": "cta"}, "computed for the whole problem"),
        ({"arrays": (0, 0, 0), "exact": True}, "every CTA is simulated anyway"),
        ({"sink": (0.0,)}, "sink= needs arrays"),
        ({"tile": 1}, "tile=1 is for scope='cta'"),
        ({"tile": "a", "scope": "cta"}, "tile='a' must be a whole number"),
        ({"on_hazard": "x"}, "on_hazard='x' must be one of raise, record"),
        ({"seed": "x"}, "seed='x' must be a whole number"),
        ({"exact": "yes"}, "exact='yes' must be True or False"),
        ({"machine": "b200"}, "machine='b200' must be a fa4sim.Machine"),
        ({"design": "x"}, "design='x' must be a fa4sim.Design"),
        ({"design": Design(cta_group=2, kv_stages=6)}, "cta_group=2 is modelled for unmasked"),
        ({"design": Design(head_dim_padded=64)}, "exceed the design's"),
    ],
)
def test_what_cannot_be_simulated_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        simulate(Problem(seqlen_q=1024, causal=True), **arguments)


@pytest.mark.parametrize("problem", [{"softmax_scale": 1e300}, {"softcap": 1e-46}], ids=str)
def test_scales_that_float32_does_not_hold_are_refused(problem):
    with pytest.raises(ValueError, match="the kernel computes in float32"):
        simulate(Problem(seqlen_q=4, **problem))


def test_sinks_must_leave_a_sum():
    arrays = [np.zeros((1, 4, 1, 64))] * 3
    for bad, words in (
        (np.nan, "sink holds nan"),
        (1e39, "sink holds inf"),
        ("x", "sink has dtype"),
    ):
        with pytest.raises(ValueError, match=words):
            simulate(Problem(seqlen_q=4, head_dim=64, sink=True), arrays=arrays, sink=[bad])


def test_what_numpy_does_not_take_is_named():
    torch = pytest.importorskip("torch")
    good = np.zeros((1, 4, 1, 64))
    problem = Problem(seqlen_q=4, head_dim=64)
    bad = torch.zeros(1, 4, 1, 64).bfloat16()
    with pytest.raises(ValueError, match=r"k is bfloat16, which NumPy .* as by k\.float\(\)"):
        simulate(problem, arrays=(good, bad, good))
    with pytest.raises(ValueError, match="k has rows of different lengths"):
        simulate(problem, arrays=(good, [[1.0], [1.0, 2.0]], good))
    needs = torch.ones(1, 4, 1, 64, requires_grad=True)
    assert simulate(problem, arrays=(good, good, needs)).outputs.out.mean() == 1


def test_complex_numbers_and_texts_are_no_arrays():
    problem = Problem(seqlen_q=4, head_dim=64)
    good = np.zeros((1, 4, 1, 64))
    for bad in (good.astype(complex), good.astype(str), good.astype(bool)):
        with pytest.raises(ValueError, match=r"k has dtype .*; give real numbers"):
            simulate(problem, arrays=(good, bad, good))


def test_a_fast_forward_over_tiles_leaves_the_stores_of_registers_alone():
    # Stores from the correction's registers once kept the tile they had begun with.
    problem = Problem(batch=16, heads=96, kv_heads=32, seqlen_q=1100, seqlen_k=300)
    assert Design.for_problem(problem, B200).epilogue == "correction"
    assert simulate(problem).hazards == ()


def test_a_broken_design_raises_or_records_as_asked():
    problem = Problem(seqlen_q=256, seqlen_k=1024)
    fault = fa4sim.specs.Fault("drop_wait", "S_full")
    broken = Design.for_problem(problem, B200, faults=(fault,))
    with pytest.raises(fa4sim.HazardError, match="S_full") as caught:
        simulate(problem, broken)
    run = simulate(problem, broken, on_hazard="record")
    assert run.hazards == caught.value.hazards != ()


# -- votes without data ------------------------------------------------------------------------


def brute_force_blind_steps(problem, design, tile, stage, rank):
    """For every warp: in which step the last of its rows sees its first key, by looking at each."""
    q, k = problem.lengths(tile.batch)
    left, right = problem.window or (None, 0 if problem.causal else None)
    group = problem.group if design.pack_gqa else 1
    start = first_row(design, tile, stage, rank)
    latest = []
    for row in range(start, start + design.tile_m):
        here = row // group + k - q
        first = 1 << 30
        for step, (block, _) in enumerate(tile.steps):
            keys = range(max(0, block * design.tile_n), min(k, (block + 1) * design.tile_n))
            if any(
                (left is None or key >= here - left) and (right is None or key <= here + right)
                for key in keys
            ):
                first = step
                break
        latest.append(first)
    return tuple(max(latest[w : w + 32]) for w in range(0, 128, 32))


@settings(max_examples=30, deadline=None)
@given(
    q=st.integers(1, 900), k=st.integers(1, 900), m_block=st.integers(0, 3),
    stage=st.integers(0, 1), group=st.sampled_from([1, 2, 3]),
    mask=st.sampled_from([{}, {"causal": True}, {"window": (99, 0)}, {"window": (0, 250)},
                          {"window": (None, 40)}, {"window": (500, None)}]),
)  # fmt: skip
def test_blind_steps_are_those_that_the_mask_hides(q, k, m_block, stage, group, mask):
    try:
        problem = Problem(heads=group, kv_heads=1, seqlen_q=q, seqlen_k=k, head_dim=64, **mask)
    except ValueError:
        return
    design = Design.for_problem(problem, B200)
    stage = min(stage, design.q_stages - 1)
    rows = design.work_rows * design.cta_group
    m_block = min(m_block, (q * group - 1) // rows)
    steps = block_steps(
        m_block, rows, design.tile_n, q, k, problem.causal, problem.window, problem.group
    )
    tile = WorkTile(0, m_block, 0, 0, tuple(steps))
    votes = RescaleVotes(problem, design, seed=0)
    wanted = brute_force_blind_steps(problem, design, tile, stage, 0)
    assert votes.blind_steps(tile, stage, 0) == wanted
    for warp in range(4):
        rescales = [votes.rescales(tile, step, stage, 0, warp) for step in range(tile.blocks)]
        assert rescales == [0 < step <= wanted[warp] for step in range(tile.blocks)]


def test_without_a_threshold_new_maxima_get_rarer_with_every_block():
    problem = Problem(seqlen_q=256, seqlen_k=128 * 400)
    design = Design.for_problem(problem, B200, rescale_threshold=0.0)
    tile = WorkTile(0, 0, 0, 0, tuple(block_steps(0, 256, 128, 256, problem.seqlen_k)))

    def share(steps):
        drawn = [
            RescaleVotes(problem, design, seed).rescales(tile, step, stage, 0, warp)
            for seed in range(10)
            for step in steps
            for stage in (0, 1)
            for warp in range(4)
        ]
        return np.mean(drawn)

    assert share(range(1, 6)) > 0.99
    # 32 rows, each with a new maximum in block k + 1 with probability 1 / (k + 1).
    middle = range(60, 70)
    assert share(middle) == pytest.approx(
        np.mean([1 - (1 - 1 / (k + 1)) ** 32 for k in middle]), abs=0.06
    )
    assert share(range(380, 400)) < 0.15
