"""The samples that the seed draws, and what a missing browser does in CI and elsewhere."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MATRIX = """
import pytest

@pytest.mark.sample(3)
@pytest.mark.parametrize("case", range(40))
def test_matrix(case):
    pass

def test_plain():
    pass
"""

PAGE = """
import pytest

@pytest.mark.browser
def test_page(chromium):
    pass
"""


@pytest.fixture
def pytest_in(tmp_path):
    """Run pytest under our conftest on one test file, with some environment variables changed."""
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    sample\n    browser\n")

    def run(source, *arguments, **environment):
        (tmp_path / "test_it.py").write_text(source, encoding="utf-8")
        changed = {**os.environ, **environment}
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-v", "-rsf", "-p", "no:cacheprovider", *arguments],
            cwd=tmp_path, env={k: v for k, v in changed.items() if v is not None},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    return run


def passed(result) -> list[str]:
    return re.findall(r"::(\S+) PASSED", result.stdout)


def test_a_sample_depends_on_the_seed_alone_and_is_printed(pytest_in):
    first, again, other = (pytest_in(MATRIX, FA4SIM_SEED=seed) for seed in ["1", "1", "2"])
    assert len(passed(first)) == 4 and "test_plain" in passed(first)
    assert passed(first) == passed(again) != passed(other)
    assert "FA4SIM_SEED=1\n" in first.stdout and "37 deselected" in first.stdout


def test_all_cases_run_when_asked_for(pytest_in):
    assert len(passed(pytest_in(MATRIX, "--all-cases"))) == 41


def test_a_seed_that_is_no_integer_is_refused(pytest_in):
    result = pytest_in(MATRIX, FA4SIM_SEED="tuesday")
    assert result.returncode == 4
    assert "FA4SIM_SEED must be an integer, not 'tuesday'" in result.stderr


@pytest.mark.parametrize("ci, code, word", [("true", 1, "1 error"), (None, 0, "1 skipped")])
def test_a_missing_browser_is_an_error_in_ci_and_a_skip_elsewhere(pytest_in, ci, code, word):
    result = pytest_in(PAGE, CI=ci, PATH="/nowhere")
    assert (result.returncode, word in result.stdout) == (code, True), result.stdout
    assert "apt-get install chromium" in result.stdout
