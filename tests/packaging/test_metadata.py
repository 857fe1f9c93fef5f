"""What `pyproject.toml` and the files beside it promise."""

import os
import re
import subprocess
import sys
from importlib.metadata import distributions

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

import fa4sim
from tests.packaging.project import PYPROJECT, ROOT

PROJECT = PYPROJECT["project"]


def names(requirements: list[str]) -> set[str]:
    return {Requirement(line).name for line in requirements}


def extra(name: str) -> set[str]:
    """The packages an extra asks for, with those of the extras it builds on."""
    wanted = set()
    for requirement in map(Requirement, PROJECT["optional-dependencies"][name]):
        if requirement.name == "fa4sim":
            wanted |= set().union(*map(extra, requirement.extras))
        else:
            wanted.add(requirement.name)
    return wanted


def test_the_core_needs_numpy_and_simpy_only():
    assert names(PROJECT["dependencies"]) == {"numpy", "simpy"}


def test_every_requirement_of_the_core_has_a_lower_bound_and_no_upper_one():
    for requirement in map(Requirement, PROJECT["dependencies"]):
        assert {clause.operator for clause in requirement.specifier} == {">="}


def test_the_extras_are_those_documented():
    assert set(PROJECT["optional-dependencies"]) == {
        "cli", "viz", "sweep", "notebooks", "kernel", "official", "docs", "dev"
    }  # fmt: skip


@pytest.mark.parametrize(
    "name, needed",
    [
        ("cli", {"click"}),
        ("viz", {"click", "matplotlib", "perfetto"}),
        ("notebooks", {"matplotlib", "jupyterlab", "nbclient", "nbformat", "ipykernel"}),
        ("notebooks", {"click", "perfetto", "ipywidgets", "anywidget"}),
        ("sweep", {"click", "distributed", "pyarrow"}),
        ("kernel", {"nvidia-cutlass-dsl", "torch"}),
        ("dev", {"click", "matplotlib", "perfetto", "torch", "nbclient", "ipywidgets"}),
        ("dev", {"pytest", "pytest-xdist", "hypothesis", "ruff", "mypy", "build", "pre-commit"}),
    ],
)
def test_an_extra_brings_what_its_name_says(name, needed):
    assert needed <= extra(name)


@pytest.mark.parametrize("name", ["cli", "viz", "sweep", "notebooks"])
def test_the_light_extras_bring_neither_torch_nor_the_dsl(name):
    assert not extra(name) & {"torch", "nvidia-cutlass-dsl"}


def test_the_kernel_is_tied_to_one_release_of_the_dsl():
    (dsl,) = (
        r
        for r in map(Requirement, PROJECT["optional-dependencies"]["kernel"])
        if r.name == "nvidia-cutlass-dsl"
    )
    assert str(dsl.specifier) == "==4.8.1"


def pins() -> dict[str, str]:
    """The version that constraints.txt fixes, by package."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    found = {}
    for pin in map(Requirement, (x for x in lines if x and not x.startswith("#"))):
        assert re.fullmatch(r"==[^*]+", str(pin.specifier)), pin
        found[canonicalize_name(pin.name)] = str(pin.specifier).removeprefix("==")
    return found


def test_the_constraints_pin_each_direct_dependency_to_one_version_the_project_accepts():
    versions = pins()
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    for requirement in (Requirement(line) for group in groups for line in group):
        if requirement.name != "fa4sim":
            version = versions[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), requirement


def test_no_pin_is_one_that_another_pinned_package_refuses():
    versions = pins()
    installed = [x for x in distributions() if canonicalize_name(x.name) in versions]
    assert len(installed) > 50
    for distribution in installed:
        for needed in map(Requirement, distribution.requires or ()):
            version = versions.get(canonicalize_name(needed.name))
            if version and (needed.marker is None or needed.marker.evaluate({"extra": ""})):
                assert needed.specifier.contains(version), f"{distribution.name} asks for {needed}"


def test_torch_and_triton_are_pinned_as_they_fit():
    """PyTorch's build for the CPU doesn't ask for Triton, PyPI's for Linux asks for this one."""
    versions = pins()
    assert (versions["torch"], versions["triton"]) == ("2.13.0", "3.7.1")


def test_the_python_versions_agree_everywhere():
    supported = SpecifierSet(PROJECT["requires-python"])
    prefix = "Programming Language :: Python :: 3."
    listed = [x.removeprefix(prefix) for x in PROJECT["classifiers"] if x.startswith(prefix)]
    assert listed == ["11", "12", "13"]
    assert all(f"3.{minor}.0" in supported for minor in listed)
    assert "3.10.14" not in supported
    assert PYPROJECT["tool"]["mypy"]["python_version"] == "3.11"
    assert PYPROJECT["tool"]["ruff"]["target-version"] == "py311"


def test_the_citation_names_this_version_and_licence():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == fa4sim.__version__ == str(Version(fa4sim.__version__))
    assert citation["license"] == PROJECT["license"] == "Apache-2.0"
    assert citation["authors"] == PROJECT["authors"] == [{"name": "The fa4sim developers"}]


def test_make_alone_lists_every_target_a_reader_may_want():
    result = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = set(re.findall(r"^  make ([a-z-]+)  *\S", result.stdout, flags=re.MULTILINE))
    assert listed >= {
        "help", "setup", "demo", "test", "test-all", "check", "notebooks", "lab", "bench", "clean",
    }  # fmt: skip


@pytest.fixture
def broken_pip(tmp_path):
    """An environment whose pip installs nothing; it keeps what it was asked."""
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    asked = tmp_path / "asked"
    python.write_text(f'#!/bin/sh\n[ "$1" = -c ] && exec echo yes\necho "$*" >>"{asked}"\nexit 1\n')
    python.chmod(0o755)
    alone = {k: v for k, v in os.environ.items() if k not in {"MAKEFLAGS", "MFLAGS", "QUIET"}}

    def run(*arguments):
        result = subprocess.run(
            ["make", f"VENV={tmp_path / 'venv'}", *arguments],
            cwd=ROOT, env=alone, capture_output=True, text=True,
        )  # fmt: skip
        return result, asked.read_text()

    return run


@pytest.mark.parametrize("target", ["demo", "setup"])
def test_make_says_how_to_learn_why_pip_failed(broken_pip, target):
    result, asked = broken_pip(target)
    assert result.returncode != 0
    assert f"To see all that pip says: make QUIET= {target}\n" in result.stderr
    assert "pip install --quiet" in asked


def test_pip_may_speak_if_asked_to(broken_pip):
    _, asked = broken_pip("QUIET=", "setup")
    assert "pip install" in asked and "--quiet" not in asked


def test_the_running_python_is_one_the_project_supports():
    assert "{}.{}.{}".format(*sys.version_info) in SpecifierSet(PROJECT["requires-python"])
