"""The arrays of one problem, as the official kernel's host function receives them.

``fp8`` and 16-bit arrays hold raw bits (uint8, uint16), because NumPy has no bfloat16.

===========  ==========================  =================================
array        one length for all          packed (varlen_q, varlen_k) or paged
===========  ==========================  =================================
q, out       (batch, seqlen_q, h, d)     (total_q, h, d)
k, v         (batch, seqlen_k, hk, d)    (total_k, hk, d), (pages, page, hk, d)
lse          (batch, h, seqlen_q)        (h, total_q)
out_partial  (splits, *out.shape), float32
lse_partial  (splits, *lse.shape)
===========  ==========================  =================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.official.variant import KV_HEADS, TILE, Variant

Array = NDArray[Any]
Ints = NDArray[np.int32]
Floats = NDArray[np.float32]

L2_BYTES = 50 * 2**20
"""L2 that the schedulers count on for keys and values (tile_scheduler.py)."""


@dataclass
class Problem:
    """One call of the forward pass: its variant, arrays and numbers.

    Attributes:
        q, k, v, out, lse, out_partial, lse_partial: see the head of this module.
        cu_seqlens_q, cu_seqlens_k: (batch + 1,) of packed sequences, else None.
        seqused_q, seqused_k: (batch,) lengths within padded sequences, else None.
        page_table: (batch, pages of a sequence), else None.
        sink: (heads,) bf16 bits.
        descales: of q, k and v, each (batch, kv_heads).
        softmax_scale: multiplies the scores.
        window: keys to the left and right, None for unbounded.
        max_seqlen_q, max_seqlen_k: of the longest sequence.
        splits: of the keys.
        sms: multiprocessors; a persistent grid is no larger.
    """

    variant: Variant
    q: Array
    k: Array
    v: Array
    out: Array
    softmax_scale: float
    max_seqlen_q: int
    max_seqlen_k: int
    lse: Floats | None = None
    out_partial: Floats | None = None
    lse_partial: Floats | None = None
    cu_seqlens_q: Ints | None = None
    cu_seqlens_k: Ints | None = None
    seqused_q: Ints | None = None
    seqused_k: Ints | None = None
    page_table: Ints | None = None
    sink: Array | None = None
    descales: tuple[Floats, Floats, Floats] | None = None
    window: tuple[int | None, int | None] = (None, None)
    splits: int = 1
    sms: int = 148

    @property
    def batch(self) -> int:
        """Sequences."""
        if self.cu_seqlens_q is not None:
            return len(self.cu_seqlens_q) - 1
        return int(self.q.shape[0])

    @property
    def heads(self) -> int:
        """Query heads."""
        return int(self.q.shape[-2])

    @property
    def kv_heads(self) -> int:
        """Key heads."""
        return int(self.k.shape[-2])

    @property
    def tile_heads(self) -> int:
        """Heads that tiles belong to: key heads if packed."""
        return self.kv_heads if self.variant.packed else self.heads

    @property
    def pack_ratio(self) -> int:
        """Query heads among the rows of a tile."""
        return self.variant.ratio if self.variant.packed else 1

    @property
    def tile_rows(self) -> int:
        """Rows of a CTA's work tile: one or two Q tiles (interface.py, ``_get_fwd_config``)."""
        return TILE * (1 if self.variant.rows == "one tile" else 2)

    @property
    def tile_keys(self) -> int:
        """Keys of a block."""
        v = self.variant
        return 64 if v.split and v.long and v.head_dim != v.head_dim_v else TILE

    @property
    def is_split(self) -> bool:
        """Whether keys are really split: not with unequal head dims and few blocks."""
        v = self.variant
        return v.split and (v.head_dim == v.head_dim_v or v.long)

    @property
    def cluster(self) -> int:
        """CTAs that work together (interface.py, ``use_2cta_instrs``)."""
        v = self.variant
        if v.head_dim == 256:
            return 2
        pair = (
            v.pair
            and not (v.causal or v.local or self.is_split or v.is_varlen_q)
            and v.pages != "other"
            and _round_up(v.head_dim, 16) in (128, 192)
            and _round_up(v.head_dim_v, 16) == 128
            and v.rows == "many"
            and TILE % self.pack_ratio == 0
        )
        return 2 if pair else 1

    @property
    def tma_q(self) -> bool:
        """Whether Q comes by TMA."""
        return TILE % self.pack_ratio == 0

    @property
    def tma_kv(self) -> bool:
        """Whether K and V come by TMA."""
        return self.variant.pages != "other"

    @property
    def load_warps(self) -> range:
        """Warps that load: one for TMA, more where threads copy (``__init__`` of the kernel)."""
        if self.variant.rows == "one tile" and not (self.tma_q and self.tma_kv):
            return range(4, 8)
        return range(14, 15 if self.tma_kv else 16)

    @property
    def tma_out(self) -> bool:
        """Whether the output goes by TMA."""
        packed_split = self.variant.packed and self.is_split
        return self.tma_q and not packed_split and not self.variant.is_varlen_q

    @property
    def tile_blocks(self) -> int:
        """Work tiles of the longest sequence, in rows of one CTA."""
        return math.ceil(self.max_seqlen_q * self.pack_ratio / self.tile_rows)

    def check(self) -> None:
        """Refuse a problem that its variant was not compiled for."""
        rows = self.max_seqlen_q * self.pack_ratio
        expected = "one tile" if rows <= TILE else "two tiles" if rows <= 2 * TILE else "many"
        assert self.variant.rows == expected, (self.variant.rows, expected)
        assert self.heads == self.kv_heads * self.variant.ratio
        assert self.kv_heads == KV_HEADS or not self.is_split
        assert (self.max_seqlen_k > 63 * TILE) == self.variant.long


def _round_up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple
