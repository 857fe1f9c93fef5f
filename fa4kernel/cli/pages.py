"""Pages of random inputs, with traps where no sequence has a key."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.forward.config import TILE
from fa4sim.cli.check import Inputs
from fa4sim.specs import Problem

#: Number of a page in entries of the table that no sequence needs.
NO_PAGE = -1
#: What the rest of a sequence's last page holds if TMA brings it, too: 0 times it must be 0.
LEFT_BEHIND = 300.0


def with_traps(problem: Problem, inputs: Inputs) -> dict[str, Any]:
    """k, v, `page_table` and `seqused_k` for :func:`fa4kernel.attention`.

    Rows that no sequence uses are NaN, and entries of the table that none needs are no page. In
    pages of 128 keys, which TMA brings whole, rows behind a sequence's last are finite.

    Args:
        problem: says how long sequences are.
        inputs: k and v (pages, page_size, kv_heads, columns), and the `page_table`.
    """
    size, table = problem.page_size, inputs.page_table
    assert size is not None and table is not None
    table = table.copy()
    used: NDArray[np.bool_] = np.zeros(inputs.k.shape[:2], bool)
    lengths = [problem.lengths(batch)[1] for batch in range(problem.batch)]
    for row, length in zip(table, lengths, strict=True):
        token = np.arange(length)
        used[row[token // size], token % size] = True
        row[-(-length // size) :] = NO_PAGE
    trap = np.full(used.shape, np.nan, np.float32)
    if size == TILE:
        trap[used.any(axis=1)] = LEFT_BEHIND
    laid = {
        name: np.where(used[..., None, None], array, trap[..., None, None])
        for name, array in (("k", inputs.k), ("v", inputs.v))
    }
    return {**laid, "page_table": table, "seqused_k": np.array(lengths, np.int32)}
