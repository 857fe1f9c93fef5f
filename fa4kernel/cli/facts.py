"""What commands tell about a run or a kernel: as plain data, and in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from fa4kernel.emulator import DeadlockError, Emulation, Launch
from fa4kernel.emulator.checks.hazard import Hazard, Party
from fa4kernel.emulator.errors import source_line

MOST_HAZARDS_SHOWN = 20


def emulation_words(found: Emulation, launch: Launch) -> str:
    """A run in one line."""
    rate = found.instructions / max(found.wall_s, 1e-9) / 1e6
    return (
        f"{launch.ctas} CTA{'s' if launch.ctas != 1 else ''} of {launch.threads} threads: "
        f"{found.instructions:,} warp instructions in {found.wall_s:.1f} s "
        f"({rate:.2g} M/s; {found.decode_s:.1f} s to read and decode), {found.steps:,} ticks"
    )


def hazard_words(hazards: Sequence[Hazard]) -> str:
    """Hazards over several lines."""
    plural = "s" if len(hazards) != 1 else ""
    lines = [f"{len(hazards)} report{plural} by the checks:"]
    for hazard in hazards[:MOST_HAZARDS_SHOWN]:
        lines += [f"  {line}" for line in str(hazard).splitlines()]
    if len(hazards) > MOST_HAZARDS_SHOWN:
        lines.append(f"  and {len(hazards) - MOST_HAZARDS_SHOWN} more; --json lists them all")
    return "\n".join(lines)


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
