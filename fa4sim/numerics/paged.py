"""Pages: keys and values scattered over memory, and the table that finds them.

A serving engine doesn't know how long a sequence will become, so it keeps K and V in *pages* of
``page_size`` tokens and gives a sequence one more when it needs one:

===========  ==========================================  ===========================
array        shape                                       note
===========  ==========================================  ===========================
pages        (num_pages, page_size, kv_heads, head_dim)  one array for K, one for V
page_table   (batch, max_pages) int32                    page of a sequence's i-th page
seqused_k    (batch,) whole numbers                      tokens of each sequence
===========  ==========================================  ===========================

Token t of a sequence is row t % page_size of page ``page_table[b, t // page_size]``. Sequences may
share pages (a common prefix), pages may lie in any order, and table entries beyond the last token
are never read. So :func:`gather_pages` gives the keys as a contiguous array, and attention on it is
what a paged kernel must compute, bit for bit.

Rows of the last page beyond the sequence's end are masked. A copy of whole pages (TMA, when a page
is a key block) brings them into shared memory nevertheless, and a weight of 0 times a NaN left
there by an earlier owner is NaN: an engine must keep its pages finite. The other path (``cp.async``
by row) doesn't copy them.

Source: flash_attn/cute/interface.py (``page_table``, ``seqused_k``), flash_attn/cute/paged_kv.py.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Scalar = TypeVar("Scalar", bound=np.generic)
PageTable = NDArray[np.int32]


def gather_pages(
    pages: NDArray[Scalar], page_table: PageTable, seqused_k: Sequence[int]
) -> NDArray[Scalar]:
    """Return the rows of each sequence, in order, from its pages.

    Args:
        pages: array (num_pages, page_size, kv_heads, head_dim), any element type.
        page_table: int32 array (batch, max_pages).
        seqused_k: tokens of each sequence (batch,).

    Returns:
        array (batch, longest, kv_heads, head_dim), ``longest`` the largest of ``seqused_k``; zeros
        beyond each sequence's end.

    Raises:
        ValueError: as :func:`check_page_table`.

    >>> pages = np.arange(12.0).reshape(6, 2, 1, 1)  # six pages of two tokens
    >>> table = np.array([[5, 0], [1, 1]], dtype=np.int32)
    >>> gather_pages(pages, table, [4, 3])[..., 0, 0]
    array([[10., 11.,  0.,  1.],
           [ 2.,  3.,  2.,  0.]])
    """
    lengths = check_page_table(pages, page_table, seqused_k)
    page_size = pages.shape[1]
    gathered = np.zeros((len(lengths), max(lengths, default=0), *pages.shape[2:]), pages.dtype)
    for rows, table, length in zip(gathered, page_table, lengths, strict=True):
        token = np.arange(length)
        rows[:length] = pages[table[token // page_size], token % page_size]
    return gathered


def scatter_pages(
    rows: NDArray[Scalar],
    page_table: PageTable,
    seqused_k: Sequence[int],
    page_size: int,
    num_pages: int,
    fill: Any = 0,
) -> NDArray[Scalar]:
    """Lay the rows of each sequence into pages: the inverse of :func:`gather_pages`.

    Args:
        rows: array (batch, seqlen_k, kv_heads, head_dim).
        page_table: int32 array (batch, max_pages). Sequences that share a page must agree on the
            tokens they both have in it.
        seqused_k: tokens of each sequence (batch,), at most seqlen_k.
        page_size: tokens of a page.
        num_pages: pages of the result.
        fill: value of all rows that no sequence uses.

    Returns:
        array (num_pages, page_size, kv_heads, head_dim) of the same element type.

    Raises:
        ValueError: as :func:`check_page_table`; a sequence is longer than ``rows`` or has a page
            twice; or two sequences that share a page disagree.

    >>> rows = np.arange(3.0).reshape(1, 3, 1, 1)
    >>> scatter_pages(rows, np.array([[2, 0]], dtype=np.int32), [3], 2, 3, fill=-1)[..., 0, 0]
    array([[ 2., -1.],
           [-1., -1.],
           [ 0.,  1.]])
    """
    if page_size < 1 or num_pages < 0:
        raise ValueError(f"page_size={page_size} must be at least 1, num_pages={num_pages} 0")
    if rows.ndim != 4:
        raise ValueError(f"rows {rows.shape} must be (batch, seqlen_k, kv_heads, head_dim)")
    pages = np.full((num_pages, page_size, *rows.shape[2:]), fill, dtype=rows.dtype)
    lengths = check_page_table(pages, page_table, seqused_k)
    if len(rows) != len(lengths) or max(lengths, default=0) > rows.shape[1]:
        raise ValueError(f"seqused_k={lengths} doesn't fit rows of shape {rows.shape}")
    written = np.zeros((num_pages, page_size), dtype=bool)
    for number, (row, table, length) in enumerate(zip(rows, page_table, lengths, strict=True)):
        token = np.arange(length)
        place = table[token // page_size], token % page_size
        _check_once(number, table[: -(-length // page_size)])
        stored = pages[place]
        same = (stored == row[:length]) | ((stored != stored) & (row[:length] != row[:length]))
        clash = np.flatnonzero(written[place] & ~same.all(axis=(1, 2)))
        if len(clash):
            raise ValueError(
                f"sequence {number} shares page {place[0][clash[0]]} with an earlier one but has "
                f"another token {clash[0]}; give it a page of its own"
            )
        pages[place] = row[:length]
        written[place] = True
    return pages


def _check_once(number: int, pages: PageTable) -> None:
    """Refuse a page that would have to hold two parts of one sequence."""
    found, counts = np.unique(pages, return_counts=True)
    if (counts > 1).any():
        page = found[counts > 1][0]
        first, second = np.flatnonzero(pages == page)[:2]
        raise ValueError(
            f"page_table[{number}, {first}] and page_table[{number}, {second}] are both {page}: "
            f"it cannot hold two parts of sequence {number}; give each a page of its own"
        )


def check_page_table(
    pages: NDArray[Any], page_table: PageTable, seqused_k: Sequence[int]
) -> tuple[int, ...]:
    """Check that every token's page exists, and return the lengths as whole numbers.

    Args:
        pages: array (num_pages, page_size, kv_heads, head_dim).
        page_table: int32 array (batch, max_pages).
        seqused_k: tokens of each sequence (batch,).

    Raises:
        ValueError: a shape or element type is wrong, a length is negative or needs more pages than
            the table has columns, or an entry that is needed lies outside 0 to num_pages - 1.

    >>> check_page_table(np.zeros((4, 16, 1, 8)), np.array([[3, 7]], dtype=np.int32), [20])
    Traceback (most recent call last):
        ...
    ValueError: page_table[0, 1] is 7, but there are 4 pages, 0 to 3; sequence 0 needs this entry \
for its 20 tokens
    """
    if not isinstance(pages, np.ndarray):
        raise ValueError(
            f"pages are a {type(pages).__name__}, but a NumPy array (num_pages, page_size, "
            "kv_heads, head_dim) is needed"
        )
    if pages.ndim != 4 or pages.shape[1] == 0:
        raise ValueError(
            f"pages {pages.shape} must be (num_pages, page_size, kv_heads, head_dim), with a "
            "page_size of at least 1"
        )
    page_table = np.asarray(page_table)
    if page_table.dtype != np.int32 or page_table.ndim != 2:
        raise ValueError(
            f"page_table has shape {page_table.shape} and dtype {page_table.dtype}, but int32 "
            "(batch, max_pages) is needed; convert it with .astype(np.int32)"
        )
    try:
        lengths = tuple(operator.index(length) for length in seqused_k)
    except TypeError:
        raise ValueError(f"seqused_k={seqused_k!r} must be whole numbers, one per row") from None
    if len(lengths) != len(page_table):
        raise ValueError(
            f"seqused_k has {len(lengths)} lengths, but page_table has {len(page_table)} rows"
        )
    num_pages, page_size = pages.shape[:2]
    for number, (table, length) in enumerate(zip(page_table, lengths, strict=True)):
        needed = -(-length // page_size)
        if length < 0:
            raise ValueError(f"seqused_k[{number}]={length} must not be negative")
        if needed > len(table):
            raise ValueError(
                f"seqused_k[{number}]={length} needs {needed} pages of {page_size}, but page_table "
                f"has {len(table)} columns; widen it or shorten the sequence"
            )
        outside = np.flatnonzero((table[:needed] < 0) | (table[:needed] >= num_pages))
        if len(outside):
            raise ValueError(
                f"page_table[{number}, {outside[0]}] is {table[outside[0]]}, but there are "
                f"{num_pages} pages, 0 to {num_pages - 1}; sequence {number} needs this entry for "
                f"its {length} tokens"
            )
    return lengths
