"""Quantisation: what 8-bit inputs cost, measured on stated inputs.

:func:`measure_quantization` holds attention of 8-bit inputs against float64 on the original ones,
and tells what quantising did (float64 on the quantised inputs) from what the kernel's arithmetic
did (the kernel's order on the same).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4sim.numerics.attention import attention_float64
from fa4sim.numerics.blockwise import attention_blockwise
from fa4sim.numerics.errors import cosine, relative_error
from fa4sim.numerics.formats import FP8_DTYPES, Float32Array, Float64Array, round_to
from fa4sim.numerics.quantize import amax_descale, dequantize, quantize

Arrays = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
Maker = Callable[[np.random.Generator, int, int], Arrays]


def _normal(scale: float) -> Maker:
    """Return a maker of normal q, and of normal k and v times a scale that q takes back."""

    def make(rng: np.random.Generator, seqlen: int, dim: int) -> Arrays:
        q, k, v = rng.standard_normal((3, seqlen, dim))
        return q / scale, k * scale, v * scale

    return make


def _uniform(rng: np.random.Generator, seqlen: int, dim: int) -> Arrays:
    """Uniform with variance 1."""
    q, k, v = rng.uniform(-1, 1, (3, seqlen, dim)) * 3**0.5
    return q, k, v


def _heavy_tails(rng: np.random.Generator, seqlen: int, dim: int) -> Arrays:
    """Student's t with 3 degrees of freedom, variance 1: one element in 10,000 is beyond 12."""
    q, k, v = rng.standard_t(3, (3, seqlen, dim)) / 3**0.5
    return q, k, v


def _outlier_channels(rng: np.random.Generator, seqlen: int, dim: int) -> Arrays:
    """Normal, but 1 channel in 32 of k and v is 64 times as large, and of q 64 times as small."""
    large = np.where(np.arange(dim) % 32 == 0, 64.0, 1.0)
    q, k, v = rng.standard_normal((3, seqlen, dim))
    return q / large, k * large, v * large


def _wide_range(rng: np.random.Generator, seqlen: int, dim: int) -> Arrays:
    """Normal, but each key's v is scaled by its own power of two, from 2**-16 to 1."""
    q, k, v = rng.standard_normal((3, seqlen, dim))
    return q, k, v * 2.0 ** rng.integers(-16, 1, (seqlen, 1))


INPUTS: dict[str, Maker] = {
    "normal": _normal(1.0),
    "uniform": _uniform,
    "heavy tails": _heavy_tails,
    "outlier channels": _outlier_channels,
    "wide range": _wide_range,
    "small k and v": _normal(2.0**-10),
    "large k and v": _normal(2.0**8),
}
"""Name -> maker of q, k and v (seqlen, head_dim) from a generator."""


@dataclass(frozen=True)
class QuantizationRow:
    """Error of attention with quantised inputs, against float64 on the original ones.

    Relative errors are ‖A - B‖ / ‖B‖ over the whole output.

    Attributes:
        inputs: name in :data:`INPUTS`.
        dtype: "bf16" (rounded, not scaled), "e4m3" or "e5m2".
        descale: "amax", or "1" for none.
        from_inputs: relative error of float64 attention on the quantised inputs.
        from_arithmetic: of the kernel's order against that.
        total: of the kernel's order against the original inputs.
        cosine: of the same two, as vectors.
    """

    inputs: str
    dtype: str
    descale: str
    from_inputs: float
    from_arithmetic: float
    total: float
    cosine: float


def measure_quantization(
    inputs: Iterable[str] = tuple(INPUTS),
    seqlen: int = 1024,
    head_dim: int = 128,
    queries: int = 128,
    seed: int = 0,
) -> list[QuantizationRow]:
    """Measure what quantising costs, for one head of seeded inputs.

    Args:
        inputs: names from :data:`INPUTS`.
        seqlen: keys.
        head_dim: of q, k and v.
        queries: how many of the rows of q are used, at most ``seqlen``.
        seed: of the generator; each name starts it afresh.

    Returns:
        For each name five rows: bf16, then e4m3 and e5m2, each with descales and without.

    Raises:
        ValueError: a name is not known.

    >>> rows = measure_quantization(["normal"], seqlen=256, head_dim=32)
    >>> [(row.dtype, row.descale, round(row.total, 2)) for row in rows][:3]
    [('bf16', '1', 0.0), ('e4m3', '1', 0.06), ('e4m3', 'amax', 0.05)]
    """
    rows = []
    for name in inputs:
        if name not in INPUTS:
            raise ValueError(f"inputs {name!r} are not known; use one of {[*INPUTS]}")
        made = INPUTS[name](np.random.default_rng(seed), seqlen, head_dim)
        q, k, v = (np.asarray(x, dtype=np.float64)[None, :, None] for x in made)
        truth, _ = attention_float64(q[:, :queries], k, v)
        rounded = [round_to(x.astype(np.float32), "bf16") for x in (q[:, :queries], k, v)]
        unit = [np.ones((1, 1), dtype=np.float32)] * 3
        rows.append(_row(name, "bf16", "1", rounded, unit, truth))
        for dtype in FP8_DTYPES:
            amax = [amax_descale(x, dtype) for x in (q[:, :queries], k, v)]
            for label, descales in (("1", unit), ("amax", amax)):
                small = [
                    quantize(x, descale, dtype)
                    for x, descale in zip((q[:, :queries], k, v), descales, strict=True)
                ]
                rows.append(_row(name, dtype, label, small, descales, truth))
    return rows


def _row(
    name: str,
    dtype: str,
    label: str,
    small: Sequence[Float32Array],
    descales: Sequence[Float32Array],
    truth: Float64Array,
) -> QuantizationRow:
    """Compare the kernel's order, float64 on the same quantised inputs, and the truth."""
    meant = [dequantize(x, descale) for x, descale in zip(small, descales, strict=True)]
    exact, _ = attention_float64(*meant)
    given = {}
    if dtype in FP8_DTYPES:
        given = dict(zip(("q_descale", "k_descale", "v_descale"), descales, strict=True))
    out, _ = attention_blockwise(*small, dtype=dtype, **given)
    return QuantizationRow(
        name,
        dtype,
        label,
        relative_error(exact, truth),
        relative_error(out, exact),
        relative_error(out, truth),
        cosine(out, truth),
    )


def format_quantization(rows: Sequence[QuantizationRow]) -> str:
    """Lay out the result of :func:`measure_quantization` as a plain-text table.

    >>> row = QuantizationRow("normal", "e4m3", "amax", 0.05, 0.03, 0.06, 0.998)
    >>> print(format_quantization([row]))
    inputs            dtype  descale    inputs   kernel    total   cosine
    normal            e4m3   amax       0.0500   0.0300   0.0600   0.9980
    """
    lines = ["inputs            dtype  descale    inputs   kernel    total   cosine"]
    for row in rows:
        lines.append(
            f"{row.inputs:16}  {row.dtype:5}  {row.descale:7}  {row.from_inputs:8.4f} "
            f"{row.from_arithmetic:8.4f} {row.total:8.4f} {row.cosine:8.4f}"
        )
    return "\n".join(lines)
