"""Values for the tiles: what the simulated roles compute on when arrays are attached.

Shared memory, TMEM and global memory are arrays; P overwrites the upper half of S bit for bit, as
16-bit pairs in 32-bit columns, and a slot that is given up is filled with NaN. The arithmetic is
that of :mod:`fa4sim.numerics.steps`, called by each warp on the rows it owns and on whatever its
slots hold at that moment: a wrong barrier gives wrong numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4sim.engine.buffers import Buffer
from fa4sim.engine.memory import Load
from fa4sim.engine.tensor import Mma
from fa4sim.numerics import combine, steps
from fa4sim.numerics.exp2 import emulated_columns
from fa4sim.numerics.formats import from_bits8, from_bits16, to_bits8, to_bits16
from fa4sim.numerics.masks import NO_MASK, row_limits
from fa4sim.numerics.mma import k_step_of
from fa4sim.numerics.paged import PageTable
from fa4sim.pipelines.fa4.tiles import WorkTile, first_row, kv_head_of, packed_rows
from fa4sim.specs import FP8, Design, Problem

if TYPE_CHECKING:
    from fa4sim.pipelines.fa4.cluster import Cta

Array = NDArray[np.float32]
LOG2_E = 1.4426950408889634


def bits_of(dtype: str) -> type[np.unsignedinteger[Any]]:
    """The type that holds bit patterns of 16- or 8-bit elements."""
    return np.uint8 if dtype in FP8 else np.uint16


def to_bits(p: Array, dtype: str) -> NDArray[Any]:
    """Bit patterns of values that ``dtype`` holds exactly."""
    return to_bits8(p, dtype) if dtype in FP8 else to_bits16(p, dtype)


def from_bits(bits: NDArray[Any], dtype: str) -> Array:
    """The values that bit patterns stand for."""
    return from_bits8(bits, dtype) if dtype in FP8 else from_bits16(bits, dtype)


@dataclass(frozen=True)
class Descales:
    """What FP8 inputs have to be multiplied with: each float32 (batch, kv_heads), 1 if not given.

    Those of Q and K change the scale of the scores, that of V the last division of O.
    """

    qk: Array
    v: Array

    @classmethod
    def of(cls, problem: Problem, q: Array | None, k: Array | None, v: Array | None) -> Descales:
        """From the factors of each input."""
        ones = np.ones((problem.batch, problem.kv_heads or 1), dtype=np.float32)
        q, k, v = (ones if given is None else given for given in (q, k, v))
        return cls(q * k, v)


class CtaMemory:
    """The values one CTA holds: sQ, the K/V ring, sO, statistics, TMEM and row registers."""

    def __init__(self, problem: Problem, design: Design) -> None:
        q, m, n = design.q_stages, design.tile_m, design.tile_n
        d, dv = design.head_dim_padded, design.head_dim_v_padded
        nan = np.float32(np.nan)
        self.sq = np.full((q, m, d), nan, dtype=np.float32)
        self.so = np.full((q, m, dv), nan, dtype=np.float32)
        ring = design.smem_bytes(problem)["ring"] // problem.element_bytes
        self.ring = np.full(ring, nan, dtype=np.float32)
        self.tmem = np.full((128, 512), nan, dtype=np.float32)
        self.scale = np.full((q, m), nan, dtype=np.float32)
        self.maximum = np.full((q, m), nan, dtype=np.float32)
        # Registers of the softmax threads: scores, running maximum and sum, this step's factor.
        self.scores = np.full((q, m, n), nan, dtype=np.float32)
        self.p_fp32 = np.full((q, m, n), nan, dtype=np.float32)
        self.p_bits = np.zeros((q, m, n), dtype=bits_of(problem.dtype))
        self.row_max = np.full((q, m), -np.inf, dtype=np.float32)
        self.m_safe = np.zeros((q, m), dtype=np.float32)
        self.row_sum = np.zeros((q, m), dtype=np.float32)
        self.factor = np.zeros((q, m), dtype=np.float32)
        # Registers of the correction threads: the factor just read, the last sum and maximum.
        self.read_factor = np.full((q, m), nan, dtype=np.float32)
        self.final_sum = np.full((q, m), nan, dtype=np.float32)
        self.final_max = np.full((q, m), nan, dtype=np.float32)


class Data:
    """Global memory of one attention call, and the arithmetic of its roles.

    ``q``, ``k``, ``v`` are float32 arrays of shape (batch, seqlen, heads, head_dim) holding values
    of the problem's dtype; ``sink`` is (heads,). With a ``page_table`` (batch, pages of a
    sequence) k and v are (pages, page_size, heads, head_dim). ``out`` and ``lse`` are what the
    kernel writes. With split keys it writes ``partial_out`` (splits, batch, seqlen_q, heads,
    head_dim_v) and ``partial_lse`` (splits, batch, heads, seqlen_q) in float32, and another kernel
    combines them.
    """

    def __init__(
        self, problem: Problem, design: Design, q: Array, k: Array, v: Array,
        sink: Array | None = None, page_table: PageTable | None = None,
        descales: Descales | None = None,
    ) -> None:  # fmt: skip
        self.problem = problem
        self.design = design
        self.q, self.k, self.v, self.sink = q, k, v, sink
        self.page_table = page_table
        batch, seqlen_q = q.shape[:2]
        self.out_dtype = "bf16" if problem.dtype in FP8 else problem.dtype
        self.descales = descales or Descales.of(problem, None, None, None)
        shape = (design.num_splits, batch, seqlen_q, problem.heads, problem.dim_v)
        self.partial_out = np.full(shape, np.nan, np.float32)
        # Of splits that a sequence is not cut into, nobody writes anything.
        self.partial_lse = np.full(
            (design.num_splits, batch, problem.heads, seqlen_q), -np.inf, dtype=np.float32
        )
        self.out, self.lse = self.partial_out[0], self.partial_lse[0]
        scale = problem.softmax_scale
        self.softmax_scale = problem.head_dim**-0.5 if scale is None else scale
        base = LOG2_E if problem.softcap else self.softmax_scale * LOG2_E
        self.base_log2 = np.float32(base)
        self.k_step = k_step_of(problem.dtype)
        self.emulated = emulated_columns(
            design.tile_n, design.exp2_period, design.exp2_emulated, design.exp2_first_fragment
        )
        self.memory: dict[int, CtaMemory] = {}
        self.tiles: Sequence[WorkTile] = ()
        self.rescales = 0
        self.votes = 0

    def attach(self, ctas: Sequence[Cta], tiles: Sequence[WorkTile]) -> None:
        """Give CTAs their memory; ``tiles`` are the work tiles they will run."""
        for cta in ctas:
            self.memory[cta.number] = CtaMemory(self.problem, self.design)
        self.tiles = tiles

    def finish(self, sink: Array | None) -> None:
        """Combine splits; fill in what no kernel computes: rows beyond a sequence's queries.

        With no keys in the whole batch nothing is even launched: O is 0, LSE -inf or the sink.
        """
        if self.design.num_splits > 1:
            self.out, self.lse = combine(self.partial_out, self.partial_lse, self.out_dtype)
        for batch in range(self.problem.batch):
            seqlen_q, _ = self.problem.lengths(batch)
            self.out[batch, seqlen_q:] = 0
            self.lse[batch, :, seqlen_q:] = -np.inf
        if all(self.problem.lengths(b)[1] == 0 for b in range(self.problem.batch)):
            for batch in range(self.problem.batch):
                seqlen_q, _ = self.problem.lengths(batch)
                self.out[batch, :seqlen_q] = 0
                self.lse[batch, :, :seqlen_q] = -np.inf if sink is None else sink[:, None]

    # -- TMA -----------------------------------------------------------------------------------

    def _tile(self, number: int, cta: Cta) -> WorkTile:
        return cta.cluster.tiles[number]

    def _q_rows(self, tile: WorkTile, start: int) -> Array:
        """Rows of Q as a tile sees them: packed rows interleave heads.

        Past the end there are zeros, or the rows of the next sequence where one follows another;
        nothing that is stored depends on them, but a rescale may.
        """
        problem, design = self.problem, self.design
        rows = np.zeros((design.tile_m, design.head_dim_padded), dtype=np.float32)
        batch = tile.batch
        filled = 0
        while filled < design.tile_m and batch < problem.batch:
            total = packed_rows(problem, design, batch)
            count = max(0, min(design.tile_m - filled, total - start))
            index = np.arange(start, start + count)
            head = np.full(count, tile.head)
            if design.pack_gqa:
                head = tile.head * problem.group + index % problem.group
                index = index // problem.group
            rows[filled : filled + count, : problem.head_dim] = self.q[batch, index, head]
            filled += count
            if problem.seqlens_q is None:
                break
            batch, start = batch + 1, max(0, start - total)
        return rows

    def _block(self, array: Array, tile: WorkTile, block: int, width: int) -> Array:
        """One K or V block, zero outside the sequence (a page that comes by TMA comes whole)."""
        n = self.design.tile_n
        _, seqlen_k = self.problem.lengths(tile.batch)
        head = kv_head_of(self.problem, self.design, tile.head)
        rows = np.zeros((n, width), dtype=np.float32)
        low, high = max(0, block * n), min(seqlen_k, (block + 1) * n)
        if self.page_table is not None and self.design.kv_load == "tma" and low < high:
            high = low + n
        if low < high:
            dim = array.shape[-1]
            keys = np.arange(low, high)
            found = self._rows_of(array, tile.batch, keys)[:, head]
            rows[low - block * n : high - block * n, :dim] = found
        return rows

    def _rows_of(self, array: Array, batch: int, keys: NDArray[np.int64]) -> Array:
        """Rows of K or V of a sequence, all heads, wherever its pages lie."""
        if self.page_table is None:
            found: Array = array[batch, keys]
            return found
        page = array.shape[1]
        found = array[self.page_table[batch, keys // page], keys % page]
        return found

    def fill_q(self, cta: Cta, stage: int, load: Load) -> None:
        """A Q tile has landed."""
        tile = self._tile(load.tile, cta)
        start = first_row(self.design, tile, stage, cta.rank)
        self.memory[cta.number].sq[stage] = self._q_rows(tile, start)

    def fill_kv(self, cta: Cta, slot: int, load: Load) -> None:
        """A K or V tile, or this CTA's half of it, has landed in a ring slot."""
        tile = self._tile(load.tile, cta)
        design = self.design
        c, rank = design.cta_group, cta.rank
        if load.tensor == "K":
            rows = self._block(self.k, tile, load.block, design.head_dim_padded)
            part = rows[rank * (design.tile_n // c) : (rank + 1) * (design.tile_n // c)]
        else:
            rows = self._block(self.v, tile, load.block, design.head_dim_v_padded)
            width = design.head_dim_v_padded // c
            part = rows[:, rank * width : (rank + 1) * width]
        low, _ = self._place(slot, cta.ring[slot].wrap)
        self.memory[cta.number].ring[low : low + part.size] = part.ravel()

    def _place(self, slot: int, wrap: int) -> tuple[int, int]:
        """First element and number of elements of a slot on this wrap."""
        offset, size = self.design.ring_slots(self.problem)[slot][wrap % 2]
        element = self.problem.element_bytes
        return offset // element, size // element

    def poison(self, cta: Cta, buffer: Buffer) -> None:
        """A slot has been given up: whoever still reads it gets NaN."""
        memory = self.memory[cta.number]
        if buffer.full == "load_KV_full":
            low, size = self._place(buffer.stage, buffer.wrap)
            memory.ring[low : low + size] = np.nan
        elif buffer.full == "load_Q_full":
            memory.sq[buffer.stage] = np.nan

    def _slot(self, cta: Cta, slot: int, shape: tuple[int, int]) -> Array:
        low, _ = self._place(slot, cta.ring[slot].wrap)
        rows, width = shape
        return self.memory[cta.number].ring[low : low + rows * width].reshape(shape)

    # -- tensor cores --------------------------------------------------------------------------

    def qk(self, cta: Cta, mma: Mma) -> None:
        """S[stage] of this CTA = its Q times K^T, K gathered from the pair's halves."""
        design = self.design
        c = design.cta_group
        shape = (design.tile_n // c, design.head_dim_padded)
        k = np.concatenate([self._slot(peer, mma.slot, shape) for peer in cta.cluster.ctas])
        memory = self.memory[cta.number]
        first, width = cta.cluster.columns[f"S{mma.stage}"]
        memory.tmem[:, first : first + width] = steps.mma_qk(memory.sq[mma.stage], k, self.k_step)

    def pv(self, cta: Cta, mma: Mma) -> None:
        """O[stage] += P V over some k-steps; the first one of a tile starts from zero."""
        design = self.design
        c = design.cta_group
        shape = (design.tile_n, design.head_dim_v_padded // c)
        v = np.concatenate([self._slot(peer, mma.slot, shape) for peer in cta.cluster.ctas], axis=1)
        memory = self.memory[cta.number]
        first, width = cta.cluster.columns[f"P{mma.stage}"]
        dtype = self.problem.dtype
        bits = np.ascontiguousarray(memory.tmem[:, first : first + width]).view(bits_of(dtype))
        # Columns not stored yet hold whatever S left there: leave them out.
        depth = self.k_step
        used = slice(depth * mma.first_step, depth * (mma.first_step + mma.steps))
        p = np.zeros(bits.shape, dtype=np.float32)
        p[:, used] = from_bits(np.ascontiguousarray(bits[:, used]), dtype)
        start, dv = cta.cluster.columns[f"O{mma.stage}"]
        o = memory.tmem[:, start : start + dv]
        zero = mma.step == 0 and mma.first_step == 0
        run = range(mma.first_step, mma.first_step + mma.steps)
        memory.tmem[:, start : start + dv] = steps.mma_pv_steps(
            np.ascontiguousarray(o), p, v, run, zero_first=zero, k_step=depth
        )

    # -- softmax warps -------------------------------------------------------------------------

    def _rows(self, lane: int) -> slice:
        return slice(32 * lane, 32 * lane + 32)

    def read_scores(self, role: Any) -> None:
        """TMEM to registers."""
        memory, rows = self.memory[role.cta], self._rows(role.lane)
        first, width = role.cluster.columns[f"S{role.stage}"]
        memory.scores[role.stage, rows] = memory.tmem[rows, first : first + width]

    def softmax_stats(self, role: Any, tile: WorkTile) -> None:
        """Softcap, mask, maximum and factor of one step, for one warp's rows."""
        memory, rows, stage = self.memory[role.cta], self._rows(role.lane), role.stage
        problem, design = self.problem, self.design
        s = memory.scores[stage, rows].copy()
        if problem.softcap:
            scale = float(np.float32(self.softmax_scale) * self._of_head(self.descales.qk, tile))
            s = steps.score_mod_softcap(s, scale, problem.softcap)
        step = tile.steps[role.step]
        if step.kind != NO_MASK:
            start = first_row(design, tile, stage, role.home.rank) + rows.start
            seqlen_q, seqlen_k = problem.lengths(tile.batch)
            left, right = row_limits(
                np.arange(start, start + 32), seqlen_q, seqlen_k, problem.causal, problem.window,
                problem.group if design.pack_gqa else 1,
            )  # fmt: skip
            key = max(step.n_block, 0) * design.tile_n
            s = steps.apply_mask(s, left - key, right - key)
        block_max = steps.row_max_4chains(s)
        scale_log2 = self.scale_log2(tile)
        memory.row_max[stage, rows], memory.factor[stage, rows], memory.m_safe[stage, rows] = (
            steps.keep_or_rescale(
                memory.row_max[stage, rows], block_max, scale_log2,
                design.rescale_threshold, role.step == 0,
            )
        )  # fmt: skip
        x = steps.scale_subtract(s, memory.m_safe[stage, rows], scale_log2, design.max_offset)
        p_fp32, p = steps.exp2_convert(x, self.emulated, design.exp2_degree, problem.dtype)
        memory.p_fp32[stage, rows] = p_fp32
        memory.p_bits[stage, rows] = to_bits(p, problem.dtype)

    def store_p(self, role: Any, first: int, last: int) -> None:
        """Fragments ``first`` to ``last`` of P into TMEM, over the upper half of S."""
        memory, rows = self.memory[role.cta], self._rows(role.lane)
        start, width = role.cluster.columns[f"P{role.stage}"]
        words = width * 32 // self.design.tile_n  # columns per fragment
        bits = memory.p_bits[role.stage, rows, 32 * first : 32 * last]
        packed = np.ascontiguousarray(bits).view(np.float32)
        memory.tmem[rows, start + words * first : start + words * last] = packed

    def softmax_sum(self, role: Any) -> None:
        """The row sum, after P has been handed over."""
        memory, rows, stage = self.memory[role.cta], self._rows(role.lane), role.stage
        memory.row_sum[stage, rows] = steps.row_sum_4chains(
            memory.p_fp32[stage, rows], role.step == 0, memory.row_sum[stage, rows],
            memory.factor[stage, rows],
        )  # fmt: skip

    def write_stats(self, role: Any, final: bool) -> None:
        """sScale: the factor of a step, or the final sum and maximum."""
        memory, rows, stage = self.memory[role.cta], self._rows(role.lane), role.stage
        if final:
            memory.scale[stage, rows] = memory.row_sum[stage, rows]
            memory.maximum[stage, rows] = memory.row_max[stage, rows]
        else:
            memory.scale[stage, rows] = memory.factor[stage, rows]

    # -- correction warps ----------------------------------------------------------------------

    def vote(self, role: Any, stage: int) -> bool:
        """Read this warp's factors; does any lane need a rescale?"""
        memory, rows = self.memory[role.cta], self._rows(role.lane)
        memory.read_factor[stage, rows] = memory.scale[stage, rows]
        needed = steps.rescale_needed(memory.read_factor[stage, rows])
        self.votes += 1
        self.rescales += needed
        return needed

    def rescale(self, role: Any, stage: int) -> None:
        """O[stage] *= factor on this warp's rows."""
        memory, rows = self.memory[role.cta], self._rows(role.lane)
        first, width = role.cluster.columns[f"O{stage}"]
        o = np.ascontiguousarray(memory.tmem[rows, first : first + width])
        memory.tmem[rows, first : first + width] = steps.rescale_output(
            o, memory.read_factor[stage, rows]
        )

    def read_final(self, role: Any, stage: int) -> None:
        """Read the final sum and maximum from sScale."""
        memory, rows = self.memory[role.cta], self._rows(role.lane)
        memory.final_sum[stage, rows] = memory.scale[stage, rows]
        memory.final_max[stage, rows] = memory.maximum[stage, rows]

    def write_o(self, role: Any, stage: int) -> None:
        """Normalise O, round it, write it to sO; LSE goes straight to global memory."""
        memory, rows = self.memory[role.cta], self._rows(role.lane)
        problem, design = self.problem, self.design
        tile = self._tile(role.tile, role.home)
        start = first_row(design, tile, stage, role.home.rank) + rows.start
        index = np.arange(start, start + 32)
        head = self._heads(tile, index)
        sink = None
        if self.sink is not None and tile.split == 0:
            sink = self.sink[np.minimum(head, problem.heads - 1)]
        inv, lse = steps.finalize(
            memory.final_sum[stage, rows], memory.final_max[stage, rows], self.scale_log2(tile),
            sink, design.max_offset,
        )  # fmt: skip
        inv = inv * self._of_head(self.descales.v, tile)
        first, width = role.cluster.columns[f"O{stage}"]
        o = np.ascontiguousarray(memory.tmem[rows, first : first + width])
        kept = "fp32" if design.num_splits > 1 else self.out_dtype
        memory.so[stage, rows] = steps.normalize_output(o, inv, kept)
        valid = index < packed_rows(problem, design, tile.batch)
        token = index[valid] // (problem.group if design.pack_gqa else 1)
        self.partial_lse[tile.split, tile.batch, head[valid], token] = lse[valid]

    def write_nothing(self, role: Any, tile: WorkTile) -> None:
        """A split without keys: a log-sum-exp of -inf, and O is left as it is."""
        problem, design = self.problem, self.design
        for stage in range(design.q_stages):
            start = first_row(design, tile, stage, role.home.rank) + 32 * role.lane
            index = np.arange(start, start + 32)
            valid = index < packed_rows(problem, design, tile.batch)
            token = index[valid] // (problem.group if design.pack_gqa else 1)
            head = self._heads(tile, index)[valid]
            self.partial_lse[tile.split, tile.batch, head, token] = -np.inf

    def scale_log2(self, tile: WorkTile) -> np.float32:
        """What scores are multiplied with before 2 is raised to them."""
        if self.problem.softcap:
            return self.base_log2
        return np.float32(self.base_log2 * self._of_head(self.descales.qk, tile))

    def _of_head(self, descale: Array, tile: WorkTile) -> np.float32:
        """A tile's factor: all its rows belong to one K/V head."""
        return np.float32(descale[tile.batch, kv_head_of(self.problem, self.design, tile.head)])

    def _heads(self, tile: WorkTile, index: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.design.pack_gqa:
            return tile.head * self.problem.group + index % self.problem.group
        return np.full_like(index, tile.head)

    def store_o(self, cta: Cta, stage: int, number: int, lane: int | None = None) -> None:
        """SO (or one warp's quarter of it) to global memory, rows past the end left out."""
        problem, design = self.problem, self.design
        tile = self._tile(number, cta)
        rows = slice(0, design.tile_m) if lane is None else self._rows(lane)
        start = first_row(design, tile, stage, cta.rank) + rows.start
        index = np.arange(start, start + rows.stop - rows.start)
        valid = index < packed_rows(problem, design, tile.batch)
        values = self.memory[cta.number].so[stage, rows][valid][:, : problem.dim_v]
        token = index[valid] // (problem.group if design.pack_gqa else 1)
        head = self._heads(tile, index)[valid]
        self.partial_out[tile.split, tile.batch, token, head] = values
