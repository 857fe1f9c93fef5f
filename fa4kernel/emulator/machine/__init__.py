"""The machine that executes decoded PTX."""

# Importing these registers what they decode.
from fa4kernel.emulator.machine import (  # noqa: F401
    atomics,
    bulk_ops,
    cluster,
    cluster_launch,
    control,
    loads,
    matrices,
    mbarrier_ops,
    named_barriers,
    spaces,
    tcgen05_ops,
    warp_mma,
    wgmma_ops,
)
