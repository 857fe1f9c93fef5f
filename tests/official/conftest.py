"""What needs the official package asks for the fixture ``official``."""

import pytest


@pytest.fixture
def official():
    """Runs a case on the official kernel; the test is skipped where that can't be compiled."""
    from fa4kernel.official.compile import missing

    if reason := missing():
        pytest.skip(reason)
    from tests.official.run import run

    return run
