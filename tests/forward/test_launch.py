"""A launch: its numbers, its grid, its arguments, what TMA is told."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from fa4kernel.emulator import TensorMap
from fa4kernel.forward.config import Config
from fa4kernel.forward.launch import Arrays, Plan, launch
from fa4sim.pipelines.fa4.gpu import make_plan
from tests.forward.cases import ALL, Case, named


def plan_of(case: Case) -> Plan:
    """The numbers of a case's launch."""
    problem = case.problem
    assert problem.seqlen_k is not None and problem.kv_heads is not None
    cfg = case.config
    starts = [
        np.cumsum([0, *lengths]).astype(np.int32) if lengths and there else None
        for lengths, there in (
            (problem.seqlens_q, cfg.varlen_q), (problem.seqlens_k, cfg.varlen_k)
        )
    ]  # fmt: skip
    q, k = (problem.batch, problem.seqlen_q), (problem.batch, problem.seqlen_k)
    if starts[0] is not None:
        q = (int(starts[0][-1]),)
    if starts[1] is not None:
        k = (int(starts[1][-1]),)
    table = None
    if problem.page_size is not None:
        k = (9, problem.page_size)
        table = np.zeros((problem.batch, -(-problem.seqlen_k // problem.page_size)), np.int32)
    return Plan.of(
        cfg,
        (*q, problem.heads, problem.head_dim),
        (*k, problem.kv_heads, problem.head_dim),
        (*k, problem.kv_heads, problem.dim_v),
        *starts,
        problem.window or (None, None),
        np.array(problem.seqlens_k, np.int32) if cfg.seqused_k else None,
        table,
    )


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_as_many_ctas_start_as_the_simulator_says(case):
    plan, simulated = plan_of(case), make_plan(case.problem, case.chosen, case.machine)
    clusters = len(simulated.tiles) + simulated.padding
    if simulated.lists is not None:
        clusters = len(simulated.lists)
    splits = case.chosen.num_splits
    assert splits * plan.ctas(case.sms) == clusters * case.config.cta_group
    assert splits * plan.tiles == len(simulated.tiles) + simulated.padding
    assert prod(plan.grid(case.sms, splits)) == splits * plan.ctas(case.sms)


def test_numbers_of_a_launch():
    plan = plan_of(named("packed-4-causal"))  # 8 heads on 2, 300 queries of 4 rows, 420 keys
    assert plan.sizes[:5] == (300, 420, 2, 1, 5)
    assert (plan.total_q, plan.total_k) == (300, 420)
    assert plan_of(named("window-both")).sizes[5:7] == (130, 70)
    assert plan_of(named("window-left")).sizes[5:7] == (100, 0)


def test_numbers_of_sequences_laid_end_to_end():
    plan = plan_of(named("varlen"))
    assert plan.sizes[:5] == (512, 384, 2, 4, 2)
    assert (plan.total_q, plan.total_k) == (959, 1034)


def arrays_of(cfg: Config, batch: int = 2, q: int = 300, k: int = 200, heads: int = 4) -> Arrays:
    """Zeros of the right shapes."""

    def zeros(tokens: int, heads: int, columns: int) -> np.ndarray:
        return np.zeros((batch, tokens, heads, columns), np.uint16)

    kv = heads // cfg.group
    return Arrays(
        zeros(q, heads, cfg.head_dim), zeros(k, kv, cfg.head_dim), zeros(k, kv, cfg.head_dim_v),
        zeros(q, heads, cfg.head_dim_v), np.zeros((batch, heads, q), np.float32),
    )  # fmt: skip


def test_arguments_in_the_order_of_the_compiled_kernel():
    cfg = Config()
    made = launch(cfg, arrays_of(cfg), softmax_scale=0.5, window=(None, 0))
    maps = made.arguments[0:8:2]
    assert all(isinstance(each, TensorMap) for each in maps)
    lengths = [np.frombuffer(each, np.int32).tolist() for each in made.arguments[1:8:2]]
    assert lengths == [[300, 4, 2], [200, 4, 2], [200, 4, 2], [300, 4, 2]]
    assert made.arguments[8].shape == (2, 4, 300)  # LSE
    assert [int(each) for each in made.arguments[9:-1]] == [300, 200, 4, 2, 2, 0, 0, 512, 300]
    assert made.arguments[-1] == np.float32(0.5 * np.log2(np.e))
    assert (made.block, made.cluster) == ((512, 1, 1), (1, 1, 1))
    assert made.shared_bytes == cfg.shared_bytes


def test_boxes_of_a_pair_are_halves_of_k_and_v():
    cfg = Config(cta_group=2, kv_stages=6)
    made = launch(cfg, arrays_of(cfg), softmax_scale=1.0)
    boxes = [each.box for each in made.arguments[0:8:2]]
    assert boxes == [(64, 128, 1, 1), (64, 64, 1, 1), (64, 128, 1, 1), (64, 128, 1, 1)]
    assert made.cluster == (2, 1, 1)
    assert made.grid == (2 * 4 * 2, 1, 1)  # 300 rows are one tile of a pair


def test_a_packed_box_has_the_heads_of_a_group_side_by_side():
    cfg = Config(group=4, pack_gqa=True)
    made = launch(cfg, arrays_of(cfg), softmax_scale=1.0)
    q, k = made.arguments[0], made.arguments[2]
    assert (q.dims, q.box) == ((128, 4, 300, 1, 2), (64, 4, 32, 1, 1))
    assert (k.dims, k.box) == ((128, 200, 1, 2), (64, 128, 1, 1))


def test_threads_that_store_o_get_the_array_itself():
    cfg = Config(epilogue="correction")
    arrays = arrays_of(cfg)
    made = launch(cfg, arrays, softmax_scale=1.0)
    assert made.arguments[6] is arrays.o and made.arguments[7] is arrays.lse


def test_what_threads_copy_and_how_pages_are_found_is_handed_over_as_arrays():
    cfg = Config(
        group=2, pack_gqa=True, kv_load="cp_async", q_load="cp_async", epilogue="correction",
        paged=True, seqused_k=True,
    )  # fmt: skip
    pages = np.zeros((7, 16, 2, 128), np.uint16)
    used, table = np.array([30, 5], np.int32), np.zeros((2, 4), np.int32)
    arrays = replace(arrays_of(cfg), k=pages, v=pages, seqused_k=used, page_table=table)
    made = launch(cfg, arrays, softmax_scale=1.0)
    assert made.arguments[0] is arrays.q and made.arguments[1] is arrays.k
    assert made.arguments[2] is arrays.v and made.arguments[3] is arrays.o
    assert [int(each) for each in made.arguments[5:14]] == [300, 64, 2, 2, 3, 0, 0, 2048, 300]
    assert made.arguments[15] is used and made.arguments[16] is table
    assert [int(each) for each in made.arguments[17:]] == [4, 16]


def test_boxes_of_pages_that_are_blocks():
    cfg = Config(paged=True)
    pages = np.zeros((7, 128, 4, 128), np.uint16)
    arrays = replace(arrays_of(cfg), k=pages, v=pages, page_table=np.zeros((2, 3), np.int32))
    k = launch(cfg, arrays, softmax_scale=1.0).arguments[2]
    assert (k.dims, k.box) == ((128, 128, 4, 7), (64, 128, 1, 1))


def test_what_is_not_given_is_left_out():
    cfg = Config(lse=False, sink=True)
    arrays = replace(arrays_of(cfg), lse=None, sink=np.zeros(4, np.float32))
    made = launch(cfg, arrays, softmax_scale=1.0)
    assert made.arguments[8] is arrays.sink and len(made.arguments) == 8 + 1 + 9 + 1


def test_a_tensor_of_fewer_columns_is_padded_by_tma():
    cfg = Config(head_dim=80, head_dim_v=80)
    arrays = Arrays(*(np.zeros((1, 200, 2, 72), np.uint16) for _ in "qkvo"))
    made = launch(replace(cfg, lse=False), arrays, softmax_scale=1.0)
    assert all(each.dims[0] == 72 and each.box[0] == 16 for each in made.arguments[0:8:2])


def test_splits_are_a_dimension_of_the_grid_and_store_partial_results():
    cfg = Config(split=True, scheduler="single_tile", overlap_o_q=True)
    arrays = arrays_of(cfg)
    partial_o = np.zeros((3, *arrays.o.shape), np.float32)
    partial_lse = np.zeros((3, *arrays.lse.shape), np.float32)
    arrays = replace(arrays, partial_o=partial_o, partial_lse=partial_lse)
    made = launch(cfg, arrays, softmax_scale=1.0)
    assert made.grid == (2, 3, 4 * 2)  # tiles of 300 rows, splits, heads of both sequences
    o = made.arguments[6]
    assert (o.dtype, o.dims, o.box) == ("f32", (128, 300, 4, 3 * 2), (32, 128, 1, 1))
    assert np.shares_memory(o.array, partial_o) and made.arguments[8] is partial_lse
    longest = launch(replace(cfg, scheduler="lpt"), arrays, softmax_scale=1.0)
    assert longest.grid == (2 * 4 * 2, 3, 1)


@pytest.mark.parametrize("sms, ctas", [(1, 1), (5, 5), (148, 24)])
def test_a_persistent_grid_is_no_larger_than_the_gpu(sms, ctas):
    cfg = Config()
    made = launch(cfg, arrays_of(cfg, batch=3), softmax_scale=1.0, sms=sms)
    assert made.grid == (ctas, 1, 1)
