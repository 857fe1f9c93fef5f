"""One attention call: the attention kernel and, around it, those that splitting needs.

With split keys a second kernel combines the partial results. With a batch of variable length a
first one works out how many splits each sequence gets. They run one after the other in a stream;
between two lies a launch.

Source: ``_flash_attn_fwd`` of interface.py at flash-attention commit 0251105a.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fa4sim.pipelines.combine import CombineResult, simulate_combine
from fa4sim.pipelines.fa4.detail import Totals
from fa4sim.pipelines.fa4.gpu import GpuResult, simulate_gpu, simulate_with_data
from fa4sim.specs import AnyDesign, Machine, Problem

#: Dependent instructions of the prepare kernel's one CTA: block counts, a floating-point division.
PREPARE_INSTRUCTIONS = 120
PREPARE_SHUFFLES = 6


@dataclass(frozen=True)
class Kernel:
    """One kernel of a call: ``start`` and ``cycles`` in SM cycles from the first one's start."""

    name: str
    start: int
    cycles: int
    ctas: int


@dataclass
class CallResult:
    """What a call comes to. ``cycles`` from the first kernel's start to the last one's end."""

    cycles: int
    kernels: tuple[Kernel, ...]
    attention: GpuResult
    combine: CombineResult | None
    totals: Totals
    events: int
    detailed_runs: int


def simulate_call(
    problem: Problem, design: AnyDesign, machine: Machine, *, seed: int = 0, exact: bool = False,
    data: Any = None,
) -> CallResult:  # fmt: skip
    """All kernels of a call on the whole GPU, on the values of ``data`` if there are any.

    Raises Deadlock; hazards are in the attention kernel's result.
    """
    if data is None:
        attention = simulate_gpu(problem, design, machine, seed=seed, exact=exact)
    else:
        attention = simulate_with_data(problem, design, machine, data, seed=seed)
    launch = round(machine.launch_seconds * machine.clock_hz)
    kernels: list[Kernel] = []
    now = 0
    if design.num_splits > 1 and design.scheduler == "dynamic_varlen":
        cycles = prepare_cycles(machine)
        kernels.append(Kernel("prepare", 0, cycles, 1))
        now = cycles + launch
    ctas = sum(bool(placement.tiles) for placement in attention.placements) * design.cta_group
    kernels.append(Kernel("attention", now, attention.cycles, ctas))
    now += attention.cycles
    totals, combined = attention.totals, None
    events, runs = attention.events, attention.detailed_runs
    if design.num_splits > 1:
        in_l2 = any(tile.o_to_l2 for tile in attention.plan.tiles)
        combined = simulate_combine(
            problem, attention.plan.splits, machine, in_l2=in_l2,
            dependent=design.dependent_launch, exact=exact,
        )  # fmt: skip
        if design.dependent_launch:
            launch = round(machine.dependent_launch_seconds * machine.clock_hz)
        now += launch
        kernels.append(Kernel("combine", now, combined.cycles, len(combined.shape.ctas)))
        now += combined.cycles
        totals = Totals()
        totals.add(attention.totals)
        totals.add(combined.totals)
        events += combined.events
        runs += combined.detailed_runs
    return CallResult(now, tuple(kernels), attention, combined, totals, events, runs)


def prepare_cycles(machine: Machine) -> int:
    """The kernel that cuts each sequence by its length: one CTA, every lane a sequence.

    It loads lengths, sums blocks over its lanes and, in shared memory, over its warps, divides,
    and writes three numbers per sequence. Source: prepare_scheduler.py.
    """
    step = machine.dependent_issue_cycles
    sums = PREPARE_SHUFFLES * (machine.shuffle_cycles + step)
    meet = 2 * (machine.named_barrier_cycles + machine.smem_latency_cycles)
    return machine.load_l2_latency_cycles + sums + meet + PREPARE_INSTRUCTIONS * step
