"""Each kind of fault is reported, where its twin that is right is not."""

from __future__ import annotations

import pytest

from fa4kernel.emulator.checks import KINDS
from tests.emulator.checks.cases_barriers import BARRIERS
from tests.emulator.checks.cases_global import GLOBAL
from tests.emulator.checks.cases_lifetime import LIFETIME
from tests.emulator.checks.cases_tensor import ADVISORIES, TENSOR
from tests.emulator.checks.cases_threads import THREADS
from tests.emulator.checks.twins import Twin

TWINS = {**THREADS, **BARRIERS, **TENSOR, **LIFETIME, **GLOBAL, **ADVISORIES}
every = pytest.mark.parametrize("twin", TWINS.values(), ids=TWINS.keys())


@every
@pytest.mark.parametrize("schedule", ["lockstep", 1, 2, 3])
def test_a_right_kernel_is_not_accused(twin: Twin, schedule: str | int) -> None:
    hazards, error = twin.run(twin.body, schedule)
    assert ([str(h) for h in hazards], error) == ([], None)


@every
def test_a_wrong_kernel_is_told_what_is_wrong(twin: Twin) -> None:
    assert twin.kind in {h.kind for h in twin.run(twin.wrong)[0]}


@every
@pytest.mark.parametrize("schedule", [1, 2, 3])
def test_a_wrong_kernel_is_found_out_in_any_schedule(twin: Twin, schedule: int) -> None:
    assert twin.kinds(twin.wrong, schedule)


def test_every_kind_of_report_has_its_twins() -> None:
    assert {twin.kind for twin in TWINS.values()} >= KINDS.keys() - {"wgmma-unwaited", "overrun"}
