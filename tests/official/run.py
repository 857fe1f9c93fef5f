"""Runs a case: compile, launch in the emulator, compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fa4kernel.emulator import emulate
from fa4kernel.official.compile import compiled
from fa4kernel.official.launches import launches
from fa4kernel.official.problem import Floats
from tests.official.cases import Case
from tests.official.inputs import draw, problem, results
from tests.official.reference import LARGEST, LSE, RELATIVE, Errors, Reference, reference


@dataclass(frozen=True)
class Outcome:
    """What a case's run gave.

    Attributes:
        out: (batch, seqlen_q, heads, head_dim_v); rows beyond a sequence are NaN.
        errors: of the output; limit: of another implementation, see :mod:`reference`.
        lse_error: largest error of LSE; 0 if it isn't returned.
        emulations: what the emulator says about each launch.
        expected: kinds of hazard that are no surprise.
    """

    out: Floats
    errors: Errors
    limit: Errors
    lse_error: float
    emulations: tuple[Any, ...]
    expected: tuple[str, ...] = ()

    @property
    def relative(self) -> float:
        """Relative error in multiples of the other implementation's."""
        return self.errors.relative / self.limit.relative

    @property
    def largest(self) -> float:
        """Largest error in multiples of the other implementation's."""
        return self.errors.largest / self.limit.largest

    def problems(self) -> list[str]:
        """What is wrong, in words."""
        found = []
        if not self.relative <= RELATIVE:
            found.append(f"relative error {self.errors.relative:.3g} is {self.relative:.2f} times")
        if not self.largest <= LARGEST:
            found.append(f"largest error {self.errors.largest:.3g} is {self.largest:.2f} times")
        if not self.lse_error <= LSE:
            found.append(f"LSE is off by {self.lse_error:.3g}")
        for emulation in self.emulations:
            found += [str(h) for h in emulation.hazards if h.kind not in self.expected]
        return found


def run(case: Case, seed: int = 0, *, python: str | None = None, **options: Any) -> Outcome:
    """Run a case in the emulator.

    Args:
        case: the problem.
        seed: of the values.
        python: interpreter whose package is compiled; None for the usual one.
        options: for :func:`fa4kernel.emulator.emulate`.
    """
    inputs = draw(case, seed)
    call = problem(case, inputs, seed)
    emulations = tuple(
        emulate(kernel.ptx, launch, **options)
        for kernel, launch in launches(call, compiled(case.variant, python))
    )
    expected = reference(case, seed)
    out, lse = results(case, call)
    lse_error = 0.0 if lse is None else _lse_error(lse, expected)
    errors = Errors.of(out, expected.out)
    return Outcome(out, errors, expected.other, lse_error, emulations, case.reports)


def _lse_error(lse: np.ndarray[Any, Any], expected: Reference) -> float:
    known = ~np.isnan(expected.lse)
    got, truth = lse[known], expected.lse[known]
    if not np.array_equal(np.isneginf(got), np.isneginf(truth)):
        return np.inf
    finite = np.isfinite(truth)
    return float(np.max(np.abs(got[finite] - truth[finite]), initial=0.0))
