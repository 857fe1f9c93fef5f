"""A consumer warpgroup: 64 rows of Q against all their keys.

Per block: S = Q Kᵀ, softmax in registers, O += P V with P in registers. With `overlap` the product
Q Kᵀ of the next block is under way while this block's O += P V runs, and O += P V while the softmax
of the next block computes. With `ping_pong` the consumers pass a turn around, so that one computes
its softmax while another's products run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import cutlass
import cutlass.cute as cute
from cutlass import Constexpr, Float32, Int32

from fa4kernel.forward import exp2, tiles
from fa4kernel.forward.arguments import Arguments
from fa4kernel.forward.memory import element_type
from fa4kernel.forward.softmax import limits
from fa4kernel.hopper import output, rows
from fa4kernel.hopper.barriers import Barriers, scheduler_arrive, scheduler_sync
from fa4kernel.hopper.config import ROWS, STAMPS, Config
from fa4kernel.hopper.memory import SharedMemory
from fa4kernel.hopper.stamps import stamp
from fa4kernel.hopper.tensor_core import Products, wait

INFINITY = float("inf")
STEP = 8  # numbers of a thread in one k-step of P V: 16 columns of 2 rows


@dataclass(frozen=True)
class Place:
    """What a consumer thread knows of its place, and its registers."""

    cfg: Config
    memory: SharedMemory
    barriers: Barriers
    consumer: Any
    thread: Any  # of the warpgroup, 0 to 127
    scale: Any  # scale_log2
    products: Products
    probabilities: Any  # registers
    output: Any
    stamps: Any  # where to write the clock

    def stamp(self, turn: Any, what: str) -> None:
        """Write down that a phase has ended."""
        actor = 1 + self.consumer
        stamp(self.cfg, self.stamps, actor, self.thread, turn, STAMPS.index(what))


class State(NamedTuple):
    """Where the softmax of a thread's two rows has got to."""

    turn: Int32  # of the rings, for the next K
    block: Int32  # number of the next block of keys
    top0: Float32  # maxima
    top1: Float32
    total0: Float32  # this thread's parts of the sums
    total1: Float32


@cute.jit
def run(
    cfg: Constexpr,
    a: Arguments,
    memory: SharedMemory,
    barriers: Barriers,
    consumer: Int32,
    thread: Int32,
) -> None:
    """The work of one consumer for all of this CTA's tiles."""
    products = Products(cfg, thread)
    me = Place(
        cfg, memory, barriers, consumer, thread, a.scale_log2, products, products.probabilities(),
        products.output(), (a.stamps, a.stamp_turns, 1 + cfg.consumers),
    )  # fmt: skip
    if cutlass.const_expr(cfg.ping_pong):
        if consumer == cfg.consumers - 1:
            scheduler_arrive(0)  # the first turn is the first consumer's
    turn = Int32(0)
    for nth in cutlass.range(tiles.count(cfg, a), unroll=1):
        tile = tiles.tile(cfg, a, nth)
        first = tile.m_block * cfg.tile_rows + consumer * ROWS
        token = first + thread // 32 * 16 + thread % 32 // 4
        sights = limits(cfg, a, tile, token), limits(cfg, a, tile, token + 8)
        lowest = Float32(-INFINITY)
        now = State(turn, tile.first, lowest, lowest, Float32(0.0), Float32(0.0))
        end = tile.first - tile.blocks
        barriers.load_Q_full.wait(0, nth)
        now = first_step(me, now, sights)
        for _ in cutlass.range(now.block - max(tile.right - 1, end), unroll=1):
            now = step(me, now, sights, tile.first, True)
        for _ in cutlass.range(now.block - max(tile.left - 1, end), unroll=1):
            now = step(me, now, sights, tile.first, False)
        if cutlass.const_expr(cfg.window_left):
            for _ in cutlass.range(now.block - end, unroll=1):
                now = step(me, now, sights, tile.first, True)
        last_product(me, now.turn - 1, tile.blocks > 1)
        turn = now.turn
        output.finish(me, a, tile, token, now)
        me.stamp(turn - 1, "stored")


@cute.jit
def first_step(me: Place, now: State, sights: Any) -> State:
    """S and softmax of a tile's first block."""
    cfg, barriers = me.cfg, me.barriers
    slot, wrap = now.turn % cfg.kv_stages, now.turn // cfg.kv_stages
    turn = now.turn
    scores = me.products.scores()
    me.stamp(turn, "begin")
    barriers.load_K_full.wait(slot, wrap)
    me.stamp(turn, "K")
    take_turn(me)
    me.stamp(turn, "turn")
    me.products.qk(scores, me.memory.q(me.consumer), me.memory.k(slot))
    pass_turn(me)
    me.stamp(turn, "QK")
    wait(0)
    free(barriers.load_K_empty, slot)
    me.stamp(turn, "S")
    now, _ = softmax(me, now, scores, sights, True, True)
    me.stamp(turn, "softmax")
    keep(me, scores)
    me.stamp(turn, "P")
    return now


@cute.jit
def step(me: Place, now: State, sights: Any, first: Int32, masked: Constexpr) -> State:
    """S and softmax of a block, and O += P V of the block before."""
    cfg, barriers = me.cfg, me.barriers
    turn, before = now.turn, now.turn - 1
    slot, wrap = turn % cfg.kv_stages, turn // cfg.kv_stages
    v_slot, v_wrap = before % cfg.kv_stages, before // cfg.kv_stages
    more = now.block + 1 < first
    scores = me.products.scores()
    me.stamp(turn, "begin")
    barriers.load_K_full.wait(slot, wrap)
    me.stamp(turn, "K")
    take_turn(me)
    me.stamp(turn, "turn")
    me.products.qk(scores, me.memory.q(me.consumer), me.memory.k(slot))
    me.stamp(turn, "QK")
    if cutlass.const_expr(not cfg.overlap):
        wait(0)
    barriers.load_V_full.wait(v_slot, v_wrap)
    me.stamp(turn, "V")
    me.products.pv(me.output, me.probabilities, me.memory.v(v_slot), more)
    pass_turn(me)
    me.stamp(turn, "PV")
    wait(1 if cutlass.const_expr(cfg.overlap) else 0)
    free(barriers.load_K_empty, slot)
    me.stamp(turn, "S")
    now, factors = softmax(me, now, scores, sights, masked, False)
    me.stamp(turn, "softmax")
    wait(0)
    free(barriers.load_V_empty, v_slot)
    me.stamp(turn, "O")
    rows.scale_rows(me.output, factors)
    keep(me, scores)
    me.stamp(turn, "P")
    return now


@cute.jit
def last_product(me: Place, turn: Int32, more: Any) -> None:
    """O += P V of a tile's last block."""
    cfg, barriers = me.cfg, me.barriers
    slot, wrap = turn % cfg.kv_stages, turn // cfg.kv_stages
    barriers.load_V_full.wait(slot, wrap)
    me.stamp(turn, "last V")
    me.products.pv(me.output, me.probabilities, me.memory.v(slot), more)
    wait(0)
    free(barriers.load_V_empty, slot)
    me.stamp(turn, "last O")


@cute.jit
def softmax(
    me: Place, now: State, scores: Any, sights: Any, masked: Constexpr, first: Constexpr
) -> Any:
    """S becomes P, in place. Returns the new state, and by how much O must shrink."""
    key = now.block * me.cfg.tile_n + me.thread % 4 * 2
    tops, totals, factors = [], [], []
    for half in cutlass.range_constexpr(2):
        if cutlass.const_expr(masked):
            rows.mask(me.cfg, scores, half, sights[half], key)
        old = now[2 + half]
        top = rows.maximum(scores, half, old)
        shift = top
        if top == -INFINITY:  # nothing seen so far: any finite shift gives P = 0
            shift = Float32(0.0)
        rows.exponentiate(scores, half, me.scale, shift * me.scale)
        factor = Float32(0.0)
        if cutlass.const_expr(not first):
            factor = exp2.on_mufu((old - shift) * me.scale)
        tops.append(top)
        factors.append(factor)
        totals.append(rows.total(scores, half, now[4 + half] * factor))
    return State(now.turn + 1, now.block - 1, *tops, *totals), factors


def keep(me: Place, scores: Any) -> None:
    """P, rounded to 16 bits, into the registers from which wgmma reads it.

    One k-step of P V after the other: a length that is no power of two is rounded number by number,
    and ptxas then starts a new group of products for every k-step.
    """
    for start in range(0, cute.size(scores), STEP):
        part = cute.make_tensor(scores.iterator + start, cute.make_layout(STEP))
        kept = cute.make_tensor(me.probabilities.iterator + start, cute.make_layout(STEP))
        kept.store(part.load().to(element_type(me.cfg)))


@cute.jit
def take_turn(me: Place) -> None:
    """Wait until it is this consumer's turn to start products."""
    if cutlass.const_expr(me.cfg.ping_pong):
        scheduler_sync(me.consumer)


@cute.jit
def pass_turn(me: Place) -> None:
    """The next consumer's products may follow."""
    if cutlass.const_expr(me.cfg.ping_pong):
        scheduler_arrive((me.consumer + 1) % me.cfg.consumers)


@cute.jit
def free(empty: Any, slot: Int32) -> None:
    """A warp has read a slot."""
    with cute.arch.elect_one():
        empty.arrive(slot)
