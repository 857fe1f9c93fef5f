"""`fa4sim` loads where only NumPy, SimPy and the standard library are, and starts fast."""

import json
import subprocess
import sys

import pytest

from tests.packaging.project import ROOT, modules
from tests.speed import cpu_seconds

# Parts that may need an extra; everything else of fa4sim is the core.
EXTRA_OF = {"cli": "fa4sim[cli]", "views": "fa4sim[viz]", "poster": "fa4sim[viz]"}

IMPORT_BLOCKED = """
import importlib, json, sys

class Blocker:
    refused = []
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in allowed and top not in sys.stdlib_module_names:
            self.refused.append(name)
            raise ModuleNotFoundError(f"No module named {name!r} (blocked)", name=name)

root, allowed, names = json.load(sys.stdin)
sys.path.insert(0, root)
sys.meta_path.insert(0, Blocker())
errors = {}
for name in names:
    try:
        importlib.import_module(name)
    except ImportError as error:
        errors[name] = str(error)
print(json.dumps([errors, Blocker.refused]))
"""


def import_blocked(names, root=ROOT):
    """Import names in a fresh interpreter; return the errors by name, and what was refused."""
    result = subprocess.run(
        [sys.executable, "-I", "-c", IMPORT_BLOCKED],
        input=json.dumps([str(root), ["numpy", "simpy", "fa4sim"], list(names)]),
        capture_output=True, text=True, check=False, cwd=root,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    errors, refused = json.loads(result.stdout)
    return errors, refused


def part(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


@pytest.mark.parametrize("name", ["fa4sim", "fa4sim.numerics"])
def test_imports_with_numpy_simpy_and_the_standard_library_only(name):
    if name != "fa4sim" and name not in modules():
        pytest.skip(f"{name} is not written yet")
    errors, refused = import_blocked([name])
    assert not errors, f"{errors}; refused on the way: {refused}"


def test_every_module_of_the_core_imports_with_numpy_and_simpy_only():
    core = [name for name in modules() if part(name) not in EXTRA_OF]
    errors, refused = import_blocked(core)
    assert not errors, f"{errors}; refused on the way: {refused}"


def test_a_view_without_its_library_names_the_extra_to_install():
    views = [name for name in modules() if part(name) == "views"]
    errors, _ = import_blocked(views)
    unhelpful = {name: error for name, error in errors.items() if EXTRA_OF["views"] not in error}
    assert not unhelpful


def test_the_blocker_blocks(tmp_path):
    (tmp_path / "fa4sim").mkdir()
    (tmp_path / "fa4sim" / "__init__.py").write_text("import numpy, pytest\n", encoding="utf-8")
    errors, refused = import_blocked(["fa4sim"], root=tmp_path)
    assert "pytest" in errors["fa4sim"]
    assert refused[-1] == "pytest"


def test_importing_fa4sim_costs_little_beside_numpy_and_simpy(tmp_path):
    ours = cpu_seconds(tmp_path, "-c", "import fa4sim")
    theirs = cpu_seconds(tmp_path, "-c", "import numpy, simpy")
    assert ours <= 2.5 * theirs, "look at python -X importtime -c 'import fa4sim'"
