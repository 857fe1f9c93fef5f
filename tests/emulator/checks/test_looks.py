"""What the checks remember of looks at barriers is bounded."""

from __future__ import annotations

import pytest

from fa4kernel.emulator.checks import barrier_rows, barriers
from tests.emulator.checks.cases_barriers import BARRIERS


@pytest.mark.parametrize("name", BARRIERS)
def test_forgetting_old_looks_changes_no_report(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    twin = BARRIERS[name]
    told = [str(h) for h in twin.run(twin.wrong)[0]]
    for module in (barriers, barrier_rows):
        monkeypatch.setattr(module, "MOST_LOOKS", 0)
    assert [str(h) for h in twin.run(twin.wrong)[0]] == told
