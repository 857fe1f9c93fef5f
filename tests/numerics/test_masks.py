from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.bias import causal_lower_right

from fa4sim.numerics import (
    block_range,
    block_steps,
    mask_matrix,
    resolve_window,
    row_limits,
)

side = st.none() | st.integers(-300, 400)
problems = st.fixed_dictionaries(
    {
        "seqlen_q": st.integers(1, 700),
        "seqlen_k": st.integers(0, 700),
        "causal": st.booleans(),
        "window": st.none() | st.tuples(side, side),
        "ratio": st.sampled_from([1, 2, 3, 8]),
    }
)


def test_causal_is_aligned_to_the_bottom_right_as_in_pytorch() -> None:
    for seqlen_q, seqlen_k in [(5, 5), (3, 8), (8, 3), (1, 6)]:
        theirs = torch.ones(seqlen_q, seqlen_k, dtype=torch.bool)
        theirs = theirs.tril(diagonal=seqlen_k - seqlen_q).numpy()
        assert np.array_equal(mask_matrix(seqlen_q, seqlen_k, causal=True), theirs)
        if seqlen_q <= seqlen_k:  # PyTorch warns of rows that see nothing
            bias = causal_lower_right(seqlen_q, seqlen_k)._materialize()
            assert np.array_equal(mask_matrix(seqlen_q, seqlen_k, causal=True), bias.numpy())


def test_a_window_counts_keys_on_each_side_of_the_diagonal() -> None:
    mask = mask_matrix(6, 9, window=(2, 1))
    for query in range(6):
        position = query + 3
        seen = [key for key in range(9) if position - 2 <= key <= position + 1]
        assert np.flatnonzero(mask[query]).tolist() == seen


def test_an_unbounded_side_is_none_and_not_minus_one() -> None:
    assert mask_matrix(4, 4, window=(None, None)).all()
    assert np.array_equal(mask_matrix(4, 4, window=(None, 0)), mask_matrix(4, 4, causal=True))
    assert np.array_equal(
        mask_matrix(4, 4, window=(None, -1)), np.tril(np.ones((4, 4), bool), k=-1)
    )
    assert np.array_equal(mask_matrix(4, 4, window=(-1, None)), np.triu(np.ones((4, 4), bool), k=1))


def test_windows_are_resolved_as_the_kernels_interface_does() -> None:
    assert resolve_window() == (None, None)
    assert resolve_window(causal=True) == (None, 0)
    assert resolve_window(causal=True, window=(7, 5)) == (7, 0)
    assert resolve_window(window=(-3, 2)) == (None, None)  # negative sum: dropped
    assert resolve_window(causal=True, window=(-1, -1)) == (None, 0)
    assert resolve_window(window=(np.int64(3), None)) == (3, None)


def test_packed_rows_follow_their_query() -> None:
    packed = mask_matrix(5, 7, window=(2, 0), ratio=3)
    assert np.array_equal(packed, np.repeat(mask_matrix(5, 7, window=(2, 0)), 3, axis=0))


def test_a_packed_tile_that_ends_inside_a_query_counts_that_query() -> None:
    # Rows 0 to 255 of ratio 3 end with query 85, which sits at key position 128 and sees key 128.
    assert row_limits([255], 100, 143, causal=True, ratio=3)[1] == [129]
    assert block_range(0, 256, 128, 100, 143, causal=True, ratio=3) == (0, 2)


def test_an_aligned_causal_tile_masks_its_diagonal_pair_of_blocks() -> None:
    for m_block in range(4):
        kinds = [s.kind for s in block_steps(m_block, 256, 128, 1024, 1024, causal=True)]
        assert kinds == ["seqlen+mask", "mask"] + ["none"] * (2 * m_block)


def test_a_window_masks_both_ends_of_its_blocks() -> None:
    steps = block_steps(4, 256, 128, 4096, 4096, window=(512, 0))
    assert [s.n_block for s in steps] == [9, 8, 7, 6, 5, 4]
    assert [s.kind for s in steps] == ["seqlen+mask", "mask", "none", "none"] + ["left-window"] * 2


def test_without_a_mask_only_the_first_step_is_masked() -> None:
    kinds = [s.kind for s in block_steps(0, 256, 128, 256, 600)]
    assert kinds == ["seqlen+mask"] + ["none"] * 4


@pytest.mark.parametrize(
    ("arguments", "block"),
    [
        ({"seqlen_q": 10, "seqlen_k": 0}, -1),
        ({"seqlen_q": 1000, "seqlen_k": 100, "causal": True}, -6),
        ({"seqlen_q": 256, "seqlen_k": 256, "window": (-300, 400)}, 1),
    ],
)
def test_a_tile_without_blocks_still_runs_one_masked_step(arguments, block) -> None:
    steps = block_steps(0, 256, 128, **arguments)
    assert steps == [(block, "seqlen+mask")]
    left, right = row_limits(np.arange(min(256, arguments["seqlen_q"])), **arguments)
    first_key = max(block, 0) * 128
    assert np.all(np.minimum(right, first_key + 128) <= np.maximum(left, first_key))


@given(problem=problems, q_stage=st.sampled_from([1, 2]))
@settings(deadline=None, max_examples=150)
def test_the_steps_of_a_tile_visit_every_key_its_rows_see(problem, q_stage) -> None:
    mask = mask_matrix(**problem)
    tile_rows = q_stage * 128
    for m_block in range(-(-len(mask) // tile_rows)):
        tile = mask[m_block * tile_rows : (m_block + 1) * tile_rows]
        visited = np.zeros(problem["seqlen_k"], dtype=bool)
        for n_block, _ in block_steps(m_block, tile_rows, 128, **problem):
            if n_block >= 0:
                visited[n_block * 128 : (n_block + 1) * 128] = True
        assert not tile.any(axis=0)[~visited].any()


@given(problem=problems, q_stage=st.sampled_from([1, 2]))
@settings(deadline=None, max_examples=150)
def test_an_unmasked_step_has_nothing_to_mask(problem, q_stage) -> None:
    mask = mask_matrix(**problem)
    tile_rows = q_stage * 128
    for m_block in range(-(-len(mask) // tile_rows)):
        tile = mask[m_block * tile_rows : (m_block + 1) * tile_rows]
        for n_block, kind in block_steps(m_block, tile_rows, 128, **problem):
            if kind == "none":
                assert (n_block + 1) * 128 <= problem["seqlen_k"]
                assert tile[:, n_block * 128 : (n_block + 1) * 128].all()


@given(problem=problems)
@settings(deadline=None, max_examples=100)
def test_steps_descend_one_block_at_a_time_through_the_range(problem) -> None:
    n_min, n_max = block_range(0, 256, 128, **problem)
    steps = block_steps(0, 256, 128, **problem)
    expected = list(range(n_max - 1, n_min - 1, -1)) or [n_max - 1]
    assert [step.n_block for step in steps] == expected
    order = ["seqlen+mask", "mask", "none", "left-window"]
    ranks = [order.index(step.kind) for step in steps]
    assert ranks == sorted(ranks)
    assert ranks.count(0) == 1


@given(problem=problems)
@settings(deadline=None, max_examples=100)
def test_limits_and_matrix_say_the_same(problem) -> None:
    mask = mask_matrix(**problem)
    left, right = row_limits(np.arange(len(mask)), **problem)
    assert np.array_equal(mask.sum(axis=1), np.maximum(right - left, 0))
    assert left.min(initial=0) >= 0
    assert right.max(initial=0) <= problem["seqlen_k"]


def test_bad_arguments_are_refused_with_their_values() -> None:
    with pytest.raises(ValueError, match=r"window=\(1\.5, 0\)"):
        resolve_window(window=(1.5, 0))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"window=\(1, 2, 3\)"):
        resolve_window(window=(1, 2, 3))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="seqlen_k=-1"):
        row_limits([0], 1, -1)
    with pytest.raises(ValueError, match="ratio=0"):
        row_limits([0], 1, 1, ratio=0)
    with pytest.raises(ValueError, match="tile_n=0"):
        block_range(0, 128, 0, 1, 1)
