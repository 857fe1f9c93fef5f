from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4sim.numerics import (
    block_range,
    block_steps,
    choose_num_splits,
    num_splits_heuristic,
    split_range,
)


@given(n_min=st.integers(0, 50), blocks=st.integers(-3, 300), num_splits=st.integers(1, 256))
def test_splits_cover_every_block_once_in_order(n_min, blocks, num_splits) -> None:
    ranges = [split_range(n_min, n_min + blocks, split, num_splits) for split in range(num_splits)]
    visited = [block for first, end in ranges for block in range(first, end)]
    assert visited == list(range(n_min, n_min + blocks))
    sizes = [max(0, end - first) for first, end in ranges]
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) == max(0, -(-blocks // num_splits))


@given(blocks=st.integers(1, 100), each=st.integers(1, 100), more=st.integers(0, 5))
def test_a_fixed_length_of_splits_cuts_at_the_same_places_for_any_number(blocks, each, more):
    num_splits = -(-blocks // each) + more
    if num_splits == 1:
        return
    ranges = [split_range(0, blocks, split, num_splits, each) for split in range(num_splits)]
    starts = [first for first, end in ranges if first < end]
    assert starts == list(range(0, blocks, each))


def test_a_fixed_length_that_leaves_blocks_over_is_refused() -> None:
    with pytest.raises(ValueError, match=r"blocks_per_split=2 in 4 splits.*9 blocks.*at least 3"):
        split_range(0, 9, 0, 4, blocks_per_split=2)


@given(
    seqlen_q=st.integers(1, 600),
    seqlen_k=st.integers(0, 1500),
    mask=st.sampled_from(
        [
            {},
            {"causal": True},
            {"window": (200, 50)},
            {"window": (None, 30)},
            {"window": (90, None)},
        ]
    ),
    num_splits=st.integers(2, 9),
    m_block=st.integers(0, 2),
)
def test_the_steps_of_all_splits_are_those_of_the_whole_tile(
    seqlen_q, seqlen_k, mask, num_splits, m_block
) -> None:
    tile = (m_block, 256, 128, seqlen_q, seqlen_k)
    n_min, n_max = block_range(*tile, **mask)
    parts = [
        block_steps(*tile, **mask, split=split, num_splits=num_splits)
        for split in range(num_splits)
    ]
    visited = [step.n_block for part in reversed(parts) for step in part]
    assert visited == list(range(n_max - 1, n_min - 1, -1))
    whole = {step.n_block: step.kind for step in block_steps(*tile, **mask)}
    for part in parts:
        for i, step in enumerate(part):
            assert step.kind == ("seqlen+mask" if i == 0 else whole[step.n_block])


def test_an_empty_split_has_no_steps_but_a_tile_without_keys_has_one() -> None:
    assert block_steps(0, 256, 128, 256, 0, split=0, num_splits=2) == []
    assert [step.n_block for step in block_steps(0, 256, 128, 256, 0)] == [-1]
    assert block_steps(0, 256, 128, 1, 300, split=3, num_splits=4) == []


@pytest.mark.parametrize(
    ("tiles", "blocks", "splits"),
    [
        (0, 1000, 1),  # an empty batch: no division by zero
        (1, 1000, 128),  # 148 SMs, but never more than 128
        (1, 100, 100),  # not more than blocks
        (1, 4, 1),  # too short
        (1, 5, 5),
        (32, 512, 4),
        (148, 512, 1),
        (149, 512, 1),
        (10**6, 512, 1),
    ],
)
def test_the_heuristic_fills_the_machine(tiles, blocks, splits) -> None:
    assert num_splits_heuristic(tiles, 148, blocks) == splits


@given(tiles=st.integers(0, 10**6), sms=st.integers(1, 1000), blocks=st.integers(0, 10**5))
def test_the_heuristic_never_starts_a_second_wave(tiles, sms, blocks) -> None:
    splits = num_splits_heuristic(tiles, sms, blocks)
    assert 1 <= splits <= max(1, blocks)
    assert splits == 1 or splits * tiles <= sms


def test_the_calls_own_sizes_decide() -> None:
    call = {"batch": 1, "kv_heads": 8, "rows": 4, "seqlen_k": 65536, "sms": 148}
    assert choose_num_splits(**call) == 18
    assert choose_num_splits(**{**call, "rows": 257}) == 9, "two work tiles of 256 rows"
    assert choose_num_splits(**{**call, "rows": 256}) == 18
    assert choose_num_splits(**{**call, "rows": 0}) == 1
    assert choose_num_splits(**{**call, "batch": 0}) == 1
    assert choose_num_splits(**{**call, "window": (None, 0)}) == 18, "causal doesn't shorten"
    assert choose_num_splits(**{**call, "window": (1000, 151)}) == 10, "1280 keys are 10 blocks"
    assert choose_num_splits(**{**call, "window": (1000, 152)}) == 11


def test_bad_counts_are_refused_with_what_is_allowed() -> None:
    for split, num_splits in ((0, 0), (0, 257), (4, 4), (-1, 4)):
        with pytest.raises(ValueError, match="split"):
            split_range(0, 8, split, num_splits)
    for wrong in ((0.5, 4), (0, 4.0), (0, True)):
        with pytest.raises(ValueError, match="must be a whole number"):
            split_range(0, 8, *wrong)
    with pytest.raises(ValueError, match="tile_n=0 must be at least 1"):
        choose_num_splits(batch=1, kv_heads=1, rows=1, seqlen_k=1, sms=1, tile_n=0)
    with pytest.raises(ValueError, match="total_m_blocks=-1"):
        num_splits_heuristic(-1, 148, 8)
    with pytest.raises(ValueError, match="sms=0"):
        num_splits_heuristic(1, 0, 8)
    with pytest.raises(ValueError, match="batch=-1"):
        choose_num_splits(batch=-1, kv_heads=1, rows=1, seqlen_k=1, sms=1)
