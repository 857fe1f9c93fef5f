"""Every line of the opcode tables gives the values the manual says."""

import pytest

from tests.emulator.isa.case import Case, complaints, run
from tests.emulator.isa.tables import CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.text)
def test_the_line_gives_what_the_manual_says(case: Case) -> None:
    assert not complaints(case, run(case))


def test_no_two_cases_have_the_same_line_and_types() -> None:
    keys = [(case.text, case.sources, case.results) for case in CASES]
    assert len(keys) == len(set(keys))
