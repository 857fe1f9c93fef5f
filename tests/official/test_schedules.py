"""The official kernel gives the same output whatever the order of events."""

import numpy as np
import pytest

from tests.official import cases

NAMES = ("pair-WTR", "single-WTR", "causal-WR", "varlen", "packed-3-odd", "split-varlen", "d256")
CASES = [case for case in cases.ALL if case.name in NAMES]


@pytest.mark.official
@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_output_does_not_depend_on_the_schedule(case, seed, official):
    in_step = official(case, seed)
    for schedule in range(3):
        outcome = official(case, seed, schedule=schedule)
        assert not outcome.problems()
        assert np.array_equal(outcome.out, in_step.out, equal_nan=True)


@pytest.mark.official
@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["causal-clc", "varlen-clc"])
def test_tiles_by_cluster_launch_control_when_few_ctas_fit(name, seed, official):
    (case,) = (case for case in cases.ALL if case.name == name)
    for schedule in ("lockstep", 1):
        assert not official(case, seed, schedule=schedule, resident_ctas=4).problems()


@pytest.mark.official
@pytest.mark.slow
def test_rounding_as_tensor_cores_do_stays_within_the_limits(seed, official):
    (case,) = (case for case in cases.ALL if case.name == "two-tiles")
    outcome = official(case, seed, arithmetic="faithful")
    assert not outcome.problems()
