"""How far off an output is, and how far off it may be.

The truth is attention in float64, of FP8 on the values as they are, quantised and descaled. What
may be asked of 16-bit inputs is told by another implementation on the same values: PyTorch's flash
attention on the CPU. It has no FP8; of that, float64 attention tells whose P alone is rounded, 2^8
times as large as weights below the row's maximum are, and whose output is rounded to bf16. The
largest error of one element is a matter of luck, as is the relative error of an output of a few
rows, so both are the largest over a few draws.

That is not enough for a row of which one key takes most. Others round P relative to the row's own
maximum, so that key's P, 1, is exact; this kernel keeps an old maximum until the new one is far
above it, so that key's P, 17.1 say, is rounded. So one element, and an output of a few rows, may
also be off by what rounding of every P and of the output can come to: of few keys the sum of all,
of many, whose roundings are independent, three times the root of their squares' sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fa4sim.numerics import EPSILON, attention_float64, mask_matrix, round_to
from fa4sim.specs import FP8, Problem

Floats = NDArray[np.floating]

#: Largest relative error, and largest error of one element, in multiples of the other's.
RELATIVE, LARGEST = 1.2, 2.0
#: Largest error of LSE, absolute.
LSE = 1e-3
_MORE_DRAWS = 3
#: P of FP8 is this many times as large.
_P_SCALE = np.float32(256)
#: Half the distance of subnormals.
_UNDERFLOW = {"bf16": 0.0, "fp16": 2.0**-25, "e4m3": 2.0**-10, "e5m2": 2.0**-17}
#: Largest relative error of an exponential on FMA units (degree 3: 8.8e-5), and of float32 sums.
_EXPONENTIAL = 2.0**-13
#: So many rows are few. Of 750 rows of normal inputs the worst is 1.9 times as far off as most, in
#: 16 of them that is 1.1 times.
_FEW_ROWS = 16


class Inputs(Protocol):
    """Values of a call, float32."""

    @property
    def q(self) -> NDArray[np.float32]:
        """(batch, seqlen_q, heads, head_dim)."""

    @property
    def k(self) -> NDArray[np.float32]:
        """(batch, seqlen_k, kv_heads, head_dim)."""

    @property
    def v(self) -> NDArray[np.float32]:
        """(batch, seqlen_k, kv_heads, head_dim_v)."""

    @property
    def sink(self) -> NDArray[np.float32] | None:
        """(heads,)."""

    @property
    def descales(self) -> NDArray[np.float32] | None:
        """(3, batch, kv_heads): factors of q, k and v."""

    def in_one_piece(self, problem: Problem) -> Inputs:
        """The same; k and v, if they lie in pages, as above."""


@dataclass(frozen=True)
class Errors:
    """‖A − B‖ / ‖B‖ (Frobenius) and the largest |A − B|; infinite where one is not a number."""

    relative: float
    largest: float

    @classmethod
    def of(cls, out: Floats, truth: Floats) -> Errors:
        """Errors of an output."""
        difference = out.astype(np.float64) - truth
        if not np.isfinite(difference).all():
            return cls(float("inf"), float("inf"))
        norm, off = float(np.linalg.norm(truth)), float(np.linalg.norm(difference))
        relative = off / norm if norm else float("inf") * off if off else 0.0
        return cls(relative, float(np.max(np.abs(difference), initial=0.0)))


@dataclass(frozen=True)
class Accuracy:
    """An output held against the truth.

    Attributes:
        errors: of the output; lse: the largest error of LSE (infinite if only one is finite).
        limit: what the errors may be; None if PyTorch is not installed. Each element has a limit
            of its own: `largest` is how large the largest error could be if all grew alike until
            one met its limit.
    """

    errors: Errors
    lse: float
    limit: Errors | None

    @property
    def ok(self) -> bool:
        """Whether nothing is further off than it may be."""
        if self.limit is None:
            return bool(np.isfinite(self.errors.relative)) and self.lse <= LSE
        within = self.errors.relative <= self.limit.relative
        return within and self.errors.largest <= self.limit.largest and self.lse <= LSE


def accuracy(
    problem: Problem, draw: Callable[[int], Inputs], seed: int, out: Floats, lse: Floats
) -> Accuracy:
    """Hold the output for the inputs `draw(seed)` against the truth.

    Args:
        problem: what was computed.
        draw: inputs by seed; other seeds are used to see how PyTorch's errors vary.
        seed: of the inputs that were used.
        out: (batch, seqlen_q, heads, head_dim_v); of variable length, rows beyond are ignored.
        lse: (batch, heads, seqlen_q).
    """
    inputs = draw(seed)
    exact, exact_lse = truth(problem, inputs)
    seen = rows_seen(problem)
    out = np.where(seen[:, :, None, None], out, 0)
    lse = np.where(seen[:, None, :], lse, -np.inf)
    errors, limit = Errors.of(out, exact), limits(problem, draw, seed)
    found = Accuracy(errors, lse_error(lse, exact_lse), limit)
    if found.ok or limit is None or not 0 < errors.largest < float("inf"):
        return found
    relative, elements = rounding(problem, inputs, exact)
    if np.count_nonzero(seen) * problem.heads > _FEW_ROWS:
        relative = 0.0
    allowed = np.maximum(elements, limit.largest or np.finfo(float).tiny)
    shares = np.abs(out.astype(np.float64) - exact) / allowed
    largest = errors.largest / float(np.max(shares))
    return replace(found, limit=Errors(max(limit.relative, relative), largest))


def truth(problem: Problem, inputs: Inputs) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Output and LSE in float64; of rows beyond a sequence 0 and -inf."""
    inputs = inputs.in_one_piece(problem)
    return _attention(problem, inputs.sink, *descaled(problem, inputs))


def _attention(
    problem: Problem, sink: NDArray[np.float32] | None, q: Floats, k: Floats, v: Floats
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return attention_float64(
        q, k, v, sink=sink, causal=problem.causal,
        window=problem.window, softmax_scale=problem.softmax_scale, softcap=problem.softcap,
        seqlens_q=problem.seqlens_q, seqlens_k=problem.seqlens_k,
    )  # fmt: skip


def descaled(problem: Problem, inputs: Inputs) -> tuple[Floats, Floats, Floats]:
    """Q, K and V multiplied by their factors, in float64 if they have any."""
    if inputs.descales is None:
        return inputs.q, inputs.k, inputs.v
    q, k, v = (x.astype(np.float64)[:, None, :, None] for x in inputs.descales)
    return inputs.q * q.repeat(problem.group, axis=2), inputs.k * k, inputs.v * v


def limits(problem: Problem, draw: Callable[[int], Inputs], seed: int) -> Errors | None:
    """What the errors may be, by the other's; None if that is PyTorch, and not installed."""
    fp8 = problem.dtype in FP8
    if not fp8 and find_spec("torch") is None:
        return None
    other = _rounded_output if fp8 else _torch_output
    drawn = [draw(each).in_one_piece(problem) for each in range(seed, seed + 1 + _MORE_DRAWS)]
    found = [Errors.of(other(problem, each), truth(problem, each)[0]) for each in drawn]
    relative = max(errors.relative for errors in found)
    return Errors(RELATIVE * relative, LARGEST * max(errors.largest for errors in found))


def _scale(problem: Problem) -> float:
    given = problem.softmax_scale
    return float(problem.head_dim**-0.5 if given is None else given)


def rounding(
    problem: Problem, inputs: Inputs, exact: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """What rounding can come to: relative, and per element (batch, seqlen_q, heads, head_dim_v).

    Args:
        exact: the output without any.
    """
    inputs = inputs.in_one_piece(problem)
    q, k, v = descaled(problem, inputs)
    each = EPSILON[problem.dtype] / 2 + _EXPONENTIAL
    sums, lse = _attention(problem, inputs.sink, q, k, np.abs(v))  # of w |v|
    # Squares of weights are the weights of doubled scores, but for their sum.
    doubled = replace(problem, softmax_scale=2 * _scale(problem))
    squares, lse_2 = _attention(doubled, None, q, k, v.astype(np.float64) ** 2)
    seen = np.isfinite(lse) & np.isfinite(lse_2)
    shift = np.where(seen, np.where(seen, lse_2, 0) - 2 * np.where(seen, lse, 0), -np.inf)
    squares = squares * np.exp(shift).swapaxes(1, 2)[..., None]
    lost = _UNDERFLOW[problem.dtype] / (_P_SCALE if problem.dtype in FP8 else 1)
    lost *= min(v.shape[1], 3 * np.sqrt(v.shape[1])) * np.abs(v).max(initial=0)
    output = EPSILON["fp16" if problem.dtype == "fp16" else "bf16"] / 2 * np.abs(exact)
    elements = np.minimum(each * sums, 3 * each * np.sqrt(squares)) + lost + output
    norm = np.linalg.norm(exact)
    off = np.sqrt((each**2 * squares + output**2).sum()) + lost * np.sqrt(exact.size)
    return float(off / norm) if norm else 0.0, elements


def lse_error(lse: Floats, exact: Floats) -> float:
    """The largest difference; -inf in both, of rows that see no key, is none."""
    with np.errstate(invalid="ignore"):
        off = np.where(lse == exact, 0.0, np.abs(lse - exact))
    return float(np.max(off, initial=0.0)) if np.isfinite(off).all() else float("inf")


def rows_seen(problem: Problem) -> NDArray[np.bool_]:
    """(batch, seqlen_q): which rows belong to a sequence."""
    lengths = [problem.lengths(batch)[0] for batch in range(problem.batch)]
    return np.arange(problem.seqlen_q) < np.array(lengths)[:, None]


def _rounded_output(problem: Problem, inputs: Inputs) -> NDArray[np.float64]:
    """Attention whose weights, and whose output, are rounded; 0 for rows that see no key."""
    out = np.zeros((*inputs.q.shape[:3], problem.dim_v))
    q, k, v = descaled(problem, inputs)
    scale = _scale(problem)
    for batch, (q_rows, keys, values), bias in _sequences(problem, inputs, (q, k, v)):
        scores = q_rows.astype(np.float64) @ keys.swapaxes(1, 2) * scale + bias
        top = scores.max(axis=2, keepdims=True)
        weights = np.exp(scores - np.where(np.isfinite(top), top, 0))
        p = round_to((weights * _P_SCALE).astype(np.float32), problem.dtype) / _P_SCALE
        total = weights.sum(axis=2, keepdims=True)
        rows = p.astype(np.float64) @ values / np.where(total == 0, 1, total)
        rounded = round_to(rows[..., : problem.dim_v].astype(np.float32), "bf16")
        out[batch, : rounded.shape[1]] = rounded.swapaxes(0, 1)
    return out


def _torch_output(problem: Problem, inputs: Inputs) -> NDArray[np.float64]:
    """(batch, seqlen_q, heads, head_dim_v), 0 for rows that see no key."""
    import torch
    import torch.nn.functional as functional
    from torch.nn.attention import SDPBackend, sdpa_kernel

    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[problem.dtype]
    out = np.zeros((*inputs.q.shape[:3], problem.dim_v))
    for batch, tensors, bias in _sequences(problem, inputs, (inputs.q, inputs.k, inputs.v)):
        q, k, v = (torch.from_numpy(np.ascontiguousarray(x))[None].to(dtype) for x in tensors)
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            made = functional.scaled_dot_product_attention(
                q,
                k,
                v,
                attn_mask=torch.from_numpy(bias.astype(np.float32))[None],
                scale=problem.softmax_scale,
            )
        rows = made[0, :, :, : problem.dim_v].to(torch.float64).numpy().swapaxes(0, 1)
        out[batch, : len(rows)] = np.nan_to_num(rows)
    return out


def _sequences(
    problem: Problem, inputs: Inputs, values: tuple[Floats, Floats, Floats]
) -> Iterator[tuple[int, Any, Any]]:
    """Number, (q, k, v) as (heads, tokens, columns), and bias (heads, rows, keys) of sequences.

    PyTorch wants equal columns, so V is padded; a sink is one more key, whose value is 0.
    """
    for batch in range(problem.batch):
        rows, keys = problem.lengths(batch)
        if not rows or not keys:
            continue
        q = values[0][batch, :rows].swapaxes(0, 1)
        k, v = (x[batch, :keys].swapaxes(0, 1).repeat(problem.group, axis=0) for x in values[1:])
        mask = mask_matrix(rows, keys, problem.causal, problem.window)
        bias = np.where(mask, 0, -np.inf)[None].repeat(len(q), axis=0)
        if inputs.sink is not None:
            column = np.broadcast_to(inputs.sink[:, None, None], (*bias.shape[:2], 1))
            bias = np.concatenate([bias, column], axis=2)
            k, v = (np.pad(x, ((0, 0), (0, 1), (0, 0))) for x in (k, v))
        v = np.pad(v, ((0, 0), (0, 0), (0, problem.head_dim - problem.dim_v)))
        yield batch, (q, k, v), bias
