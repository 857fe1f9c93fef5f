from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fa4sim.numerics import (
    attention_blockwise,
    check_page_table,
    gather_pages,
    round_to,
    scatter_pages,
)


def table_of(rng, lengths, page_size, spare_pages=3, spare_columns=2):
    """A table that gives every sequence its pages in random order, junk where none is needed."""
    needed = [-(-length // page_size) for length in lengths]
    order = rng.permutation(sum(needed) + spare_pages).astype(np.int32)
    columns = max(needed, default=0) + spare_columns
    table = rng.integers(-(2**31), 2**31, (len(lengths), columns)).astype(np.int32)
    first = 0
    for row, count in zip(table, needed, strict=True):
        row[:count] = order[first : first + count]
        first += count
    return table, len(order)


@given(
    lengths=st.lists(st.integers(0, 70), min_size=1, max_size=4),
    page_size=st.sampled_from([1, 2, 3, 16, 128]),
    seed=st.integers(0, 1000),
)
@settings(deadline=None)
def test_any_table_gathers_what_was_scattered(lengths, page_size, seed) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((len(lengths), max(lengths), 2, 4))
    table, num_pages = table_of(rng, lengths, page_size)
    pages = scatter_pages(rows, table, lengths, page_size, num_pages, fill=np.nan)
    gathered = gather_pages(pages, table, lengths)
    assert gathered.shape == rows.shape
    for got, row, length in zip(gathered, rows, lengths, strict=True):
        assert np.array_equal(got[:length], row[:length])
        assert not got[length:].any()
    assert np.isfinite(pages).all(axis=(2, 3)).sum() == sum(lengths), "one row per token"


@pytest.mark.parametrize("page_size", [1, 16, 100, 128])
def test_attention_over_pages_has_the_bits_of_attention_over_contiguous_keys(page_size) -> None:
    rng = np.random.default_rng(page_size)
    lengths = [300, 0, 129, 1]
    q, k, v = (
        round_to(rng.standard_normal((4, rows, heads, 32)).astype(np.float32), "bf16")
        for rows, heads in ((3, 4), (300, 2), (300, 2))
    )
    table, num_pages = table_of(rng, lengths, page_size)
    paged = [
        gather_pages(scatter_pages(x, table, lengths, page_size, num_pages), table, lengths)
        for x in (k, v)
    ]
    options = {"causal": True, "seqlens_k": lengths}
    contiguous = attention_blockwise(q, k, v, **options)
    for ours, expected in zip(attention_blockwise(q, *paged, **options), contiguous, strict=True):
        assert np.array_equal(ours, expected)


def test_sequences_share_the_pages_of_a_common_prefix() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2, 40, 1, 4))
    rows[1, :32] = rows[0, :32]
    table = np.array([[4, 1, 2], [4, 1, 0]], dtype=np.int32)
    pages = scatter_pages(rows, table, [40, 37], 16, 5)
    gathered = gather_pages(pages, table, [40, 37])
    assert np.array_equal(gathered[0], rows[0]) and np.array_equal(gathered[1, :37], rows[1, :37])
    table[1, 2] = 2  # the page where they differ
    with pytest.raises(ValueError, match=r"sequence 1 shares page 2.*another token 32.*of its own"):
        scatter_pages(rows, table, [40, 37], 16, 5)


def test_a_page_cannot_hold_two_parts_of_a_sequence() -> None:
    rows, table = np.arange(40.0).reshape(1, 40, 1, 1), np.array([[3, 1, 3]], dtype=np.int32)
    with pytest.raises(ValueError, match=r"page_table\[0, 0\] and page_table\[0, 2\] are both 3"):
        scatter_pages(rows, table, [40], 16, 4)
    assert gather_pages(scatter_pages(rows, table, [32], 16, 4), table, [32]).ravel()[31] == 31


@pytest.mark.parametrize("dtype", [np.float16, np.uint8, np.float32])
def test_the_element_type_stays(dtype) -> None:
    pages = np.arange(8).astype(dtype).reshape(4, 2, 1, 1)
    gathered = gather_pages(pages, np.array([[3]], dtype=np.int32), [2])
    assert gathered.dtype == dtype and gathered.ravel().tolist() == [6, 7]


def test_an_empty_batch_gathers_nothing() -> None:
    pages = np.zeros((4, 16, 2, 8), dtype=np.float32)
    assert gather_pages(pages, np.zeros((0, 5), dtype=np.int32), []).shape == (0, 0, 2, 8)
    assert gather_pages(pages, np.zeros((2, 0), dtype=np.int32), [0, 0]).shape == (2, 0, 2, 8)


PAGES = np.zeros((4, 16, 1, 8), dtype=np.float32)
TABLE = np.array([[0, 1, 9], [3, -1, 2]], dtype=np.int32)


@pytest.mark.parametrize(
    ("table", "lengths", "message"),
    [
        (TABLE, [33, 16], r"page_table\[0, 2\] is 9.*0 to 3.*33 tokens"),
        (TABLE, [32, 17], r"page_table\[1, 1\] is -1.*17 tokens"),
        (TABLE, [32, 49], r"seqused_k\[1\]=49 needs 4 pages of 16.*3 columns"),
        (TABLE, [32, -1], r"seqused_k\[1\]=-1 must not be negative"),
        (TABLE, [32], "1 lengths, but page_table has 2 rows"),
        (TABLE, [32, 1.5], "whole numbers"),
        (TABLE.astype(np.int64), [32, 16], r"int64, but int32.*astype\(np\.int32\)"),
        (TABLE[0], [32], "int32"),
    ],
    ids=["above", "below", "short", "negative", "rows", "float", "int64", "axes"],
)
def test_a_table_that_leads_nowhere_is_refused(table, lengths, message) -> None:
    with pytest.raises(ValueError, match=message):
        check_page_table(PAGES, table, lengths)


def test_entries_that_no_token_needs_may_be_anything() -> None:
    assert check_page_table(PAGES, TABLE, [32, 16]) == (32, 16)


def test_pages_and_rows_of_the_wrong_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="num_pages, page_size"):
        gather_pages(PAGES[0], TABLE, [32, 16])
    with pytest.raises(ValueError, match="page_size=0"):
        scatter_pages(np.zeros((1, 4, 1, 8)), TABLE, [4], 0, 4)
    with pytest.raises(ValueError, match="doesn't fit rows"):
        scatter_pages(np.zeros((2, 20, 1, 8)), TABLE, [32, 16], 16, 4)
