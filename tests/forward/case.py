"""One problem for our kernel, and how it is run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from fa4kernel.forward.config import Config
from fa4kernel.forward.design import design_for
from fa4sim.specs import B200, Design, Machine, Problem


@dataclass(frozen=True)
class Case:
    """A problem to run.

    Attributes:
        name: for the test's report.
        problem: what is computed.
        design: fields of the design that differ from the kernel's choice.
        sms: multiprocessors of the imagined GPU: few make CTAs work on several tiles.
        rising: scores grow towards the first keys, which are processed last.
        descale: FP8 values have factors, of any magnitude.
        prefix: the first pages of all sequences, which are the same.
    """

    name: str
    problem: Problem
    design: dict[str, Any] = field(default_factory=dict)
    sms: int = 148
    rising: bool = False
    descale: bool = False
    prefix: int = 0

    @property
    def machine(self) -> Machine:
        """The GPU that is imagined."""
        return replace(B200, sms=self.sms)

    @property
    def chosen(self) -> Design:
        """The whole design."""
        return design_for(self.problem, self.machine, **self.design)

    @property
    def config(self) -> Config:
        """What is compiled."""
        return Config.of(self.problem, self.chosen, descale=self.descale)


def case(
    name: str,
    q: int | tuple[int, ...],
    k: int | tuple[int, ...],
    *,
    design: dict[str, Any] | None = None,
    sms: int = 148,
    rising: bool = False,
    descale: bool = False,
    prefix: int = 0,
    **problem: Any,
) -> Case:
    """A case with these lengths; several make a batch of variable length."""
    lengths = {
        f"seqlen{'s' * isinstance(given, tuple)}_{side}": given
        for side, given in zip("qk", (q, k), strict=True)
    }
    return Case(name, Problem(**lengths, **problem), design or {}, sms, rising, descale, prefix)
