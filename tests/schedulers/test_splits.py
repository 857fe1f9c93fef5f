"""Splits of a tile's keys: in which order they are handed out, and how many a sequence gets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4sim.numerics import num_splits_heuristic
from fa4sim.schedulers import prepare_warps, split_order, splits_by_sequence, tile_order
from fa4sim.specs import SCHEDULERS
from fa4sim.specs.splits import heuristic_splits


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@given(
    blocks=st.lists(st.integers(0, 4), min_size=1, max_size=4), heads=st.integers(1, 3),
    splits=st.lists(st.integers(1, 4), min_size=4, max_size=4), alike=st.booleans(),
)  # fmt: skip
def test_every_split_of_every_tile_is_handed_out_once(scheduler, blocks, heads, splits, alike):
    if scheduler == "lpt":
        blocks = blocks[:1] * len(blocks)
    splits = [splits[0]] * len(blocks) if alike else splits[: len(blocks)]
    order = split_order(scheduler, blocks, heads, splits)
    assert sorted(order) == sorted(
        (m, h, b, s)
        for b, count in enumerate(blocks)
        for m in range(count)
        for h in range(heads)
        for s in range(splits[b])
    )


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_without_splits_nothing_changes(scheduler):
    whole = tile_order(scheduler, [3, 3], heads=2)
    assert split_order(scheduler, [3, 3], 2, [1, 1]) == [(*at, 0) for at in whole]


def test_where_the_splits_of_a_head_come():
    # (m, head, batch, split): beside each other, or all of one split before the next.
    assert split_order("single_tile", [1], 2, [2]) == [
        (0, 0, 0, 0), (0, 0, 0, 1), (0, 1, 0, 0), (0, 1, 0, 1)
    ]  # fmt: skip
    for scheduler in ("lpt", "dynamic", "single_tile_varlen"):
        assert split_order(scheduler, [1], 2, [2]) == [
            (0, 0, 0, 0), (0, 1, 0, 0), (0, 0, 0, 1), (0, 1, 0, 1)
        ]  # fmt: skip
    order = split_order("dynamic_varlen", [2, 1], 1, [2, 1])
    assert order == [(1, 0, 0, 0), (0, 0, 0, 0), (1, 0, 0, 1), (0, 0, 0, 1), (0, 0, 1, 0)]


@given(
    lengths=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2000)), min_size=1, max_size=40),
    heads=st.integers(1, 16), sms=st.integers(1, 200), most=st.integers(1, 128),
)  # fmt: skip
def test_longer_sequences_get_more_splits_and_none_more_than_asked_for(lengths, heads, sms, most):
    m_blocks, n_blocks = zip(*lengths, strict=True)
    splits = splits_by_sequence(m_blocks, n_blocks, heads, sms, most)
    assert all(1 <= count <= most for count in splits)
    assert all(count <= max(1, n) for count, n in zip(splits, n_blocks, strict=True))
    by_length = sorted(zip(n_blocks, splits, strict=True))
    assert [count for _, count in by_length] == sorted(count for _, count in by_length)


def test_the_prepare_kernels_example():
    # 992 sequences fill 32 warps of 31; one more and nothing is split.
    blocks = [1] * 992
    assert max(splits_by_sequence(blocks[:4], [1000] * 4, 8, 148, 18)) == 4
    assert splits_by_sequence([1] * 993, [1000] * 993, 8, 148, 18) == [1] * 993
    assert [prepare_warps(n) for n in (1, 31, 32, 93, 992, 5000)] == [1, 1, 2, 4, 32, 32]


@given(tiles=st.integers(0, 400), sms=st.integers(1, 200), blocks=st.integers(0, 3000))
def test_both_heuristics_agree(tiles, sms, blocks):
    assert heuristic_splits(tiles, sms, blocks) == num_splits_heuristic(tiles, sms, blocks)
