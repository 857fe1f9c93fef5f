"""Arrivals of many lanes at once are what they are one after the other."""

import numpy as np
import pytest

from fa4kernel.emulator.errors import EmulationError
from fa4kernel.emulator.machine.arrivals import LastArrivals
from fa4kernel.emulator.machine.mbarriers import MBarriers
from fa4kernel.emulator.ptx.module import Instruction

ARRIVE = Instruction("mbarrier", ("arrive",), ())
CTAS, WARPS = 3, 4
LANES = np.arange(32 * CTAS * WARPS)  # (warp, CTA, lane)


def barriers(expected):
    made = MBarriers(CTAS, 64)
    made.init(np.arange(CTAS) * made.slots, np.full(CTAS, expected), ARRIVE)
    return made, LANES // 32 % CTAS * made.slots


@pytest.mark.parametrize("expected", [128, 64, 16, 1, 129, 200])
def test_warps_arrive_together_as_their_lanes_do_alone(expected):
    together, index = barriers(expected)
    alone, _ = barriers(expected)
    together.apply(index, ARRIVE, 1, lanes=LANES)
    for i, lane in zip(index, LANES, strict=True):
        alone.apply(np.array([i]), ARRIVE, 1, lanes=np.array([lane]))
    for name in ("phase", "pending", "bytes"):
        assert (getattr(together, name) == getattr(alone, name)).all(), name
    assert together.phase[0] == 128 // expected
    for at in range(0, CTAS * together.slots, together.slots):
        assert together.arrivals.last(at) == alone.arrivals.last(at)


@pytest.mark.parametrize("lanes", [LANES, LANES[:1], LANES[5:9], LANES[::7], LANES[40:200:5]])
def test_who_came_to_one_barrier_is_recorded_as_for_several(lanes):
    one, several = (LastArrivals(8, CTAS, lambda: 7) for _ in range(2))
    one.record_one(3, ARRIVE, lanes, False)
    several.record(np.full(len(lanes), 3), ARRIVE, lanes, False)
    assert one.came(3) == several.came(3)
    assert one.last(3) == several.last(3)


def test_too_many_arrivals_of_one_lane_are_still_found():
    made, index = barriers(8)
    with pytest.raises(EmulationError, match=r"too many arrivals .*: 9 more, where 8 of 8 are"):
        made.apply(index, ARRIVE, 9, lanes=LANES)
