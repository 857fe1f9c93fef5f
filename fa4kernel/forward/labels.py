"""What the kernel's parts are called in reports and traces: as in its own tables.

Compiled code does not tell one row of barriers from the next, and roles share functions. So the
launch says what lies where.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fa4kernel.emulator import TensorMap
from fa4kernel.emulator.labels import Labels, Ring
from fa4kernel.emulator.machine.layout import SHARED_START
from fa4kernel.forward.barrier_table import named_table, table
from fa4kernel.forward.config import (
    CORRECTION_WARPS,
    EPILOGUE_WARP,
    MMA_WARP,
    Config,
)

MBARRIER_BYTES = 8
RINGS = {
    "load_Q_full": Ring("sQ", "load_Q_empty"),
    "load_KV_full": Ring("sKV", "load_KV_empty"),
}
PRODUCTS = {"shared": "S", "tensor": "O"}


def labels(cfg: Config, arguments: Sequence[Any]) -> Labels:
    """Labels of the kernel for a launch with these arguments.

    >>> labels(Config(), []).barrier("", None, SHARED_START + 8)
    ('load_Q_full', 1)
    """
    return Labels(
        barriers=_barriers(cfg),
        named={number: name for name, (number, _) in named_table(cfg).items()},
        roles=_roles(cfg),
        tensors=_tensors(arguments),
        rings=RINGS,
        products=PRODUCTS,
        factor="P",
    )


def _barriers(cfg: Config) -> dict[str | int, str]:
    """The mbarriers by offset: they come first in shared memory, in the order of their table."""
    names = [
        f"{name}[{stage}]" for name, (stages, _) in table(cfg).items() for stage in range(stages)
    ]
    return {SHARED_START + MBARRIER_BYTES * i: name for i, name in enumerate(names)}


def _roles(cfg: Config) -> dict[str | int, str]:
    """The roles by their first warps."""
    roles: dict[str | int, str] = {4 * stage: f"softmax{stage}" for stage in range(cfg.q_stages)}
    roles |= {CORRECTION_WARPS.start: "correction", MMA_WARP: "mma"}
    roles |= dict.fromkeys(cfg.load_warps, "load")  # the first one has more to do
    return roles | ({EPILOGUE_WARP: "epilogue"} if cfg.epilogue == "tma" else {})


def _tensors(arguments: Sequence[Any]) -> dict[int, str]:
    """Q, K, V and O, by the number of their map or array among the arguments."""
    found, at = {}, 0
    for name in "QKVO" if arguments else "":
        found[at] = name
        at += 2 if isinstance(arguments[at], TensorMap) else 1  # lengths follow a map
    return found
