"""The combine kernel on the whole GPU: a detailed SM for every different list of CTAs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fa4sim.engine.core import Core
from fa4sim.pipelines.combine.shape import CTAS_PER_SM, WARPS, CombineCta, CombineShape
from fa4sim.pipelines.combine.warp import CombineWarp, Cta, Sm
from fa4sim.pipelines.fa4.detail import Totals, waits_of
from fa4sim.specs import Machine, Problem
from fa4sim.trace import Trace

#: An SM works through at most so many rounds of CTAs in detail; longer lists repeat the last round.
ROUNDS = 4


@dataclass
class CombineResult:
    """The kernel's cycles, and the totals and trace that stand for all its SMs."""

    cycles: int
    shape: CombineShape
    totals: Totals
    events: int
    trace: Trace
    detailed_runs: int


def simulate_combine(
    problem: Problem, splits: Sequence[int], machine: Machine, *, in_l2: bool,
    dependent: bool = False, exact: bool = False,
) -> CombineResult:  # fmt: skip
    """Combine ``splits`` parts of every sequence.

    Args:
        splits: per sequence.
        in_l2: whether the partial results are still in L2.
        dependent: launched so that its CTAs have done their preparations when the kernel before
            ends.
        exact: simulate every round of CTAs.
    """
    shape = CombineShape.of(problem, splits)
    active = min(machine.sms, len(shape.ctas))
    lists = Counter(tuple(shape.ctas[i :: machine.sms]) for i in range(active))
    totals = Totals()
    longest: tuple[int, Trace] | None = None
    events = 0
    for ctas, count in lists.items():
        cycles, part, trace, steps = _on_an_sm(
            problem, shape, machine, ctas, active, in_l2, dependent, exact
        )
        totals.add(part, count)
        events += steps
        if longest is None or cycles > longest[0]:
            longest = (cycles, trace)
    if longest is None:
        return CombineResult(0, shape, totals, 0, Trace(), 0)
    return CombineResult(longest[0], shape, totals, events, longest[1], len(lists))


def _on_an_sm(
    problem: Problem, shape: CombineShape, machine: Machine, ctas: tuple[CombineCta, ...],
    active: int, in_l2: bool, dependent: bool, exact: bool,
) -> tuple[int, Totals, Trace, int]:  # fmt: skip
    """Cycles, totals, trace and events of one SM that works through ``ctas``."""
    most = ROUNDS * CTAS_PER_SM
    if exact or len(ctas) <= most:
        return _detailed(problem, shape, machine, ctas, active, in_l2, dependent)
    # The last round of a long list is as long as every other one in the middle.
    shorter = _detailed(
        problem, shape, machine, ctas[: most - CTAS_PER_SM], active, in_l2, dependent
    )
    whole = _detailed(problem, shape, machine, ctas[:most], active, in_l2, dependent)
    rounds = (len(ctas) - most) / CTAS_PER_SM
    totals = Totals()
    totals.add(whole[1])
    totals.add(whole[1], rounds)
    totals.add(shorter[1], -rounds)
    cycles = whole[0] + round((whole[0] - shorter[0]) * rounds)
    return cycles, totals, whole[2], shorter[3] + whole[3]


def _detailed(
    problem: Problem, shape: CombineShape, machine: Machine, ctas: Sequence[CombineCta],
    active: int, in_l2: bool, dependent: bool,
) -> tuple[int, Totals, Trace, int]:  # fmt: skip
    core = Core()
    sm = Sm(core, machine, 0, active)
    waiting = list(enumerate(ctas))[::-1]
    agents: list[CombineWarp] = []

    def begin(first: bool) -> None:
        if not waiting:
            return
        number, work = waiting.pop()
        cta = Cta(
            sm, shape, work, number, in_l2, problem.out_bytes, dependent and first,
            lambda: core.later(machine.cta_turnover_cycles, lambda: begin(False), ("cta",)),
        )  # fmt: skip
        for warp in range(WARPS):
            agent = CombineWarp(core, cta, warp)
            agent.born = core.now
            agents.append(agent)
            agent.begin()

    for _ in range(CTAS_PER_SM):
        begin(True)
    core.run()
    cycles = max(agent.died for agent in agents)
    totals = Totals(sm_cycles=float(cycles))
    busy = [smsp.busy() for smsp in sm.smsps]
    totals.units = {name: sum(b[name] for b in busy) / 4 for name in ("mufu", "fma", "alu")}
    totals.units["issue"] = sum(b["issue"] for b in busy) / 4
    totals.l2_bytes, totals.hbm_bytes = float(sm.l2.moved), float(sm.hbm.moved)
    totals.waits = waits_of(core.trace, core.trace.weights("wait"), False)
    totals.life["combine"] = float(sum(agent.died - agent.born for agent in agents))
    return cycles, totals, core.trace, core.events
