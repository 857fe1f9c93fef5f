"""The combine kernel: each row of O is the sum of its splits' rows, weighted by their LSE.

Half a warp, or a whole one for head dims above 64, works on a row: it shares the splits to find
their weights, and then the columns, four to a thread, to add them up. Nobody else needs to know
what it does, so there is no barrier but the warp's own. Partial O comes by `cp.async`, some splits
ahead.

A split whose LSE is -inf saw no key and left its partial O alone: nothing of it is added, and what
comes behind the last split of any weight is not read. NaN is handed on to O and LSE.

The kernel may be launched before the forward kernel has ended (programmatic dependent launch): it
waits for it before it reads anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import AddressSpace, Constexpr, Float32, Int32, Int64
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.runtime import make_fake_stream, make_ptr
from cutlass.memory import SmemAllocator

from fa4kernel.combine.config import STAGES, THREADS, VECTOR, WARP, Config
from fa4sim.numerics.splits import MOST_SPLITS

INFINITY = float("inf")
LOG2_E = 1.4426950408889634
LN_2 = 0.6931471805599453
TYPES = {"bf16": cutlass.BFloat16, "fp16": cutlass.Float16}
USES = ("fa4sim.numerics",)


@dataclass(frozen=True)
class Place:
    """What a thread knows of its place."""

    cfg: Config
    row: Any  # of all rows: (sequence, head, token), as in LSE; some are beyond the last
    rows: Any  # how many there are
    lane: Any  # among those that share the row
    weights: Any  # pointer to float32 in shared memory: of the row's splits
    stages: Any  # pointer to float32 in shared memory: this thread's partial O, by stage
    splits: Any
    source: Any  # pointer to the first of the thread's columns of split 0 in partial O
    pitch: Any  # from a split to the next, in elements (Int64)

    @property
    def is_there(self) -> Any:
        """Whether the thread has columns."""
        return (self.row < self.rows) & (self.lane * VECTOR < self.cfg.head_dim_v)


@cute.kernel
def combine_kernel(
    partial_o: cute.Pointer,
    partial_lse: cute.Pointer,
    o: cute.Pointer,
    lse: cute.Pointer,
    splits: Int32,
    sequences: Int32,
    heads: Int32,
    tokens: Int32,
    cfg: Constexpr,
) -> None:
    """One CTA: some rows of O and of LSE."""
    thread, _, _ = cute.arch.thread_idx()
    cta, _, _ = cute.arch.block_idx()
    allocator = SmemAllocator()
    stages = cute.recast_ptr(allocator.allocate(cfg.stage_bytes, 16), dtype=Float32)
    weights = allocator.allocate_array(Float32, cfg.rows * MOST_SPLITS)

    lane, within = thread % cfg.lanes, thread // cfg.lanes
    row, rows = cta * cfg.rows + within, sequences * heads * tokens
    known = min(row, rows - 1)  # rows beyond the last are looked for nowhere
    line, token = known // tokens, known % tokens
    place = (Int64(line // heads) * tokens + token) * heads + line % heads
    offset = place * cfg.head_dim_v + lane * VECTOR
    me = Place(
        cfg, row, rows, lane, weights + within * MOST_SPLITS, stages + thread * STAGES * VECTOR,
        splits, partial_o + offset, Int64(rows) * cfg.head_dim_v,
    )  # fmt: skip

    cute.arch.griddepcontrol_wait()
    for split in cutlass.range_constexpr(STAGES - 1):
        fetch(me, Int32(split), splits)
    last = weigh(me, partial_lse, lse)
    store(me, o + offset, add_up(me, last))


@cute.jit
def fetch(me: Place, split: Int32, end: Int32) -> None:
    """Start to copy this thread's columns of a split before `end`; in any case it is a group."""
    if me.is_there & (split < end):
        atom = cute.make_copy_atom(cpasync.CopyG2SOp(), Float32, num_bits_per_copy=128)
        source, target = (me.source + split * me.pitch).align(16), me.stages
        target = (target + split % STAGES * VECTOR).align(16)
        vector = cute.make_layout(VECTOR)
        cute.copy(atom, cute.make_tensor(source, vector), cute.make_tensor(target, vector))
    cute.arch.cp_async_commit_group()


@cute.jit
def weigh(me: Place, partial_lse: cute.Pointer, lse: cute.Pointer) -> Int32:
    """Weights of the row's splits into shared memory, LSE of the row.

    Lane l looks after splits l, l + lanes, and so on.

    Returns:
        The last split that counts for a row of the warp, so that its two halves stay together.
    """
    logs = cute.make_tensor(me.weights, cute.make_layout(MOST_SPLITS))
    turns = cute.ceil_div(me.splits, me.cfg.lanes)
    top = Float32(-INFINITY)
    for turn in cutlass.range(turns, unroll=1):
        split = turn * me.cfg.lanes + me.lane
        place = Int64(min(split, me.splits - 1)) * me.rows + min(me.row, me.rows - 1)
        value = cutlass.select_(split < me.splits, load(partial_lse + place), Float32(-INFINITY))
        logs[split] = value
        top = cute.arch.fmax(top, value)
    top = over_lanes(me.cfg.lanes, top, cute.arch.fmax)
    shift = Float32(0.0)
    if top != -INFINITY:
        shift = top * LOG2_E

    total, last = Float32(0.0), Int32(-1)
    for turn in cutlass.range(turns, unroll=1):
        split = turn * me.cfg.lanes + me.lane
        weight = cute.math.exp2(logs[split] * LOG2_E - shift, fastmath=True)
        total += weight
        if weight != 0.0:
            last = split
        logs[split] = weight
    total = over_lanes(me.cfg.lanes, total, lambda a, b: a + b)
    last = over_lanes(WARP, last, max)
    inverse = Float32(0.0)
    if total != 0.0:
        inverse = 1.0 / total
    for turn in cutlass.range(turns, unroll=1):
        split = turn * me.cfg.lanes + me.lane
        logs[split] = logs[split] * inverse
    if (me.lane == 0) & (me.row < me.rows):
        place = lse + me.row
        cute.make_tensor(place, cute.make_layout(1))[0] = log_sum(total, top)
    cute.arch.sync_warp()  # the weights are written
    return last


@cute.jit
def add_up(me: Place, last: Int32) -> Any:
    """The weighted sum of this thread's columns, from the first split to the last that counts."""
    sums = cute.make_rmem_tensor(VECTOR, Float32)
    sums.fill(0.0)
    for split in cutlass.range(last + 1, unroll=1):
        fetch(me, split + STAGES - 1, last + 1)
        cute.arch.cp_async_wait_group(STAGES - 1)
        weight = load(me.weights + split)
        place = (me.stages + split % STAGES * VECTOR).align(16)
        values = cute.make_rmem_tensor(VECTOR, Float32)
        cute.autovec_copy(cute.make_tensor(place, cute.make_layout(VECTOR)), values)
        for i in cutlass.range_constexpr(VECTOR):
            value = cutlass.select_(weight == 0.0, Float32(0.0), values[i])  # it may be anything
            sums[i] = sums[i] + weight * value
    cute.arch.cp_async_wait_group(0)  # those that were fetched and do not count
    return sums


@cute.jit
def store(me: Place, target: Any, sums: Any) -> None:
    """This thread's columns of O, rounded."""
    dtype = TYPES[me.cfg.dtype]
    if me.is_there:
        rounded = cute.make_rmem_tensor(VECTOR, dtype)
        rounded.store(sums.load().to(dtype))
        cute.autovec_copy(rounded, cute.make_tensor(target.align(8), cute.make_layout(VECTOR)))


def over_lanes(lanes: int, value: Any, operation: Any) -> Any:
    """What so many neighbouring lanes have, put together; each of them gets it."""
    distance = lanes // 2
    while distance:
        other = cute.arch.shuffle_sync_bfly(value, offset=distance)
        value = operation(value, other)
        distance //= 2
    return value


def log_sum(total: Any, top: Any) -> Any:
    """The natural logarithm of a sum of exponentials that was taken relative to the largest."""
    return cute.math.log2(total, fastmath=True) * LN_2 + top


def load(pointer: Any) -> Any:
    """One number."""
    return cute.make_tensor(pointer, cute.make_layout(1))[0]


@cute.jit
def combine(
    partial_o: cute.Pointer,
    partial_lse: cute.Pointer,
    o: cute.Pointer,
    lse: cute.Pointer,
    splits: Int32,
    sequences: Int32,
    heads: Int32,
    tokens: Int32,
    stream: Any,
    cfg: Constexpr,
) -> None:
    """What the host does.

    Args:
        partial_o: float32 (splits, sequences, tokens, heads, head_dim_v).
        partial_lse: float32 (splits, sequences, heads, tokens), natural logarithms.
        o: (sequences, tokens, heads, head_dim_v); all tokens of a batch of variable length are one
            sequence.
        lse: float32 (sequences, heads, tokens).
        splits, sequences, heads, tokens: how many.
        stream: on which to start.
        cfg: the `Config`.
    """
    rows = sequences * heads * tokens
    combine_kernel(partial_o, partial_lse, o, lse, splits, sequences, heads, tokens, cfg).launch(
        grid=(cute.ceil_div(rows, cfg.rows), 1, 1),
        block=(THREADS, 1, 1),
        smem=cfg.shared_bytes,
        stream=stream,
        use_pdl=True,
    )


def build(**config: Any) -> Any:
    """Compile for problems of any size. Called by `fa4kernel.compiling`, in its own process."""
    cfg, one = Config(**config), Int32(1)

    def pointer(dtype: Any) -> Any:
        return make_ptr(dtype, 16, AddressSpace.gmem, assumed_align=16)

    return cute.compile(
        combine, pointer(Float32), pointer(Float32), pointer(TYPES[cfg.dtype]), pointer(Float32),
        one, one, one, one, make_fake_stream(), cfg,
    )  # fmt: skip
