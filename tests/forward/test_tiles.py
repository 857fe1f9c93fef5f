"""Which tiles a CTA works on, in which order, and against which blocks: as the simulator says.

A small kernel with our scheduling code writes down the tiles of every CTA, in the emulator.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

pytest.importorskip("cutlass", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")

from hypothesis import given, settings
from hypothesis import strategies as st

from fa4kernel.forward.config import TILE
from fa4kernel.forward.design import design_for
from fa4kernel.forward.tiles import Tile
from fa4sim.numerics.masks import row_limits
from fa4sim.pipelines.fa4.gpu import make_plan
from fa4sim.pipelines.fa4.tiles import WorkTile, needs_mask
from fa4sim.specs import B200, Design, Problem
from tests.forward.probe import tiles_of

LENGTH = st.integers(1, 3000)
LENGTHS = st.lists(
    st.tuples(st.integers(0, 900), st.integers(0, 900)), min_size=1, max_size=5
).filter(lambda pairs: any(q for q, _ in pairs))


def simulated(problem: Problem, design: Design, sms: int) -> list[list[WorkTile]]:
    """The tiles of each CTA or pair as the simulator deals them out."""
    plan = make_plan(problem, design, replace(B200, sms=sms))
    if plan.lists is not None:
        return [[plan.tiles[i] for i in mine] for mine in plan.lists]
    return [[tile] for tile in plan.tiles if tile.steps] + [[] for _ in range(plan.padding)]


def coordinates(tiles: list[list[Tile]] | list[list[WorkTile]]) -> list[list[tuple[int, ...]]]:
    """Where each tile lies."""
    return [[(tile.m_block, tile.head, tile.batch) for tile in mine] for mine in tiles]


def masked_blocks(tile: Tile, problem: Problem) -> list[tuple[int, bool]]:
    """The blocks of a tile in order, and whether a mask is applied to each."""
    left = problem.window is not None and problem.window[0] is not None
    blocks = range(tile.first, tile.first - tile.blocks, -1)
    return [
        (block, block == tile.first or block >= tile.right or (left and block < tile.left))
        for block in blocks
    ]


def limits(tile: Tile, problem: Problem, design: Design) -> tuple[np.ndarray, np.ndarray]:
    """From which key to which each row of a tile sees; nothing of rows beyond the last."""
    ratio = problem.group if design.pack_gqa else 1
    count = design.work_rows * design.cta_group
    rows = tile.m_block * count + np.arange(count)
    return row_limits(
        rows[rows < tile.seqlen_q * ratio], tile.seqlen_q, tile.seqlen_k, problem.causal,
        problem.window, ratio,
    )  # fmt: skip


def check(problem: Problem, sms: int = 148, **changes: object) -> None:
    """Order, lengths, places and blocks are the simulator's."""
    machine = replace(B200, sms=sms)
    design = design_for(problem, machine, **changes)
    ours, theirs = tiles_of(problem, design, machine), simulated(problem, design, sms)
    assert coordinates(ours) == coordinates(theirs)
    for mine, other in zip(chain(*ours), chain(*theirs), strict=True):
        assert (mine.seqlen_q, mine.seqlen_k) == problem.lengths(mine.batch)
        assert mine.start_q == sum((problem.seqlens_q or ())[: mine.batch])
        assert mine.start_k == sum((problem.seqlens_k or ())[: mine.batch])
        check_blocks(mine, other, problem, design)


def check_blocks(mine: Tile, other: WorkTile, problem: Problem, design: Design) -> None:
    """The simulator's blocks; masked where a row sees a part only, and nowhere but there or where
    the simulator masks, which is where the published kernel does.
    """
    blocks = masked_blocks(mine, problem)
    left, right = limits(mine, problem, design)
    if not (left < right).any():  # one block, whichever it is, of which nothing is seen
        assert [is_masked for _, is_masked in blocks] == [True]
        assert [needs_mask(step) for step in other.steps] == [True]
        return
    assert [block for block, _ in blocks] == [step.n_block for step in other.steps]
    for (block, is_masked), step in zip(blocks, other.steps, strict=True):
        cut = (left > block * TILE).any() or (right < (block + 1) * TILE).any()
        assert is_masked >= cut
        assert is_masked <= needs_mask(step)


FEW = settings(max_examples=15)


@given(LENGTH, LENGTH, st.integers(1, 3), st.integers(1, 3), st.integers(1, 9))
@FEW
def test_tiles_dealt_out_to_ctas_that_stay(q, k, heads, batch, sms):
    problem = Problem(batch=batch, heads=heads, seqlen_q=q, seqlen_k=k, head_dim=64)
    check(problem, sms, q_stages=2)


@given(LENGTHS, st.integers(1, 20))
@FEW
def test_tiles_of_sequences_of_different_length_under_a_window(lengths, heads):
    q, k = zip(*lengths, strict=True)
    problem = Problem(heads=heads, seqlens_q=q, seqlens_k=k, head_dim=64, window=(100, 30))
    check(problem, q_stages=2)


@pytest.mark.slow
@given(LENGTH, LENGTH, st.integers(1, 3), st.integers(1, 3))
@FEW
def test_longest_tiles_first(q, k, heads, batch):
    problem = Problem(batch=batch, heads=4 * heads, kv_heads=heads, seqlen_q=q, seqlen_k=k,
                      causal=True)  # fmt: skip
    check(problem, q_stages=2)


@pytest.mark.slow
@pytest.mark.parametrize("seqlen_k", [2000, 60_000, 110_000, 500_000])
def test_longest_tiles_first_in_sections_that_fit_into_l2(seqlen_k):
    problem = Problem(batch=2, heads=12, kv_heads=3, seqlen_q=1000, seqlen_k=seqlen_k, causal=True)
    check(problem)


@pytest.mark.slow
@given(LENGTHS, st.integers(1, 3))
@FEW
def test_tiles_of_packed_sequences_causal(lengths, heads):
    q, k = zip(*lengths, strict=True)
    problem = Problem(heads=8 * heads, kv_heads=heads, seqlens_q=q, seqlens_k=k, causal=True)
    check(problem, q_stages=2)


@pytest.mark.slow
@pytest.mark.parametrize("seqlen", [3000, 20_000, 60_000, 220_000])
def test_sections_of_heads_in_a_long_sequence(seqlen):
    problem = Problem(heads=24, kv_heads=24, seqlens_q=(seqlen, 50), seqlens_k=(700, 50),
                      causal=True)  # fmt: skip
    check(problem)


@pytest.mark.slow
@given(LENGTHS, st.integers(1, 3))
@FEW
def test_tiles_of_sequences_without_a_mask(lengths, heads):
    q, k = zip(*lengths, strict=True)
    check(Problem(heads=heads, seqlens_q=q, seqlens_k=k, head_dim=64), q_stages=2)


@pytest.mark.slow
@given(LENGTH, LENGTH, st.integers(0, 400), st.integers(0, 400))
@FEW
def test_blocks_that_a_window_leaves(q, k, left, right):
    problem = Problem(seqlen_q=q, seqlen_k=k, head_dim=64, window=(left, right))
    check(problem, q_stages=2)


@pytest.mark.slow
@given(LENGTH, LENGTH, st.integers(0, 400))
@FEW
def test_blocks_that_a_window_to_the_left_leaves(q, k, left):
    check(Problem(seqlen_q=q, seqlen_k=k, head_dim=64, window=(left, None)), q_stages=2)


@pytest.mark.slow
@given(st.integers(257, 3000), LENGTH, st.integers(1, 3), st.integers(2, 9))
@FEW
def test_tiles_of_pairs(q, k, heads, sms):
    check(Problem(heads=heads, seqlen_q=q, seqlen_k=k), sms)


@given(LENGTH, LENGTH, st.integers(1, 3), st.integers(1, 2), st.integers(2, 9))
@FEW
def test_blocks_shared_out_among_splits(q, k, heads, batch, splits):
    problem = Problem(batch=batch, heads=heads, seqlen_q=q, seqlen_k=k, num_splits=splits)
    check_splits(problem)


@pytest.mark.slow
@pytest.mark.parametrize("mask", [{"causal": True}, {"window": (300, 50)}])
@given(LENGTHS, st.integers(2, 9))
@FEW
def test_blocks_of_sequences_of_different_length_shared_out_under_a_mask(mask, lengths, splits):
    q, k = zip(*lengths, strict=True)
    check_splits(Problem(heads=2, seqlens_q=q, seqlens_k=k, num_splits=splits, **mask))


@pytest.mark.slow
@given(LENGTH, LENGTH, st.integers(2, 9))
@FEW
def test_longest_tiles_first_of_each_split(q, k, splits):
    check_splits(Problem(heads=3, seqlen_q=q, seqlen_k=k, causal=True, num_splits=splits))


def check_splits(problem: Problem) -> None:
    """CTAs that have blocks have the simulator's, in its order."""
    design = design_for(problem, B200, q_stages=2)
    ours = [mine for mine in tiles_of(problem, design, B200) if mine]
    theirs = [mine for mine in simulated(problem, design, 148) if mine]
    assert coordinates(ours) == coordinates(theirs)
    for mine, other in zip(chain(*ours), chain(*theirs), strict=True):
        check_blocks(mine, other, problem, design)
