"""When a wait makes a difference, told with small clocks: component i is what warp i has done."""

from __future__ import annotations

import numpy as np

from fa4kernel.emulator.checks.clocks import Ints
from fa4kernel.emulator.mutation.lessons import Lessons

WAIT = (10, 1)


def clock(*values: int) -> Ints:
    """A clock."""
    return np.array(values, np.int32)


NOTHING = clock(0, 0, 0)


def told(lessons: Lessons, warp: int, row: Ints) -> None:
    """A warp passes the wait that is judged."""
    lessons.hear(warp, row, NOTHING, True, None, (WAIT, row))


def test_wait_is_needed_if_memory_is_accessed_next() -> None:
    lessons = Lessons()
    told(lessons, 2, clock(5, 0, 0))
    lessons.rely([2])
    assert lessons.needed == {WAIT}


def test_wait_is_not_needed_if_nothing_follows() -> None:
    lessons = Lessons()
    told(lessons, 2, clock(5, 0, 0))
    lessons.rely([1])
    assert lessons.needed == set()


def test_wait_is_not_needed_if_it_tells_what_is_known() -> None:
    lessons = Lessons()
    lessons.hear(2, clock(5, 0, 0), clock(5, 1, 9), True, None, (WAIT, clock(5, 0, 0)))
    lessons.rely([2])
    assert lessons.needed == set()


def test_wait_is_not_needed_if_the_next_wait_tells_as_much() -> None:
    lessons = Lessons()
    told(lessons, 2, clock(5, 0, 0))
    lessons.hear(2, clock(6, 0, 0), clock(5, 0, 0), True)
    lessons.rely([2])
    assert lessons.needed == set()


def test_wait_is_needed_if_the_next_wait_tells_less() -> None:
    lessons = Lessons()
    told(lessons, 2, clock(5, 4, 0))
    lessons.hear(2, clock(6, 3, 0), clock(5, 4, 0), True)
    lessons.rely([2])
    assert lessons.needed == {WAIT}


def test_lone_lane_does_not_learn_for_its_warp() -> None:
    lessons = Lessons()
    told(lessons, 2, clock(5, 0, 0))
    lessons.hear(2, clock(6, 0, 0), clock(5, 0, 0), False)
    lessons.hear(2, NOTHING, clock(6, 0, 0), True)  # the other lanes still know no more
    assert lessons.needed == set()


def test_who_is_told_by_others_relies_on_the_wait_as_well() -> None:
    lessons = Lessons()
    told(lessons, 1, clock(5, 0, 0))
    lessons.tell(1, clock(5, 3, 0), np.array([1]), "barrier")
    lessons.hear(2, clock(5, 3, 0), clock(0, 0, 7), True, "barrier")
    lessons.rely([2])
    assert lessons.needed == {WAIT}


def test_who_hears_it_from_another_as_well_does_not_need_the_wait() -> None:
    lessons = Lessons()
    told(lessons, 1, clock(5, 0, 0))
    lessons.tell(1, clock(5, 3, 0), np.array([1]), "barrier")
    lessons.tell(0, clock(6, 0, 0), np.array([0]), "barrier")
    lessons.hear(2, clock(6, 3, 0), clock(0, 0, 7), True, "barrier")
    lessons.rely([2])
    assert lessons.needed == set()


def test_reliance_on_some_components_is_judged_by_these() -> None:
    lessons = Lessons()
    told(lessons, 2, clock(5, 0, 0))
    lessons.rely_on(2, np.array([1, 2]), clock(0, 0))
    assert lessons.needed == set()
    lessons.rely_on(2, np.array([0]), clock(4))
    assert lessons.needed == {WAIT}
