"""The cross-check: one problem through simulator, kernel and reference, compared part by part."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from fa4kernel.crosscheck.accepted import rows_there, without
from fa4kernel.crosscheck.barriers import compare_barriers
from fa4kernel.crosscheck.calls import check
from fa4kernel.crosscheck.costs import compare_costs
from fa4kernel.crosscheck.emulated import Emulated, emulated
from fa4kernel.crosscheck.inputs import Inputs, draw
from fa4kernel.crosscheck.kernel import Kernel, Unavailable
from fa4kernel.crosscheck.lives import compare_lives
from fa4kernel.crosscheck.mix import compare_mix
from fa4kernel.crosscheck.numerics import Result, compare_numerics
from fa4kernel.crosscheck.order import compare_order
from fa4kernel.crosscheck.paging import given
from fa4kernel.crosscheck.simulated import Simulated, simulated
from fa4kernel.crosscheck.verdict import Part
from fa4sim.specs import Design, Machine, Problem

#: Kernels by name: how each is described on a problem.
KERNELS = ("ours", "official")


@dataclass(frozen=True)
class Crosscheck:
    """The verdicts on one problem.

    Attributes:
        kernel: its name.
        parts: in the order of the issue: barriers, order, lifetimes, mix, numerics, cost model.
        hazards: what the emulator's checks found in the kernel, and the simulator's in the design.
        wall_s: seconds it took.
    """

    problem: Problem
    design: Design
    kernel: str
    parts: list[Part]
    hazards: list[str] = field(default_factory=list)
    wall_s: float = 0.0

    @property
    def agrees(self) -> bool:
        """Whether every part agrees, and nobody found a hazard."""
        return not self.hazards and all(part.agrees for part in self.parts)

    def facts(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "agree": self.agrees,
            "against": self.kernel,
            "parts": {part.name: part.facts() for part in self.parts},
            "hazards": self.hazards,
            "wall_s": self.wall_s,
        }


def kernel_of(
    against: str, problem: Problem, design: Design, machine: Machine, inputs: Inputs
) -> Kernel:
    """The description of a kernel on a problem.

    Raises:
        fa4kernel.crosscheck.kernel.Unavailable: it cannot be compiled here.
        ValueError: there is no such kernel, or the problem is not covered.
    """
    if against not in KERNELS:
        raise ValueError(f"against={against!r}: give one of {', '.join(KERNELS)}")
    if against == "ours":
        if find_spec("cutlass") is None:
            raise Unavailable("our kernel needs the CuTe DSL: pip install 'fa4sim[kernel]'")
        from fa4kernel.crosscheck.ours import ours

        return ours(problem, design, machine, inputs)
    from fa4kernel.crosscheck.official import official

    return official(problem, design, machine, inputs)


def crosscheck(
    problem: Problem,
    design: Design,
    machine: Machine,
    *,
    against: str = "official",
    seed: int = 0,
    rising: bool = True,
    costs: bool = True,
) -> Crosscheck:
    """Run a problem through simulator and kernel and compare.

    Args:
        problem: bf16 or fp16, small: every score is computed, and every CTA emulated.
        design: the simulator's; the kernel takes from it whether a pair may be used.
        machine: its SMs share the tiles on both sides.
        against: which kernel.
        seed: of the values.
        costs: also compare the cost model, which measures the kernel on longer problems.
        rising: let scores grow towards the keys that come last, so that O is rescaled.

    Raises:
        ValueError: the problem is not covered, or too large.
        fa4kernel.emulator.EmulationError: the kernel hangs or does something undefined.
        fa4sim.Deadlock: the design hangs.
    """
    started = time.perf_counter()
    check(problem, design)
    inputs = draw(problem, seed, rising)
    kernel = kernel_of(against, problem, design, machine, inputs)
    run = emulated(kernel)
    keys, values, table = given(problem, inputs)
    arrays = (inputs.q, keys, values)
    own = simulated(problem, design, machine, arrays, inputs.sink, page_table=table)
    fed = simulated(
        problem, design, machine, arrays, inputs.sink, run.record.scores, kernel.empty_block, table
    )
    parts = compare(kernel, inputs, own, fed, run)
    if costs and design.num_splits == 1:  # the counts are of kernels that store their own O
        parts.append(compare_costs(against, problem, design, machine))
    hazards = [f"{kernel.name}: {hazard}" for hazard in run.hazards]
    hazards += [f"simulator: {hazard}" for hazard in fed.hazards]
    wall_s = time.perf_counter() - started
    return Crosscheck(problem, design, kernel.name, parts, hazards, wall_s)


def compare(
    kernel: Kernel, inputs: Inputs, own: Simulated, fed: Simulated, run: Emulated
) -> list[Part]:
    """All parts.

    Whether O is rescaled changes what warps do, so all but the numerics are compared with the
    simulator fed the kernel's scores.
    """
    simulator, its_own = without(fed.record, kernel.left_out), own.record
    if not kernel.whole_q:
        simulator, its_own = (
            rows_there(record, kernel.problem, kernel.design) for record in (simulator, its_own)
        )
    order = compare_order(simulator, run.record)
    order.notes += [f"{role} warps leave out their last [{what} {on}]: {why}"
                    for (role, what, on), why in kernel.left_out.items()]  # fmt: skip
    if kernel.empty_block >= 0 and (kernel.problem.causal or kernel.problem.is_local):
        order.notes.append(
            f"a tile that sees no key works on block {kernel.empty_block}, all of it masked"
        )
    if not kernel.whole_q:
        order.notes.append(
            "threads that copy Q leave rows alone that a sequence does not have; what becomes of "
            "them is stored nowhere"
        )
    return [
        compare_barriers(simulator, run.record, kernel.never_made),
        order,
        compare_lives(simulator, run.record),
        compare_mix(its_own, simulator, run.record),
        compare_numerics(
            kernel.problem, inputs, Result("pipeline", own.out, own.lse),
            Result("pipeline", fed.out, fed.lse), Result("kernel", run.out, run.lse),
        ),
    ]  # fmt: skip
