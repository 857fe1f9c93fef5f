"""What is compared: problems whose lengths alone are open, and their arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fa4sim
from fa4kernel.forward.launch import Arrays
from fa4kernel.official.variant import KV_HEADS, DType
from fa4sim.numerics import from_bits8, to_bits8, to_bits16
from fa4sim.specs import FP8

#: Rows of Q that one CTA works on at a time, and keys of a block.
TILE_ROWS = 256
BLOCK = 128
#: Length of the problem by which a design is chosen: many tiles.
LONG = 2048
#: By how much scores rise from a block of keys to the one that is processed after it: in log2 far
#: more than the 8 that FA4 lets pass before it rescales O (head dim 128: 48 · 4 / √128 · log2 e).
#: FP8 rescales whatever the rise: there, each block has the next number that it can tell apart.
RISE = 48.0


@dataclass(frozen=True)
class Shape:
    """A problem, except for its lengths.

    Attributes:
        name: as the command calls it.
        head_dim: elements of a row of Q and K.
        head_dim_v: elements of a row of V and O.
        causal: mask.
        pair: two CTAs work as one.
        dtype: of Q, K, V and O.
        descale: FP8 has factors for each sequence and K/V head.
        group: query heads of a K/V head, whose rows lie side by side in a tile.
        decode: each sequence has one query, so that a CTA works on one Q tile at a time.
        page_size: keys of a page, if there are pages.
        splits: CTAs among which the keys of a tile are shared out.
        varlen: sequences lie end to end, and may have different lengths.
    """

    name: str
    head_dim: int = 128
    head_dim_v: int = 128
    causal: bool = False
    pair: bool = False
    dtype: DType = "bf16"
    descale: bool = False
    group: int = 1
    decode: bool = False
    page_size: int | None = None
    splits: int = 1
    varlen: bool = False

    @property
    def title(self) -> str:
        """In words."""
        mask = "causal" if self.causal else "full"
        ctas = "pair of CTAs" if self.pair else "one CTA"
        dims = dict.fromkeys((self.head_dim, self.head_dim_v))
        dtype = self.dtype + " with factors" * self.descale
        words = [f"head dim {' and '.join(map(str, dims))}", mask, ctas, dtype]
        if self.decode or self.group > 1:
            queries = "one query of " if self.decode else "queries of "
            words.append(f"{queries}{self.group} heads in a tile")
        if self.page_size is not None:
            words.append(f"pages of {self.page_size}")
        if self.splits > 1:
            words.append(f"keys in {self.splits} splits")
        if self.varlen:
            words.append("varied lengths")
        return ", ".join(words)

    @property
    def ctas(self) -> int:
        """CTAs that work as one."""
        return 2 if self.pair else 1

    @property
    def kv_heads(self) -> int:
        """K/V heads: one, but for splits, for whose number of heads the official one is made."""
        return KV_HEADS if self.splits > 1 else 1

    def problem(self, batch: int, seqlen_q: int, seqlen_k: int) -> fa4sim.Problem:
        """The problem of these lengths, as our kernel is asked for it."""
        more: dict[str, Any] = {"seqlen_k": seqlen_k, "batch": batch}
        if self.page_size is not None:
            more = {"seqlens_k": (seqlen_k,) * batch, "page_size": self.page_size}
        if self.varlen:
            more = {"seqlens_k": (seqlen_k,) * batch, "seqlens_q": (seqlen_q,) * batch}
        else:
            more["seqlen_q"] = seqlen_q
        return fa4sim.Problem(
            heads=self.group * self.kv_heads, kv_heads=self.kv_heads,
            head_dim=self.head_dim, head_dim_v=self.head_dim_v, causal=self.causal,
            dtype=self.dtype, num_splits=self.splits, **more,
        )  # fmt: skip


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("full-128"),
        Shape("causal-128", causal=True),
        Shape("pair-128", pair=True),
        Shape("full-64", head_dim=64, head_dim_v=64),
        Shape("full-96", head_dim=96, head_dim_v=96),
        Shape("causal-192", head_dim=192, causal=True),
        Shape("fp8-pair-128", pair=True, dtype="e4m3", descale=True),
        Shape("fp8-causal-128", causal=True, dtype="e4m3", descale=True),
        Shape("odd-3", group=3),
        Shape("page-16", page_size=16),
        Shape("page-128-pair", pair=True, page_size=128),
        Shape("decode", group=8, decode=True),
        Shape("decode-page-16", group=8, decode=True, page_size=16),
        Shape("decode-split", group=8, decode=True, splits=2),
    )
}


def arrays(shape: Shape, tiles: int, blocks: int, rising: bool) -> Arrays:
    """A problem of so many tiles of Q and blocks of keys.

    Causal masks end at the last key for the last row, so a block more is one more for every tile.

    Args:
        shape: what else the problem is.
        tiles: for each CTA: of ``TILE_ROWS`` rows of one sequence, or of the one query of a
            sequence and K/V head.
        blocks: of ``BLOCK`` keys, for each split.
        rising: whether each block of keys has greater scores than the one behind it, which is
            processed before it; else all scores of a row are the same, and O is never rescaled.
    """
    batch, rows = 1, tiles * TILE_ROWS * shape.ctas // shape.group
    if shape.decode:
        batch, rows = -(-tiles // shape.kv_heads), 1
    blocks *= shape.splits
    kv = batch, blocks * BLOCK, shape.kv_heads
    heads = shape.group * shape.kv_heads
    rng = np.random.default_rng(0)
    q = np.zeros((batch, rows, heads, shape.head_dim), np.float32)
    q[..., 0] = 4
    k = np.zeros((*kv, shape.head_dim), np.float32)
    if rising:
        steps = (blocks - 1 - np.arange(kv[1]) // BLOCK)[None, :, None]
        fp8 = shape.dtype in FP8
        k[..., 0] = from_bits8((48 + steps).astype(np.uint8), shape.dtype) if fp8 else RISE * steps
    v = rng.standard_normal((*kv, shape.head_dim_v), dtype=np.float32)
    encode = to_bits8 if shape.dtype in FP8 else to_bits16
    o, lse = (batch, rows, heads, shape.head_dim_v), (batch, heads, rows)
    more: dict[str, Any] = {}
    if shape.page_size is not None:
        k, v = (x.reshape(-1, shape.page_size, *x.shape[2:]) for x in (k, v))
        more["seqused_k"] = np.full(batch, kv[1], np.int32)
        more["page_table"] = np.arange(len(k), dtype=np.int32).reshape(batch, -1)
    if shape.descale:
        more["descales"] = np.ones((3, batch, shape.kv_heads), np.float32)
    if shape.splits > 1:
        more["partial_o"] = np.zeros((shape.splits, *o), np.float32)
        more["partial_lse"] = np.zeros((shape.splits, *lse), np.float32)
    out, logs = np.zeros(o, np.uint16), np.zeros(lse, np.float32)
    if shape.varlen:
        more["cu_seqlens_q"], more["cu_seqlens_k"] = (
            np.arange(batch + 1, dtype=np.int32) * length for length in (rows, kv[1])
        )
        q, k, v, out = _end_to_end(q), _end_to_end(k), _end_to_end(v), _end_to_end(out)
        logs = np.zeros((heads, batch * rows), np.float32)
    return Arrays(
        encode(q, shape.dtype), encode(k, shape.dtype), encode(v, shape.dtype), out, logs, **more
    )


def _end_to_end(array: NDArray[Any]) -> Any:
    """Sequences one behind the other."""
    return array.reshape(-1, *array.shape[2:])


def keys(given: Arrays) -> int:
    """Keys of a sequence."""
    if given.cu_seqlens_k is not None:
        return int(given.cu_seqlens_k[1])
    if given.page_table is None:
        return int(given.k.shape[1])
    return int(given.page_table.shape[1] * given.k.shape[1])


def queries(given: Arrays) -> int:
    """Queries of a sequence."""
    return int(given.q.shape[1] if given.cu_seqlens_q is None else given.cu_seqlens_q[1])
