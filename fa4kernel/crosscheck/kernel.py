"""A compiled kernel as the cross-check needs it: its text, a launch, and what it calls things.

:mod:`official` describes the official kernel, :mod:`ours` our own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fa4kernel.crosscheck.accepted import LeftOut
from fa4kernel.crosscheck.tensors import Tensors
from fa4kernel.emulator import Launch
from fa4sim.pipelines.fa4.barriers import barrier_table, load_warp_ids
from fa4sim.pipelines.fa4.build import EPILOGUE_WARP, MMA_WARP
from fa4sim.specs import Design, Problem

Floats = NDArray[np.float32]


class Unavailable(RuntimeError):
    """A kernel cannot be compiled here; the message says what to install."""


@dataclass(frozen=True)
class Kernel:
    """One kernel on one problem.

    Attributes:
        name: for people.
        problem, design: what it computes, and the simulator's design of the same.
        ptx, launch: what the emulator runs; the launch's labels call mbarriers as the simulator
            does, and its arrays are used up by one run.
        tensors: which arrays of the launch are Q, K, V and O.
        start_up: numbers of named barriers that belong to the start of a CTA, which the simulator
            has as a cost alone.
        left_out: what warps of the simulator do at their end and the kernel does not, and why.
        never_made: barriers of the simulator's table for which the kernel only reserves memory.
        whole_q: whether threads that copy Q write zeros where a sequence has no row.
        empty_block: the block that a tile works on which sees no key. All of it is masked; the
            simulator, and the official kernel, take the one before the first, where nothing is.
        results: ``(out, lse)`` after a run: (batch, seqlen_q, heads, head_dim_v) and (batch, heads,
            seqlen_q), rows beyond a sequence zero and -inf.
    """

    name: str
    problem: Problem
    design: Design
    ptx: str
    launch: Launch
    tensors: Tensors
    results: Callable[[], tuple[Floats, Floats]]
    start_up: frozenset[int] = frozenset({0})
    never_made: frozenset[str] = frozenset()
    left_out: LeftOut = field(default_factory=dict)
    whole_q: bool = True
    empty_block: int = -1

    @property
    def named(self) -> dict[int, str]:
        """The simulator's names of the named barriers, by number."""
        specs = barrier_table(self.design).values()
        return {spec.number: spec.name for spec in specs if spec.kind == "named" and spec.used}

    def role(self, warp: int) -> str:
        """The role of a warp in the simulator, "idle" if it has none."""
        return roles_by_warp(self.design).get(warp, "idle")


def roles_by_warp(design: Design) -> dict[int, str]:
    """The simulator's roles, by number of the warp in its CTA."""
    roles = {MMA_WARP: "mma"}
    for stage in range(design.q_stages):
        roles |= {4 * stage + lane: f"softmax{stage}" for lane in range(4)}
    roles |= {8 + lane: "correction" for lane in range(4)}
    if design.epilogue == "tma":
        roles[EPILOGUE_WARP] = "epilogue"
    loaders = load_warp_ids(design)
    return roles | dict.fromkeys(loaders, "load")
