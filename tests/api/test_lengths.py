"""Where sequences lie: what a call may say of it, and what is said of one that does not fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fa4kernel.call import Call
from tests.api.test_call import call, half

Q, PAGES = half(2, 3, 8, 64), half(9, 16, 2, 64)
TABLE = np.array([[8, 0, 3], [2, 2, 7]], np.int32)


def paged(q: np.ndarray = Q, pages: np.ndarray = PAGES, **given: object) -> Call:
    """A call whose K and V lie in pages."""
    return call(q, pages, pages, **{"page_table": TABLE} | given)


def test_lengths_are_what_is_used_or_all_that_the_table_has_room_for():
    made = paged(seqused_k=[40, 0])
    problem = made.problem
    assert (problem.batch, problem.seqlen_q, problem.seqlens_k) == (2, 3, (40, 0))
    assert (problem.page_size, problem.kv_heads, problem.seqlens_q) == (16, 2, None)
    full = paged().problem
    assert (full.seqlens_k, full.seqlen_k) == (None, 48)
    arrays = made.arrays()
    assert arrays.page_table.dtype == np.int32 and arrays.page_table.tolist() == TABLE.tolist()
    assert arrays.seqused_k.tolist() == [40, 0] and paged().arrays().seqused_k is None


def test_queries_of_variable_length_with_pages():
    made = paged(half(5, 8, 64), cu_seqlens_q=[0, 1, 5], seqused_k=torch.tensor([40, 3]))
    assert made.problem.seqlens_q == (1, 4) and made.problem.seqlens_k == (40, 3)
    assert made.arrays().cu_seqlens_k is None
    assert paged(half(5, 8, 64), cu_seqlens_q=[0, 1, 5]).problem.seqlen_k == 48


def test_a_table_may_be_pytorchs_and_need_not_be_contiguous():
    wide = np.zeros((2, 6), np.int32)[:, ::2]
    arrays = paged(page_table=wide).arrays()
    assert arrays.page_table.flags.c_contiguous
    assert paged(page_table=torch.from_numpy(TABLE)).arrays().page_table.tolist() == TABLE.tolist()


def test_what_lies_beyond_the_last_page_does_not_matter():
    table = np.array([[8, -1, 10**6], [-7, 2, 7]], np.int32)
    assert paged(page_table=table, seqused_k=[16, 0]).problem.seqlens_k == (16, 0)


def test_keys_that_are_used_of_those_there_is_room_for():
    made = call(Q, half(2, 50, 2, 64), half(2, 50, 2, 64), seqused_k=[50, 7])
    assert made.problem.seqlens_k == (50, 7) and made.problem.page_size is None
    assert made.arrays().seqused_k.tolist() == [50, 7]


@pytest.mark.parametrize("given", [{"seqused_k": [0, 0]}, {"page_table": TABLE[:, :0]}])
def test_no_keys_in_any_sequence_is_an_empty_call(given):
    made = paged(**given)
    assert made.is_empty and not made.nothing()[0].any()


@pytest.mark.parametrize(
    "given, words",
    [
        ({"page_table": TABLE.astype(np.int64)}, "dtype int64, but int32"),
        ({"page_table": TABLE.tolist()}, "page_table is a list; it must be an int32 array"),
        ({"page_table": torch.from_numpy(TABLE).bfloat16()}, "page_table is bfloat16"),
        ({"page_table": TABLE[0]}, r"page_table has shape \(3,\)"),
        ({"page_table": TABLE[:1]}, "page_table has 1 rows for 2 sequences"),
        ({"page_table": TABLE + 1}, r"page_table\[0, 0\] is 9, but there are 9 pages, 0 to 8"),
        ({"page_table": TABLE - 1}, r"page_table\[0, 1\] is -1"),
        ({"seqused_k": [49, 3]}, r"seqused_k\[0\]=49 needs 4 pages of 16, .* has 3 columns"),
        ({"seqused_k": [3]}, r"seqused_k has shape \(1,\); it must be \(2,\)"),
        ({"seqused_k": [3, -1]}, r"seqused_k=\[3, -1\] must hold 32-bit integers, 0 or more"),
        ({"seqused_k": [3.0, 1.0]}, "seqused_k is float64; it must hold integers"),
        ({"cu_seqlens_q": [0, 3, 6], "cu_seqlens_k": [0, 5, 9]},
         "cu_seqlens_k is given with page_table"),
        ({"pages": half(16, 2, 64)}, r"k has shape \(16, 2, 64\); with a page_table it must be"),
        ({"q": half(6, 8, 64)}, r"q has shape \(6, 8, 64\); without cu_seqlens it must be"),
    ],
)  # fmt: skip
def test_pages_that_do_not_fit_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        paged(**given)


def test_used_keys_that_do_not_fit_are_refused():
    k = half(2, 50, 2, 64)
    with pytest.raises(ValueError, match=r"seqused_k=\[51, 3\] must be at most 50"):
        call(Q, k, k, seqused_k=[51, 3])
    rows = half(6, 8, 64)
    with pytest.raises(ValueError, match="seqused_k is given with cu_seqlens_q but without page"):
        call(rows, half(9, 2, 64), half(9, 2, 64), cu_seqlens_q=[0, 2, 6], seqused_k=[1, 2])
    with pytest.raises(ValueError, match="cu_seqlens_k is given with seqused_k"):
        call(rows, rows, rows, cu_seqlens_q=[0, 6], cu_seqlens_k=[0, 6], seqused_k=[6])


def test_rows_that_threads_copy_must_be_whole():
    from fa4kernel.kernels import kernel_for
    from fa4sim.specs import B200

    problem = paged(half(2, 3, 8, 72), half(9, 16, 2, 72)).problem
    with pytest.raises(ValueError, match=r"head dims \(72, 72\) must be multiples of 16"):
        kernel_for(problem, "sm_100a", B200, {})
    fp8 = replace(problem, head_dim=48, head_dim_v=112, dtype="e4m3")
    with pytest.raises(ValueError, match=r"\(48, 112\) must be multiples of 32, as \(64, 128\)"):
        kernel_for(fp8, "sm_100a", B200, {})
