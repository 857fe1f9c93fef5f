"""Runs a case on our kernel in the emulator, and says what is wrong with what comes out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fa4kernel.accuracy import LSE, Accuracy, accuracy
from fa4kernel.api import Result
from fa4kernel.cli.run import padded, padded_lse, run_problem
from fa4sim.cli.check import Inputs, random_inputs
from fa4sim.numerics import round_to
from tests.forward.cases import Case


@dataclass(frozen=True)
class Outcome:
    """What a case's run gave: the call's result, and how far off it is."""

    result: Result
    accuracy: Accuracy

    @property
    def bits(self) -> tuple[bytes, bytes]:
        """Every bit of output and LSE."""
        return self.result.out.tobytes(), self.result.lse.tobytes()

    def problems(self) -> list[str]:
        """What is wrong, in words."""
        found, limit = self.accuracy, self.accuracy.limit
        assert limit is not None and self.result.emulation is not None
        wrong = [str(hazard) for hazard in self.result.emulation.hazards]
        if not found.errors.relative <= limit.relative:
            wrong.append(f"relative error {found.errors.relative:.3g} of {limit.relative:.3g}")
        if not found.errors.largest <= limit.largest:
            wrong.append(f"largest error {found.errors.largest:.3g} of {limit.largest:.3g}")
        if not found.lse <= LSE:
            wrong.append(f"LSE is off by {found.lse:.3g}")
        return wrong


def draw(case: Case, seed: int) -> Inputs:
    """The values of a case, of its dtype. The first head's sink is -inf."""
    problem = case.problem
    inputs = random_inputs(problem, seed)
    q, k, table = inputs.q, inputs.k, inputs.page_table
    if table is not None:
        table[:, : case.prefix] = table[:1, : case.prefix]
    if case.rising:
        # Towards the first keys scores gain up to 20: more than the 8 (in log2) let pass.
        assert problem.seqlen_k is not None
        rising = np.linspace(20, 0, problem.seqlen_k, dtype=np.float32) / 4 * problem.head_dim**0.5
        q[..., 0] = 4
        if table is None:
            k[..., 0] = rising[:, None]
        else:
            for pages, length in zip(table, problem.seqlens_k or (), strict=True):
                key = np.arange(length)
                places = pages[key // k.shape[1]], key % k.shape[1]
                k[(*places, slice(None), 0)] = rising[:length, None]
        q, k = (round_to(x, problem.dtype) for x in (q, k))
    if inputs.sink is not None:
        inputs.sink[0] = -np.inf
    factors = None
    if case.descale:  # of magnitudes as different as those of real activations
        shape = 3, problem.batch, problem.kv_heads
        drawn = np.random.default_rng([seed, *shape]).uniform(-4, 4, shape)
        factors = np.exp2(drawn).astype(np.float32)
    return Inputs(q, k, inputs.v, inputs.sink, table, factors)


def run(case: Case, seed: int = 0, **options: Any) -> Outcome:
    """Run a case.

    Args:
        case: the problem.
        seed: of the values.
        options: for :func:`fa4kernel.api.run`: schedule, checks, processes.
    """
    result = run_problem(
        case.problem, draw(case, seed), backend="emulator", machine=case.machine,
        design=case.design, **options,
    )  # fmt: skip
    out, lse = padded(case.problem, result.out), padded_lse(case.problem, result.lse)
    return Outcome(result, accuracy(case.problem, partial(draw, case), seed, out, lse))


def same_under(case: Case, seed: int, schedules: tuple[str | int, ...]) -> list[str]:
    """What is wrong under these orders of events; the bits must be those of lock step."""
    first = run(case, seed)
    wrong = first.problems()
    for schedule in schedules:
        other = run(case, seed, schedule=schedule)
        wrong += [f"{schedule}: {problem}" for problem in other.problems()]
        if other.bits != first.bits:
            wrong.append(f"{schedule}: other bits than in lock step")
    return wrong
