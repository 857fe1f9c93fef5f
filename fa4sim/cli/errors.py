"""How a command ends: exit codes, and one shape for every failure.

==== ==========================================================
code meaning
==== ==========================================================
0    ok
1    a check failed
2    bad input: a value, a file, an option, a missing extra
3    a deadlock or a hazard in the simulated pipeline
130  stopped by Ctrl-C
==== ==========================================================

A failure says what is wrong on standard error. With ``--json`` it also prints one object with
``error`` on standard output, and whatever there is to know in other fields.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import click

from fa4sim.engine.errors import Deadlock, Hazard

STOPPED = 130


class Failure(click.ClickException):
    """A command that could not do what was asked; ``details`` join the JSON object."""

    def __init__(self, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.details = dict(details or {})


class CheckFailed(Failure):
    """Numbers are not what they should be."""

    exit_code = 1


class BadInput(Failure):
    """A value, file or option that cannot be used."""

    exit_code = 2


class PipelineBroken(Failure):
    """A deadlock, or a hazard."""

    exit_code = 3


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what specifications and the simulator refuse into a :class:`Failure`.

    ``ValueError`` becomes bad input with the same message, and so does a file that cannot be
    written; a deadlock keeps who waits for what as details.
    """
    try:
        yield
    except Deadlock as error:
        raise deadlock(error) from None
    except OSError as error:
        where = f"{error.filename!r}: " if error.filename else ""
        raise BadInput(f"{where}{error.strerror or error}") from None
    except ValueError as error:
        raise BadInput(str(error)) from None


def deadlock(error: Deadlock) -> PipelineBroken:
    """The failure of a pipeline in which nothing can happen any more."""
    return PipelineBroken(deadlock_words(error), {"deadlock": deadlock_facts(error)})


def deadlock_words(error: Deadlock) -> str:
    """A deadlock over several lines: whose fault first, then who waits, by role."""
    lines = [f"deadlock at cycle {error.at:,}: nothing can happen any more"]
    if error.suspects:
        lines.append(f"  suspect: {', '.join(error.suspects)}")
    if error.ring:
        lines.append(f"  they wait in a circle: {' -> '.join(error.ring)}")
    lines += [f"  {line}" for line in error.why]
    lines.append("  who waits:")
    for key, alike in itertools.groupby(error.waiting, key=lambda who: replace(who, warp=-1)):
        warps = [who.warp for who in alike]
        text = str(replace(key, warp=warps[0]))
        if len(warps) > 1:
            text = text.replace(f"(warp {warps[0]},", f"(warps {warps[0]} to {warps[-1]},", 1)
        lines.append(f"    {text}")
    lines += [f"  before that: {hazard}" for hazard in error.hazards[:MOST_HAZARDS_SHOWN]]
    return "\n".join(lines)


def deadlock_facts(error: Deadlock) -> dict[str, Any]:
    """A deadlock as plain data: at, waiting, ring, suspects, why and hazards."""
    return {
        "at": error.at,
        "waiting": [dataclasses.asdict(who) for who in error.waiting],
        "ring": list(error.ring),
        "suspects": list(error.suspects),
        "why": list(error.why),
        "hazards": hazard_facts(error.hazards),
    }


def hazard_facts(hazards: Sequence[Hazard]) -> list[dict[str, Any]]:
    """Hazards as plain data."""
    return [dataclasses.asdict(hazard) for hazard in hazards]


def hazardous(hazards: Sequence[Hazard], facts: Mapping[str, Any]) -> PipelineBroken:
    """The failure of a run that finished but broke rules on the way; ``facts`` is its report."""
    shown = [f"  {hazard}" for hazard in hazards[:MOST_HAZARDS_SHOWN]]
    if len(hazards) > len(shown):
        shown.append(f"  and {len(hazards) - len(shown)} more; --json lists them all")
    barriers = dict.fromkeys(hazard.barrier for hazard in hazards)
    head = f"{len(hazards)} hazard{'s' if len(hazards) != 1 else ''} at {', '.join(barriers)}"
    return PipelineBroken("\n".join([head, *shown]), facts)


MOST_HAZARDS_SHOWN = 20


def missing_extra(error: ImportError, extra: str, what: str) -> BadInput:
    """The failure for a library that an extra would have installed."""
    name = error.name.partition(".")[0] if error.name else "a library"
    return BadInput(f"{what} needs {name}; install it with: pip install 'fa4sim[{extra}]'")
