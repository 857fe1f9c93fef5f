"""A cross-check on a bench: the kernel is run once, and held against simulators right and wrong."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

from fa4kernel.crosscheck.check import compare, kernel_of
from fa4kernel.crosscheck.emulated import Emulated, emulated
from fa4kernel.crosscheck.inputs import draw
from fa4kernel.crosscheck.simulated import simulated
from fa4kernel.crosscheck.verdict import Part
from fa4kernel.forward.design import design_for
from fa4sim import B200, Fault, Problem

Verdicts = dict[str, Part]


class Crossbench:
    """Our kernel on a problem, on an imagined GPU of one SM, so that one CTA does all tiles."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.machine = B200.with_constants(sms=1)
        self.design = design_for(problem, self.machine, cta_group=1)
        self.inputs = draw(problem, 0, True)  # scores rise, so that O is rescaled
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


def rows(verdicts: Verdicts) -> list[tuple[str, int, str, str]]:
    """For a table: part, how much was compared, the verdict, the first difference."""
    found = []
    for name, part in verdicts.items():
        first = part.differences[0] if part.differences else "–"
        found.append((name, part.compared, "agree" if part.agrees else "**differ**", first))
    return found
