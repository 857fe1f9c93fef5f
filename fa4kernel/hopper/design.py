"""How the Hopper kernel runs a problem."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from fa4kernel.hopper.config import Config
from fa4sim.specs import Problem


def config_for(problem: Problem, **changes: Any) -> Config:
    """The kernel that runs a problem: blocks of 128 keys, and two consumers of 240 registers.

    At head dims up to 64 three consumers of 160 registers are faster, as measured on an H200
    (docs/validation/h200.md). With a mask, the longest tiles go first.

    Raises:
        ValueError: the kernel does not do it, or a field that it does not have.

    >>> config_for(Problem(head_dim=64)).consumers
    3
    """
    for what, wrong in (
        ("page_size", problem.page_size is not None),
        ("seqlens_q", problem.seqlens_q is not None),
        ("seqlens_k", problem.seqlens_k is not None),
        ("sink", problem.sink),
        ("softcap", problem.softcap),
        ("num_splits", problem.num_splits != 1),
    ):
        if wrong:
            raise ValueError(
                f"{what}={getattr(problem, what)}: the Hopper kernel has none; leave it out, or "
                "take the Blackwell kernel (architecture='sm_100a')"
            )
    known = {field.name for field in fields(Config)}
    for name in changes:
        if name not in known:
            raise ValueError(f"the Hopper kernel has no field {name!r}; it has {sorted(known)}")
    left, right = (None, 0) if problem.causal else problem.window or (None, None)
    padded = [-(-each // 16) * 16 for each in (problem.head_dim, problem.dim_v)]
    consumers = changes.get("consumers", 3 if max(padded) <= 64 else 2)
    values: dict[str, Any] = {
        "dtype": problem.dtype,
        "head_dim": padded[0],
        "head_dim_v": padded[1],
        "group": problem.group,
        "causal": problem.causal,
        "window_left": left is not None,
        "window_right": right is not None,
        "consumers": consumers,
        "registers": (240, 24) if consumers == 2 else (160, 32),
        "scheduler": "static_persistent" if left is None and right is None else "lpt",
    }
    return Config(**{**values, **changes})
