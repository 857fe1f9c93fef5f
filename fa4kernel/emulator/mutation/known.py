"""What an earlier campaign found out about the same kernel, which need not be tried again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fa4kernel.emulator.mutation.mutant import Mutant
from fa4kernel.emulator.mutation.problem import Problem
from fa4kernel.emulator.mutation.trial import Outcome

if TYPE_CHECKING:
    from fa4kernel.emulator.mutation.campaign import Options

Key = tuple[str, str, int, str]
Known = Mapping[Key, tuple[Outcome, float]]


_KEY = ("kind", "change", "line", "original")


def key(mutant: Mutant) -> Key:
    """What tells a mutant from all others of its kernel."""
    return attrgetter(*_KEY)(mutant)


def digest(ptx: str) -> str:
    """Of a kernel's text: only what was found with the same text is known."""
    return hashlib.sha256(ptx.encode()).hexdigest()


def known(file: Path, problem: Problem, options: Options) -> Known:
    """Outcomes and seconds that a file of an earlier campaign has, by mutant.

    Left out is what was found with another text of the kernel, with other checks or in other time;
    and who survived other schedules, or was found out by none of those that are to be tried.

    Args:
        file: what ``--json`` wrote; it may not exist yet.
        problem: the kernel.
        options: how mutants are to be tried.
    """
    if not file.exists():
        return {}
    found: dict[Key, tuple[Outcome, float]] = {}
    for campaign in json.loads(file.read_text())["campaigns"]:
        before = campaign["options"]
        if campaign["digest"] != digest(problem.ptx) or any(
            before[name] != getattr(options, name) for name in ("checks", "seconds")
        ):
            continue
        for mutant in campaign["mutants"]:
            outcome = _outcome(mutant)
            if _would_again(outcome, before["schedules"], list(options.schedules)):
                found[itemgetter(*_KEY)(mutant)] = outcome, mutant["seconds"]
    return found


def _outcome(mutant: Mapping[str, Any]) -> Outcome:
    return Outcome(**{field.name: mutant[field.name] for field in fields(Outcome)})


def _would_again(outcome: Outcome, before: list[Any], now: list[Any]) -> bool:
    """Whether a mutant that fared so under these schedules would fare so under those."""
    tried = outcome.schedules
    return before == now or (outcome.detected and before[:tried] == now[:tried])
