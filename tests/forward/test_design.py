"""How our kernel runs a problem: as the published one, but where it differs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fa4kernel.forward.design import design_for
from fa4sim.specs import B200, Design, Problem
from tests.forward.cases import ALL

SHAPES = [
    Problem(seqlen_q=2048),
    Problem(seqlen_q=2048, causal=True),
    Problem(seqlen_q=100, head_dim=64),
    Problem(heads=8, kv_heads=2, seqlen_q=700, window=(100, 0)),
    Problem(seqlen_q=2048, head_dim=192, head_dim_v=128),
]


@pytest.mark.parametrize("problem", SHAPES)
def test_most_problems_run_as_the_published_kernel_runs_them(problem):
    published = Design.for_problem(problem, B200)
    assert design_for(problem, B200) == replace(published, one_m_block=False)


def test_a_batch_of_variable_length_gets_one_cta_for_a_tile():
    problem = Problem(seqlens_q=(100, 30), seqlens_k=(100, 30))
    assert Design.for_problem(problem, B200).scheduler == "static_persistent"
    assert design_for(problem, B200).scheduler == "single_tile_varlen"


def test_threads_move_q_and_o_of_a_group_that_divides_no_tile():
    odd = Problem(heads=3, kv_heads=1, seqlen_q=512)
    packed, alone = design_for(odd, B200), design_for(odd, B200, pack_gqa=False)
    assert (packed.pack_gqa, packed.q_load, packed.epilogue) == (True, "cp_async", "correction")
    assert (alone.pack_gqa, alone.q_load, alone.epilogue) == (False, "tma", "tma")


def test_fp8_is_padded_to_what_its_mmas_take():
    design = design_for(Problem(head_dim=80, seqlen_q=512, dtype="e4m3"), B200)
    assert (design.head_dim_padded, design.head_dim_v_padded) == (96, 96)
    assert (design.max_offset, design.rescale_threshold) == (8, 0)
    published = Design.for_problem(Problem(seqlen_q=512, dtype="e4m3"), B200)
    own = design_for(Problem(seqlen_q=512, dtype="e4m3"), B200)
    assert own == replace(published, one_m_block=False)


def test_small_head_dims_of_fp8_have_registers_enough_for_a_mask():
    problem = Problem(head_dim=64, seqlen_q=512, dtype="e5m2", causal=True)
    assert design_for(problem, B200).registers_softmax == 176
    assert design_for(replace(problem, causal=False), B200).registers_softmax == 168
    assert design_for(problem, B200, registers_softmax=152).registers_softmax == 152
    pair = Problem(heads=4, kv_heads=2, seqlen_q=512, dtype="e4m3")
    assert design_for(pair, B200).registers_correction == 80
    assert design_for(replace(pair, kv_heads=4), B200).registers_correction == 72


def test_probabilities_that_would_saturate_are_refused():
    with pytest.raises(ValueError, match="rescale_threshold=4"):
        design_for(Problem(dtype="e4m3"), B200, rescale_threshold=4)


@pytest.mark.parametrize(
    "page_size, how, registers",
    [(16, "cp_async", (184, 80, 64)), (128, "tma", (192, 80, 48)), (None, "tma", (192, 80, 48))],
)
def test_threads_copy_pages_that_are_no_block(page_size, how, registers):
    problem = Problem(seqlen_q=512, seqlens_k=(700, 300), page_size=page_size)
    design = design_for(problem, B200, cta_group=1)
    assert design.kv_load == how
    own = design.registers_softmax, design.registers_correction, design.registers_other
    assert own == registers
    assert (
        design_for(problem, B200, cta_group=1, registers_correction=72).registers_correction == 72
    )


def test_unequal_head_dims_are_not_split():
    long = {"head_dim": 192, "head_dim_v": 128, "seqlen_q": 1, "seqlen_k": 100_000}
    assert design_for(Problem(**long, num_splits=0), B200).num_splits == 1
    with pytest.raises(ValueError, match=r"num_splits=3 with head dims \(192, 128\)"):
        design_for(Problem(**long, num_splits=3), B200)


def test_splits_are_as_many_as_the_published_kernel_makes():
    problem = Problem(heads=16, kv_heads=2, seqlen_q=1, seqlen_k=50_000, num_splits=0)
    published = Design.for_problem(problem, B200)
    assert design_for(problem, B200) == published
    assert published.num_splits == 74 and published.scheduler == "single_tile"


@pytest.mark.parametrize("mask", [{}, {"causal": True}])
def test_fp8_that_threads_copy_gets_registers_enough_for_softmax(mask):
    for size in (16, 128):
        problem = Problem(
            seqlen_q=512, seqlens_k=(700,), page_size=size, head_dim=64, dtype="e4m3", **mask
        )
        design = design_for(problem, B200, kv_load="cp_async")
        own = design.registers_softmax, design.registers_correction, design.registers_other
        assert own == (176, 80, 80)


def test_changes_win():
    design = design_for(Problem(seqlen_q=2048), B200, cta_group=1, scheduler="single_tile")
    assert (design.cta_group, design.scheduler) == (1, "single_tile")
    with pytest.raises(ValueError, match="no field 'stages'"):
        design_for(Problem(), B200, stages=3)


@pytest.mark.parametrize(
    "field", [{"page_pointers": "naive"}, {"softmax_overhead_slots": 9}, {"faults": ()}]
)
def test_what_only_the_simulator_knows_is_refused(field):
    with pytest.raises(ValueError, match=r"only the simulator knows this field"):
        design_for(Problem(page_size=16), B200, **field)


def test_splits_are_the_problems_to_set():
    with pytest.raises(ValueError, match=r"num_splits=2 .* of the problem"):
        design_for(Problem(head_dim=192, head_dim_v=128), B200, num_splits=2)


def test_the_matrix_has_every_value_of_every_choice():
    configs = [case.config for case in ALL]
    for name, values in {
        "dtype": {"bf16", "fp16", "e4m3", "e5m2"},
        "descale": {False, True},
        "split": {False, True},
        "q_stages": {1, 2},
        "cta_group": {1, 2},
        "q_load": {"tma", "cp_async"},
        "kv_load": {"tma", "cp_async"},
        "paged": {False, True},
        "seqused_k": {False, True},
        "epilogue": {"tma", "correction"},
        "scheduler": {"single_tile", "static_persistent", "lpt", "single_tile_varlen"},
        "pack_gqa": {False, True},
        "sink": {False, True},
        "uneven_kv_ring": {False, True},
        "overlap_o_q": {False, True},
        "p_first_columns": {32, 64, 96, 128},
        "group": {1, 2, 3, 4, 5, 7, 8, 12, 16, 128},
    }.items():
        assert {getattr(cfg, name) for cfg in configs} >= values, name
    assert {(cfg.window_left, cfg.window_right) for cfg in configs} == {
        (left, right) for left in (False, True) for right in (False, True)
    }
    assert {(c.problem.head_dim, c.problem.dim_v) for c in ALL} >= {
        (64, 64), (96, 96), (128, 128), (192, 128), (8, 8), (16, 16), (32, 32), (72, 72), (80, 80)
    }  # fmt: skip
