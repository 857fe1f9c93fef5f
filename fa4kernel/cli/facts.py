"""What commands tell about a run or a kernel: as plain data, and in words."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

from fa4kernel.emulator import DeadlockError, Emulation, Launch
from fa4kernel.emulator.checks.hazard import Hazard, Party
from fa4kernel.emulator.errors import source_line
from fa4kernel.emulator.ptx.module import Instruction

MOST_HAZARDS_SHOWN = 20
MOST_PLACES = 6
#: What orders the work of threads and units, or is ordered.
ORDERING = frozenset(
    ("mbarrier", "bar", "barrier", "cp", "tcgen05", "wgmma", "fence", "red", "atom")
)


def emulation_words(found: Emulation, launch: Launch) -> str:
    """A run in one line."""
    rate = found.instructions / max(found.wall_s, 1e-9) / 1e6
    return (
        f"{launch.ctas} CTA{'s' if launch.ctas != 1 else ''} of {launch.threads} threads: "
        f"{found.instructions:,} warp instructions in {found.wall_s:.1f} s "
        f"({rate:.2g} M/s; {found.decode_s:.1f} s to read and decode), {found.steps:,} ticks"
    )


def never_ran_words(found: Emulation) -> str:
    """Which part of the kernel the run tells nothing of, or ""."""
    if not found.never_ran:
        return ""
    count = len(found.never_ran)
    lines = [
        f"{count:,} instruction{'s' if count != 1 else ''} never ran: nothing is known of them"
    ]
    orders = list(
        dict.fromkeys(_where(each) for each in found.never_ran if each.opcode in ORDERING)
    )
    if orders:
        more = f" and {len(orders) - MOST_PLACES} more" if len(orders) > MOST_PLACES else ""
        lines.append(
            f"  barriers, copies and MMAs among them: {', '.join(orders[:MOST_PLACES])}{more}"
        )
    return "\n".join(lines)


def _where(instruction: Instruction) -> str:
    location = instruction.location
    line = f"PTX line {instruction.line}" if location is None else source_line(location)
    return f"{instruction.opcode} at {line}"


def hazard_words(hazards: Sequence[Hazard]) -> str:
    """Hazards over several lines; those of the same source lines are told once."""
    lines = [f"{counted(hazards)} by the checks:"]
    groups: dict[tuple[Any, ...], list[Hazard]] = {}
    for hazard in hazards:
        groups.setdefault(_sources(hazard), []).append(hazard)
    for first, *others in list(groups.values())[:MOST_HAZARDS_SHOWN]:
        lines += [f"  {line}" for line in str(first).splitlines()]
        if others:
            lines.append(f"    and {len(others)} more of the same source lines")
    if len(groups) > MOST_HAZARDS_SHOWN:
        lines.append(f"  and {len(groups) - MOST_HAZARDS_SHOWN} more; --json lists them all")
    return "\n".join(lines)


def counted(hazards: Sequence[Hazard]) -> str:
    """How many reports there are, by severity.

    >>> counted([Hazard("tmem-fence", "", None, Party("warp 0 of CTA 0", None, 1))])
    '1 report (1 advisory)'
    """
    found = Counter(hazard.severity for hazard in hazards)
    words = {"hazard": "hazards", "protocol": "protocol faults", "advisory": "advisories"}
    one = {"hazard": "hazard", "protocol": "protocol fault", "advisory": "advisory"}
    parts = [f"{n} {(one if n == 1 else words)[name]}" for name in words if (n := found[name])]
    return f"{len(hazards)} report{'s' if len(hazards) != 1 else ''} ({', '.join(parts)})"


def serious(hazards: Sequence[Hazard]) -> list[Hazard]:
    """Those that make a command fail: all but advisories."""
    return [hazard for hazard in hazards if hazard.severity != "advisory"]


def _sources(hazard: Hazard) -> tuple[Any, ...]:
    """What reports that are told together have in common: kind and source lines.

    Instructions of unknown source are told one by one.
    """
    parties = [party for party in (hazard.first, hazard.second) if party is not None]
    places = [p.instruction.location if p.instruction is not None else None for p in parties]
    known = [source_line(place) for place in places if place is not None]
    return (hazard.kind, *known) if len(known) == len(places) else (id(hazard),)


def hazard_facts(hazard: Hazard) -> dict[str, Any]:
    """A hazard as plain data."""
    return {
        "kind": hazard.kind,
        "severity": hazard.severity,
        "message": hazard.message,
        "first": party_facts(hazard.first),
        "second": party_facts(hazard.second),
        "place": None if hazard.place is None else dataclasses.asdict(hazard.place),
        "replay": hazard.replay,
        "count": hazard.count,
        "words": str(hazard),
    }


def party_facts(party: Party | None) -> dict[str, Any] | None:
    """One of the two who meet in a hazard."""
    if party is None:
        return None
    facts: dict[str, Any] = {"who": party.who, "tick": party.tick}
    if party.instruction is not None:
        location = party.instruction.location
        facts |= {"line": party.instruction.line, "text": party.instruction.text}
        facts["source"] = source_line(location) if location is not None else None
    return facts


def deadlock_facts(error: DeadlockError) -> dict[str, Any]:
    """A deadlock as plain data: the tick, every wait, and the ring as indices of waits."""
    return {
        "tick": error.tick,
        "waits": [dataclasses.asdict(wait) for wait in error.waits],
        "cycle": list(error.cycle),
    }
