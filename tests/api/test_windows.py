"""Windows as a launch gets them: no side beyond what 32 bits and a token's number can hold."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from fa4kernel.kernels import sides
from fa4sim.numerics import mask_matrix
from fa4sim.specs import Problem

LARGEST = 2**31 - 1
SIDES = (None, -LARGEST, -7, -3, -1, 0, 1, 4, 9, LARGEST)


@pytest.mark.parametrize("queries", [1, 3, 8])
@pytest.mark.parametrize("keys", [1, 3, 8])
def test_a_side_that_is_cut_hides_and_shows_the_same_keys(queries, keys):
    looked_at = 0
    for window in product(SIDES, SIDES):
        try:
            problem = Problem(seqlen_q=queries, seqlen_k=keys, window=window)
        except ValueError:  # no row sees any key
            continue
        cut = sides(problem)
        looked_at += 1
        assert [side is None for side in cut] == [side is None for side in window]
        assert all(side is None or abs(side) <= max(queries, keys) for side in cut)
        seen = mask_matrix(queries, keys, False, window)
        assert np.array_equal(mask_matrix(queries, keys, False, cut), seen), window
    assert looked_at > 30


def test_sequences_of_different_lengths_share_sides_that_suit_all():
    problem = Problem(seqlens_q=(2, 9), seqlens_k=(30, 1), window=(LARGEST, LARGEST - 1))
    assert sides(problem) == (30, 9)


def test_causal_is_nothing_to_the_right():
    assert sides(Problem(seqlen_q=5, causal=True)) == (None, 0)
