"""What a soak runs: kernels that are right, launched afresh for every schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from numpy.typing import NDArray

from fa4kernel.emulator.launch import Launch


@dataclass(frozen=True)
class Prepared:
    """One run, ready to start.

    Attributes:
        launches: kernels by their names, and their launches, in order; each must have run before
            the next is asked for. The arguments are arrays of this run alone.
        outputs: the outputs, asked for after the run; their bits are compared.
        problems: says, after the run, what is wrong with the outputs; nothing if they are right.
    """

    launches: Iterable[tuple[str, Launch]]
    outputs: Callable[[], Sequence[NDArray[Any]]]
    problems: Callable[[], list[str]] = field(default=lambda: [])


@dataclass(frozen=True)
class Subject:
    """Kernels of one call and how to launch them.

    Attributes:
        name: for the table.
        what: what makes it worth a soak, in a phrase.
        kernels: PTX texts by name.
        prepare: makes a run; every call gives equal values in new arrays.
        known: kinds of reports that the kernel really deserves, each with the reason.
        options: for :func:`fa4kernel.emulator.emulate`.
    """

    name: str
    what: str
    kernels: Mapping[str, str]
    prepare: Callable[[], Prepared]
    known: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


def load(where: str) -> Subject:
    """The subject that ``package.module:name`` names: what ``package.module.subject(name)`` makes.

    Raises:
        ValueError: ``where`` has another form, or there is no such subject.
    """
    module, colon, name = where.partition(":")
    if not (module and colon and name):
        raise ValueError(f"{where!r}: give a subject as package.module:name")
    subject = import_module(module).subject(name)
    if not isinstance(subject, Subject):
        raise ValueError(f"{where!r} gives {type(subject).__name__}, not a Subject")
    return subject


def all_of(module: str) -> list[str]:
    """All subjects of a module, which lists their names in ``NAMES``."""
    return [f"{module}:{name}" for name in import_module(module).NAMES]
