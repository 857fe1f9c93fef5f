"""How the combine kernel is started on what the forward kernel has left."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fa4kernel.combine.config import THREADS, Config
from fa4kernel.emulator import Launch

Floats = NDArray[np.float32]


def launch(
    cfg: Config, partial_o: Floats, partial_lse: Floats, o: NDArray[np.uint16], lse: Floats
) -> Launch:
    """The launch that computes `o` and `lse`.

    Args:
        cfg: the kernel's.
        partial_o: (splits, batch, seqlen_q, heads, head_dim_v), or of a batch of variable length
            (splits, total_q, heads, head_dim_v).
        partial_lse: (splits, batch, heads, seqlen_q), or (splits, heads, total_q).
        o: as `partial_o` without its first number, bit patterns.
        lse: as `partial_lse` without its first number.
    """
    splits, *sequences, tokens, heads, _ = partial_o.shape
    batch = sequences[0] if sequences else 1
    rows = batch * heads * tokens
    numbers = (splits, batch, heads, tokens)
    return Launch(
        grid=(-(-rows // cfg.rows), 1, 1),
        block=(THREADS, 1, 1),
        shared_bytes=cfg.shared_bytes,
        arguments=[partial_o, partial_lse, o, lse, *(np.int32(number) for number in numbers)],
        pending=(0, 1),
    )
