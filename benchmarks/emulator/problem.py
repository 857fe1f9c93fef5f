"""The official forward kernel on drawn inputs, ready to be emulated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fa4kernel.emulator import Launch
from fa4kernel.official.compile import compiled, missing
from fa4kernel.official.launches import launches
from fa4kernel.official.problem import Problem
from fa4kernel.official.variant import Variant
from fa4sim.numerics import attention_float64, from_bits16, to_bits16

HEAD_DIM = 128
#: What the three kernels are called, and what distinguishes them.
SHAPES: dict[str, dict[str, Any]] = {
    "full": {"pair": False},
    "causal": {"causal": True},
    "CTA pair": {},
}
#: Largest relative error of an output in bf16 (Frobenius norms): a few times its rounding.
TOLERANCE = 8e-3
NEEDS = (
    "These need the official FlashAttention-4 package, in an environment of its own that "
    "`make official` builds"
)


@dataclass(frozen=True)
class Work:
    """What is run: head dim 128, bf16, batch 1.

    Attributes:
        shape: one of :data:`SHAPES`.
        seqlen_q, seqlen_k, heads: of the problem. The keys are as many as the queries if causal.
    """

    shape: str
    seqlen_q: int = 2048
    seqlen_k: int = 2048
    heads: int = 4

    @property
    def ctas(self) -> int:
        """CTAs of the grid; each takes 256 query rows of a head."""
        return self.heads * -(-self.seqlen_q // 256)

    def words(self) -> str:
        """The problem for the page."""
        heads = "1 head" if self.heads == 1 else f"{self.heads} heads"
        return f"{self.shape}, {heads}, {self.seqlen_q:,} × {self.seqlen_k:,}"


def absent() -> str | None:
    """Why the official kernel cannot be compiled here; None if it can."""
    return missing()


def arrays(work: Work) -> tuple[np.ndarray[Any, Any], ...]:
    """Q, K and V, bf16 as their bits, (seqlen, heads, head_dim)."""
    rng = np.random.default_rng(20260305)
    lengths = (work.seqlen_q, work.seqlen_k, work.seqlen_k)
    drawn = [rng.standard_normal((n, work.heads, HEAD_DIM), np.float32) for n in lengths]
    return tuple(to_bits16(x, "bf16") for x in drawn)


def prepare(work: Work) -> tuple[str, Launch, np.ndarray[Any, Any]]:
    """The kernel's PTX, its launch, and the array its output (bf16 bits) will be in."""
    rows = "one tile" if work.seqlen_q <= 128 else "two tiles" if work.seqlen_q <= 256 else "many"
    long = work.seqlen_k > 63 * 128
    variant = Variant(rows=rows, long=long, **SHAPES[work.shape])
    q, k, v = (x[None] for x in arrays(work))
    out = np.full_like(q, 0x7FFF)  # NaN
    call = Problem(variant, q, k, v, out, HEAD_DIM**-0.5, work.seqlen_q, work.seqlen_k, sms=10_000)
    ((kernel, launch),) = launches(call, compiled(variant))
    return kernel.ptx, launch, out[0]


def check(work: Work, out: np.ndarray[Any, Any]) -> None:
    """Raise ArithmeticError if the output of the first head is not attention."""
    q, k, v = (from_bits16(x[None, :, :1], "bf16") for x in arrays(work))
    truth, _ = attention_float64(q, k, v, causal=work.shape == "causal")
    wrong = from_bits16(out[None, :, :1], "bf16") - truth
    error = float(np.linalg.norm(wrong) / np.linalg.norm(truth))
    if not error <= TOLERANCE:
        raise ArithmeticError(f"{work.words()}: relative error {error:.3g}, so no time counts")
