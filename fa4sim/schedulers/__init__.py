"""Which work tile runs where: the kernel's tile schedulers, as orders and assignments.

>>> from fa4sim.schedulers import tile_order
>>> tile_order("lpt", [2], heads=2, section=2)[:3]
[(1, 0, 0), (1, 1, 0), (0, 0, 0)]
"""

from fa4sim.schedulers.metadata import prepare_warps, splits_by_sequence
from fa4sim.schedulers.orders import (
    L2_BUDGET_BYTES,
    heads_in_l2,
    lpt_section,
    padding_clusters,
    split_order,
    tile_order,
)

__all__ = [
    "L2_BUDGET_BYTES",
    "heads_in_l2",
    "lpt_section",
    "padding_clusters",
    "prepare_warps",
    "split_order",
    "splits_by_sequence",
    "tile_order",
]
