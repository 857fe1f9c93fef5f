"""Finding a tile in a batch of variable length."""

from __future__ import annotations

import numpy as np
import pytest

from fa4sim import B200, Design, Problem, simulate
from fa4sim.pipelines.fa4.lookup import MOST_SEARCHED, lookup_cycles


def step(users: int, **changes: object) -> tuple[Problem, Design]:
    """A step of users, one with a prompt and all others with a query each, and its design."""
    keys = tuple(256 + 128 * (i % 3) for i in range(users))
    queries = (1,) * (users - 1) + (200,)
    problem = Problem(heads=8, kv_heads=2, seqlens_q=queries, seqlens_k=keys)
    return problem, Design.for_problem(problem, B200, **changes)


def test_what_lies_31_sequences_further_takes_another_round() -> None:
    problem, design = step(200)
    assert design.scheduler == "single_tile_varlen"
    cycles = [lookup_cycles(problem, design, B200, i) for i in range(200)]
    assert len(set(cycles[:31])) == 1
    rounds = np.diff(cycles[::31])
    assert len(set(rounds)) == 1 and rounds[0] > B200.load_l2_latency_cycles
    assert lookup_cycles(problem, design, B200, 200) == cycles[-1]


def test_a_table_makes_all_sequences_of_a_large_batch_alike() -> None:
    problem, design = step(MOST_SEARCHED + 1)
    cycles = {lookup_cycles(problem, design, B200, i) for i in (0, 100, MOST_SEARCHED)}
    assert len(cycles) == 1
    searching = step(MOST_SEARCHED)
    assert max(cycles) < lookup_cycles(*searching, B200, MOST_SEARCHED - 1)


def test_the_dynamic_scheduler_goes_on_where_it_was() -> None:
    problem, design = step(200, scheduler="dynamic_varlen")
    first = lookup_cycles(problem, design, B200, 190)
    assert lookup_cycles(problem, design, B200, 190, known=185) < first
    assert lookup_cycles(problem, design, B200, 190, known=190) == lookup_cycles(
        problem, design, B200, 0
    )


@pytest.mark.parametrize("index, groups", [(0, 1), (2 * 180, 6)])
def test_every_warp_of_a_tile_searches(index: int, groups: int) -> None:
    problem, design = step(200)
    run = simulate(problem, design, scope="cta", tile=index)
    spans = run.trace.span.where(op="find tile")
    assert len(spans) > 4
    times = set(spans["end"] - spans["start"])
    assert times == {lookup_cycles(problem, design, B200, 31 * (groups - 1))}


def test_sequences_of_one_length_need_no_search() -> None:
    problem = Problem(batch=300, heads=8, kv_heads=2, seqlen_q=1, seqlen_k=256)
    assert lookup_cycles(problem, Design.for_problem(problem, B200), B200, 299) == 0
