"""How our kernel runs a problem: the published kernel's rules, and where it differs."""

from __future__ import annotations

from typing import Any

from fa4kernel.forward.config import TILE
from fa4sim.specs import FP8, Design, Machine, Problem
from fa4sim.specs.checks import quoted

FP8_STEP = 32  # columns that an MMA takes
#: Fields that change the simulator's figures, or its faults, and nothing in our kernel.
SIMULATORS = (
    "dependent_launch", "faults", "one_m_block", "p_store_early", "page_pointers",
    "softmax_overhead_slots",
)  # fmt: skip
REGISTERS = ("registers_softmax", "registers_correction", "registers_other")


def design_for(problem: Problem, machine: Machine, **changes: Any) -> Design:
    """The design with which our kernel runs `problem`, then `changes`.

    As :meth:`fa4sim.specs.Design.for_problem`, but for five things. A batch of variable length
    always gets one CTA for a tile. A CTA that has one tile does not guard the memory that O
    shares with Q against the next tile's Q. Of FP8, head dims are padded to multiples of 32, which
    its MMAs take at a time. Keys of unequal head dims are not split. And registers are dealt out so
    that none is spilled: of FP8 to the softmax of small head dims with a mask or of keys that
    threads copy, and of a pair with packed heads to the correction; where threads copy K and V, to
    the correction of head dims above 80.

    Raises:
        ValueError: a field that no design has or that only the simulator knows, or a value that
            does not fit.

    >>> from fa4sim import B200
    >>> design_for(Problem(seqlens_q=(100, 30)), B200).scheduler
    'single_tile_varlen'
    """
    for name, value in changes.items():
        if name in SIMULATORS:
            raise ValueError(
                f"{name}={quoted(value)}: only the simulator knows this field, and our kernel is "
                "always the same in it; leave it out"
            )
    if "num_splits" in changes:
        raise ValueError(
            f"num_splits={changes['num_splits']} is no field of the design alone: set that of the "
            "problem (num_splits= of fa4kernel.attention)"
        )
    own: dict[str, Any] = {"one_m_block": False}
    if problem.head_dim != problem.dim_v:
        own["num_splits"] = _unsplit(problem)
    if problem.seqlens_q is not None:
        own["scheduler"] = "single_tile_varlen"
    if problem.dtype in FP8:
        own |= _fp8(problem, changes)
    how = Design.for_problem(problem, machine, **{**own, **changes})
    packed_pair = problem.dtype in FP8 and how.pack_gqa and how.cta_group == 2
    if packed_pair or (how.kv_load == "cp_async" and how.head_dim_padded > 80):
        own["registers_correction"] = 80
    return Design.for_problem(problem, machine, **{**own, **changes})


def _unsplit(problem: Problem) -> int:
    """Keys of unequal head dims are not split: O in float32 leaves room for blocks of 64 only."""
    if problem.num_splits > 1:
        raise ValueError(
            f"num_splits={problem.num_splits} with head dims ({problem.head_dim}, "
            f"{problem.dim_v}): our kernel splits the keys of equal head dims only; use 1, or 0 to "
            "leave it to the kernel"
        )
    return 1


def _fp8(problem: Problem, changes: dict[str, Any]) -> dict[str, Any]:
    """What is different in FP8."""
    padded = {
        "head_dim_padded": -(-problem.head_dim // FP8_STEP) * FP8_STEP,
        "head_dim_v_padded": -(-problem.dim_v // FP8_STEP) * FP8_STEP,
    }
    masked = problem.causal or problem.is_local
    by_threads = problem.page_size not in (None, TILE) or changes.get("kv_load") == "cp_async"
    given = any(name.startswith("registers") for name in changes)
    if not (masked or by_threads) or problem.head_dim >= 96 or given:
        return padded
    return padded | dict(zip(REGISTERS, (176, 80, 80), strict=True))
