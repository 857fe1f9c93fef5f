"""Which kernel runs a problem, the Blackwell or the Hopper one, compiled for what it asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from fa4kernel.combine import compile as combine_compile
from fa4kernel.combine import launch as combine_launch
from fa4kernel.combine.config import Config as CombineConfig
from fa4kernel.emulator import Launch
from fa4kernel.forward import compile as forward_compile
from fa4kernel.forward import launch as forward_launch
from fa4kernel.forward.config import Config
from fa4kernel.forward.design import design_for
from fa4kernel.forward.launch import Arrays
from fa4kernel.hopper import compile as hopper_compile
from fa4kernel.hopper import launch as hopper_launch
from fa4kernel.hopper.config import Config as HopperConfig
from fa4kernel.hopper.design import config_for
from fa4sim.numerics.scales import check_scales
from fa4sim.specs import Design, Machine, Problem

ARCHITECTURES = ("sm_100a", "sm_90a")


@dataclass(frozen=True)
class Kernel:
    """A kernel for a problem, not compiled before its `ptx` is asked for.

    Attributes:
        architecture: "sm_100a" or "sm_90a".
        design: how it runs the problem.
        compile: gives the PTX.
        launch: from arrays and a number of multiprocessors to the launch.
        splits: of the keys; the launch's arrays have so many partial results.
        combine: the kernel that runs behind it, if keys are split.
    """

    architecture: str
    design: Design | HopperConfig
    compile: Callable[[], str]
    launch: Callable[[Arrays, int], Launch]
    splits: int = 1
    combine: Kernel | None = None

    @property
    def ptx(self) -> str:
        """The compiled kernel; kept in the user's cache directory."""
        return self.compile()


def kernel_for(
    problem: Problem,
    architecture: str,
    machine: Machine,
    changes: Mapping[str, Any],
    descale: bool = False,
) -> Kernel:
    """The kernel that runs a problem.

    Args:
        problem: what to compute.
        architecture: of the GPU.
        machine: for whose size the Blackwell kernel's design is chosen.
        changes: fields of the design: of `fa4sim.specs.Design`, or of
            :class:`fa4kernel.hopper.config.Config`.
        descale: whether FP8 comes with factors.

    Raises:
        ValueError: the kernel does not do what the problem asks for, or a wrong field.
    """
    if architecture not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise ValueError(f"architecture={architecture!r}: it must be one of {known}")
    given = problem.softmax_scale
    scale = float(problem.head_dim**-0.5 if given is None else given)
    check_scales(scale)
    how: dict[str, Any] = {
        "softmax_scale": scale,
        "window": sides(problem),
    }
    columns = problem.head_dim, problem.dim_v
    if architecture == "sm_90a":
        cfg = config_for(problem, **changes)
        return Kernel(
            architecture,
            cfg,
            partial(hopper_compile.compile_ptx, cfg, *columns),
            lambda arrays, sms: hopper_launch.launch(cfg, arrays, sms=sms, **how),
        )
    design = design_for(problem, machine, **changes)
    blackwell = Config.of(problem, design, descale=descale)
    return Kernel(
        architecture,
        design,
        partial(forward_compile.compile_ptx, blackwell, *columns),
        lambda arrays, sms: forward_launch.launch(blackwell, arrays, sms=sms, **how),
        design.num_splits,
        _combine(architecture, design, problem) if design.num_splits > 1 else None,
    )


def sides(problem: Problem) -> tuple[int | None, int | None]:
    """Keys to the left and right of the diagonal for a launch; causal is (None, 0).

    A side that reaches beyond all keys, or leaves none, is cut to where it begins to do so: kernels
    add it to numbers of tokens in 32 bits, in which 2**31 - 1 and one more is negative.

    >>> sides(Problem(seqlen_q=64, seqlen_k=100, window=(2**31 - 1, 8)))
    (100, 8)
    """
    left, right = (None, 0) if problem.causal else problem.window or (None, None)
    queries, keys = problem.seqlen_q, problem.seqlen_k or 0
    return (
        left if left is None else min(max(left, -queries), keys),
        right if right is None else min(max(right, -keys), queries),
    )


def _combine(architecture: str, design: Design, problem: Problem) -> Kernel:
    """The kernel that puts the splits' results together."""
    cfg = CombineConfig("fp16" if problem.dtype == "fp16" else "bf16", problem.dim_v)

    def launch(arrays: Arrays, sms: int) -> Launch:
        assert arrays.partial_o is not None and arrays.partial_lse is not None
        assert arrays.lse is not None
        return combine_launch.launch(
            cfg, arrays.partial_o, arrays.partial_lse, arrays.o, arrays.lse
        )

    return Kernel(architecture, design, partial(combine_compile.compile_ptx, cfg), launch)
