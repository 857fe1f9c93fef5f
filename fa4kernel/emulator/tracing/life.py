"""One tile in one place, from its birth to its death."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

#: First and last byte or column.
Span = tuple[int, int]


@dataclass
class Life:
    """A tile in a place; times are ticks, -1 for never.

    Attributes:
        read: the parts of it that have been read.
    """

    cta: int
    tensor: str
    space: str
    slot: str
    stage: int
    span: Span
    birth: int
    first_use: int = -1
    last_use: int = -1
    death: int = -1
    read: set[Span] = field(default_factory=set)

    def use(self, start: int, end: int) -> None:
        """It is read."""
        self.first_use = start if self.first_use < 0 else min(self.first_use, start)
        self.last_use = max(self.last_use, end)


def overlap(one: Span, other: Span) -> bool:
    """Whether two ranges, ends included, have something in common."""
    return one[0] <= other[1] and other[0] <= one[1]


def close(lives: Iterable[Life], end: int) -> None:
    """Give a death to those that have none: the birth of what comes next at the same place."""
    by_place: dict[tuple[int, str], list[Life]] = defaultdict(list)
    for life in lives:
        by_place[life.cta, life.space].append(life)
    for there in by_place.values():
        there.sort(key=lambda each: each.birth)
        for i, life in enumerate(there):
            if life.death >= 0:
                life.death = max(life.last_use, life.death)
                continue
            following = (
                each.birth
                for each in there[i + 1 :]
                if each.birth > life.birth and overlap(each.span, life.span)
            )
            life.death = max(life.last_use, next(following, end))
