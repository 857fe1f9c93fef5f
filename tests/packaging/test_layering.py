"""Imports run one way: specs ← engine ← pipelines ← simulate; traces, views and numbers apart."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging.project import ROOT, modules

# Each layer (a package or module directly under fa4sim), and the other layers it may import.
LAYERS = {
    "specs": set(),
    "trace": set(),
    "numerics": set(),
    "engine": {"specs", "trace"},
    "schedulers": {"specs", "engine", "trace"},
    "pipelines": {"specs", "engine", "trace", "schedulers", "numerics"},
    "analysis": {"trace"},
    "kvcache": {"specs"},
    "views": {"trace", "analysis", "kvcache"},
    "report": {"specs", "pipelines", "analysis"},
    "arguments": {"specs", "numerics"},
    "simulate": {"specs", "engine", "trace", "pipelines", "analysis", "arguments", "report"},
}
# Above them all: may import any layer, and no layer imports them.
TOP = {"cli", "validation", "__main__"}
# What layers may import from outside, beside the standard library.
THIRD_PARTY = {
    **{layer: {"numpy", "simpy"} for layer in LAYERS},
    "trace": {"numpy"},
    "numerics": {"numpy"},
    "analysis": {"numpy", "matplotlib"},
    "views": {"numpy", "matplotlib", "perfetto", "google", "anywidget", "traitlets", "IPython"},
}


def imports(path: Path, module: str) -> Iterator[str]:
    """Dotted names a file imports, wherever in the file; `from a import b` gives `a.b`."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                anchor = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*anchor, base] if base else anchor)
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in {"import_module", "__import__"}:
                yield str(node.args[0].value)


def complaints(root: Path) -> list[str]:
    """Every import under root/fa4sim that runs against the layers, as 'module imports name'."""
    known = modules("fa4sim", root)
    tops = {name.split(".")[1] for name in known if "." in name}
    edges = {name: list(imports(path, name)) for name, path in known.items()}

    def target(imported: str) -> str:
        """The part of fa4sim an import reaches; '' for a name taken from fa4sim itself."""
        parts = imported.split(".")
        return parts[1] if len(parts) > 1 and parts[1] in tops else ""

    # A part outside the table is a helper; one that layers use must not import a layer itself.
    reaches = {part: set() for part in tops - set(LAYERS) - TOP}
    for name, imported in edges.items():
        part = name.split(".")[1] if "." in name else ""
        if part in reaches:
            reaches[part] |= {target(x) for x in imported if x.split(".")[0] == "fa4sim"} - {part}

    found = []
    for name, imported in edges.items():
        layer = name.split(".")[1] if "." in name else ""
        for other in imported:
            top = other.split(".")[0]
            if top == "fa4sim" and layer in LAYERS:
                part = target(other)
                helper = part in reaches and not reaches[part] & (set(LAYERS) | TOP | {""})
                bad = not (part == layer or part in LAYERS[layer] or helper)
            elif layer in LAYERS:
                bad = top not in sys.stdlib_module_names | THIRD_PARTY[layer]
            else:
                bad = top == "fa4kernel"
            if bad:
                found.append(f"{name} imports {other}")
    return found


def test_fa4sim_keeps_its_layers():
    assert "fa4sim" in modules(), "there is no fa4sim package to look at"
    assert complaints(ROOT) == []


@pytest.mark.parametrize(
    "module, source, imported",
    [
        ("specs/machine", "from fa4sim.engine import core", "fa4sim.engine.core"),
        ("specs/machine", "from ..engine import core", "fa4sim.engine.core"),
        ("specs/machine", "from .. import engine", "fa4sim.engine"),
        ("specs/machine", "from fa4sim import B200", "fa4sim.B200"),
        ("specs/machine", "from fa4sim.helper import x", "fa4sim.helper.x"),
        ("specs/machine", "import fa4sim.cli", "fa4sim.cli"),
        ("engine/core", "def f():\n    import fa4sim.pipelines.fa4", "fa4sim.pipelines.fa4"),
        ("pipelines/fa4", "from fa4sim.simulate import run", "fa4sim.simulate.run"),
        ("trace/__init__", "from fa4sim.specs import machine", "fa4sim.specs.machine"),
        ("views/__init__", "from fa4sim import engine", "fa4sim.engine"),
        ("views/__init__", "import pandas", "pandas"),
        ("analysis/__init__", "from fa4sim.views import x", "fa4sim.views.x"),
        ("numerics/exp2", "import fa4sim.engine.core", "fa4sim.engine.core"),
        ("numerics/exp2", "import torch", "torch"),
        ("simulate", "from .views import timeline", "fa4sim.views.timeline"),
        ("cli/__init__", "import fa4kernel.emulator", "fa4kernel.emulator"),
        ("cli/__init__", "importlib.import_module('fa4kernel')", "fa4kernel"),
    ],
)
def test_an_import_against_the_layers_is_found(tmp_path, module, source, imported):
    world = {
        "__init__": "", "specs/__init__": "", "engine/__init__": "", "engine/core": "",
        "pipelines/__init__": "", "pipelines/fa4": "", "trace/__init__": "", "views/__init__": "",
        "analysis/__init__": "", "numerics/__init__": "", "cli/__init__": "", "simulate": "",
        "helper": "import fa4sim.engine", "leaf": "import math",
        "engine/good": "import simpy\nfrom fa4sim import leaf, specs\nfrom . import core",
    }  # fmt: skip
    for name, text in world.items():
        path = tmp_path / "fa4sim" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert complaints(tmp_path) == []

    (tmp_path / "fa4sim" / f"{module}.py").write_text(source, encoding="utf-8")
    dotted = ".".join(["fa4sim", *module.removesuffix("/__init__").split("/")])
    assert complaints(tmp_path) == [f"{dotted} imports {imported}"]
