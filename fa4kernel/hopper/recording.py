"""Run a Hopper kernel on numbers drawn from a seed, on a GPU or in the emulator."""

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
Run = Callable[[Launch], object]  # runs a launch; the arrays in it then hold the results


def normal(problem: Problem, seed: int) -> Arrays:
    """Standard normal Q, K and V, and room for O and LSE."""
    assert problem.kv_heads is not None and problem.seqlen_k is not None
    rng = np.random.default_rng(seed)

    def draw(tokens: int, heads: int, columns: int) -> NDArray[np.uint16]:
        values = rng.standard_normal((problem.batch, tokens, heads, columns), dtype=np.float32)
        return to_bits16(round_to(values, problem.dtype), problem.dtype)

    q = draw(problem.seqlen_q, problem.heads, problem.head_dim)
    k = draw(problem.seqlen_k, problem.kv_heads, problem.head_dim)
    v = draw(problem.seqlen_k, problem.kv_heads, problem.dim_v)
    out = np.zeros((*q.shape[:-1], problem.dim_v), np.uint16)
    return Arrays(q, k, v, out, np.zeros((problem.batch, problem.heads, problem.seqlen_q), "f4"))


def compute(
    cfg: Config, problem: Problem, arrays: Arrays, sms: int, run: Run, stamps: Stamps | None = None
) -> None:
    """O and LSE of a problem, into its arrays.

    Args:
        cfg: of the kernel.
        problem: what to compute.
        arrays: Q, K, V, and room for O and LSE.
        sms: multiprocessors: as many CTAs stay and work on tile after tile.
        run: runs the launch.
        stamps: room for those of a kernel with `trace`, see `record`.
    """
    scale = problem.head_dim**-0.5 if problem.softmax_scale is None else problem.softmax_scale
    run(launch(cfg, arrays, softmax_scale=scale, window=_window(problem), sms=sms, stamps=stamps))


def record(
    cfg: Config, problem: Problem, sms: int, run: Run, seed: int = 0
) -> tuple[Stamps, Arrays]:
    """Stamps (CTAs, 1 + consumers, blocks of a CTA, len(STAMPS)), and the arrays with the output.

    Args:
        cfg: of the kernel, with `trace`.
        problem: what to compute, on standard normal numbers.
        sms: multiprocessors: as many CTAs stay and work on tile after tile.
        run: runs the launch.
        seed: of the numbers.
    """
    assert problem.seqlen_k is not None
    arrays = normal(problem, seed)
    shapes = arrays.q.shape, arrays.k.shape, arrays.v.shape
    plan = Plan.of(cfg, *shapes, None, None, _window(problem))
    ctas = plan.ctas(sms)
    blocks = -(-plan.tiles // ctas) * -(-problem.seqlen_k // cfg.tile_n)
    stamps = np.zeros((ctas, 1 + cfg.consumers, blocks, len(STAMPS)), np.int32)
    compute(cfg, problem, arrays, sms, run, stamps)
    return stamps, arrays


def in_emulator(ptx: str, arithmetic: str = "fast") -> Run:
    """Runs a launch in the emulator; its clock counts ticks."""
    return lambda launch: emulate(ptx, launch, arithmetic=arithmetic)


def _window(problem: Problem) -> tuple[int | None, int | None]:
    return (None, 0) if problem.causal else problem.window or (None, None)
