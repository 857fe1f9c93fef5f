"""K and V of one call laid into pages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fa4kernel.crosscheck.inputs import Floats, Inputs
from fa4sim.numerics import scatter_pages
from fa4sim.specs import Problem

#: Pages that no sequence has.
SPARE = 2


@dataclass(frozen=True)
class Paged:
    """K and V as (pages, page_size, kv_heads, columns), and the table (batch, pages of one)."""

    k: Floats
    v: Floats
    table: NDArray[np.int32]

    @classmethod
    def of(cls, problem: Problem, inputs: Inputs) -> Paged:
        """In an order of their own, always the same; no page is shared."""
        size = problem.page_size
        assert size is not None and problem.seqlen_k is not None
        columns = -(-problem.seqlen_k // size)
        pages = problem.batch * columns + SPARE
        order = np.random.default_rng(0).permutation(pages)[: problem.batch * columns]
        table = order.reshape(problem.batch, columns).astype(np.int32)
        keys = [problem.lengths(batch)[1] for batch in range(problem.batch)]
        k, v = (scatter_pages(x, table, keys, size, pages) for x in (inputs.k, inputs.v))
        return cls(k, v, table)


def given(problem: Problem, inputs: Inputs) -> tuple[Floats, Floats, NDArray[np.int32] | None]:
    """K, V and the page table, None without pages."""
    if problem.page_size is None:
        return inputs.k, inputs.v, None
    paged = Paged.of(problem, inputs)
    return paged.k, paged.v, paged.table
