"""What a campaign runs: a kernel, and launches of it that are made afresh for every mutant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from numpy.typing import NDArray

from fa4kernel.emulator.launch import Launch


@dataclass(frozen=True)
class Prepared:
    """One launch, ready to run.

    Attributes:
        launch: its arguments are arrays of its own.
        outputs: the outputs as numbers, asked for after a run.
        problems: says, after a run, what is wrong with the outputs; nothing if they are right.
    """

    launch: Launch
    outputs: Callable[[], Sequence[NDArray[Any]]]
    problems: Callable[[], list[str]] = field(default=lambda: [])


@dataclass(frozen=True)
class Remark:
    """Why a mutant survives that no rule excludes, found out by reading the kernel.

    Attributes:
        kind, change: of the mutant.
        source: where it is, as the mutant has it.
        why: for the page.
    """

    kind: str
    change: str
    source: str
    why: str


@dataclass(frozen=True)
class Problem:
    """A correct kernel and how to launch it.

    Attributes:
        name: for reports.
        title: what it is, in a phrase.
        ptx: the text.
        prepare: makes a launch; every call gives equal values in new arrays.
        tolerances: for each output, by how much it may differ from the original's. More than 0
            where the order of sums depends on the schedule: an MMA in float32 is one sum with
            those that are queued behind it.
        remarks: on survivors.
    """

    name: str
    title: str
    ptx: str
    prepare: Callable[[], Prepared]
    tolerances: Sequence[float]
    remarks: Sequence[Remark] = ()


def load(where: str) -> Problem:
    """The problem that ``package.module:function`` makes.

    Raises:
        ValueError: ``where`` has another form, or the function doesn't make a problem.
    """
    module, colon, function = where.partition(":")
    if not (module and colon and function):
        raise ValueError(f"{where!r}: give a problem as package.module:function")
    problem = getattr(import_module(module), function)()
    if not isinstance(problem, Problem):
        raise ValueError(f"{where!r} gives {type(problem).__name__}, not a Problem")
    return problem
