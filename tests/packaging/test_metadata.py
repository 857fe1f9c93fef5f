"""What `pyproject.toml` and the files beside it promise."""

import re
import subprocess
import sys

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


def test_the_constraints_pin_each_direct_dependency_to_one_version_the_project_accepts():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = {
        canonicalize_name(requirement.name): requirement
        for requirement in map(Requirement, (x for x in lines if x and not x.startswith("#")))
    }
    assert all(re.fullmatch(r"==[^*]+", str(pin.specifier)) for pin in pins.values())
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    for requirement in (Requirement(line) for group in groups for line in group):
        if requirement.name != "fa4sim":
            version = str(pins[canonicalize_name(requirement.name)].specifier).removeprefix("==")
            assert requirement.specifier.contains(version), requirement


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


def test_the_running_python_is_one_the_project_supports():
    assert "{}.{}.{}".format(*sys.version_info) in SpecifierSet(PROJECT["requires-python"])
