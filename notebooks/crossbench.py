"""A cross-check on a bench: the kernel is run once, and held against simulators right and wrong."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

from fa4kernel.crosscheck.check import compare, kernel_of
from fa4kernel.crosscheck.emulated import Emulated, emulated
from fa4kernel.crosscheck.inputs import Inputs, draw
from fa4kernel.crosscheck.record import Record, Warp
from fa4kernel.crosscheck.simulated import simulated
from fa4kernel.crosscheck.verdict import Part
from fa4kernel.forward.design import design_for
from fa4sim import B200, Fault, Problem
from fa4sim.numerics import round_to

Verdicts = dict[str, Part]
#: By warp and by how many votes it has taken part in before: whether it rescales O.
Decisions = dict[tuple[Warp, int], bool]

#: Of the rise that scores have in the cross-check on the command line, where they pass the
#: threshold almost every time: with so much of it some warps rescale and others do not.
GENTLY = 0.375


def rising(problem: Problem) -> Inputs:
    """Values with which some votes are for a rescale of O and some against."""
    inputs = draw(problem, 0, True)
    k = inputs.k.copy()
    k[..., 0] *= GENTLY  # what makes scores rise
    return replace(inputs, k=round_to(k, problem.dtype))


class Crossbench:
    """Our kernel on a problem, on an imagined GPU of one SM, so that one CTA does all tiles."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.machine = B200.with_constants(sms=1)
        self.design = design_for(problem, self.machine, cta_group=1)
        self.inputs = rising(problem)
        self.kernel = kernel_of("ours", problem, self.design, self.machine, self.inputs)

    @cached_property
    def run(self) -> Emulated:
        """The emulated kernel: what it did, and what came out."""
        return emulated(self.kernel)

    def simulate(self, scores: Any = None, **changes: Any) -> Any:
        """The simulator on the same values, with its own scores or with others put in."""
        given = (self.inputs.q, self.inputs.k, self.inputs.v)
        design = replace(self.design, **changes)
        return simulated(self.problem, design, self.machine, given, self.inputs.sink, scores)

    def check(self, *faults: Fault, **changes: Any) -> Verdicts:
        """The kernel against a simulator with these fields of its design changed, by part."""
        changes = {**changes, "faults": faults}
        own, fed = self.simulate(**changes), self.simulate(self.run.record.scores, **changes)
        parts = compare(self.kernel, self.inputs, own, fed, self.run)
        return {part.name: part for part in parts}


def decisions(record: Record) -> Decisions:
    """Every vote of a run's correction warps: they read the factors, and rescale O or leave it.

    Behind a tile's last block they read the row sums the same way; that is no vote.
    """
    found: Decisions = {}
    for warp, operations in record.warps.items():
        votes: list[bool] = []
        for operation in operations if warp.role == "correction" else ():
            if operation.what == "read stats":
                votes.append(False)
            elif operation.what == "rescale O":
                votes[-1] = True
            elif operation.what == "finish O":
                votes.pop()
        found |= {(warp, number): vote for number, vote in enumerate(votes)}
    return found


def rows(verdicts: Verdicts) -> list[tuple[str, int, str, str]]:
    """For a table: part, how much was compared, the verdict, the first difference."""
    found = []
    for name, part in verdicts.items():
        first = part.differences[0] if part.differences else "–"
        found.append((name, part.compared, "agree" if part.agrees else "**differ**", first))
    return found
