"""One mutant tried: run under a few schedules until something shows that it is broken."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.emulate import decode, emulate
from fa4kernel.emulator.errors import DeadlockError, EmulationError
from fa4kernel.emulator.machine.program import Program
from fa4kernel.emulator.mutation.mutant import Mutant
from fa4kernel.emulator.mutation.problem import Problem
from fa4kernel.emulator.ptx import parse
from fa4kernel.emulator.ptx.module import PtxError

Schedule = str | int
Advice = tuple[str, str]  # kind, text of the instruction
#: Lock step and three seeds.
SCHEDULES: tuple[Schedule, ...] = ("lockstep", 1, 2, 3)
#: Steps that a mutant may take, in multiples of the original's.
PATIENCE = 8
#: Outcomes that count as detected. An advisory counts where `strict-isa` was asked for, and if the
#: original does not get it: it keeps a rule of the manual that the mutant breaks.
DETECTED = ("deadlock", "hazard", "invalid state", "wrong output", "advisory")
#: All outcomes: a time-out is no detection, a refusal or a crash is a fault of ours.
OUTCOMES = (*DETECTED, "survived", "timed out", "refused", "crashed")


class OutOfTimeError(RuntimeError):
    """A mutant's wall time is used up."""


@dataclass(frozen=True)
class Outcome:
    """What became of a run.

    Attributes:
        result: one of :data:`OUTCOMES`.
        schedule: the one under which it came to that; the last one for a survivor.
        report: what the emulator said.
        schedules: how many were tried.
    """

    result: str
    schedule: Schedule
    report: str = ""
    schedules: int = 1

    @property
    def detected(self) -> bool:
        """Whether the mutant was found out."""
        return self.result in DETECTED


@dataclass(frozen=True)
class Original:
    """The unchanged kernel: decoded, and what it gives.

    Attributes:
        program: decoded.
        outputs: of the run in the first schedule.
        steps: of the machine, the most under any of the schedules.
        advisories: that it gets, each a kind and the text of an instruction.
    """

    problem: Problem
    program: Program
    outputs: Sequence[NDArray[Any]]
    steps: int
    advisories: frozenset[Advice] = frozenset()


class BaselineError(RuntimeError):
    """The unchanged kernel is not correct, so that mutants of it say nothing."""


def measure(
    problem: Problem, schedules: Sequence[Schedule] = SCHEDULES, **options: Any
) -> Original:
    """Run the original under all schedules.

    Raises:
        BaselineError: it fails, is reported, or gives another output under another schedule.
    """
    program = decode(problem.ptx, problem.prepare().launch)
    first: Sequence[NDArray[Any]] | None = None
    steps = 0
    advisories: frozenset[Advice] = frozenset()
    for schedule in schedules:
        prepared = problem.prepare()
        emulation = emulate(program, prepared.launch, schedule=schedule, **options)
        steps = max(steps, emulation.steps)
        advisories |= _advice(emulation.hazards).keys()
        wrong = [*prepared.problems(), *map(str, _serious(emulation.hazards))]
        outputs = prepared.outputs()
        if first is None:
            first = outputs
        wrong += differences(outputs, first, problem.tolerances)
        if wrong:
            raise BaselineError(f"{problem.name}, schedule {schedule}: " + "\n".join(wrong))
    assert first is not None
    return Original(problem, program, first, steps, advisories)


def attempt(
    original: Original,
    mutant: Mutant,
    schedules: Sequence[Schedule] = SCHEDULES,
    seconds: float = 60.0,
    **options: Any,
) -> Outcome:
    """Run a mutant under one schedule after the other until it is detected.

    Args:
        original: the kernel it was made of.
        mutant: what to change.
        schedules: to try, in this order.
        seconds: wall time for all of them.
        options: for :func:`fa4kernel.emulator.emulate`.
    """
    schedule: Schedule = schedules[0]
    found = Outcome("survived", schedule)
    try:
        with limit(seconds):
            program = changed(original, mutant)
            for number, schedule in enumerate(schedules, 1):
                result, report = _run(original, program, schedule, options)
                found = Outcome(result, schedule, report, number)
                if result != "survived":
                    break
    except OutOfTimeError:
        found = Outcome("timed out", schedule, f"after {seconds:g} s")
    except PtxError as error:
        found = Outcome("refused", schedule, str(error))
    return found


def changed(original: Original, mutant: Mutant) -> Program:
    """The mutant, decoded."""
    program = mutant.patch(original.program)
    if program is not None:
        return program
    context = original.program.context
    text = mutant.text(original.problem.ptx, context.function)
    return decode(parse(text), original.problem.prepare().launch)


def _run(
    original: Original, program: Program, schedule: Schedule, options: dict[str, Any]
) -> tuple[str, str]:
    prepared = original.problem.prepare()
    try:
        emulation = emulate(
            program,
            prepared.launch,
            schedule=schedule,
            most_steps=PATIENCE * original.steps,
            **options,
        )
    except DeadlockError as error:
        return "deadlock", error.report
    except EmulationError as error:
        return ("timed out" if error.kind == "step-limit" else "invalid state"), str(error)
    except (PtxError, OutOfTimeError):
        raise
    except Exception as error:  # whatever it is: a mutant must not end the campaign
        return "crashed", f"{type(error).__name__}: {error}"
    hazards = _serious(emulation.hazards)
    if hazards:
        return "hazard", str(hazards[0])
    wrong = differences(prepared.outputs(), original.outputs, original.problem.tolerances)
    if wrong:
        return "wrong output", "; ".join(wrong)
    if options.get("checks") == "strict-isa":
        for advice, words in _advice(emulation.hazards).items():
            if advice not in original.advisories:
                return "advisory", words
    return "survived", ""


def differences(
    outputs: Sequence[NDArray[Any]], right: Sequence[NDArray[Any]], tolerances: Sequence[float]
) -> list[str]:
    """For each output that isn't right, by how much.

    >>> differences([np.array([1.0, np.nan])], [np.array([1.5, 2.0])], [0.1])
    ['output 0: 2 of 2 values are wrong']
    """
    found = []
    for number, (got, good, most) in enumerate(zip(outputs, right, tolerances, strict=True)):
        with np.errstate(invalid="ignore"):
            near = np.abs(got - good) <= most
        fine = near | (got == good) | (np.isnan(got) & np.isnan(good))
        wrong = int(np.count_nonzero(~fine))
        if wrong:
            found.append(f"output {number}: {wrong:,} of {got.size:,} values are wrong")
    return found


def _serious(hazards: Sequence[Any]) -> list[Any]:
    """Reports that are more than advisories."""
    return [h for h in hazards if getattr(h, "severity", "hazard") != "advisory"]


def _advice(hazards: Sequence[Any]) -> dict[Advice, str]:
    """Advisories in words, by kind and instruction: mutants differ in the numbers of lines."""
    return {
        (h.kind, "" if h.second.instruction is None else h.second.instruction.text): str(h)
        for h in hazards
        if h.severity == "advisory"
    }


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Raise OutOfTimeError inside when the time is over; only the main thread can be stopped so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise OutOfTimeError(f"not done after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
