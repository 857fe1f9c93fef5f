"""Why nothing goes on: every waiting warp, what it waits for, and who should have come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fa4kernel.emulator.errors import DeadlockError
from fa4kernel.emulator.inspection.roles import warps_words
from fa4kernel.emulator.machine.waits import Waits
from fa4kernel.emulator.waiting import Waiting

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

#: Ways to stand still that a report tells in full; CTAs that stand alike are told together.
MOST = 4


def deadlock(machine: Machine) -> DeadlockError:
    """The error for a machine in which nothing can go on."""
    waits = Waits(machine)
    found = waits.all()
    cycle = shortest_cycle(waits.edges(found))
    found = [replace(w, missing=waits.missing(w, found)) for w in found]
    return DeadlockError(report(machine, found, cycle), found, cycle, machine.steps)


def report(machine: Machine, waits: Sequence[Waiting], cycle: Sequence[int]) -> str:
    """A deadlock in words: the ring first, then who waits, CTA by CTA."""
    by_cta: dict[int, list[Waiting]] = defaultdict(list)
    for wait in waits:
        by_cta[wait.cta].append(wait)
    lines = [
        f"deadlock at tick {machine.steps:,}: nothing can go on in {len(by_cta)} of "
        f"{machine.shape.ctas} CTAs"
    ]
    if cycle:
        lines.append("they wait in a circle:")
        for here, there in zip(cycle, (*cycle[1:], cycle[0]), strict=True):
            of = "" if waits[here].cta == waits[there].cta else f" of CTA {waits[there].cta}"
            lines.append(f"  {waits[here].who} for {waits[here].on}, from {waits[there].who}{of}")
    groups: dict[tuple[Waiting, ...], list[int]] = defaultdict(list)
    for cta, mine in sorted(by_cta.items()):
        groups[tuple(wait.alike() for wait in mine)].append(cta)
    told: set[Waiting] = set()
    for alike, ctas in list(groups.items())[:MOST]:
        new = [w for w, key in zip(by_cta[ctas[0]], alike, strict=True) if key not in told]
        others = " (others stand as above)" if len(new) < len(alike) else ""
        lines.append(f"{warps_words(ctas).replace('warp', 'CTA')}{others}:")
        lines += [f"  {line}" for line in tell(new)]
        told.update(alike)
    if len(groups) > MOST:
        rest = sum(len(ctas) for ctas in list(groups.values())[MOST:])
        lines.append(f"... and {rest} CTAs that stand in other ways")
    return "\n".join(lines)


def tell(waits: Sequence[Waiting]) -> list[str]:
    """Lines about the waits of one CTA; those that differ by the slot of a ring are told once."""
    lines: list[str] = []
    left = list(waits)
    while left:
        first, *rest = left
        lines += first.lines()
        like = [wait for wait in rest if first.like(wait)]
        if like:
            each = "; ".join(f"{warps_words(wait.warps)} for {wait.on}" for wait in like)
            lines.append(f"  likewise {each}")
        left = [wait for wait in rest if wait not in like]
    return lines


def shortest_cycle(edges: Sequence[Sequence[int]]) -> list[int]:
    """A shortest ring in a graph that lists, for each node, where its edges go; [] if none.

    >>> shortest_cycle([[1], [2, 3], [0], [1]])
    [1, 3]
    """
    best: list[int] = []
    for start in range(len(edges)):
        before = {start: -1}
        queue = [start]
        for node in queue:
            if start in edges[node]:
                ring = [node]
                while before[ring[-1]] != -1:
                    ring.append(before[ring[-1]])
                if not best or len(ring) < len(best):
                    best = ring[::-1]
                break
            for following in edges[node]:
                if following not in before:
                    before[following] = node
                    queue.append(following)
    return best
