"""What is swept for each map."""

from __future__ import annotations

from collections.abc import Mapping

from fa4sim.sweeps import Grid

LENGTHS = (512, 1024, 2048, 4096, 8192)

GRIDS: Mapping[str, Grid] = {
    # Heads × head dim = 2048, as in the published figures.
    "fp8": Grid(
        {"causal": (False, True), "batch": (1, 2, 4, 8, 16), "seqlen_q": LENGTHS,
         "dtype": ("bf16", "e4m3")},
        base={"heads": 16},
    ),
    # A decode step with 8 query heads on a K/V head, one new token a sequence: the shape of the
    # published figures on pages, and two that read less.
    "pages": Grid(
        {"batch": (8, 32), "seqlen_k": (8192, 65536),
         "page_size": (None, 1, 2, 4, 8, 16, 32, 64, 128, 256),
         "page_pointers": ("naive", "transposed")},
        base={"heads": 32, "kv_heads": 4, "seqlen_q": 1},
    ),
    # The same decode step in one piece: how many parts are the keys cut into? 0 is the kernel's
    # own choice.
    "splits": Grid(
        {"batch": (1, 2, 4, 8, 16, 32), "seqlen_k": (4096, 8192, 16384, 32768, 65536, 131072),
         "num_splits": (0, 1, 2, 3, 4, 6, 9, 12, 18, 24, 32, 37, 64)},
        base={"heads": 32, "kv_heads": 4, "seqlen_q": 1},
    ),
}  # fmt: skip
