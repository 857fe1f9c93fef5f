"""Tiles that read the page table alike share a run, and the typical tile is not run again."""

from __future__ import annotations

import pytest

from fa4sim import B200, Design, Problem, simulate
from fa4sim.pipelines.common.cluster import Surroundings
from fa4sim.pipelines.fa4.detail import simulate_cluster
from fa4sim.pipelines.fa4.gpu import make_plan, simulate_gpu
from fa4sim.pipelines.fa4.page_table import page_period
from fa4sim.report import typical_path


def decode(page: int, splits: int, keys: int = 4096, pointers: str = "naive"):
    """A decode step of four sequences, and its design."""
    problem = Problem(
        batch=4, heads=8, kv_heads=1, seqlen_q=1, seqlen_k=keys, page_size=page, num_splits=splits
    )
    return problem, Design.for_problem(problem, B200, page_pointers=pointers)


CASES = [
    (256, 4, 4096),
    (256, 3, 4096),
    (64, 4, 1024),
    (16, 3, 4096),
    (128, 4, 4096),
    (96, 2, 4096),
]


@pytest.mark.parametrize("page, splits, keys", CASES)
def test_tiles_of_one_phase_take_as_long_wherever_they_stand(page, splits, keys):
    problem, design = decode(page, splits, keys)
    period = page_period(problem, design, B200)
    groups: dict[object, dict[int, object]] = {}
    for tile in make_plan(problem, design, B200).tiles:
        place = tile.steps[-1].n_block % period
        groups.setdefault(tile.shape, {}).setdefault(place, tile)
    for alike in groups.values():
        runs = [
            simulate_cluster(problem, design, B200, [t], Surroundings(True)) for t in alike.values()
        ]
        assert len({run.cycles for run in runs}) == 1
        assert all(run.totals == runs[0].totals for run in runs)


def test_some_tiles_share_and_others_must_not():
    problem, design = decode(256, 4)
    assert len({tile.page_phase for tile in make_plan(problem, design, B200).tiles}) == 1
    problem, design = decode(256, 3)  # the second of three parts reaches another sector
    assert len({tile.page_phase for tile in make_plan(problem, design, B200).tiles}) > 1


def test_a_split_step_needs_a_run_per_wave_and_not_one_per_split():
    problem, design = decode(256, 4)
    few = B200.with_constants(sms=4)
    assert simulate(problem, design, few).gpu.detailed_runs == 2


@pytest.mark.parametrize("page, splits, keys", CASES[:3])
def test_the_path_of_the_typical_tile_is_that_of_the_run_there_was(page, splits, keys):
    problem, design = decode(page, splits, keys)
    machine = B200.with_constants(sms=4)
    result = simulate_gpu(problem, design, machine)
    again = typical_path(problem, design, machine, result.plan)
    assert typical_path(problem, design, machine, result.plan, known=result.typical) == again
