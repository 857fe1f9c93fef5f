"""How a forward kernel is launched on given arrays: maps for TMA, sizes, grid.

The order of the arguments is that in which the compiler passes `arguments.Arguments`, flattened: of
a tensor that TMA moves its map and the lengths that vary, of everything else the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator import Launch, TensorMap
from fa4kernel.forward.config import TILE, WARP, WARPS, Config, swizzle_bytes
from fa4kernel.forward.labels import labels
from fa4sim.schedulers.orders import lpt_section

Bits = NDArray[np.unsignedinteger[Any]]  # bf16, fp16 or FP8, as bit patterns


@dataclass(frozen=True)
class Arrays:
    """The arrays of one call.

    Attributes:
        q: (batch, seqlen_q, heads, head_dim), or (total_q, heads, head_dim) with `cu_seqlens_q`.
        k: (batch, seqlen_k, kv_heads, head_dim), or (total_k, kv_heads, head_dim); with a
            `page_table`, (pages, page_size, kv_heads, head_dim).
        v, o: as k and q, with head_dim_v columns. All contiguous.
        lse: float32 (batch, heads, seqlen_q), or (heads, total_q).
        sink: float32 (heads,).
        descales: float32 (3, batch, kv_heads), of Q, K and V.
        partial_o, partial_lse: float32, as o and lse for each split: (splits, ...). Where keys are
            split, the forward kernel writes these, and the combine kernel o and lse.
        cu_seqlens_q, cu_seqlens_k: int32 (batch + 1,), where sequences begin.
        seqused_k: int32 (batch,), keys of each sequence.
        page_table: int32 (batch, most pages of a sequence), its pages in their order.
    """

    q: Bits
    k: Bits
    v: Bits
    o: Bits
    lse: NDArray[np.float32] | None = None
    sink: NDArray[np.float32] | None = None
    cu_seqlens_q: NDArray[np.int32] | None = None
    cu_seqlens_k: NDArray[np.int32] | None = None
    seqused_k: NDArray[np.int32] | None = None
    page_table: NDArray[np.int32] | None = None
    descales: NDArray[np.float32] | None = None
    partial_o: NDArray[np.float32] | None = None
    partial_lse: NDArray[np.float32] | None = None


def launch(
    cfg: Config,
    arrays: Arrays,
    *,
    softmax_scale: float,
    window: tuple[int | None, int | None] = (None, None),
    sms: int = 148,
) -> Launch:
    """The launch that computes `arrays.o` and `arrays.lse`, or of splits what is combined to them.

    Args:
        cfg: the kernel's.
        arrays: what it reads and writes.
        softmax_scale: of the scores.
        window: keys to the left and right of the diagonal; causal is (None, 0).
        sms: multiprocessors of the GPU: as many CTAs stay and work on tile after tile.
    """
    plan = Plan.of(
        cfg, arrays.q.shape, arrays.k.shape, arrays.v.shape, arrays.cu_seqlens_q,
        arrays.cu_seqlens_k, window, arrays.seqused_k, arrays.page_table, cfg.element_bytes,
    )  # fmt: skip
    o, lse, splits = _results(cfg, arrays)
    arguments: list[Any] = []
    for how, array, rows, columns, ratio in (
        (cfg.q_load, arrays.q, TILE, cfg.head_dim, cfg.ratio),
        (cfg.kv_load, arrays.k, cfg.k_rows, cfg.head_dim, 1),
        (cfg.kv_load, arrays.v, TILE, cfg.v_columns, 1),
        (cfg.epilogue, o, TILE, cfg.head_dim_v, cfg.ratio),
    ):
        arguments += moved(cfg, array, rows, columns, ratio) if how == "tma" else [array]
    optional = (lse, arrays.sink, arrays.cu_seqlens_q, arrays.cu_seqlens_k)
    arguments += [each for each in optional if each is not None]
    arguments += [np.int32(number) for number in (*plan.sizes, plan.total_q)]
    arguments.append(np.float32(softmax_scale * math.log2(math.e)))
    if arrays.seqused_k is not None:
        arguments.append(arrays.seqused_k)
    if arrays.page_table is not None:
        pages, width, page_size = arrays.page_table, arrays.page_table.shape[1], arrays.k.shape[1]
        arguments += [pages, np.int32(width), np.int32(page_size)]
    arguments += [] if arrays.descales is None else list(arrays.descales)
    return Launch(
        grid=plan.grid(sms, splits),
        block=(WARP * WARPS, 1, 1),
        cluster=(cfg.cta_group, 1, 1),
        shared_bytes=cfg.shared_bytes,
        arguments=arguments,
        labels=labels(cfg, arguments),
    )


@dataclass(frozen=True)
class Plan:
    """The numbers of a launch: `arguments.Sizes`, in their order, and how many tiles there are."""

    cfg: Any
    sizes: tuple[int, ...]
    total_q: int
    total_k: int
    tiles: int

    @classmethod
    def of(
        cls,
        cfg: Any,
        q: tuple[int, ...],
        k: tuple[int, ...],
        v: tuple[int, ...],
        cu_seqlens_q: NDArray[np.int32] | None,
        cu_seqlens_k: NDArray[np.int32] | None,
        window: tuple[int | None, int | None],
        seqused_k: NDArray[np.int32] | None = None,
        page_table: NDArray[np.int32] | None = None,
        element_bytes: int = 2,
    ) -> Plan:
        """The numbers that follow from the shapes of Q, K and V, and from lengths."""
        lengths_q = _lengths(q, cu_seqlens_q)
        most_k = max(_lengths(k, cu_seqlens_k))
        if page_table is not None:
            most_k = page_table.shape[1] * k[1]
        longest_k = most_k if seqused_k is None else int(seqused_k.max())
        heads = q[-2] // cfg.ratio
        batch = len(lengths_q)
        m_blocks = -(-max(lengths_q) * cfg.ratio // cfg.tile_rows)
        if cfg.scheduler == "single_tile_varlen":  # no more than this, however they are cut
            rows = sum(lengths_q) * cfg.ratio
            tiles = (rows + batch * (cfg.tile_rows - 1)) // cfg.tile_rows * heads
        else:
            tiles = m_blocks * heads * batch
        section = lpt_section(longest_k, element_bytes * (k[-1] + v[-1]))
        sizes = (
            max(lengths_q), most_k, heads, batch, m_blocks,
            window[0] or 0, window[1] or 0, section,
        )  # fmt: skip
        return cls(cfg, sizes, q[-3], k[-3], tiles)

    def grid(self, sms: int, splits: int) -> tuple[int, int, int]:
        """The grid: `ctas` for each split, in the order that `tiles` counts on."""
        if splits > 1 and self.cfg.scheduler == "single_tile":
            m_blocks = self.sizes[4]
            return m_blocks, splits, self.tiles // m_blocks
        return self.ctas(sms), splits, 1

    def ctas(self, sms: int) -> int:
        """CTAs to start, for each split."""
        clusters: int = self.tiles
        if self.cfg.scheduler == "static_persistent":
            clusters = min(clusters, sms // int(self.cfg.cta_group))
        return clusters * int(self.cfg.cta_group)


def _results(cfg: Config, arrays: Arrays) -> tuple[Any, Any, int]:
    """O and LSE as the kernel writes them, and how many splits these have.

    Sequences of one split follow those of the other.
    """
    if not cfg.split:
        return arrays.o, arrays.lse, 1
    assert arrays.partial_o is not None, "a kernel that splits keys writes partial results"
    o = arrays.partial_o.reshape(-1, *arrays.o.shape[-3:])
    return o, arrays.partial_lse, len(arrays.partial_o)


def _lengths(shape: tuple[int, ...], cu_seqlens: NDArray[np.int32] | None) -> Sequence[int]:
    """Tokens of each sequence."""
    if cu_seqlens is None:
        return [shape[1]] * shape[0]
    return [int(length) for length in np.diff(cu_seqlens)]


def moved(cfg: Any, array: Bits, rows: int, columns: int, ratio: int) -> list[Any]:
    """The map of an array, and the lengths that vary: tokens, heads, sequences.

    TMA sees columns, (heads of a group,) tokens, heads, sequences.
    """
    if array.ndim == 3:
        array = array[np.newaxis]
    batch, tokens, heads, head_dim = array.shape
    view = array.reshape(batch, tokens, heads // ratio, ratio, head_dim)
    width = swizzle_bytes(columns, array.itemsize)
    inner = width // array.itemsize
    box = [inner, ratio, rows // ratio, 1, 1]
    order = [4, 3, 1, 2, 0]
    if ratio == 1:
        view, box, order = array, [inner, rows, 1, 1], [3, 1, 2, 0]
    tensor_map = TensorMap.of(
        view,
        order=tuple(order),
        box=tuple(box),
        dtype=_tma_type(cfg, array),
        swizzle=f"{width}B",
    )
    return [tensor_map, np.array([tokens, heads // ratio, batch], np.int32).tobytes()]


def _tma_type(cfg: Any, array: Bits) -> str:
    """What TMA calls an array's elements."""
    if array.itemsize == 2:
        return "f16" if cfg.dtype == "fp16" else "bf16"
    return str(cfg.dtype) if array.itemsize == 1 else "f32"
