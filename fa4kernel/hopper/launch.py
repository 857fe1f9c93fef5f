"""How a Hopper kernel is launched on given arrays; see `fa4kernel.forward.launch`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator import Launch
from fa4kernel.forward.launch import Arrays, Plan, moved
from fa4kernel.hopper.config import ROWS, Config


def launch(
    cfg: Config,
    arrays: Arrays,
    *,
    softmax_scale: float,
    window: tuple[int | None, int | None] = (None, None),
    sms: int = 132,
    stamps: NDArray[np.int32] | None = None,
) -> Launch:
    """The launch that computes `arrays.o` and `arrays.lse`.

    Args:
        cfg: the kernel's.
        arrays: what it reads and writes.
        softmax_scale: of the scores.
        window: keys to the left and right of the diagonal; causal is (None, 0).
        sms: multiprocessors of the GPU: as many CTAs stay and work on tile after tile.
        stamps: (CTAs, 1 + consumers, blocks of a CTA, len(STAMPS)), for a kernel with `trace`.
    """
    plan = Plan.of(cfg, arrays.q.shape, arrays.k.shape, arrays.v.shape, None, None, window)
    arguments: list[Any] = []
    for array, rows, columns in (
        (arrays.q, ROWS, cfg.head_dim),
        (arrays.k, cfg.tile_n, cfg.head_dim),
        (arrays.v, cfg.tile_n, cfg.head_dim_v),
        (arrays.o, ROWS, cfg.head_dim_v),
    ):
        arguments += moved(cfg, array, rows, columns, 1)
    if arrays.lse is not None:
        arguments.append(arrays.lse)
    arguments += [np.int32(number) for number in (*plan.sizes, plan.total_q)]
    arguments.append(np.float32(softmax_scale * math.log2(math.e)))
    if cfg.trace:
        assert stamps is not None, "a kernel with trace needs a place for the stamps"
        arguments += [stamps, np.int32(stamps.shape[2])]
    return Launch(
        grid=(plan.ctas(sms), 1, 1),
        block=(cfg.threads, 1, 1),
        shared_bytes=cfg.shared_bytes,
        arguments=arguments,
        registers_per_thread=168 if cfg.consumers == 2 else 128,
    )
