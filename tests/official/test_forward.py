"""The official forward kernel, run in the emulator, computes attention."""

import pytest

from tests.official import cases

GROUPS = {
    "forward": cases.FORWARD,
    "grouped": cases.GROUPED,
    "lengths": cases.LENGTHS,
    "variable": cases.VARIABLE,
    "options": cases.OPTIONS,
}
CASES = [
    pytest.param(case, id=f"{group}-{case.name}")
    for group, members in GROUPS.items()
    for case in members
]


@pytest.mark.official
@pytest.mark.sample(3)
@pytest.mark.parametrize("case", CASES)
def test_output_is_as_near_to_float64_as_pytorch(case, seed, official):
    assert not official(case, seed).problems()
