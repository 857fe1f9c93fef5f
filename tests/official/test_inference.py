"""The official kernel's inference variants, run in the emulator, compute attention."""

import pytest

from tests.official import cases


@pytest.mark.official
@pytest.mark.sample(2)
@pytest.mark.parametrize("case", cases.INFERENCE, ids=lambda case: case.name)
def test_output_is_as_near_to_float64_as_its_limit(case, seed, official):
    assert not official(case, seed).problems()
