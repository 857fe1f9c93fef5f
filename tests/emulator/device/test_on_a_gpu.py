"""The same tests on the GPU of this machine: `pytest -m device tests/emulator/device`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.emulator.device import run, stored

pytestmark = [pytest.mark.device, pytest.mark.timeout(900)]

GROUPS = ("cases", "lines", "kernels", "boxes", "rounding", "descriptors", "halves")


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    out: Path = tmp_path_factory.mktemp("device")
    return run.conduct(out, False, list(run.PARTS), 150.0)


@pytest.mark.parametrize("group", GROUPS)
def test_the_gpu_gives_what_is_stored(fresh, group):
    old = stored.results()[group]
    assert {name: fresh[group].get(name) for name in old} == old


def test_no_kernel_failed(fresh):
    assert not fresh["failed"]
