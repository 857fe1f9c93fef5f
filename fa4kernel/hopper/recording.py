"""Run a traced Hopper kernel, on a GPU or in the emulator, for its stamps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator import Launch, emulate
from fa4kernel.forward.launch import Arrays, Plan
from fa4kernel.hopper.config import STAMPS, Config
from fa4kernel.hopper.launch import launch
from fa4sim.numerics.formats import round_to, to_bits16
from fa4sim.specs import Problem

Stamps = NDArray[np.int32]


def record(
    cfg: Config, problem: Problem, sms: int, run: Callable[[Launch], object], seed: int = 0
) -> tuple[Stamps, Arrays]:
    """Stamps (CTAs, 1 + consumers, blocks of a CTA, len(STAMPS)), and the arrays with the output.

    Args:
        cfg: of the kernel, with `trace`.
        problem: what to compute, on standard normal numbers.
        sms: multiprocessors: as many CTAs stay and work on tile after tile.
        run: runs the launch; the arrays and stamps in it then hold the results.
        seed: of the numbers.
    """
    assert problem.kv_heads is not None and problem.seqlen_k is not None
    rng = np.random.default_rng(seed)

    def draw(tokens: int, heads: int, columns: int) -> NDArray[np.uint16]:
        values = rng.standard_normal((problem.batch, tokens, heads, columns), dtype=np.float32)
        return to_bits16(round_to(values, problem.dtype), problem.dtype)

    q = draw(problem.seqlen_q, problem.heads, problem.head_dim)
    k = draw(problem.seqlen_k, problem.kv_heads, problem.head_dim)
    v = draw(problem.seqlen_k, problem.kv_heads, problem.dim_v)
    out = np.zeros((*q.shape[:-1], problem.dim_v), np.uint16)
    lse = np.zeros((problem.batch, problem.heads, problem.seqlen_q), np.float32)
    arrays = Arrays(q, k, v, out, lse)
    window = (None, 0) if problem.causal else problem.window or (None, None)
    plan = Plan.of(cfg, q.shape, k.shape, v.shape, None, None, window)
    ctas = plan.ctas(sms)
    blocks = -(-plan.tiles // ctas) * -(-problem.seqlen_k // cfg.tile_n)
    stamps = np.zeros((ctas, 1 + cfg.consumers, blocks, len(STAMPS)), np.int32)
    scale = problem.head_dim**-0.5 if problem.softmax_scale is None else problem.softmax_scale
    run(launch(cfg, arrays, softmax_scale=scale, window=window, sms=sms, stamps=stamps))
    return stamps, arrays


def in_emulator(ptx: str) -> Callable[[Launch], object]:
    """For `record`: runs a launch in the emulator; its clock counts ticks."""
    return lambda launch: emulate(ptx, launch)
