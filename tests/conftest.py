"""What all tests share: one seed, sampling of large matrices, and the browser."""

import os
import random
import shutil
from collections import defaultdict

# Before NumPy loads: tests run side by side, and threads of its linear algebra would fight.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import hypothesis
import numpy as np
import pytest

DEFAULT_SEED = 20260305


def _seed() -> int:
    text = os.environ.get("FA4SIM_SEED", str(DEFAULT_SEED))
    try:
        return int(text)
    except ValueError:
        raise pytest.UsageError(f"FA4SIM_SEED must be an integer, not {text!r}") from None


def pytest_addoption(parser):
    parser.addoption(
        "--all-cases", action="store_true", help="run every case of tests marked sample(n)"
    )


# How long a machine takes says nothing about the code: on a busy one drawing can be "too slow".
hypothesis.settings.register_profile(
    "fa4sim", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("fa4sim")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    # Hypothesis draws from the same seed, unless one was given on the command line.
    if getattr(config.option, "hypothesis_seed", None) is None:
        config.option.hypothesis_seed = str(_seed())


def pytest_report_header(config):
    return f"FA4SIM_SEED={_seed()}"


def pytest_collection_modifyitems(config, items):
    """Of each test marked sample(n), keep n cases drawn with the seed; the order stays."""
    if config.getoption("--all-cases"):
        return
    cases = defaultdict(list)
    for item in items:
        if marker := item.get_closest_marker("sample"):
            name = item.nodeid.partition("[")[0]
            cases[name, marker.args[0]].append(item)
    dropped = set()
    for (name, count), members in cases.items():
        if count < len(members):
            kept = random.Random(f"{_seed()} {name}").sample(members, count)
            dropped.update(set(members) - set(kept))
    if dropped:
        config.hook.pytest_deselected(items=[item for item in items if item in dropped])
        items[:] = [item for item in items if item not in dropped]


@pytest.fixture
def seed() -> int:
    """The seed of this test session, FA4SIM_SEED."""
    return _seed()


@pytest.fixture
def rng(request) -> np.random.Generator:
    """Random numbers that depend on the seed and on the test's own name, so order is no matter."""
    return np.random.default_rng([_seed(), *request.node.nodeid.encode()])


def _find_chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


def pytest_runtest_setup(item):
    """A missing browser is an error in CI, a skip elsewhere."""
    if item.get_closest_marker("browser") and _find_chromium() is None:
        message = "no Chromium found; on Debian: apt-get install chromium"
        if os.environ.get("CI"):
            pytest.fail(message, pytrace=False)
        pytest.skip(message)


@pytest.fixture
def chromium() -> str:
    """Path of Chromium; the test that asks for it is marked `browser`."""
    path = _find_chromium()
    assert path is not None, "mark this test with pytest.mark.browser"
    return path
