"""What a wait told, until somebody relies on it or all who heard of it know it anyway.

A *lesson* is the clock that a wait handed to a warp, as long as the warp knows some of it only from
there. Later waits may tell the rest; then the lesson is forgotten. If the warp tells others first,
they have the lesson as well, unless they know all of it. If one of them accesses memory first, the
wait was needed. A wait that never is makes no difference to what anybody knows at any access.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

import numpy as np

from fa4kernel.emulator.checks.clocks import Index, Ints
from fa4kernel.emulator.mutation.coverage import Place


@dataclass
class Lesson:
    """What a wait told a warp, which has not relied on it yet.

    Attributes:
        place: of the wait.
        told: the clock it handed on.
        without: what the warp would know without it.
        whole: whether all lanes learned it.
    """

    place: Place
    told: Ints
    without: Ints
    whole: bool

    @property
    def superfluous(self) -> bool:
        """Whether the warp knows all of it without this wait."""
        return covers(self.without, self.told)


@dataclass
class Gift:
    """What a warp brought to a barrier.

    Attributes:
        row: its clock.
        lessons: by place, what was told there and what the warp would bring without it.
    """

    row: Ints
    lessons: dict[Place, tuple[Ints, Ints]] = field(default_factory=dict)


class Lessons:
    """The lessons of all warps.

    Attributes:
        needed: places of waits on which somebody relied.
    """

    def __init__(self) -> None:
        self.needed: set[Place] = set()
        self._of: dict[int, list[Lesson]] = defaultdict(list)
        self._gifts: dict[Hashable, list[Gift]] = defaultdict(list)

    def rely(self, warps: Iterable[int]) -> None:
        """Warps do something that relies on all they know."""
        for warp in warps:
            self.needed.update(lesson.place for lesson in self._of.pop(warp, ()))

    def rely_on(self, warp: int, components: Index, times: Ints) -> None:
        """A warp does something that relies on these times of these components."""
        for lesson in self._of[warp]:
            without = _resized(lesson.without, int(components.max(initial=0)) + 1)
            if (without[components] < times).any():
                self.needed.add(lesson.place)

    def tell(self, warp: int, row: Ints, own: Index, barrier: Hashable) -> None:
        """A warp arrives.

        Args:
            row: the clock it gives.
            own: components that are its own, whoever told it what.
            barrier: the barrier and its phase.
        """
        gift = Gift(row)
        for lesson in self._of[warp]:
            without = _resized(lesson.without, len(row))
            without[own] = row[own]
            gift.lessons[lesson.place] = lesson.told, without
        self._gifts[barrier].append(gift)

    def hear(
        self,
        warp: int,
        row: Ints,
        known: Ints,
        whole: bool,
        barrier: Hashable = None,
        lesson: tuple[Place, Ints] | None = None,
    ) -> None:
        """A warp is told something: what it was told before may be no news any more.

        Args:
            row: the clock that it is told.
            known: what it knew.
            whole: whether all its lanes hear it.
            barrier: the barrier and its phase, if one tells it.
            lesson: a place and what is told there, if this is a wait to judge.
        """
        kept: list[Lesson] = []
        gifts = self._gifts.get(barrier, [])
        before = {each.place: each.without for each in self._of[warp]}
        for old in self._of[warp]:
            old.without = _joined(old.without, _without(gifts, old.place, row))
            if not (old.superfluous and (whole or not old.whole)):
                kept.append(old)
        fresh = {place: told for gift in gifts for place, (told, _) in gift.lessons.items()}
        for place, told in fresh.items():
            base = _joined(before.get(place, known), _without(gifts, place, row))
            kept.append(Lesson(place, told, base, whole))
        if lesson is not None:
            place, told = lesson
            kept.append(Lesson(place, told, before.get(place, known).copy(), whole))
        self._of[warp] = [
            each for each in kept if each.place not in self.needed and not each.superfluous
        ]


def _without(gifts: list[Gift], place: Place, row: Ints) -> Ints:
    """What a barrier would tell without the wait there: ``row``, if nobody brings that lesson."""
    if not any(place in gift.lessons for gift in gifts):
        return row
    found = np.zeros(0, np.int32)
    for gift in gifts:
        found = _joined(found, gift.lessons[place][1] if place in gift.lessons else gift.row)
    return found


def _joined(a: Ints, b: Ints) -> Ints:
    size = max(len(a), len(b))
    return np.maximum(_resized(a, size), _resized(b, size))


def _resized(a: Ints, size: int) -> Ints:
    found = np.zeros(size, np.int32)
    common = min(size, len(a))
    found[:common] = a[:common]
    return found


def covers(more: Ints, less: Ints) -> bool:
    """Whether a clock knows all that another knows.

    >>> covers(np.array([3, 2, 1]), np.array([3, 1])), covers(np.array([3]), np.array([3, 1]))
    (True, False)
    """
    common = min(len(more), len(less))
    return bool((less[:common] <= more[:common]).all() and not less[common:].any())
