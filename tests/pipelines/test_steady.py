"""Fast-forward changes nothing, and reuse agrees with simulating every CTA."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fa4sim import B200, Design, Problem, simulate
from fa4sim.pipelines.fa4.cluster import Surroundings
from fa4sim.pipelines.fa4.detail import Detail, simulate_cluster
from fa4sim.pipelines.fa4.gpu import ClassRuns, make_plan, simulate_gpu

LONG: dict[str, tuple[Problem, dict[str, Any], int]] = {
    "pair": (Problem(seqlen_q=512, seqlen_k=128 * 40), {}, 1),
    "causal": (Problem(seqlen_q=128 * 40, causal=True), {}, 1),
    "two slots": (Problem(seqlen_q=256, seqlen_k=128 * 40), {"kv_stages": 2}, 1),
    "uneven ring": (
        Problem(seqlen_q=128 * 48, head_dim=192, head_dim_v=128, causal=True), {}, 1),
    "head dim 64": (Problem(seqlen_q=256, seqlen_k=128 * 40, head_dim=64), {}, 1),
    "one Q tile": (Problem(seqlen_q=128, seqlen_k=128 * 60), {}, 1),
    "odd group, one Q tile": (
        Problem(heads=3, kv_heads=1, seqlen_q=9, seqlen_k=128 * 60), {}, 1),
    "odd group, one Q tile, persistent": (
        Problem(heads=48, kv_heads=16, seqlen_q=9, seqlen_k=512), {}, 16),
    "persistent": (Problem(heads=16, seqlen_q=512, seqlen_k=1024), {}, 16),
    "persistent, long tiles": (Problem(heads=10, seqlen_q=512, seqlen_k=4096), {}, 10),
    "window": (Problem(seqlen_q=8192, window=(3000, 0)), {}, 1),
    "pages of a token": (Problem(seqlen_q=1, seqlen_k=128 * 40, page_size=1), {}, 1),
    "pages of 48, naive": (
        Problem(seqlen_q=256, seqlen_k=128 * 60, page_size=48), {"page_pointers": "naive"}, 1),
    # Its repeat is found while a load warp issues copies, and moves the ring by no whole turn.
    "pages of 256, naive": (
        Problem(batch=32, heads=32, kv_heads=4, seqlen_q=1, seqlen_k=128 * 200, page_size=256),
        {"page_pointers": "naive"}, 1),
    "pages of a block": (Problem(seqlen_q=256, seqlen_k=128 * 90, page_size=128), {}, 1),
    "pages, persistent": (
        Problem(heads=16, seqlen_q=512, seqlen_k=1024, page_size=4), {}, 16),
}  # fmt: skip


def both_ways(problem: Problem, changes: dict[str, Any], tiles: int) -> tuple[Detail, Detail]:
    design = Design.for_problem(problem, B200, **changes)
    plan = make_plan(problem, design, B200)
    chosen = [tile.at(index=i) for i, tile in enumerate(plan.tiles[:tiles])]
    every, skipping = (
        simulate_cluster(problem, design, B200, chosen, Surroundings(), reuse=reuse)
        for reuse in (False, True)
    )
    return every, skipping


@pytest.mark.parametrize("name", LONG)
def test_fast_forward_gives_the_same_trace_row_by_row(name: str) -> None:
    every, skipping = both_ways(*LONG[name])
    assert skipping.events < 0.8 * every.events, "nothing was skipped"
    assert skipping.cycles == every.cycles
    whole = skipping.trace.expand()
    for table in ("span", "wait", "arrive", "life", "counter"):
        mine, theirs = whole.table(table), every.trace.table(table)
        assert len(mine) == len(theirs), table
        texts = [whole.strings[i] for i in range(len(whole.strings))]
        assert texts == every.trace.strings
        order = [np.lexsort(t.array.T[::-1]) for t in (mine, theirs)]
        assert np.array_equal(mine.array[order[0]], theirs.array[order[1]]), table
    assert not skipping.hazards


@pytest.mark.parametrize("name", LONG)
def test_fast_forward_gives_the_same_totals(name: str) -> None:
    every, skipping = both_ways(*LONG[name])
    assert skipping.totals.units == pytest.approx(every.totals.units)
    assert skipping.totals.waits == pytest.approx(every.totals.waits)
    assert skipping.totals.life == pytest.approx(every.totals.life)
    assert skipping.totals.l2_bytes == every.totals.l2_bytes
    assert skipping.totals.hbm_bytes == every.totals.hbm_bytes


def test_a_tile_derived_from_a_relative_equals_its_own_simulation() -> None:
    problem = Problem(heads=4, seqlen_q=8192, causal=True)
    design = Design.for_problem(problem, B200)
    plan = make_plan(problem, design, B200)
    shared = ClassRuns(problem, design, B200)
    longest_first = sorted({t.m_block: t for t in plan.tiles}.values(), key=lambda t: -t.blocks)
    derived = 0
    for tile in longest_first[:20]:
        before = shared.runs
        cycles, totals = shared.run([tile], first_wave=False)
        if shared.runs == before:
            derived += 1
            own = ClassRuns(problem, design, B200).run([tile], first_wave=False)
            assert cycles == own[0]
            assert totals.units == pytest.approx(own[1].units)
            assert totals.waits == pytest.approx(own[1].waits)
            assert totals.life == pytest.approx(own[1].life)
    assert derived >= 10


#: Small problems finish almost before L2 and HBM have settled, so they get a little more room.
SHARED: dict[str, tuple[Problem, dict[str, Any], float]] = {
    "pair": (Problem(heads=40, seqlen_q=1024, seqlen_k=512), {}, 0.03),
    "head dim 64": (Problem(heads=40, seqlen_q=1024, causal=True, head_dim=64), {}, 0.03),
    "dynamic": (
        Problem(heads=45, seqlen_q=1024, causal=True), {"scheduler": "dynamic"}, 0.03),
}  # fmt: skip
WHOLE: dict[str, tuple[Problem, dict[str, Any], float]] = {
    "longest first, 1k": (Problem(batch=8, heads=16, seqlen_q=1024, causal=True), {}, 0.01),
    "longest first, 2k": (Problem(batch=4, heads=16, seqlen_q=2048, causal=True), {}, 0.01),
    "persistent pairs, 1k": (Problem(batch=10, heads=16, seqlen_q=1024), {}, 0.01),
}


#: Filling and emptying the chip is all there is: these were 4 to 20 % too fast. And what is too
#: large to be simulated whole without being asked still is.
FEW: dict[str, tuple[Problem, dict[str, Any], float]] = {
    "one block": (Problem(batch=8, seqlen_q=3000, seqlen_k=128, head_dim=64), {}, 0.01),
    "one block, causal": (Problem(batch=8, seqlen_q=2048, seqlen_k=128, causal=True), {}, 0.01),
    "pairs": (Problem(batch=4, heads=4, seqlen_q=2048, seqlen_k=128), {}, 0.01),
    "four blocks": (Problem(batch=4, heads=2, seqlen_q=4096, seqlen_k=512), {}, 0.1),
}
MANY: dict[str, tuple[Problem, dict[str, Any], float]] = {
    "two waves of pairs": (Problem(batch=16, seqlen_q=4096, seqlen_k=128), {}, 0.01),
    "grouped": (
        Problem(heads=8, kv_heads=4, batch=8, seqlen_q=1024, seqlen_k=200, head_dim=64,
                causal=True),
        {"scheduler": "single_tile"}, 0.01,
    ),
    "many waves": (Problem(batch=16, heads=8, seqlen_q=1024, seqlen_k=200), {}, 0.1),
    "five blocks": (Problem(batch=8, heads=8, seqlen_q=256, seqlen_k=600, causal=True), {}, 0.1),
}  # fmt: skip

#: Memory is all there is; at first every CTA asks for more than its share.
ONE_QUERY = {"heads": 32, "kv_heads": 8, "seqlen_q": 1, "seqlen_k": 8192}
DECODE: dict[str, tuple[Problem, dict[str, Any], float]] = {
    "users": (Problem(**ONE_QUERY | {"batch": 8, "seqlen_k": 1500}), {}, 0.03),
    "split": (Problem(**ONE_QUERY, num_splits=16), {}, 0.1),
    "split, FP8": (Problem(**ONE_QUERY, num_splits=0, dtype="e4m3"), {}, 0.1),
    "a block each": (Problem(**ONE_QUERY, num_splits=64), {}, 0.12),
    "split, uneven": (
        Problem(heads=32, kv_heads=8, seqlens_q=(1,) * 8, seqlens_k=(2048, 100, 1000, 4096) * 2,
                num_splits=8),
        {}, 0.1,
    ),
}  # fmt: skip


def assert_reuse_agrees(problem: Problem, changes: dict[str, Any], room: float) -> None:
    design = Design.for_problem(problem, B200, **changes)
    reuse = simulate_gpu(problem, design, B200)
    exact = simulate_gpu(problem, design, B200, exact=True)
    assert len(exact.placements) == len(reuse.placements)
    assert reuse.cycles == pytest.approx(exact.cycles, rel=room)


@pytest.mark.parametrize("name", FEW)
def test_reuse_agrees_where_tiles_have_a_few_blocks_only(name: str) -> None:
    assert_reuse_agrees(*FEW[name])


@pytest.mark.sample(1)
@pytest.mark.slow
@pytest.mark.parametrize("name", MANY)
def test_reuse_agrees_where_many_tiles_have_a_few_blocks_only(name: str) -> None:
    assert_reuse_agrees(*MANY[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", DECODE)
def test_reuse_agrees_where_memory_is_the_limit(name: str) -> None:
    assert_reuse_agrees(*DECODE[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARED)
def test_reuse_agrees_with_every_cta_at_real_shared_memories(name: str) -> None:
    assert_reuse_agrees(*SHARED[name])


@pytest.mark.sample(1)
@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_reuse_agrees_within_one_percent_on_whole_problems(name: str) -> None:
    assert_reuse_agrees(*WHOLE[name])


@pytest.mark.parametrize(
    ("problem", "changes"),
    [
        (Problem(batch=1, heads=40, seqlen_q=1024, seqlen_k=512), {}),
        (Problem(batch=2, heads=40, seqlen_q=768, causal=True), {}),
    ],
    ids=["pair", "longest first"],
)
def test_reuse_is_exact_where_l2_and_hbm_do_not_limit(
    problem: Problem, changes: dict[str, Any]
) -> None:
    endless = B200.with_constants(l2_bytes_per_cycle=1e9, hbm_bytes_per_second=1e18)
    design = Design.for_problem(problem, endless, **changes)
    reuse = simulate_gpu(problem, design, endless)
    exact = simulate_gpu(problem, design, endless, exact=True)
    assert reuse.cycles == exact.cycles
    assert sorted((p.sm, p.start, p.end) for p in reuse.placements) == sorted(
        (p.sm, p.start, p.end) for p in exact.placements
    )


WINDOW = {"window": (0, 30), "head_dim": 16}
SHORT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "causal lists": (
        {"heads": 12, "kv_heads": 6, "seqlen_q": 1024, "seqlen_k": 128, "head_dim": 64,
         "causal": True},
        {"scheduler": "static_persistent", "epilogue": "correction", "rescale_threshold": 0.0},
    ),
    "windows": (
        {"heads": 16, "kv_heads": 2, "seqlen_q": 512, "seqlen_k": 640, **WINDOW},
        {"scheduler": "static_persistent", "epilogue": "correction", "kv_stages": 4},
    ),
    "one key, fetched": (
        {"heads": 9, "kv_heads": 3, "seqlen_q": 1, "head_dim": 96},
        {"scheduler": "dynamic", "q_stages": 2, "p_store_early": False},
    ),
    "O over Q": (
        {"heads": 12, "kv_heads": 6, "seqlen_q": 512, "seqlen_k": 640, "head_dim": 16},
        {"scheduler": "static_persistent", "overlap_o_q": True},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SHORT)
def test_short_mixed_lists_are_simulated_whole(name: str) -> None:
    fields, changes = SHORT[name]
    machine = B200.with_constants(sms=3)
    problem = Problem(**fields)
    design = Design.for_problem(problem, machine, **changes)
    reuse = simulate_gpu(problem, design, machine)
    assert reuse.cycles == pytest.approx(
        simulate_gpu(problem, design, machine, exact=True).cycles, rel=0.01
    )


def test_the_same_run_twice_gives_the_same_trace() -> None:
    problem = Problem(heads=2, seqlen_q=1024, causal=True)
    one, two = (simulate(problem, scope="cta", seed=3).trace for _ in range(2))
    for table in ("span", "wait", "arrive", "life", "counter"):
        assert np.array_equal(one.table(table).array, two.table(table).array)
