"""Values for the tiles: what the simulated roles compute on when arrays are attached.

Shared memory, registers and global memory are arrays; a slot that is given up is filled with NaN.
The arithmetic is that of :mod:`fa4sim.numerics.steps`, called by each warp on the 16 rows it owns
and on whatever its slots hold at that moment: a wrong barrier gives wrong numbers. The row sums add
up in the order of the blockwise reference, which is not the order of the kernel's four lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4sim.engine.memory import Load
from fa4sim.engine.wgmma import Product
from fa4sim.numerics import steps
from fa4sim.numerics.masks import NO_MASK, row_limits
from fa4sim.pipelines.fa4.data import LOG2_E
from fa4sim.pipelines.fa4.tiles import WorkTile, first_row, kv_head_of
from fa4sim.specs import HopperDesign, Problem

if TYPE_CHECKING:
    from fa4sim.pipelines.fa3.softmax import Normalising

Array = NDArray[np.float32]
WARP_ROWS = 16


class CtaMemory:
    """The values one CTA holds: sQ, both rings, sO, and the registers of its consumers."""

    def __init__(self, design: HopperDesign) -> None:
        def empty(*shape: int) -> Array:
            return np.full(shape, np.nan, dtype=np.float32)

        c, m, n, slots = design.consumers, design.tile_m, design.tile_n, design.kv_stages
        d, dv = design.head_dim_padded, design.head_dim_v_padded
        self.sq, self.so = empty(c, m, d), empty(c, m, dv)
        self.sk, self.sv = empty(slots, n, d), empty(slots, n, dv)
        self.scores, self.weights, self.p = empty(c, m, n), empty(c, m, n), empty(c, m, n)
        self.o = empty(c, m, dv)
        self.row_max, self.row_sum, self.factor = empty(c, m), empty(c, m), empty(c, m)


class Data:
    """Global memory of one attention call, and the arithmetic of its roles.

    ``q``, ``k``, ``v`` are float32 arrays of shape (batch, seqlen, heads, head_dim) holding values
    of the problem's dtype. ``out`` and ``lse`` are what the kernel writes.
    """

    def __init__(
        self, problem: Problem, design: HopperDesign, q: Array, k: Array, v: Array
    ) -> None:
        self.problem = problem
        self.design = design
        self.q, self.k, self.v = q, k, v
        batch, seqlen_q = q.shape[:2]
        self.out = np.full((batch, seqlen_q, problem.heads, problem.dim_v), np.nan, np.float32)
        self.lse = np.full((batch, problem.heads, seqlen_q), np.nan, dtype=np.float32)
        scale = problem.softmax_scale
        scale = problem.head_dim**-0.5 if scale is None else scale
        self.scale_log2 = np.float32(scale * LOG2_E)
        self.on_mufu = np.zeros(design.tile_n, dtype=bool)  # no column by polynomial
        self.memory = CtaMemory(design)
        self.tiles: Sequence[WorkTile] = ()
        #: Votes of FA4's correction; here O is rescaled in every step, and nobody votes.
        self.rescales = self.votes = 0

    def attach(self, ctas: Sequence[Any], tiles: Sequence[WorkTile]) -> None:
        """Give the CTA that runs next its memory; ``tiles`` are its work tiles."""
        self.memory = CtaMemory(self.design)
        self.tiles = tiles

    def finish(self, sink: Array | None) -> None:
        """Fill in what the kernel never computes: sequences without keys."""
        if all(self.problem.lengths(b)[1] == 0 for b in range(self.problem.batch)):
            self.out[:], self.lse[:] = 0, -np.inf

    # -- TMA -----------------------------------------------------------------------------------

    def fill_q(self, load: Load) -> None:
        """Q of all consumers has landed; rows past the end are zero."""
        tile, m = self.tiles[load.tile], self.design.tile_m
        for consumer in range(self.design.consumers):
            start = first_row(self.design, tile, consumer, 0)
            self.memory.sq[consumer] = _rows(self.q[tile.batch, :, tile.head], start, m,
                                             self.design.head_dim_padded)  # fmt: skip

    def fill_kv(self, slot: int, load: Load) -> None:
        """A K or V tile has landed in a slot; rows outside the sequence are zero."""
        tile, n = self.tiles[load.tile], self.design.tile_n
        head = kv_head_of(self.problem, self.design, tile.head)
        _, seqlen_k = self.problem.lengths(tile.batch)
        array, target = (self.k, self.memory.sk) if load.tensor == "K" else (self.v, self.memory.sv)
        rows = array[tile.batch, :seqlen_k, head]
        target[slot] = _rows(rows, load.block * n, n, target.shape[-1])

    def poison(self, tensor: str, slot: int) -> None:
        """A slot has been given up: whoever still reads it gets NaN."""
        (self.memory.sk if tensor == "K" else self.memory.sv)[slot] = np.nan

    # -- tensor cores --------------------------------------------------------------------------

    def qk(self, product: Product) -> None:
        """S of a consumer = its Q times K^T."""
        memory, c = self.memory, product.group
        memory.scores[c] = steps.mma_qk(memory.sq[c], memory.sk[product.slot])

    def pv(self, product: Product) -> None:
        """O of a consumer += P V; the first step of a tile starts from zero."""
        memory, c = self.memory, product.group
        memory.o[c] = steps.mma_pv_steps(
            memory.o[c], memory.p[c], memory.sv[product.slot], range(product.steps),
            zero_first=product.step == 0,
        )  # fmt: skip

    # -- consumer warps ------------------------------------------------------------------------

    def softmax(self, role: Normalising, tile: WorkTile, step: int) -> None:
        """Mask, maximum, factor, exponentials and row sum of one step, for one warp's rows."""
        memory, c, rows = self.memory, role.number, _of(role.lane)
        s = memory.scores[c, rows]
        block = tile.steps[step]
        if block.kind != NO_MASK:
            start = first_row(self.design, tile, c, 0) + rows.start
            seqlen_q, seqlen_k = self.problem.lengths(tile.batch)
            left, right = row_limits(
                np.arange(start, start + WARP_ROWS), seqlen_q, seqlen_k, self.problem.causal,
                self.problem.window, 1,
            )  # fmt: skip
            key = max(block.n_block, 0) * self.design.tile_n
            s = steps.apply_mask(s, left - key, right - key)
        first = step == 0
        memory.row_max[c, rows], factor, m_safe = steps.keep_or_rescale(
            memory.row_max[c, rows], steps.row_max_4chains(s), self.scale_log2, 0.0, first
        )
        x = steps.scale_subtract(s, m_safe, self.scale_log2)
        weights, p = steps.exp2_convert(x, self.on_mufu, 3, self.problem.dtype)
        memory.factor[c, rows] = factor
        memory.weights[c, rows] = p
        memory.row_sum[c, rows] = steps.row_sum_4chains(
            weights, first, memory.row_sum[c, rows], factor
        )

    def rescale(self, role: Normalising) -> None:
        """O of one warp's rows times this step's factors."""
        memory, c, rows = self.memory, role.number, _of(role.lane)
        memory.o[c, rows] = steps.rescale_output(memory.o[c, rows], memory.factor[c, rows])

    def keep(self, role: Normalising) -> None:
        """P of one warp's rows into the registers from which wgmma reads it."""
        memory, c, rows = self.memory, role.number, _of(role.lane)
        memory.p[c, rows] = memory.weights[c, rows]

    def write_o(self, role: Normalising) -> None:
        """Normalised O of one warp's rows into shared memory; LSE to global memory."""
        memory, c, rows = self.memory, role.number, _of(role.lane)
        tile = self.tiles[role.tile]
        inverse, lse = steps.finalize(
            memory.row_sum[c, rows], memory.row_max[c, rows], self.scale_log2
        )
        memory.so[c, rows] = steps.normalize_output(memory.o[c, rows], inverse, self.problem.dtype)
        start = first_row(self.design, tile, c, 0) + rows.start
        target = self.lse[tile.batch, tile.head, start : start + WARP_ROWS]
        target[:] = lse[: len(target)]

    def store_o(self, consumer: int, number: int) -> None:
        """A consumer's O has been read out of shared memory."""
        tile = self.tiles[number]
        start = first_row(self.design, tile, consumer, 0)
        target = self.out[tile.batch, start : start + self.design.tile_m, tile.head]
        target[:] = self.memory.so[consumer, : len(target), : self.problem.dim_v]
        self.memory.so[consumer] = np.nan


def _of(lane: int) -> slice:
    """The rows of one warp of a consumer."""
    return slice(WARP_ROWS * lane, WARP_ROWS * lane + WARP_ROWS)


def _rows(array: Array, start: int, count: int, width: int) -> Array:
    """``count`` rows from ``start`` on, zero outside the array, padded to ``width`` columns."""
    out = np.zeros((count, width), dtype=np.float32)
    low, high = max(0, start), min(len(array), start + count)
    if low < high:
        out[low - start : high - start, : array.shape[1]] = array[low:high]
    return out
