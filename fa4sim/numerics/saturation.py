"""Saturation: weights beyond the largest 8-bit number, and what users saw of it.

P is rounded to the input format before it meets V. In e4m3 the largest number is 448 = 2**8.807,
and what is larger becomes 448, silently. Two choices make P large:

- the **offset**: P is multiplied by 2**offset so that small weights are not lost below 2**-9;
- the **threshold**: while the row maximum rises by less, in powers of two, the old one is kept, and
  P may reach 2**threshold times its offset.

So P stays below 2**(offset + threshold), which must stay below 2**8.807. The first version of the
kernel had offset 8 and threshold 4: up to 4096. A weight of 4096 became 448, but *the row sum took
it in full*, so the heaviest keys of a row lost up to 89 % of their share and the output shrank; the
log-sum-exp stayed right, and nothing warned.

**Where it shows.** Never in the first block that a row sees, whose maximum is exact. So a decode
step with up to 128 keys is right. One with 129 processes the last block first, which holds one key;
its score becomes the reference, and most of the other 128 keys exceed it a little. The error jumps
at each multiple of 128 and fades as the last block fills: :func:`measure_boundaries`. With many
blocks it grows with the spread of the scores: :func:`measure_spread`. A sharp row whose maximum is
found early is safe, which is why usual tests didn't see it.

**History** (flash_attn/cute/flash_fwd_sm100.py): offset 8, threshold 4 (pull request 2109; issues
2131, 2577, 2716 and pull requests 2578, 2694, 2713); for e4m3 offset 4, threshold 4 (2717); offset
8, threshold 0 with an assertion (2731), as :func:`~fa4sim.numerics.attention_blockwise` has it,
which refuses more unless told ``allow_saturation=True``. vLLM's fork keeps 0.75, which is still
below 0.807 and saves some of the rescales (vllm-project/flash-attention 166).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fa4sim.numerics.attention import attention_float64
from fa4sim.numerics.blockwise import attention_blockwise
from fa4sim.numerics.errors import cosine, relative_error
from fa4sim.numerics.formats import Float32Array, round_to
from fa4sim.numerics.options import LOG2_MAX

Choice = tuple[float, float]

HISTORY: dict[str, Choice] = {
    "2109": (8, 4),
    "2717": (4, 4),
    "2731": (8, 0),
    "vllm 166": (8, 0.75),
}
"""Pull request -> (offset, threshold) that it brought for e4m3."""

PUBLISHED_SPREAD: dict[Choice, dict[float, float]] = {
    (8, 4): {0.25: 0.027, 0.5: 0.031, 1.0: 0.136, 1.5: 0.305, 2.0: 0.361},
    (4, 4): {0.25: 0.027, 0.5: 0.028, 1.0: 0.027, 1.5: 0.024, 2.0: 0.022},
}
"""(offset, threshold) -> standard deviation of the scores -> relative error on a B300, 8192 keys,
e4m3 against the bf16 kernel (Dao-AILab/flash-attention, pull request 2694)."""

PUBLISHED_BOUNDARY = {127: 0.99866372, 128: 0.86276174, 129: 0.95049518, 130: 0.94660372}
"""Keys -> cosine against bf16 on a B300, one decode step of 6 heads that share a key head, e4m3
with (8, 4) (Dao-AILab/flash-attention, issue 2577). Lengths there count one key less than ours: the
first length with a second block is 128."""


@dataclass(frozen=True)
class SaturationRow:
    """Error of 8-bit attention with one offset and threshold, against float64 on the same inputs.

    Attributes:
        dtype: of the inputs.
        offset, threshold: see the head of this module.
        keys: length.
        score_std: deviation of q, and so of the scaled scores.
        fits: whether P stays below the largest number.
        relative_error: ‖A - B‖ / ‖B‖ of the output.
        cosine: of the output and the truth, as vectors.
        shrink: ‖A‖ / ‖B‖.
        lse_error: largest, absolute.
        row_rescales: share of row steps (after the first block) that rescaled.
    """

    dtype: str
    offset: float
    threshold: float
    keys: int
    score_std: float
    fits: bool
    relative_error: float
    cosine: float
    shrink: float
    lse_error: float
    row_rescales: float


def measure_saturation(
    offsets: Sequence[float] = (0, 4, 8),
    thresholds: Sequence[float] = (0, 0.75, 2, 4, 8),
    dtypes: Sequence[str] = ("e4m3", "e5m2"),
    keys: int = 2048,
    score_std: float = 1.5,
    queries: int = 64,
    seed: int = 0,
) -> list[SaturationRow]:
    """Measure every combination of offset and threshold on seeded normal inputs of one head.

    Args:
        offsets: whole numbers from 0.
        thresholds: numbers from 0.
        dtypes: "e4m3", "e5m2".
        keys: length; head dim 128.
        score_std: deviation of q, and so of the scaled scores; k and v have 1.
        queries: rows.
        seed: of the generator; each dtype starts it afresh.

    Returns:
        One row per dtype, offset and threshold.

    Raises:
        ValueError: a dtype, offset or threshold is out of range, or there is no key or no spread.

    >>> rows = measure_saturation([4, 8], [4], ["e4m3"], keys=512)
    >>> [(row.offset, row.fits, row.relative_error > 0.1) for row in rows]
    [(4, True, False), (8, False, True)]
    """
    if keys < 1 or not 0 < score_std < np.inf:
        raise ValueError(f"keys={keys} must be at least 1, score_std={score_std} positive")
    rows = []
    for dtype in dtypes:
        arrays = _inputs(np.random.default_rng(seed), 1, queries, 1, keys, score_std, dtype)
        truth = attention_float64(*arrays)
        for choice in itertools.product(offsets, thresholds):
            rows.append(_measure(arrays, truth, dtype, choice, score_std))
    return rows


def measure_boundaries(
    lengths: Sequence[int] = (127, 128, 129, 130, 131, 136, 160, 192, 256, 257, 258, 384, 385),
    choices: Sequence[Choice] = tuple(HISTORY.values()),
    dtype: str = "e4m3",
    heads: int = 6,
    batch: int = 16,
    seed: int = 0,
) -> list[SaturationRow]:
    """Measure a decode step around multiples of 128 keys: one query of heads that share a key head.

    The shape is that of issue 2577, but for several sequences, as one says little. The keys of each
    length are the first of the same sequences.

    Args:
        lengths: keys.
        choices: pairs (offset, threshold).
        dtype: "e4m3" or "e5m2".
        heads: query heads.
        batch: sequences, all of the same length.
        seed: of the generator.

    Returns:
        One row per length and choice.

    Raises:
        ValueError: a dtype, offset or threshold is out of range.

    >>> rows = measure_boundaries([128, 129], [(8, 4), (8, 0)])
    >>> [(row.keys, row.threshold, row.cosine > 0.99) for row in rows]
    [(128, 4, True), (128, 0, True), (129, 4, False), (129, 0, True)]
    """
    q, k, v = _inputs(np.random.default_rng(seed), batch, 1, heads, max(lengths), 1.0, dtype)
    rows = []
    for length in lengths:
        arrays = (q, k[:, :length], v[:, :length])
        truth = attention_float64(*arrays)
        rows += [_measure(arrays, truth, dtype, choice, 1.0) for choice in choices]
    return rows


def measure_spread(
    stds: Sequence[float] = (0.25, 0.5, 1.0, 1.5, 2.0),
    choices: Sequence[Choice] = tuple(HISTORY.values()),
    dtype: str = "e4m3",
    keys: int = 8192,
    queries: int = 64,
    seed: int = 0,
) -> list[SaturationRow]:
    """Measure how the error grows with the spread of the scores, as in pull request 2694.

    Args:
        stds: deviations of q, and so of the scaled scores.
        choices: pairs (offset, threshold).
        dtype: "e4m3" or "e5m2".
        keys: length; head dim 128.
        queries: rows.
        seed: of the generator; each deviation starts it afresh.

    Returns:
        One row per deviation and choice.

    Raises:
        ValueError: a dtype, offset or threshold is out of range.

    >>> rows = measure_spread([0.25, 2.0], [(8, 4)], keys=1024)
    >>> rows[0].relative_error < 0.05 < 0.2 < rows[1].relative_error
    True
    """
    rows = []
    for std in stds:
        arrays = _inputs(np.random.default_rng(seed), 1, queries, 1, keys, std, dtype)
        truth = attention_float64(*arrays)
        rows += [_measure(arrays, truth, dtype, choice, std) for choice in choices]
    return rows


Three = tuple[Float32Array, Float32Array, Float32Array]


def _inputs(
    rng: np.random.Generator,
    batch: int,
    queries: int,
    heads: int,
    keys: int,
    std: float,
    dtype: str,
) -> Three:
    """Return normal q, k, v of 8-bit values, head dim 128; q has deviation ``std``.

    The first keys of a sequence are the same, however many there are.
    """
    q = rng.standard_normal((batch, queries, heads, 128)) * std
    sequences = [rng.standard_normal((keys, 2, 1, 128)) for rng in rng.spawn(batch)]
    k, v = np.stack(sequences).swapaxes(0, 2).swapaxes(1, 2)
    q8, k8, v8 = (round_to(x.astype(np.float32), dtype) for x in (q, k, v))
    return q8, k8, v8


def _measure(
    arrays: Three,
    truth: tuple[np.ndarray, np.ndarray],
    dtype: str,
    choice: Choice,
    score_std: float,
) -> SaturationRow:
    """Run the kernel's order with one offset and threshold, and compare."""
    offset, threshold = choice
    rows = arrays[0].shape[1] * arrays[0].shape[2]
    out, lse, stats = attention_blockwise(
        *arrays,
        dtype=dtype,
        max_offset=offset,
        threshold=threshold,
        allow_saturation=True,
        pack_gqa=True,
        q_stage=1,
        tile_m=32 if rows <= 32 else 128,  # no bit depends on it
        return_stats=True,
    )
    return SaturationRow(
        dtype,
        offset,
        threshold,
        arrays[1].shape[1],
        score_std,
        offset + threshold < LOG2_MAX[dtype],
        relative_error(out, truth[0]),
        cosine(out, truth[0]),
        float(np.linalg.norm(out) / np.linalg.norm(truth[0])),
        float(np.abs(lse - truth[1]).max()),
        stats.row_rescales / max(1, stats.row_steps),
    )


def format_saturation(rows: Sequence[SaturationRow]) -> str:
    """Lay out rows as a plain-text table.

    >>> print(format_saturation(measure_boundaries([129], [(8, 0)])))
    dtype  offset  threshold   keys    std  fits  rel error   cosine  shrink  lse error  rescales
    e4m3        8          0    129   1.00  yes      0.0223   0.9998   1.000    5.5e-06    100.0%
    """
    lines = [
        "dtype  offset  threshold   keys    std  fits  rel error   cosine  shrink  lse error"
        "  rescales"
    ]
    for row in rows:
        lines.append(
            f"{row.dtype:5}  {row.offset:6g}  {row.threshold:9g}  {row.keys:5}  "
            f"{row.score_std:5.2f}  {'yes' if row.fits else 'no':4}  {row.relative_error:9.4f}  "
            f"{row.cosine:7.4f}  {row.shrink:6.3f}  {row.lse_error:9.1e}  {row.row_rescales:8.1%}"
        )
    return "\n".join(lines)
