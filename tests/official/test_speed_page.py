"""The two sides of the emulator's speed page compute attention: a wrong output is an error."""

import pytest

from benchmarks.emulator import problem, runs


@pytest.mark.official
@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", problem.SHAPES)
def test_both_sides_compute_attention(shape):
    if reason := problem.absent():
        pytest.skip(reason)
    work = problem.Work(shape, 512, 512, 2)
    emulated = runs.emulated(work, "default", processes=2)
    assert emulated["instructions"] > 0 and emulated["peak_mb"] > 10
    assert runs.interpreted(work, processes=2)["cpu_s"] > 0
