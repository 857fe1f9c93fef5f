"""What warps know, and how it spreads."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fa4kernel.emulator.checks.clocks import LONE, WHOLE, Clocks, Table
from fa4kernel.emulator.machine.registers import Shape

SHAPE = Shape(warps=4, size=2, clusters=3)
#: Warp 1 in the CTAs of rank 0 of the three clusters.
ONES = np.arange(6, 9)


def test_warps_of_one_place_in_their_clusters_share_a_component() -> None:
    clocks = Clocks(SHAPE)
    assert len(set(clocks.whole[ONES].tolist())) == 1
    assert len(set(clocks.unit.tolist())) == SHAPE.warps * SHAPE.size


def test_what_all_lanes_did_goes_with_what_all_lanes_pass_on() -> None:
    clocks = Clocks(SHAPE)
    time = clocks.time[ONES].copy()
    rows = clocks.release(ONES, WHOLE)
    assert (rows[np.arange(3), clocks.whole[ONES]] == time).all()
    assert (clocks.time[ONES] > time).all()


def test_a_lone_lane_does_not_vouch_for_the_others_before_they_meet() -> None:
    clocks = Clocks(SHAPE)
    time = clocks.time[ONES].copy()
    assert (clocks.release(ONES, LONE)[np.arange(3), clocks.whole[ONES]] < time).all()
    time = clocks.time[ONES].copy()
    clocks.merge(ONES)
    assert (clocks.release(ONES, LONE)[np.arange(3), clocks.whole[ONES]] == time).all()


def test_lanes_that_only_wait_for_each_other_share_order_but_no_memory() -> None:
    clocks = Clocks(SHAPE)
    order, memory = clocks.components((True, False)), clocks.count - 1
    clocks.known[LONE, ONES, order] = clocks.known[LONE, ONES, memory] = 5
    clocks.meet(ONES)
    assert (clocks.known[WHOLE, ONES, order] == 5).all()
    assert (clocks.known[WHOLE, ONES, memory] == 0).all()


def test_a_proxy_fence_copies_what_is_known_and_what_comes_later_is_not_in_it() -> None:
    clocks = Clocks(SHAPE)
    other = clocks.whole[0]
    clocks.known[:, ONES, other] = 7
    clocks.fence(ONES, WHOLE)
    clocks.known[:, ONES, other] = 9
    assert (clocks.known[:, ONES, other + clocks.through] == 7).all()


def test_new_components_leave_what_is_known_as_it_was() -> None:
    clocks = Clocks(SHAPE, expected=1)
    table = Table(clocks, 2)
    before = clocks.known.copy()
    first = clocks.components((False, True) * 20)
    assert first == before.shape[2] - 1
    assert (clocks.known[:, :, : before.shape[2]] == before).all()
    assert table.rows.shape[1] == clocks.known.shape[2]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=12))
def test_joining_rows_is_the_same_in_any_grouping(entries: list[tuple[int, int]]) -> None:
    clocks = Clocks(Shape(1, 1, 1), expected=2)
    together, apart = Table(clocks, 4), Table(clocks, 4)
    keys = np.array([key for key, _ in entries])
    values = np.array([[v] * clocks.capacity for _, v in entries], np.int32)
    together.join(keys, values)
    for key, value in zip(keys, values, strict=True):
        apart.join(np.array([key]), value[None])
    assert (together.rows == apart.rows).all()


STEPS = st.tuples(
    st.sampled_from(["give", "take", "merge", "meet", "fence"]),
    st.integers(0, 23),
    st.sampled_from([WHOLE, LONE]),
)


@given(st.lists(STEPS, max_size=30))
def test_nobody_ever_forgets(steps: list[tuple[str, int, int]]) -> None:
    clocks = Clocks(SHAPE)
    given_last = clocks.release(np.array([0]), WHOLE)
    for what, slot, part in steps:
        before, slots = clocks.known.copy(), np.array([slot])
        if what == "give":
            given_last = clocks.release(slots, part)
        elif what == "take":
            clocks.acquire(slots, part, given_last)
        elif what == "merge":
            clocks.merge(slots)
        elif what == "meet":
            clocks.meet(slots)
        else:
            clocks.fence(slots, part)
        assert (clocks.known >= before).all()
