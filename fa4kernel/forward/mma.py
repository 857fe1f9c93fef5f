"""The MMA warp: S = Q Kᵀ and O += P V, issued by one thread in an order that feeds the tensor core.

Per tile: QK of both stages on the first K; then for every further block PV and QK of stage 0, PV
and QK of stage 1; at the end the last PV of both. The QK of the next block needs no wait for S: it
stands behind PV of this block in the same in-order queue, and that PV waited for a P that exists
only once S had been read.

In a pair only the leader's MMA warp works, for both tensor cores; the other's takes part in
allocating and freeing tensor memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Constexpr, Float32, Int32

from fa4kernel.forward import tiles, tmem
from fa4kernel.forward.arguments import Arguments
from fa4kernel.forward.barriers import Barriers, tmem_ptr_sync
from fa4kernel.forward.config import TILE, Config
from fa4kernel.forward.memory import COLUMNS, SharedMemory, o_column, p_column, s_column
from fa4kernel.forward.tensor_core import (
    descriptor,
    instruction,
    k_steps,
    multiply,
    n_steps,
    zero,
)  # fmt: skip


@cute.jit
def run(
    cfg: Constexpr, a: Arguments, memory: SharedMemory, barriers: Barriers, rank: Int32
) -> None:
    """Allocate tensor memory, multiply everything, free tensor memory."""
    cute.arch.alloc_tmem(COLUMNS, memory.tmem_address, is_two_cta=cfg.pair)
    cute.arch.relinquish_tmem_alloc_permit(is_two_cta=cfg.pair)
    tmem_ptr_sync(cfg)
    base = cute.arch.retrieve_tmem_ptr(Float32, 16, memory.tmem_address)
    if rank == 0:
        multiply_tiles(cfg, a, Operands(cfg, base.toint(), memory), barriers)
    tmem_ptr_sync(cfg)
    tmem.fence_after()
    if cutlass.const_expr(cfg.pair):  # neither may free what the other still uses
        cute.arch.mbarrier_arrive(barriers.tmem_dealloc.at(0), rank ^ 1)
        barriers.tmem_dealloc.wait(0, 0)
    cute.arch.dealloc_tmem(base, COLUMNS, is_two_cta=cfg.pair)


@cute.jit
def multiply_tiles(cfg: Constexpr, a: Arguments, operands: Operands, barriers: Barriers) -> None:
    """All MMAs of this CTA's tiles."""
    last = cfg.q_stages - 1
    turn = Int32(0)  # of the ring
    step = Int32(0)  # blocks so far: the phase of the barriers that complete once a block
    for nth in cutlass.range(tiles.count(cfg, a), unroll=1):
        tile = tiles.tile(cfg, a, nth)
        for stage in cutlass.range_constexpr(cfg.q_stages):
            barriers.load_Q_full.wait(stage, nth)
            if cutlass.const_expr(cfg.q_load == "cp_async"):
                cute.arch.fence_proxy("async.shared", space="cta")  # threads wrote it
            if cutlass.const_expr(stage == 0):
                wait_slot(cfg, turn, barriers)
            operands.qk(stage, turn)
            barriers.S_full.commit(stage)
        free_slot(cfg, turn, barriers)
        turn += 1
        for block in cutlass.range(1, tile.blocks, unroll=1):
            v, k = turn, turn + 1
            wait_slot(cfg, v, barriers)
            for stage in cutlass.range_constexpr(cfg.q_stages):
                pv(cfg, operands, stage, v, step, block > 1, barriers)
                if cutlass.const_expr(stage == last):
                    free_slot(cfg, v, barriers)
                if cutlass.const_expr(stage == 0):
                    wait_slot(cfg, k, barriers)
                operands.qk(stage, k)
                barriers.S_full.commit(stage)
            free_slot(cfg, k, barriers)
            turn += 2
            step += 1
        for stage in cutlass.range_constexpr(cfg.q_stages):
            barriers.load_Q_empty.commit(stage)
        wait_slot(cfg, turn, barriers)
        for stage in cutlass.range_constexpr(cfg.q_stages):
            pv(cfg, operands, stage, turn, step, tile.blocks > 1, barriers)
            barriers.O_full.commit(stage)
        free_slot(cfg, turn, barriers)
        turn += 1
        step += 1


@cute.jit
def pv(
    cfg: Constexpr,
    operands: Operands,
    stage: Constexpr,
    turn: Int32,
    step: Int32,
    more: Any,
    barriers: Barriers,
) -> None:
    """O[stage] += P V, in two parts: the last quarter of P may still be on its way."""
    first = cfg.p_first_columns // cfg.k_step
    barriers.P_full_O_rescaled.wait(stage, step)
    tmem.fence_after()
    operands.pv(stage, turn, 0, first, more)
    if cutlass.const_expr(cfg.p_first_columns < TILE):
        barriers.P_full_lastsplit.wait(stage, step)
        tmem.fence_after()
        operands.pv(stage, turn, first, TILE // cfg.k_step, True)


def wait_slot(cfg: Config, turn: Any, barriers: Barriers) -> None:
    """Wait until TMA has filled the slot whose turn it is."""
    barriers.load_KV_full.wait(turn % cfg.kv_stages, turn // cfg.kv_stages)


def free_slot(cfg: Config, turn: Any, barriers: Barriers) -> None:
    """When the MMAs issued so far are complete, the slot may be filled again."""
    barriers.load_KV_empty.commit(turn % cfg.kv_stages)


@dataclass(frozen=True)
class Operands:
    """Where the operands of the two products lie."""

    cfg: Config
    base: Any  # address of tensor memory
    memory: SharedMemory

    def qk(self, stage: Any, turn: Any) -> None:
        """S[stage] = Q[stage] Kᵀ, K being in the slot whose turn it is."""
        cfg = self.cfg
        q, k = ((rows, cfg.head_dim, cfg.element_bytes) for rows in (TILE, cfg.k_rows))
        multiply(
            cfg,
            self.base + s_column(stage),
            descriptor(self.memory.q(stage) + zero(turn), *q),
            descriptor(self._slot(turn), *k),
            list(zip(k_steps(*q), k_steps(*k), strict=True)),
            instruction(cfg, TILE, b_along_n=False),
            False,
        )

    def pv(self, stage: Any, turn: Any, first: int, end: int, more: Any) -> None:
        """O[stage] += P[stage] V, from step `first` to before `end`."""
        cfg = self.cfg
        p_step = 8  # columns of tensor memory, 32 bytes of a row
        v_steps = n_steps(cfg.v_columns, cfg.element_bytes)
        multiply(
            cfg,
            self.base + o_column(cfg, stage),
            self.base + p_column(stage),
            descriptor(self._slot(turn), TILE, cfg.v_columns, cfg.element_bytes),
            [(step * p_step, v_steps[step]) for step in range(first, end)],
            instruction(cfg, cfg.head_dim_v, b_along_n=True),
            more,
        )

    def _slot(self, turn: Any) -> Any:
        return self.memory.slot(turn % self.cfg.kv_stages, turn // self.cfg.kv_stages)
