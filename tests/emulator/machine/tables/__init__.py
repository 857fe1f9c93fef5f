"""The cases of all instructions that are no plain arithmetic."""

from tests.emulator.machine.tables import (
    atomics,
    barrier_corners,
    block_copies,
    clusters,
    copies,
    matrices,
    mbarriers,
    memory,
    named_barriers,
    warp_products,
    warpgroup_products,
)

CASES = tuple(
    case
    for module in (
        memory, named_barriers, atomics, mbarriers, barrier_corners, copies, block_copies, clusters,
        matrices, warp_products, warpgroup_products,
    )
    for case in module.CASES
)  # fmt: skip
