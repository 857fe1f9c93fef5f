"""Subjects under all schedules, by several processes."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.emulate import decode, emulate
from fa4kernel.emulator.errors import EmulationError
from fa4kernel.emulator.launch import Launch
from fa4kernel.emulator.machine.program import Program
from fa4kernel.emulator.ptx import parse
from fa4kernel.emulator.soak.orders import schedules
from fa4kernel.emulator.soak.subject import Subject, load


@dataclass(frozen=True)
class Run:
    """One subject under one schedule.

    Attributes:
        outputs: a digest of the output's bits.
        wrong: what must not be: unexpected reports, wrong outputs, an error that ended the run.
        known: reports that are expected, by kind.
    """

    schedule: str
    outputs: str
    wrong: tuple[str, ...]
    known: Counter[str]
    seconds: float


@dataclass
class Soak:
    """One subject under all of them.

    Attributes:
        name, what, reasons: of the subject; the reasons for what it is known to deserve.
        runs: in the order of the schedules.
    """

    name: str
    what: str
    reasons: dict[str, str]
    runs: list[Run] = field(default_factory=list)

    @property
    def wrong(self) -> list[tuple[str, str]]:
        """Everything that must not be, with its schedule."""
        return [(run.schedule, text) for run in self.runs for text in run.wrong]

    @property
    def outputs(self) -> int:
        """How many different outputs there were."""
        return len({run.outputs for run in self.runs})

    @property
    def known(self) -> Counter[str]:
        """In how many schedules each expected kind was reported."""
        return Counter(kind for run in self.runs for kind in run.known)

    @property
    def seconds(self) -> float:
        """Time of all runs, added up over processes."""
        return sum(run.seconds for run in self.runs)

    @property
    def good(self) -> bool:
        """Nothing reported, one output."""
        return not self.wrong and self.outputs == 1


def soak(
    subjects: Sequence[str], count: int, jobs: int = 1, checks: str = "default",
    progress: Callable[[str, Run], None] = lambda where, run: None,
) -> list[Soak]:  # fmt: skip
    """Run subjects.

    Args:
        subjects: each as :func:`fa4kernel.emulator.soak.subject.load` takes it.
        count: schedules for each.
        jobs: processes.
        checks: as :func:`fa4kernel.emulator.emulate` takes them.
        progress: told after each run which subject it was, and the run.
    """
    found: dict[str, Soak] = {}
    tasks: list[tuple[str, str, str]] = []
    for where in subjects:
        subject = load(where)
        found[where] = Soak(subject.name, subject.what, dict(subject.known))
        orders = schedules(count, *shape(subject))
        tasks += [(where, order, checks) for order in orders]

    def take(task: tuple[str, str, str], run: Run) -> None:
        found[task[0]].runs.append(run)
        progress(task[0], run)

    if jobs == 1:
        for task in tasks:
            take(task, attempt(*task))
    else:
        with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
            for task, run in zip(tasks, pool.map(_attempt, tasks, chunksize=4), strict=True):
                take(task, run)
    return list(found.values())


def shape(subject: Subject) -> tuple[int, int]:
    """Warps of a CTA, the most of any of the kernels, and CTAs of the first."""
    _, first = next(iter(subject.prepare().launches))
    blocks = [parse(text).entry().directives.get("reqntid", (0,)) for text in
              subject.kernels.values()]  # fmt: skip
    return -(-max(first.threads, *map(prod, blocks)) // 32), first.ctas


def _attempt(task: tuple[str, str, str]) -> Run:
    return attempt(*task)


def attempt(where: str, schedule: str, checks: str = "default") -> Run:
    """One run of a subject."""
    started = time.perf_counter()
    subject = _loaded(where)
    prepared = subject.prepare()
    wrong: list[str] = []
    known: Counter[str] = Counter()
    try:
        for name, launch in prepared.launches:
            run = emulate(
                _program(where, name, launch), launch, schedule=schedule, checks=checks,
                **subject.options,
            )  # fmt: skip
            for hazard in run.hazards:
                if hazard.kind in subject.known:
                    known[hazard.kind] += 1
                else:
                    wrong.append(f"{name}: {hazard}")
        wrong += prepared.problems()
    except EmulationError as error:
        wrong.append(str(error))
    outputs = digest(prepared.outputs())
    return Run(schedule, outputs, tuple(wrong), known, time.perf_counter() - started)


def digest(outputs: Sequence[NDArray[Any]]) -> str:
    """A number for the bits of arrays.

    >>> digest([np.array([0.0])]) == digest([np.array([-0.0])])
    False
    """
    found = hashlib.sha256()
    for array in outputs:
        found.update(f"{array.dtype} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


@lru_cache(maxsize=2)
def _loaded(where: str) -> Subject:
    return load(where)


_programs: dict[tuple[str, str], Program] = {}


def _program(where: str, name: str, launch: Launch) -> Program:
    """A kernel decoded, once for all schedules."""
    if (where, name) not in _programs:
        for key in [key for key in _programs if key[0] != where]:
            del _programs[key]
        _programs[where, name] = decode(_loaded(where).kernels[name], launch)
    return _programs[where, name]
