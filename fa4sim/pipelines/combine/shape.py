"""The combine kernel's grid: which CTA combines how many rows of how many splits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fa4sim.specs import Problem

THREADS = 256
WARPS = THREADS // 32
STAGES = 4

#: CTAs of an SM: as many as 64 registers a thread leave room for.
CTAS_PER_SM = 4

#: Bytes of one element of a partial O and of a log-sum-exp.
FLOAT = 4


@dataclass(frozen=True)
class CombineCta:
    """One CTA: ``rows`` of its tile belong to the problem, each with ``splits`` parts."""

    rows: int
    splits: int


@dataclass(frozen=True)
class CombineShape:
    """Tile and grid for a problem whose sequences have so many ``splits`` each.

    ``tile_m`` rows (a row is one query of one head) times ``tile_k`` columns of O per CTA;
    ``max_splits`` is what its table of weights is laid out for.

    >>> problem = Problem(heads=32, kv_heads=8, seqlen_q=1, seqlen_k=65536)
    >>> shape = CombineShape.of(problem, [18])
    >>> shape.tile_m, shape.tile_k, shape.max_splits, len(shape.ctas)
    (8, 128, 32, 4)
    """

    tile_m: int
    tile_k: int
    max_splits: int
    ctas: tuple[CombineCta, ...]

    @classmethod
    def of(cls, problem: Problem, splits: Sequence[int]) -> CombineShape:
        """The kernel's choice; sequences of no queries have no CTA."""
        tile_k = 64 if problem.dim_v <= 64 else 128
        tile_m = 8 if tile_k == 128 else 16
        columns = -(-problem.dim_v // tile_k)
        ctas: list[CombineCta] = []
        for b, count in enumerate(splits):
            rows = problem.lengths(b)[0] * problem.heads
            for _ in range(columns):
                whole, rest = divmod(rows, tile_m)
                ctas += [CombineCta(tile_m, count)] * whole
                ctas += [CombineCta(rest, count)] if rest else []
        needed = math.ceil(math.log2(max(splits, default=1)))
        return cls(tile_m, tile_k, 1 << max(needed, 5 if tile_m == 8 else 4), tuple(ctas))

    @property
    def stage_bytes(self) -> int:
        """Bytes that a CTA copies for one split."""
        return self.tile_m * self.tile_k * FLOAT

    @property
    def rows_per_warp(self) -> int:
        """Rows whose outputs a warp adds up: 32 lanes hold a row of 128, or two of 64, columns."""
        return max(1, self.tile_m // WARPS)
