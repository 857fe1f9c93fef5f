"""Convoys name exactly the lanes they were made of."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fa4kernel.emulator.machine.convoy import Convoy

MASKS = st.lists(st.sampled_from(["none", "all", "first", "last", "some"]), min_size=1, max_size=6)
WARP = {
    "none": np.zeros(32, bool),
    "all": np.ones(32, bool),
    "first": np.arange(32) == 0,
    "last": np.arange(32) == 31,
    "some": np.arange(32) % 3 == 1,
}


@given(MASKS)
def test_lanes_are_those_of_the_mask(names):
    mask = np.concatenate([WARP[name] for name in names])
    convoy = Convoy.of(7, 64, mask)
    if not mask.any():
        assert convoy is None
        return
    assert convoy is not None
    assert (convoy.lanes() == 64 + np.flatnonzero(mask)).all()
    for end in (convoy.full_mask()[:32], convoy.full_mask()[-32:]):
        assert end.any()
    assert (convoy.mask is None) == (convoy.count == convoy.hi - convoy.lo)
    numbers = np.arange(64 + len(mask))
    assert (numbers[convoy.picked()] == convoy.lanes()).all()
