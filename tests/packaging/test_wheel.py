"""The wheel holds what it should, and works where only NumPy and SimPy are installed."""

import shutil
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.packaging.project import ROOT, modules

# Files planted in the copy that is built, so that the rules are tested, not today's content.
PLANTED_DATA = ["fa4sim/specs/data/planted.json", "fa4sim/validation/data/planted.json"]
PLANTED_JUNK = [
    "tests/planted.py", "notebooks/planted.ipynb", "benchmarks/planted.py", "out/planted.json",
    "fa4kernel/forward/planted.ptx", "fa4kernel/forward/planted.cubin",
]  # fmt: skip


def python(interpreter: Path | str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess:
    command = [str(interpreter), *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """A wheel of the working tree plus the planted files, built without the network."""
    tree = tmp_path_factory.mktemp("tree")
    for name in ["pyproject.toml", "README.md", "LICENSE", ".gitignore"]:
        shutil.copy(ROOT / name, tree)
    for name in ["fa4sim", "fa4kernel"]:
        shutil.copytree(ROOT / name, tree / name)
    for name in PLANTED_DATA + PLANTED_JUNK:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("{}", encoding="utf-8")
    target = tmp_path_factory.mktemp("wheel")
    result = python(
        sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(target), ".",
        cwd=tree,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def contents(wheel) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def bare_python(wheel, tmp_path_factory) -> Path:
    """An environment with NumPy, SimPy and the wheel; the first two are links to ours."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True, with_pip=False)
    interpreter = folder / "bin" / "python"
    (site_packages,) = folder.glob("lib/python*/site-packages")
    for name in ["numpy", "simpy"]:
        installed = distribution(name)
        for top in {path.parts[0] for path in installed.files} - {"..", "__pycache__"}:
            (site_packages / top).symlink_to(installed.locate_file(top))
    for arguments in [["install", "--no-index", "--no-deps", str(wheel)], ["check"]]:
        result = python(
            sys.executable, "-m", "pip", "--python", str(interpreter), *arguments, cwd=folder
        )
        assert result.returncode == 0, result.stdout + result.stderr
    return interpreter


def test_is_typed_and_carries_every_module_and_the_licence(contents):
    sources = {str(path.relative_to(ROOT)) for path in modules().values()}
    sources |= {str(path.relative_to(ROOT)) for path in modules("fa4kernel").values()}
    assert sources | {"fa4sim/py.typed"} <= contents
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in contents)


def test_carries_the_data_files(contents):
    data = {str(path.relative_to(ROOT)) for path in (ROOT / "fa4sim").glob("*/data/*.json")}
    assert data | set(PLANTED_DATA) <= contents


def test_carries_the_scripts_and_styles_of_the_interactive_timeline(contents):
    assets = ROOT / "fa4sim" / "views" / "interactive" / "assets"
    files = {str(path.relative_to(ROOT)) for path in assets.glob("*.[jc]s*")}
    assert len(files) > 10
    assert files <= contents


def test_carries_nothing_else(contents):
    assert {name.split("/")[0] for name in contents if ".dist-info/" not in name} == {
        "fa4sim",
        "fa4kernel",
    }
    assert not contents & set(PLANTED_JUNK)
    assert not [name for name in contents if "/tests/" in name or "__pycache__" in name]


def test_imports_in_an_empty_environment(bare_python, tmp_path):
    code = (
        "import fa4sim, fa4kernel, importlib.metadata as metadata;"
        "print(metadata.version('fa4sim'), fa4sim.__version__, fa4sim.__file__)"
    )
    result = python(bare_python, "-I", "-c", code, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    installed, own, file = result.stdout.split()
    assert installed == own
    assert Path(file).is_relative_to(bare_python.parent.parent)


@pytest.mark.parametrize("command", ["fa4sim", "fa4kernel"])
@pytest.mark.parametrize("how", ["script", "module"])
def test_the_command_without_click_names_the_extra(bare_python, tmp_path, how, command):
    script = bare_python.with_name(command)
    arguments = [script, "--help"] if how == "script" else ["-m", command, "--help"]
    result = python(bare_python, *map(str, arguments), cwd=tmp_path)
    assert result.returncode == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert "pip install 'fa4sim[cli]'" in result.stderr
