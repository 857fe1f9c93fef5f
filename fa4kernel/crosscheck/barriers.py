"""Part 1: every barrier of the kernel is one of the simulator, with the same counts and parties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fa4kernel.crosscheck.record import BarrierUse, Place, Record
from fa4kernel.crosscheck.verdict import Part


def compare_barriers(
    simulator: Record, kernel: Record, never_made: frozenset[str] = frozenset()
) -> Part:
    """Hold barrier against barrier; ``never_made`` are names that the kernel only reserves.

    Name and stage, mbarrier or named, arrivals that complete a phase, phases completed, who
    arrives how often and with how many bytes in each, what is left in the last one, who waits; and
    which role each warp has.
    """
    part = Part("barriers")
    for place in sorted(simulator.barriers.keys() | kernel.barriers.keys()):
        mine, theirs = simulator.barriers.get(place), kernel.barriers.get(place)
        if part.equal(f"{words(place)} is there", mine is not None, theirs is not None):
            assert mine is not None and theirs is not None
            for what, get in ASPECTS.items():
                part.equal(f"{words(place)}, {what}", get(mine), get(theirs))
    _never_used(part, simulator, kernel, never_made)
    for warp in sorted(simulator.roles.keys() | kernel.roles.keys()):
        role = kernel.roles.get(warp, "idle")
        if role == "softmax" and "softmax1" not in simulator.roles.values():
            role = "softmax0"  # the only one has no number
        part.equal(f"role of warp {warp}", simulator.roles.get(warp, "idle"), role)
    part.figures["barriers"] = len(simulator.barriers)
    return part


def words(place: Place) -> str:
    """A barrier, for people."""
    cta, name, stage = place
    return f"{name}[{stage}] of CTA {cta}"


def _waiters(use: BarrierUse) -> str:
    return ", ".join(sorted(use.waiters)) or "nobody"


def _parties(use: BarrierUse) -> list[str]:
    """Arrivals of a phase by role, once for each way that phases differ in."""
    return [_roles(parties) for parties in use.parties()] or ["no phase"]


def _roles(made: Mapping[str, int]) -> str:
    return ", ".join(f"{role} {count}" for role, count in sorted(made.items())) or "nobody"


ASPECTS: dict[str, Any] = {
    "kind": lambda use: use.kind,
    "arrivals that complete a phase": lambda use: use.count,
    "phases completed": lambda use: use.completions,
    "arrivals by role": _parties,
    "bytes of each phase": lambda use: use.tx_bytes(),
    "arrivals left over": lambda use: _roles(use.left_over()),
    "who waits": _waiters,
}


def _never_used(part: Part, simulator: Record, kernel: Record, never_made: frozenset[str]) -> None:
    """What the kernel initialises and leaves alone must be what the simulator knows to be so.

    Such a barrier has no name in the source, since nothing there touches it; so counts are
    compared.
    """
    for cta in sorted(simulator.never_used.keys() | kernel.never_used.keys()):
        known = [one for one in simulator.never_used.get(cta, ()) if one[0] not in never_made]
        part.equal(
            f"arrivals for which mbarriers of CTA {cta} are initialised that nobody uses",
            sorted(count for _, count in known),
            sorted(count for _, count in kernel.never_used.get(cta, ())),
        )
    names = dict.fromkeys(name for found in simulator.never_used.values() for name, _ in found)
    told = ", ".join(f"{name} (not initialised either)" if name in never_made else name
                     for name in names)  # fmt: skip
    part.notes.append(f"in some CTA never used: {told}")
