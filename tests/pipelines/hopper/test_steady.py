"""Fast-forward changes nothing, and reuse agrees with simulating every CTA."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fa4sim import H200, HopperDesign, Problem
from fa4sim.pipelines.common.cluster import Surroundings
from fa4sim.pipelines.fa4.detail import Detail, simulate_cluster
from fa4sim.pipelines.fa4.gpu import simulate_gpu
from tests.pipelines.hopper.cases import NO_TURNS, PLAIN, SOURCE, WAITED, tiles_of

LONG: dict[str, tuple[Problem, dict[str, Any], int]] = {
    "full": (Problem(seqlen_q=256, seqlen_k=128 * 120), {}, 1),
    "causal": (Problem(seqlen_q=128 * 100, causal=True), {}, 1),
    "without turns": (Problem(seqlen_q=256, seqlen_k=128 * 80), NO_TURNS, 1),
    "without overlap": (Problem(seqlen_q=256, seqlen_k=128 * 80), WAITED, 1),
    "neither": (Problem(seqlen_q=256, seqlen_k=128 * 40), WAITED | NO_TURNS, 1),
    "176 keys": (Problem(seqlen_q=256, seqlen_k=176 * 60), {"tile_n": 176}, 1),
    "three consumers": (Problem(seqlen_q=384, seqlen_k=128 * 120, head_dim=64), SOURCE, 1),
    "as the source says": (Problem(seqlen_q=256, seqlen_k=128 * 120), SOURCE, 1),
    "plain": (Problem(seqlen_q=256, seqlen_k=128 * 40), PLAIN, 1),
    "plain, persistent": (Problem(heads=16, seqlen_q=512, seqlen_k=1024), PLAIN, 20),
    "persistent": (Problem(heads=16, seqlen_q=512, seqlen_k=2048), WAITED, 30),
}


def both_ways(problem: Problem, changes: dict[str, Any], count: int) -> tuple[Detail, Detail]:
    design = HopperDesign.for_problem(problem, H200, **changes)
    tiles = tiles_of(problem, design, count)
    every, skipping = (
        simulate_cluster(problem, design, H200, tiles, Surroundings(), reuse=reuse)
        for reuse in (False, True)
    )
    return every, skipping


@pytest.mark.parametrize("name", LONG)
def test_fast_forward_gives_the_same_trace_row_by_row(name: str) -> None:
    every, skipping = both_ways(*LONG[name])
    assert skipping.events < 0.8 * every.events, "nothing was skipped"
    assert skipping.cycles == every.cycles
    assert not skipping.hazards
    whole = skipping.trace.expand()
    assert whole.strings == every.trace.strings
    for table in ("span", "wait", "arrive", "life", "counter"):
        mine, theirs = whole.table(table).array, every.trace.table(table).array
        assert len(mine) == len(theirs), table
        order = [np.lexsort(rows.T[::-1]) for rows in (mine, theirs)]
        assert np.array_equal(mine[order[0]], theirs[order[1]]), table
    assert skipping.totals.units == pytest.approx(every.totals.units)
    assert skipping.totals.waits == pytest.approx(every.totals.waits)
    assert skipping.totals.life == pytest.approx(every.totals.life)
    assert skipping.totals.l2_bytes == every.totals.l2_bytes


@pytest.mark.parametrize(
    ("problem", "changes"),
    [
        (Problem(heads=20, seqlen_q=1024, seqlen_k=600), {}),
        (Problem(batch=2, heads=20, seqlen_q=768, causal=True), {}),
        (Problem(heads=30, seqlen_q=512, head_dim=64), PLAIN),
    ],
    ids=["full", "longest first", "plain"],
)
def test_reuse_agrees_with_every_cta_where_l2_and_hbm_do_not_limit(
    problem: Problem, changes: dict[str, Any]
) -> None:
    endless = H200.with_constants(l2_bytes_per_cycle=1e9, hbm_bytes_per_second=1e18)
    design = HopperDesign.for_problem(problem, endless, **changes)
    reuse = simulate_gpu(problem, design, endless)
    exact = simulate_gpu(problem, design, endless, exact=True)
    assert reuse.cycles == exact.cycles


@pytest.mark.slow
@pytest.mark.parametrize(
    "causal",
    [
        False,
        pytest.param(
            True,
            marks=pytest.mark.xfail(
                reason="missed: 5 % since share_burst_bytes was fitted to an H200 (deviation D12)",
                raises=AssertionError,
            ),
        ),
    ],
)
def test_reuse_agrees_with_every_cta_at_real_shared_memories(causal: bool) -> None:
    problem = Problem(batch=4, heads=16, seqlen_q=2048, causal=causal)
    design = HopperDesign.for_problem(problem, H200)
    reuse = simulate_gpu(problem, design, H200)
    exact = simulate_gpu(problem, design, H200, exact=True)
    assert reuse.cycles == pytest.approx(exact.cycles, rel=0.03)
