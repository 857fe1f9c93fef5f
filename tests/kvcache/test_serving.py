"""Requests drawn from distributions, and the users that fit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fa4sim.kvcache import (
    CacheModel,
    Lengths,
    OutOfPages,
    PageAllocator,
    Tokens,
    Workload,
    compare_page_sizes,
    users,
    users_without_pages,
)

TINY = CacheModel(layers=1, kv_heads=1, head_dim=1)  # 4 bytes a token


def test_bytes_of_a_token_and_of_a_page():
    llama = CacheModel(layers=80, kv_heads=8, head_dim=128)
    assert llama.token_bytes == 80 * 8 * 128 * 2 * 2
    assert llama.page_bytes(16) == 16 * llama.token_bytes
    assert CacheModel(dtype="e4m3").token_bytes * 2 == CacheModel().token_bytes
    assert CacheModel(head_dim=192, head_dim_v=128).token_bytes == 80 * 8 * 320 * 2
    assert llama.table_bytes(3, 33, 16) == 3 * 3 * 4
    for wrong in ({"layers": 0}, {"dtype": "int4"}, {"head_dim_v": -1}, {"kv_heads": 1.5}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))}="):
            CacheModel(**wrong)


# -- lengths -----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["300", "uniform:5:90", "lognormal:100:1:500", "lognormal:50:0"])
def test_lengths_keep_to_their_limits_and_their_seed(text):
    lengths = Lengths.of(text)
    first, again = (lengths.draw(2000, np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(first, again) and first.dtype == np.int64
    assert first.min() >= 1 and first.max() <= lengths.most
    median = {"300": 300, "uniform:5:90": 47, "lognormal:100:1:500": 100, "lognormal:50:0": 50}
    assert abs(np.median(first) - median[text]) <= 0.1 * median[text]


def test_lengths_from_a_file(tmp_path):
    path = tmp_path / "lengths.txt"
    path.write_text("10\n700\n35\n")
    lengths = Lengths.of(str(path))
    assert set(lengths.draw(200, np.random.default_rng(0)).tolist()) == {10, 35, 700}
    assert lengths.most == 700
    path.write_text("10\nmany\n")
    with pytest.raises(ValueError, match="'many' must be a whole number of tokens"):
        Lengths.of(str(path))
    path.write_text("")
    with pytest.raises(ValueError, match="holds no number"):
        Lengths.of(str(path))


@pytest.mark.parametrize(
    "text, words",
    [
        ("uniform:1", "must be uniform:LOW:HIGH"),
        ("uniform:9:2", "LOW is above HIGH"),
        ("uniform:1:x", "'x' must be a whole number"),
        ("uniform:-1:5", "'-1' must be 0 to"),
        ("lognormal:5", "must be lognormal:MEDIAN:SIGMA"),
        ("lognormal:100:9", "SIGMA '9' must be a number from 0 to 5"),
        ("lognormal:0:1", "MEDIAN 0 must be 1 to MOST"),
        ("lognormal:100:1:50", "MEDIAN 100 must be 1 to MOST, which is 50"),
        ("1.5", "'1.5' must be a whole number"),
        ("-3", "'-3' must be 0 to"),
        ("nowhere.txt", "there is no such file"),
        ("", "there is no such file|cannot read it"),
    ],
)
def test_lengths_that_nobody_can_draw_are_refused(text, words):
    with pytest.raises(ValueError, match=words):
        Lengths.of(text)


# -- workloads ---------------------------------------------------------------------------------


def test_requests_share_prefixes_and_part_into_branches():
    workload = Workload(
        Lengths.of("uniform:1:50"),
        prefix=30,
        sharers=4,
        branches=3,
        branch=Lengths.of("uniform:1:9"),
    )
    drawn = workload.draw(10, seed=1)
    assert [len(tree.then) for tree in drawn] == [4, 4, 2]
    assert all(
        tree.tokens == 30 and len(request.then) == 3 for tree in drawn for request in tree.then
    )
    assert sum(1 for tree in drawn for _ in tree.sequences()) == 30
    assert max(length for tree in drawn for length in tree.sequences()) <= workload.longest == 89
    assert drawn == workload.draw(10, seed=1) != workload.draw(10, seed=2)
    with pytest.raises(ValueError, match="branches=2 differ by nothing"):
        Workload(branches=2)
    with pytest.raises(ValueError, match="sharers=0 must be 1"):
        Workload(sharers=0)
    with pytest.raises(ValueError, match="requests=0 must be 1"):
        workload.draw(0)


WORKLOADS = st.builds(
    Workload,
    st.sampled_from(["uniform:0:60", "lognormal:20:1:90", "17"]).map(Lengths.of),
    prefix=st.integers(0, 40),
    sharers=st.integers(1, 9),
    branches=st.integers(1, 3),
    branch=st.sampled_from(["uniform:0:9", "3"]).map(Lengths.of),
)


@settings(deadline=None)
@given(workload=WORKLOADS, size=st.integers(1, 20), pages=st.integers(1, 300))
def test_users_are_the_requests_that_an_allocator_admits(workload, size, pages):
    drawn = workload.draw(12, seed=4)
    longest = max(length for tree in drawn for length in tree.sequences())
    row = 4 * -(-longest // size)
    memory = pages * TINY.page_bytes(size)
    found = users(TINY, drawn, size, memory)
    # Admit whole requests one by one until pages and their rows of the table no longer fit.
    admitted = 0
    left = memory
    while True:
        tree = drawn[admitted // workload.sharers % len(drawn)] if admitted < 12 else None
        if tree is None:
            break
        cache = PageAllocator(size)
        upto = admitted % workload.sharers
        cache.hold(Tokens(tree.tokens, tree.then[:upto])) if upto else None
        before = cache.used
        cache = PageAllocator(size)
        cache.hold(Tokens(tree.tokens, tree.then[: upto + 1]))
        rows = sum(1 for _ in tree.then[upto].sequences())
        left -= (cache.used - before) * TINY.page_bytes(size) + rows * row
        if left < 0:
            break
        admitted += 1
    assert found == admitted if admitted < 12 else found >= 12


@settings(deadline=None)
@given(workload=WORKLOADS, size=st.integers(1, 40))
def test_rows_add_up_and_sharing_does_not_harm(workload, size):
    one, row = compare_page_sizes(TINY, workload, [1, size], 10**6, requests=20, seed=2)
    assert one.empty == one.copied == 0 and one.fragmentation == 0.0
    assert row.distinct + row.empty + row.copied == row.pages * size
    assert row.pages <= row.pages_alone and 0 <= row.saved < 1
    assert row.total_bytes <= row.total_bytes_alone
    assert row.users >= row.users_alone
    assert row.pages * size >= one.pages and row.table_bytes <= one.table_bytes


def test_half_a_page_is_lost_per_sequence_of_spread_lengths():
    workload = Workload(Lengths.of("uniform:1:100000"))
    (row,) = compare_page_sizes(CacheModel(), workload, [128], 2**40, requests=4000)
    assert row.empty / row.sequences == pytest.approx(127 / 2, rel=0.03)


def test_requests_that_nobody_can_draw_are_refused():
    with pytest.raises(ValueError, match="own=5 must be Lengths, as"):
        Workload(own=5)
    with pytest.raises(ValueError, match=r"seed=2\.5 must be a whole number"):
        Workload().draw(3, seed=2.5)
    nothing = Workload(Lengths.of("uniform:0:0"))
    with pytest.raises(ValueError, match="none of the 9 requests has a token"):
        compare_page_sizes(TINY, nothing, [16], 10**6, requests=9)


def test_what_fits_without_pages_and_in_none():
    workload = Workload(Lengths.of("uniform:1:1000"), prefix=24, branches=2, branch=Lengths.of(8))
    assert users_without_pages(TINY, workload, 10 * 2 * 1032 * 4) == 10
    with pytest.raises(ValueError, match="memory_bytes=100 holds no page: one of 64 tokens"):
        users(TINY, [Tokens(5)], 64, 100)
    with pytest.raises(ValueError, match="page_sizes is empty"):
        compare_page_sizes(TINY, workload, [], 10**6)
    for wrong in (-5, float("nan"), None):
        for fits in (
            lambda memory: users(TINY, [Tokens(5)], 64, memory),
            lambda memory: users_without_pages(TINY, workload, memory),
        ):
            with pytest.raises(ValueError, match=f"memory_bytes={wrong} must be"):
                fits(wrong)
    cache = PageAllocator(64, 1)
    with pytest.raises(OutOfPages):
        cache.hold(Tokens(65))
