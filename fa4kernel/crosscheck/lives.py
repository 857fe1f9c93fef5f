"""Part 3: every tile lives in the same place, after the same predecessor, on both sides."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from fa4kernel.crosscheck.record import Label, Life, Record
from fa4kernel.crosscheck.verdict import Part

#: A CTA and a slot of shared memory, or a tensor in its columns.
Where = tuple[int, str, str]


def compare_lives(simulator: Record, kernel: Record) -> Part:
    """Compare place by place who lived there, one after the other, and tile by tile where it went.

    On either side a tile must be born before it is used, and die before the next is born in its
    place; for shared memory, offset and bytes within the tensor's region are compared too.
    """
    part = Part("tile lifetimes")
    mine, theirs = by_place(simulator), by_place(kernel)
    for where in sorted(mine.keys() | theirs.keys()):
        _compare_place(part, where, mine[where], theirs[where])
    _compare_moves(part, simulator, kernel)
    for record in (simulator, kernel):
        for lives in by_place(record).values():
            _in_order(part, record.who, lives)
    part.figures["lives"] = len(simulator.lives)
    part.figures["places"] = len(mine)
    return part


def by_place(record: Record) -> defaultdict[Where, list[Life]]:
    """The lives of a record by place, in the order of birth."""
    found: defaultdict[Where, list[Life]] = defaultdict(list)
    for life in sorted(record.lives, key=lambda life: life.birth):
        tensor = life.tensor if life.offset < 0 else ""
        found[life.cta, life.slot, tensor].append(life)
    return found


def _compare_place(part: Part, where: Where, mine: list[Life], theirs: list[Life]) -> None:
    cta, slot, tensor = where
    place = f"{tensor + ' in ' if tensor else ''}{slot} of CTA {cta}"
    for number, (one, other) in enumerate(zip(mine, theirs, strict=False)):
        if not part.equal(f"tile {number} in {place}", str(one), str(other)):
            return
    part.equal(f"number of tiles in {place}", len(mine), len(theirs))


def _compare_moves(part: Part, simulator: Record, kernel: Record) -> None:
    mine, theirs = moves(simulator), moves(kernel)
    for key in sorted(mine.keys() | theirs.keys()):
        cta, tensor, label = key
        part.equal(f"the way of {tensor} {label} in CTA {cta}", mine[key], theirs[key])


def moves(record: Record) -> defaultdict[tuple[int, str, Label], list[str]]:
    """The places where each tile lived, in order."""
    found: defaultdict[tuple[int, str, Label], list[str]] = defaultdict(list)
    for life in sorted(record.lives, key=lambda life: life.birth):
        found[life.cta, life.tensor, life.label].append(life.slot)
    return found


def _in_order(part: Part, who: str, lives: list[Life]) -> None:
    """One after the other, and each from birth to death."""
    for life in lives:
        used = [life.first_use, life.last_use] if life.first_use >= 0 else []
        times = [life.birth, *used, life.death]
        part.holds(
            f"{who}: {life} is born, used and given up at {times}, which is not in order",
            life.death >= 0 and times == sorted(times),
        )
    for one, following in pairwise(lives):
        part.holds(
            f"{who}: {following} is born at {following.birth}, before {one} dies at {one.death}",
            one.death <= following.birth,
        )
