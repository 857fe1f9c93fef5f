"""Signed errors of simulated against published figures, and what they come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Wanted of the rows that were not fitted.
WANTED_MEAN = 0.05
WANTED_WORST = 0.10


def relative_error(simulated: float, published: float) -> float:
    """Signed: above 0 the simulator is faster than the published run.

    >>> relative_error(1500.0, 1000.0)
    0.5
    """
    return simulated / published - 1.0


@dataclass(frozen=True)
class Errors:
    """``mean`` of the absolute errors and the largest of them; fractions, 0.05 is 5 %."""

    mean: float
    worst: float

    @property
    def ok(self) -> bool:
        """Whether both are as small as wanted."""
        return self.mean <= WANTED_MEAN and self.worst <= WANTED_WORST


def errors_of(signed: Sequence[float]) -> Errors:
    """Mean and worst absolute error.

    >>> errors_of([0.25, -0.75])
    Errors(mean=0.5, worst=0.75)

    Raises ``ValueError`` without any.
    """
    if not signed:
        raise ValueError("there are no errors to take the mean of; give at least one row")
    sizes = [abs(error) for error in signed]
    return Errors(sum(sizes) / len(sizes), max(sizes))
