"""Collecting hazards: like ones are told once, with how often they came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fa4kernel.emulator.checks.hazard import Hazard, Party, Place
from fa4kernel.emulator.checks.records import Event

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine


class Reports:
    """Hazards by kind and the two places of the program that meet.

    Attributes:
        replay: what repeats this run, for the reports.
    """

    def __init__(self, replay: str) -> None:
        self.replay = replay
        self._found: dict[Any, Hazard] = {}
        self._counts: dict[Any, int] = {}

    def add(
        self, kind: str, message: str, first: Party | None, second: Party, place: Place | None,
        times: int = 1,
    ) -> None:  # fmt: skip
        """Report that ``second`` met what ``first`` had done, ``times`` times."""
        key = (
            kind, place.space if place else "",
            line_of(first) if first else None, line_of(second),
        )  # fmt: skip
        self._counts[key] = self._counts.get(key, 0) + times
        if key not in self._found:
            self._found[key] = Hazard(kind, message, first, second, place, self.replay)

    @property
    def hazards(self) -> tuple[Hazard, ...]:
        """What was found, in the order in which it first came."""
        return tuple(h.again(self._counts[key]) for key, h in self._found.items())


def line_of(party: Party) -> tuple[str, int]:
    """What tells a party's place in the program."""
    instruction = party.instruction
    if instruction is None:
        return party.who, 0
    return instruction.text, instruction.line


def party(machine: Machine, event: Event, row: int) -> Party:
    """The party behind one record of an event."""
    who = warp_name(machine, int(event.slots[row]))
    if event.agent:
        who = f"the {event.agent} that {who} issued"
    return Party(who, event.instruction, event.tick)


def warp_name(machine: Machine, slot: int) -> str:
    """A warp in words, with its role if that has a name."""
    ctas = machine.shape.ctas
    warp, cta = slot // ctas, cta_number(machine, slot % ctas)
    role = machine.names.role(warp)
    who = f"warp {warp}" if role.startswith("warp") else f"{role} (warp {warp})"
    return f"{who} of CTA {cta}"


def cta_number(machine: Machine, cta: int) -> int:
    """A CTA's number in the grid, clusters one after the other."""
    clusters = machine.shape.clusters
    return int(machine.clusters[cta % clusters]) * machine.shape.size + cta // clusters
