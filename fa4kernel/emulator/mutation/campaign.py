"""All mutants of a kernel tried, by several processes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from fa4kernel.emulator.emulate import decode
from fa4kernel.emulator.mutation.coverage import never_ran
from fa4kernel.emulator.mutation.equivalence import excuse
from fa4kernel.emulator.mutation.evidence import Evidence
from fa4kernel.emulator.mutation.known import Known, key, known
from fa4kernel.emulator.mutation.mutant import Mutant
from fa4kernel.emulator.mutation.mutants import mutants_of
from fa4kernel.emulator.mutation.problem import Problem, load
from fa4kernel.emulator.mutation.trial import (
    SCHEDULES,
    Advice,
    Original,
    Outcome,
    Schedule,
    attempt,
    measure,
)
from fa4kernel.emulator.ptx.module import Instruction


@dataclass(frozen=True)
class Options:
    """How mutants are tried.

    Attributes:
        schedules: at most these, in this order, until one detects the mutant.
        seconds: wall time for one mutant.
        checks: as :func:`fa4kernel.emulator.emulate` takes them.
        sample: try only so many, drawn with ``seed``.
        jobs: processes.
    """

    schedules: Sequence[Schedule] = SCHEDULES
    seconds: float = 60.0
    checks: str = "default"
    sample: int | None = None
    seed: int = 0
    jobs: int = 2


@dataclass(frozen=True)
class Tried:
    """A mutant and what became of it.

    Attributes:
        seconds: that it took.
        rule: by which it counts as equivalent, if one does.
        remark: why it survived, if somebody has found out.
    """

    mutant: Mutant
    outcome: Outcome
    seconds: float
    rule: str | None = None
    remark: str = ""


@dataclass(frozen=True)
class Campaign:
    """The mutants of one problem.

    Attributes:
        problem: what was broken.
        tried: all mutants, in the order of the text.
        uncovered: synchronisation instructions that never ran.
        steps: of the original, the most under any schedule.
        seconds: wall time, and for mutants that were known before, what they once took.
        options: how it was done.
    """

    problem: Problem
    tried: Sequence[Tried]
    uncovered: Sequence[Instruction]
    steps: int
    seconds: float
    options: Options

    @property
    def name(self) -> str:
        """Of the problem."""
        return self.problem.name

    @property
    def title(self) -> str:
        """Of the problem."""
        return self.problem.title

    @property
    def detected(self) -> int:
        """Mutants found out."""
        return sum(each.outcome.detected for each in self.tried)

    @property
    def excluded(self) -> int:
        """Mutants that a rule excludes; only survivors can be."""
        return sum(each.rule is not None for each in self.tried)

    @property
    def raw(self) -> float:
        """Detected out of all."""
        return self.detected / len(self.tried)

    @property
    def adjusted(self) -> float:
        """Detected out of those that no rule excludes."""
        return self.detected / max(1, len(self.tried) - self.excluded)

    @property
    def survivors(self) -> list[Tried]:
        """Neither detected nor excluded."""
        return [t for t in self.tried if not t.outcome.detected and t.rule is None]


def run(
    where: str,
    options: Options | None = None,
    progress: Callable[[int, int, Tried], None] = lambda done, total, tried: None,
    earlier: Path | None = None,
) -> Campaign:
    """Try the mutants of a problem.

    Args:
        where: the problem, as :func:`fa4kernel.emulator.mutation.problem.load` takes it.
        options: see there.
        progress: told after each mutant how many are done, of how many, and the last one.
        earlier: a file of :func:`fa4kernel.emulator.mutation.report.to_json`; mutants of the same
            kernel that it knows under the same options are not tried again.

    Raises:
        BaselineError: the original isn't correct.
    """
    options = options or Options()
    started = time.perf_counter()
    original = measure(load(where), options.schedules, checks=options.checks)
    function = original.program.context.function
    evidence = Evidence(original)
    chosen = choose(mutants_of(function), options)
    before = known(earlier, original.problem, options) if earlier else {}
    tried: list[Tried] = []
    for mutant, (outcome, seconds) in zip(
        chosen, _outcomes(where, original, chosen, options, before), strict=True
    ):
        rule = None if outcome.result != "survived" else excuse(mutant, evidence)
        remark = remark_on(mutant, original.problem) if outcome.result == "survived" else ""
        tried.append(Tried(mutant, outcome, seconds, rule, remark))
        progress(len(tried), len(chosen), tried[-1])
    uncovered = never_ran(function, evidence.usage)
    seconds = time.perf_counter() - started
    seconds += sum(t.seconds for t in tried if key(t.mutant) in before) / options.jobs
    return Campaign(original.problem, tried, uncovered, original.steps, seconds, options)


def remark_on(mutant: Mutant, problem: Problem) -> str:
    """What the problem has to say about a survivor; nothing if it has no remark."""
    mine = mutant.kind, mutant.change, mutant.source
    return " ".join(r.why for r in problem.remarks if (r.kind, r.change, r.source) == mine)


def choose(mutants: list[Mutant], options: Options) -> list[Mutant]:
    """All of them, or a sample in the order of the text."""
    if options.sample is None or options.sample >= len(mutants):
        return mutants
    drawn = random.Random(options.seed).sample(mutants, options.sample)
    return sorted(drawn, key=lambda mutant: (mutant.index, mutant.name))


_Timed = tuple[Outcome, float]


def _outcomes(
    where: str, original: Original, mutants: list[Mutant], options: Options, before: Known
) -> Iterator[_Timed]:
    """What becomes of each mutant, in order; and seconds."""
    fresh = _tried_now(where, original, [m for m in mutants if key(m) not in before], options)
    for mutant in mutants:
        yield before[key(mutant)] if key(mutant) in before else next(fresh)


def _tried_now(
    where: str, original: Original, mutants: list[Mutant], options: Options
) -> Iterator[_Timed]:
    """What becomes of each mutant that isn't known."""
    if options.jobs == 1 or not mutants:
        for mutant in mutants:
            yield _timed(original, mutant, options)
        return
    given = (where, original.outputs, original.steps, original.advisories, options)
    fresh = get_context("spawn")  # a fork would copy locks that BLAS's threads hold
    with ProcessPoolExecutor(options.jobs, fresh, _start, given) as pool:
        yield from pool.map(_in_worker, mutants)


def _timed(original: Original, mutant: Mutant, options: Options) -> _Timed:
    started = time.perf_counter()
    outcome = attempt(original, mutant, options.schedules, options.seconds, checks=options.checks)
    return outcome, time.perf_counter() - started


#: What a worker process works on.
_worker: tuple[Original, Options] | None = None


def _start(
    where: str, outputs: Sequence[Any], steps: int, advisories: frozenset[Advice], options: Options
) -> None:
    """Decode the original in a worker; its outputs are known."""
    global _worker
    problem = load(where)
    program = decode(problem.ptx, problem.prepare().launch)
    _worker = Original(problem, program, outputs, steps, advisories), options


def _in_worker(mutant: Mutant) -> _Timed:
    assert _worker is not None
    original, options = _worker
    return _timed(original, mutant, options)
