"""The product as tensor cores round it: a model, bit by bit, of the published rounding behaviour.

For one element of D a tensor core adds all K products of one instruction and the accumulator in one
go, in fixed point:

1. Products are exact. A product's exponent is the sum of its factors' exponents, so its
   significand lies in [1, 4); a subnormal keeps its format's lowest exponent. No term is aligned
   to less than exponent −126 (−133 on Hopper).
2. All terms are aligned to the largest exponent and cut towards zero at 25 bits behind the point
   (13 for 8-bit formats on Hopper).
3. The cut terms are added exactly.
4. The sum is cut towards zero to float32 (to 13 fraction bits for 8-bit formats on Hopper), or
   rounded to nearest for D in f16. What becomes zero is +0.

NaNs come out as 0x7fffffff; infinities behave as IEEE 754 has it.

Source: Xie et al., "MMA-Sim: Bit-Accurate Reference Model of Tensor Cores and Matrix Cores", and
its code (github.com/microsoft/MMA-Sim), which claim bitwise agreement with tcgen05.mma on B200 and
wgmma on H100. ``.ws`` and ``cta_group::2`` are not covered there and taken to be the same. The
lowest exponent on Hopper and the sign of zero were measured on an H200, whose wgmma gives the
model's bits in all tests of `tests/emulator/device`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.tensor import formats
from fa4kernel.emulator.tensor.formats import Raw
from fa4kernel.emulator.tensor.instruction import OPERAND_BYTES

Architecture = Literal["sm_100a", "sm_90a"]

_LOWEST: dict[Architecture, int] = {"sm_100a": -126, "sm_90a": -133}
"""Exponent below which no term is aligned."""

_ROWS = 16
"""Rows done at once, so that all products of a block stay in the cache."""


class _Factor(NamedTuple):
    """Values with the exponents that count for the alignment."""

    value: NDArray[np.float64]
    exponent: NDArray[np.int16]

    def of(self, batch: tuple[int, ...], cta: tuple[int, ...]) -> _Factor:
        """Return one CTA's matrix."""
        shape = (*batch, *self.value.shape[-2:])
        value, exponent = np.broadcast_to(self.value, shape), np.broadcast_to(self.exponent, shape)
        return _Factor(value[cta], exponent[cta])

    def part(self, index: tuple[slice, slice]) -> _Factor:
        """Return a part of the matrix."""
        return _Factor(self.value[index], self.exponent[index])


def multiply(
    a_raw: Raw,
    b_raw: Raw,
    dtypes: tuple[str, str, str],
    c: NDArray[np.float32] | None = None,
    kind: str = "f16",
    architecture: Architecture = "sm_100a",
) -> NDArray[np.float32]:
    """Return ``a @ b + c``, rounded as a tensor core rounds it.

    Args:
        a_raw: bits of A, shape (..., m, k). k may be several times the K of one instruction (32
            bytes); each such step is then rounded by itself, in order.
        b_raw: bits of B, shape (..., k, n).
        dtypes: formats of A, B and D; D is "f32" or "f16".
        c: the accumulator's values in float32, shape (..., m, n), or None for zero.
        kind: kind of the MMA: "f16", "tf32" or "f8f6f4".
        architecture: "sm_100a" (tcgen05.mma) or "sm_90a" (wgmma).

    Returns:
        The values of D in float32, shape (..., m, n).

    Raises:
        ValueError: the kind or architecture is not modelled, or k is not made of whole steps.

    >>> one, tiny = 0x3F80, 0x3280  # 1 and 2**-26
    >>> a = np.array([[one] + [tiny] * 15], np.uint16)
    >>> b = np.full((16, 1), one, np.uint16)
    >>> float(multiply(a, b, ("bf16", "bf16", "f32"))[0, 0] - 1)  # what is below 2**-25 is cut
    0.0
    """
    if kind not in OPERAND_BYTES or kind == "i8":
        raise ValueError(f"kind {kind!r} has no rounding model; use 'f16', 'tf32' or 'f8f6f4'")
    if architecture not in ("sm_100a", "sm_90a"):
        raise ValueError(f"architecture {architecture!r} is not modelled")
    if dtypes[2] not in ("f32", "f16"):
        raise ValueError(f"D must be 'f32' or 'f16', not {dtypes[2]!r}")
    step = 32 // OPERAND_BYTES[kind]
    k = a_raw.shape[-1]
    if k % step or b_raw.shape[-2] != k:
        raise ValueError(
            f"A {a_raw.shape} and B {b_raw.shape} must share a K that is a multiple of {step}"
        )
    coarse = architecture == "sm_90a" and kind == "f8f6f4"
    a, b = _factor(a_raw, dtypes[0]), _factor(b_raw, dtypes[1])
    batch = np.broadcast_shapes(a_raw.shape[:-2], b_raw.shape[:-2])
    shape = (*batch, a_raw.shape[-2], b_raw.shape[-1])
    d = np.zeros(shape, np.float32) if c is None else np.broadcast_to(c, shape).astype(np.float32)
    for cta in np.ndindex(*batch):
        left, right = a.of(batch, cta), b.of(batch, cta)
        for at in range(0, k, step):
            columns = left.part((slice(None), slice(at, at + step)))
            rows = right.part((slice(at, at + step), slice(None)))
            d[cta] = _step(columns, rows, d[cta], dtypes[2], coarse, _LOWEST[architecture])
    return d


def _factor(raw: Raw, dtype: str) -> _Factor:
    """Split raw bits into values and exponents."""
    value = np.ascontiguousarray(_wide(formats.decode(raw, dtype)))
    lowest = formats.format_of(dtype).lowest_exponent
    return _Factor(value, _exponents(value, lowest))


def _wide(x: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return float64, without a word about signalling NaNs."""
    with np.errstate(invalid="ignore"):
        return x.astype(np.float64)


def _exponents(value: NDArray[np.float64], lowest: int) -> NDArray[np.int16]:
    """Return exponents, those of zeros so low that they never count."""
    finite = np.where(np.isfinite(value), value, 0.0)
    exponent = np.maximum(np.frexp(finite)[1] - 1, lowest)
    return np.where(finite == 0, -1000, exponent).astype(np.int16)


def _step(
    a: _Factor, b: _Factor, c: NDArray[np.float32], dtype: str, coarse: bool, least: int
) -> NDArray[np.float32]:
    """Return one instruction's D for one CTA."""
    fraction = 13 if coarse else 25
    wide = _wide(c)
    total = np.empty_like(wide)
    lowest = formats.format_of(dtype).lowest_exponent
    for at in range(0, len(wide), _ROWS):
        rows = slice(at, at + _ROWS)
        part = a.part((rows, slice(None)))
        total[rows] = _sums(part, b, wide[rows], lowest, fraction, least)
    with np.errstate(all="ignore"):
        rounded = total.astype(np.float16).astype(np.float32) if dtype == "f16" else _cut(total)
        if coarse and dtype == "f32":
            rounded = (rounded.view(np.uint32) & np.uint32(0xFFFFFC00)).view(np.float32)
        rounded += np.float32(0)  # makes -0 +0
        special = np.matmul(a.value, b.value) + wide
        odd = ~np.isfinite(special)
        if odd.any():
            rounded[odd] = special[odd]
            rounded.view(np.uint32)[np.isnan(special)] = 0x7FFFFFFF
    return rounded


def _sums(
    a: _Factor, b: _Factor, c: NDArray[np.float64], lowest: int, fraction: int, least: int
) -> NDArray[np.float64]:
    """Return sums of aligned, cut terms, steps 1 to 3; shapes (m, k), (k, n) and (m, n)."""
    exponents = (a.exponent[:, :, None] + b.exponent).max(axis=1)  # (m, n)
    exponents = np.maximum(np.maximum(exponents, _exponents(c, lowest)), least)
    with np.errstate(all="ignore"):
        # Multiplying by a power of two is exact, so each term is cut where its last bit falls.
        unit = np.ldexp(1.0, fraction - exponents.astype(np.int32))
        terms = a.value[:, :, None] * b.value  # (m, k, n)
        terms *= unit[:, None]
        np.trunc(terms, out=terms)
        total: NDArray[np.float64] = (terms.sum(axis=1) + np.trunc(c * unit)) / unit
    return total


def _cut(x: NDArray[np.float64]) -> NDArray[np.float32]:
    """Round towards zero to float32; what reaches 2**128 becomes infinite."""
    nearest = x.astype(np.float32)
    beyond = (np.abs(nearest) > np.abs(x)) & (np.abs(x) < 2.0**128)
    return np.where(beyond, np.nextafter(nearest, np.float32(0)), nearest)
