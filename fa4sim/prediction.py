"""How long a problem takes, and nothing else: the quick way to a number.

>>> from fa4sim import H200, Problem, design_for
>>> problem = Problem(batch=1, heads=8, seqlen_q=1024)
>>> predict(problem, design_for(problem, H200), H200).tflops > 0
True
"""

from __future__ import annotations

from dataclasses import dataclass

from fa4sim.arguments import check_arguments
from fa4sim.engine.errors import HazardError
from fa4sim.pipelines.call import Kernel, simulate_call
from fa4sim.specs import B200, AnyDesign, Machine, Problem, design_for


@dataclass(frozen=True)
class Prediction:
    """A kernel's time. ``seconds`` is that of ``cycles``; a launch comes on top of it.

    ``tflops`` counts work as published figures do (a causal mask as half) over ``seconds``;
    ``cycles`` does not depend on the clock as far as HBM is not what limits. With split keys it is
    the time from the first of ``kernels`` to the end of the last, launches between them included.
    ``hbm_bytes`` is what they move to and from HBM.
    """

    cycles: int
    seconds: float
    tflops: float
    kernels: tuple[Kernel, ...] = ()
    hbm_bytes: float = 0.0


def predict(
    problem: Problem, design: AnyDesign | None = None, machine: Machine = B200
) -> Prediction:
    """Simulate the whole GPU and tell its time, without trace, report or verdict.

    Args:
        problem: what to compute.
        design: how; what :func:`fa4sim.design_for` chooses, if not given.
        machine: on what; ``machine.with_constants(clock_hz=…)`` for the clock of a measurement.
            Default: a B200.

    Raises:
        ValueError: problem or design cannot be used on this machine.
        fa4sim.Deadlock: the design hangs.
        fa4sim.HazardError: the design finished but broke a rule on the way.
    """
    check_arguments(
        problem, design, machine, None, None, None, None, "gpu", 0, False, None, "raise"
    )
    design = design_for(problem, machine) if design is None else design
    design.check(problem, machine)
    result = simulate_call(problem, design, machine)
    if result.attention.hazards:
        raise HazardError(result.attention.hazards)
    seconds = machine.seconds(result.cycles)
    tflops = problem.flops / seconds / 1e12 if seconds else 0.0
    return Prediction(result.cycles, seconds, tflops, result.kernels, result.totals.hbm_bytes)
