"""All mutants of a kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from fa4kernel.emulator.errors import source_line
from fa4kernel.emulator.mutation.barriers import barrier_mutants
from fa4kernel.emulator.mutation.counters import counter_mutants
from fa4kernel.emulator.mutation.meetings import meeting_mutants
from fa4kernel.emulator.mutation.moves import moved_arrivals
from fa4kernel.emulator.mutation.mutant import Edit, Mutant
from fa4kernel.emulator.mutation.sites import Sites
from fa4kernel.emulator.ptx.module import Function


def mutants_of(function: Function) -> list[Mutant]:
    """Every mutant of a kernel, in the order of its text.

    Args:
        function: the entry, parsed from the text that is to be mutated.

    >>> from fa4kernel.emulator.ptx import parse
    >>> text = ".entry e() { bar.sync 1, 64; bar.arrive 2, 64; ret; }"
    >>> [mutant.change for mutant in mutants_of(parse(text).entry())[:3]]
    ['dropped', 'id + 1', 'sync → arrive']
    """
    sites = Sites(function)
    return sorted(_all(sites), key=lambda mutant: mutant.index)


def _all(sites: Sites) -> Iterator[Mutant]:
    for index in range(len(sites.code)):
        for make in (barrier_mutants, meeting_mutants):
            for kind, change, edit in make(sites, index):
                yield _mutant(sites, index, kind, change, (edit,))
        for kind, change, edits in moved_arrivals(sites, index):
            yield _mutant(sites, index, kind, change, edits)
    for index, (kind, change, edit) in counter_mutants(sites):
        yield _mutant(sites, index, kind, change, (edit,))


def _mutant(sites: Sites, index: int, kind: str, change: str, edits: tuple[Edit, ...]) -> Mutant:
    instruction = sites.code[index]
    source = source_line(instruction.location) if instruction.location else ""
    return Mutant(kind, change, index, instruction.line, instruction.text, source, edits)


def count_by_kind(mutants: Iterable[Mutant]) -> dict[str, int]:
    """How many mutants there are of each kind, in the order in which kinds first come."""
    return dict(Counter(mutant.kind for mutant in mutants))
