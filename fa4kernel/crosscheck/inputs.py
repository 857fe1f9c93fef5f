"""Values of a problem, the same for the pipeline, the kernel and the reference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fa4sim.numerics import round_to
from fa4sim.specs import Problem

Floats = NDArray[np.float32]

#: Scores gain up to this much towards the keys that come last: more than the 8 (in log2) by which
#: the kernel lets a maximum grow without rescaling O.
RISE = 20.0


@dataclass(frozen=True)
class Inputs:
    """Q, K, V of shapes (batch, seqlen, heads, head_dim) and sink logits (heads,) or None."""

    q: Floats
    k: Floats
    v: Floats
    sink: Floats | None = None


def draw(problem: Problem, seed: int, rising: bool = False) -> Inputs:
    """Standard normal values, rounded to the problem's dtype (the sink to bf16).

    Args:
        problem: gives the shapes.
        seed: of the values.
        rising: let scores grow towards the first keys, which come last, so that O is rescaled.
    """
    assert problem.seqlen_k is not None and problem.kv_heads is not None
    rng = np.random.default_rng(seed)
    q = rng.standard_normal(
        (problem.batch, problem.seqlen_q, problem.heads, problem.head_dim), dtype=np.float32
    )
    keys = (problem.batch, problem.seqlen_k, problem.kv_heads)
    k = rng.standard_normal((*keys, problem.head_dim), dtype=np.float32)
    v = rng.standard_normal((*keys, problem.dim_v), dtype=np.float32)
    sink = rng.normal(1, 2, problem.heads).astype(np.float32) if problem.sink else None
    if rising:
        position = np.linspace(RISE, 0, problem.seqlen_k, dtype=np.float32)
        q[..., 0], k[..., 0] = 4, position[:, None] / 4 * problem.head_dim**0.5
    dtype = problem.dtype
    return Inputs(
        round_to(q, dtype), round_to(k, dtype), round_to(v, dtype),
        None if sink is None else round_to(sink, "bf16"),
    )  # fmt: skip
