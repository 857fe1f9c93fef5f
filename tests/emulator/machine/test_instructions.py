"""Every kernel of the tables gives what the manual says, in lock step and in any order."""

from __future__ import annotations

import pytest

from tests.emulator.machine.case import Case, complaint, run
from tests.emulator.machine.tables import CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_kernel_gives_what_the_manual_says_and_nothing_is_reported(case: Case) -> None:
    got, emulation = run(case)
    assert not complaint(case, got)
    assert not emulation.hazards


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_does_so_in_any_order(case: Case, seed: int) -> None:
    got, _ = run(case, schedule=seed, checks="off")
    assert not complaint(case, got)


PRODUCTS = [case for case in CASES if "mma." in case.body]


@pytest.mark.parametrize("case", PRODUCTS, ids=lambda case: case.name)
def test_whole_numbers_are_multiplied_exactly_in_the_rounding_model(case: Case) -> None:
    got, _ = run(case, arithmetic="faithful", checks="off")
    assert not complaint(case, got)


def test_no_two_cases_have_the_same_name() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))
