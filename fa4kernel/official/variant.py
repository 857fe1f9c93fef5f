"""A variant of the official kernel: everything that its compiler sees, and nothing else.

Lengths, the number of heads and of sequences, the scale and the window's sizes are arguments of
the compiled kernel, so one variant serves many problems.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DType = Literal["bf16", "fp16", "e4m3", "e5m2"]
Rows = Literal["one tile", "two tiles", "many"]
Pages = Literal["tile", "other"]

TILE = 128
"""Rows of a query tile, and keys of a key block."""


KV_HEADS = 2
"""Key heads that variants are compiled for; it matters to splits alone, whose combining and
preparing kernels are made for one number of heads."""


@dataclass(frozen=True)
class Variant:
    """What distinguishes one compiled kernel from another.

    Attributes:
        dtype: of q, k and v; the output is bf16 for the 8-bit ones.
        head_dim, head_dim_v: elements of a row of q and k, and of v.
        ratio: query heads per key head.
        pack: rows of a tile run over the heads of a group first (None: if ``ratio`` > 1).
        rows: (packed) query rows of the longest sequence: at most 128, at most 256, or more.
        causal: mask.
        window_left, window_right: that side of the window is bounded.
        varlen_q, varlen_k: sequences packed behind each other, with cumulative lengths.
        used_q, used_k: padded sequences with a length each.
        lse, sink: the kernel returns LSE; takes a learnable sink (bf16).
        softcap: cap on the scores, a constant of the kernel; 0 for none.
        descale: takes factors for q, k and v (8-bit inputs).
        split: keys are split, and a second kernel combines (never in the pair).
        long: at least 64 key blocks, where unequal head dims may split.
        pages: keys in pages of a tile's size (copied by TMA) or another (by cp.async).
        pair: may use a pair of CTAs.
        clc: tiles are handed out by cluster launch control.
        metadata: with varlen_q and split: a preparing kernel decides on the splits.
    """

    dtype: DType = "bf16"
    head_dim: int = 128
    head_dim_v: int = 128
    ratio: int = 1
    pack: bool | None = None
    rows: Rows = "many"
    causal: bool = False
    window_left: bool = False
    window_right: bool = False
    varlen_q: bool = False
    varlen_k: bool = False
    used_q: bool = False
    used_k: bool = False
    lse: bool = False
    sink: bool = False
    softcap: float = 0.0
    descale: bool = False
    split: bool = False
    long: bool = False
    pages: Pages | None = None
    pair: bool = True
    clc: bool = False
    metadata: bool = True

    @property
    def packed(self) -> bool:
        """Whether a tile's rows run over the heads of a group."""
        return self.ratio > 1 if self.pack is None else self.pack

    @property
    def is_varlen_q(self) -> bool:
        """Whether query lengths differ."""
        return self.varlen_q or self.used_q

    @property
    def local(self) -> bool:
        """Whether the mask is a window (a right bound of 0 alone is causal)."""
        return self.window_left or (self.window_right and not self.causal)
