"""Rescale: how many output rescales the threshold saves, measured.

Each time a row's maximum rises, its output so far should be multiplied by a number below 1. In
FlashAttention-4 that means reading and writing 64 KiB of tensor memory per tile. Its remedy: keep
the old maximum until the true one has risen by more than 8 powers of two (a factor of 256), and
skip the rescale of a whole warp if all its 32 rows keep theirs.

How much that saves depends on the scores, of which only the spread and the order matter: a warp
rescales if *any* of its rows saw a rise, so without a threshold it nearly always does for the first
few blocks. :func:`measure_rescales` counts, for stated inputs, what happens with the threshold and
what would happen without.

The paper (arXiv 2603.05451) gives no table of this; talks quote "about ten times fewer".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4sim.numerics.blockwise import attention_blockwise
from fa4sim.numerics.formats import Float32Array, round_to


@dataclass(frozen=True)
class RescaleRow:
    """Rescales counted for one input.

    Attributes:
        inputs: name of the distribution, see :data:`DISTRIBUTIONS`.
        score_std: standard deviation of the scaled scores, measured, in natural-log units.
        seqlen: queries and keys.
        causal: causal mask.
        votes: warp votes (32 rows times blocks after the first).
        warp_rescales: votes that led to a rescale, with the threshold.
        warp_rescales_always: votes that would have led to one, with threshold 0.
        row_rescales, row_rescales_always: the same, counted by row.
    """

    inputs: str
    score_std: float
    seqlen: int
    causal: bool
    votes: int
    warp_rescales: int
    warp_rescales_always: int
    row_rescales: int
    row_rescales_always: int

    @property
    def warp_ratio(self) -> float:
        """Warp rescales without the threshold, per rescale with it (inf if none was left)."""
        return _ratio(self.warp_rescales_always, self.warp_rescales)

    @property
    def row_ratio(self) -> float:
        """Row rescales without the threshold, per rescale with it (inf if none was left)."""
        return _ratio(self.row_rescales_always, self.row_rescales)


def _float32(x: NDArray[np.floating[Any]]) -> Float32Array:
    return x.astype(np.float32)


def _normal(std: float) -> Callable[[np.random.Generator, int, int], tuple[Float32Array, ...]]:
    """Return a maker of independent normal q and k whose scaled scores have this deviation."""

    def make(rng: np.random.Generator, seqlen: int, head_dim: int) -> tuple[Float32Array, ...]:
        q, k = rng.standard_normal((2, seqlen, head_dim))
        return _float32(q * std), _float32(k)

    return make


def _outlier_channels(
    rng: np.random.Generator, seqlen: int, head_dim: int
) -> tuple[Float32Array, ...]:
    """Normal q and k of which 1 channel in 32 is 8 times as large, in both."""
    large = np.where(np.arange(head_dim) % 32 == 0, 8.0, 1.0)
    q, k = rng.standard_normal((2, seqlen, head_dim)) * large
    return _float32(q), _float32(k)


def _outlier_keys(rng: np.random.Generator, seqlen: int, head_dim: int) -> tuple[Float32Array, ...]:
    """Normal q and k of which 1 key in 256 is 8 times as large."""
    large = np.where(rng.random(seqlen) < 1 / 256, 8.0, 1.0)
    q, k = rng.standard_normal((2, seqlen, head_dim))
    return _float32(q), _float32(k * large[:, None])


def _rising(rng: np.random.Generator, seqlen: int, head_dim: int) -> tuple[Float32Array, ...]:
    """Scores that rise steadily in the order of processing, by 16 in all: the worst order."""
    q, k = rng.standard_normal((2, seqlen, head_dim))
    q[:, 0] = head_dim**0.5
    k[:, 0] = np.linspace(16.0, 0.0, seqlen)  # the last keys come first
    return _float32(q), _float32(k)


DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, int, int], tuple[Float32Array, ...]]] = {
    "normal, std 1": _normal(1.0),
    "normal, std 2": _normal(2.0),
    "normal, std 4": _normal(4.0),
    "outlier channels": _outlier_channels,
    "outlier keys": _outlier_keys,
    "rising by 16": _rising,
}
"""Name -> maker of q and k (seqlen, head_dim) from a generator."""


def measure_rescales(
    seqlens: Sequence[int] = (1024, 4096),
    distributions: Iterable[str] = tuple(DISTRIBUTIONS),
    causal: Sequence[bool] = (False, True),
    head_dim: int = 128,
    threshold: float = 8.0,
    seed: int = 0,
) -> list[RescaleRow]:
    """Count output rescales with a threshold and without, for one head of seeded bf16 inputs.

    Args:
        seqlens: lengths in tokens, queries and keys alike.
        distributions: names from :data:`DISTRIBUTIONS`.
        causal: which masks to try.
        head_dim: of q and k. (v has 16 columns: it doesn't influence rescales.)
        threshold: in powers of two.
        seed: of the generator; each row starts it afresh.

    Returns:
        One :class:`RescaleRow` per distribution, mask and length.

    Raises:
        ValueError: a distribution is not known.

    >>> (row,) = measure_rescales([512], ["normal, std 1"], causal=[False], head_dim=32)
    >>> row.votes, row.warp_rescales, row.warp_rescales_always > 40
    (48, 0, True)
    """
    rows = []
    for name in distributions:
        if name not in DISTRIBUTIONS:
            raise ValueError(f"distributions {name!r} are not known; use one of {[*DISTRIBUTIONS]}")
        for is_causal in causal:
            for seqlen in seqlens:
                rng = np.random.default_rng(seed)
                q, k = (round_to(x, "bf16") for x in DISTRIBUTIONS[name](rng, seqlen, head_dim))
                v = round_to(_float32(rng.standard_normal((seqlen, 16))), "bf16")
                _, _, stats = attention_blockwise(
                    q[None, :, None],
                    k[None, :, None],
                    v[None, :, None],
                    causal=is_causal,
                    threshold=threshold,
                    return_stats=True,
                )
                rows.append(
                    RescaleRow(
                        name,
                        float(np.std(q[:256] @ k.T) * head_dim**-0.5),
                        seqlen,
                        is_causal,
                        stats.votes,
                        stats.rescales,
                        stats.rescales_always,
                        stats.row_rescales,
                        stats.row_rescales_always,
                    )
                )
    return rows


def format_rescales(rows: Sequence[RescaleRow]) -> str:
    """Lay out the result of :func:`measure_rescales` as a plain-text table.

    >>> print(format_rescales([RescaleRow("normal", 1.0, 512, False, 48, 2, 40, 3, 300)]))
    inputs            score std  mask    seqlen    votes  always  threshold  ratio (warps)  (rows)
    normal                  1.0  full       512       48      40          2           20.0   100.0
    """
    lines = [
        "inputs            score std  mask    seqlen    votes  always  threshold"
        "  ratio (warps)  (rows)"
    ]
    for row in rows:
        mask = "causal" if row.causal else "full"
        lines.append(
            f"{row.inputs:16}  {row.score_std:9.1f}  {mask:6}  {row.seqlen:6}  {row.votes:7}"
            f"  {row.warp_rescales_always:6}  {row.warp_rescales:9}"
            f"  {row.warp_ratio:13.1f}  {row.row_ratio:6.1f}"
        )
    return "\n".join(lines)


def _ratio(always: int, kept: int) -> float:
    return always / kept if kept else float("inf")
