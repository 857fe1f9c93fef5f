"""Nothing is reported on the official kernel, whoever is delayed or hurried."""

import pytest

from fa4kernel.emulator.soak.runs import soak
from tests.emulator.soak.official import NAMES


@pytest.mark.official
@pytest.mark.slow
@pytest.mark.sample(2)
@pytest.mark.parametrize("name", NAMES)
def test_some_orders_of_a_subject(name, official):
    (found,) = soak([f"tests.emulator.soak.official:{name}"], 8)
    assert found.wrong == []
    assert found.outputs == 1
