"""When a correction warp rescales O: read from the data, or told by the mask and a stated model.

With arrays attached the softmax warps compute the factors and the warp votes on them. Without, the
mask still decides some votes exactly: a row that has seen no key yet has the maximum -inf, its
factor is 2^-inf = 0, and its warp rescales in every step up to the one that shows it a key.
What else depends on data:

* a positive threshold (8 in log2 units, a factor of 256) is taken never to be exceeded after a
  row's first visible block; ``fa4sim rescales`` measures how far that holds on stated inputs;
* with threshold 0 a warp rescales when any of its 32 rows finds a new maximum. For scores without
  a trend, a row's maximum over k + 1 equal blocks lies in the last with probability 1 / (k + 1);
  the 32 rows are taken as independent, and a seeded hash draws.
"""

from __future__ import annotations

import zlib

from fa4sim.numerics.masks import row_limits
from fa4sim.pipelines.fa4.tiles import WorkTile, first_row
from fa4sim.specs import Design, Problem

WARP_ROWS = 32


class RescaleVotes:
    """Answers "does warp w of stage s rescale in step k of this tile?" without data."""

    def __init__(self, problem: Problem, design: Design, seed: int) -> None:
        self.problem = problem
        self.design = design
        self.seed = seed
        self._blind: dict[tuple[int, ...], tuple[int, int, int, int]] = {}

    def blind_steps(self, tile: WorkTile, stage: int, rank: int) -> tuple[int, int, int, int]:
        """Per warp: the step that first shows every row a key (0: the first one does)."""
        seqlen_q, seqlen_k = self.problem.lengths(tile.batch)
        batch = tile.batch if self.problem.varlen else -1
        key = (tile.m_block, batch, tile.split, tile.splits, stage, rank)
        known = self._blind.get(key)
        if known is None:
            start = first_row(self.design, tile, stage, rank)
            rows = range(start, start + self.design.tile_m)
            left, right = row_limits(
                list(rows), seqlen_q, seqlen_k, self.problem.causal, self.problem.window,
                self.problem.group if self.design.pack_gqa else 1,
            )  # fmt: skip
            n = self.design.tile_n
            first = []
            top, bottom = tile.first_block, tile.first_block - tile.blocks + 1
            for low, high in zip(left.tolist(), right.tolist(), strict=True):
                seen = min((high - 1) // n, top)  # the first block with a key for this row
                sees = high > low and seen >= max(low // n, bottom)
                first.append(top - seen if sees else 1 << 30)
            warps = [max(0, *first[w : w + WARP_ROWS]) for w in range(0, len(first), WARP_ROWS)]
            known = self._blind[key] = (warps[0], warps[1], warps[2], warps[3])
        return known

    def rescales(self, tile: WorkTile, step: int, stage: int, rank: int, warp: int) -> bool:
        """Whether the warp rescales O before PV of ``step`` (steps count from 0)."""
        if step == 0:
            return False
        if step <= self.blind_steps(tile, stage, rank)[warp]:
            return True
        if self.design.rescale_threshold > 0:
            return False
        chance = 1.0 - (1.0 - 1.0 / (step + 1)) ** WARP_ROWS
        word = f"{self.seed}/{step}/{stage}/{rank}/{warp}".encode()
        return zlib.crc32(word) / 2**32 < chance
