"""Compiling the official kernel: PTX and launch facts of a variant, kept in the user's cache.

The package runs in a process of its own, by the interpreter that ``FA4_PYTHON`` names; if unset,
by that of ``.venv-official`` in the current directory (``make official`` builds it), or
this one. What it makes is the package authors' code and stays outside the repository, under
``FA4_CACHE`` or the user's cache directory, by variant and by package versions.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from fa4kernel.official import facts
from fa4kernel.official.variant import Variant

WORKER = Path(__file__).with_name("worker.py")
PACKAGES = ("flash-attn-4", "nvidia-cutlass-dsl", "quack-kernels", "torch")
SET_UP = (
    "pip install 'fa4sim[official]' in an environment of its own (from a clone, `make official` "
    "builds .venv-official), and set FA4_PYTHON to its interpreter"
)
TIMEOUT = 600  # seconds; a variant takes 10 to 30

_VERSIONS = f"""
import importlib.metadata, json
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
print(json.dumps({{name: version(name) for name in {PACKAGES!r}}}))
"""


@dataclass(frozen=True)
class Kernel:
    """One compiled kernel: its PTX text and what its launch must look like."""

    ptx: str
    facts: facts.Facts


def interpreter() -> str:
    """The Python that has the official package; see the module."""
    if named := os.environ.get("FA4_PYTHON"):
        return named
    beside = Path(".venv-official", "bin", "python")
    return str(beside.absolute()) if beside.exists() else sys.executable


@lru_cache
def versions(python: str) -> Mapping[str, str | None]:
    """Versions of the packages that decide on the PTX, None for one that is absent."""
    done = subprocess.run([python, "-c", _VERSIONS], capture_output=True, text=True, check=True)
    found: dict[str, str | None] = json.loads(done.stdout)
    return found


def missing(python: str | None = None) -> str | None:
    """Why nothing can be compiled here, or None if it can."""
    python = python or interpreter()
    try:
        absent = [name for name, version in versions(python).items() if version is None]
    except (OSError, subprocess.CalledProcessError) as error:
        return f"the Python {python} does not run ({error}); {SET_UP}"
    if absent:
        return f"the official kernel needs {', '.join(absent)}, not installed in {python}; {SET_UP}"
    return None


def compiled(variant: Variant, python: str | None = None) -> Mapping[str, Kernel]:
    """The kernels of a variant, by name: ``forward``, and with splits ``combine``, ``prepare``.

    Args:
        variant: what to compile.
        python: interpreter that has the package; None for :func:`interpreter`.

    Raises:
        RuntimeError: the package refuses the variant; the message ends with its own.
    """
    return _compiled(variant, python or interpreter())


@lru_cache(maxsize=8)
def _compiled(variant: Variant, python: str) -> Mapping[str, Kernel]:
    folder = _cache() / _key(variant, python)
    if not folder.is_dir():
        _compile(variant, python, folder)
    kernels = {}
    for path in sorted(folder.glob("*.ptx")):
        ir = path.with_suffix(".mlir").read_text()
        kernels[path.stem] = Kernel(path.read_text(), facts.read(ir))
    return kernels


def _compile(variant: Variant, python: str, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        kept, named = Path(scratch, "kept"), Path(scratch, "named")
        kept.mkdir()
        named.mkdir()
        done = subprocess.run(
            [python, str(WORKER), json.dumps(dataclasses.asdict(variant)), str(kept)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        if done.returncode:
            raise RuntimeError(f"{variant} does not compile:\n{done.stderr[-2000:]}")
        for path in kept.glob("*.ptx"):
            name = _name(path.name)
            text = path.read_bytes().rstrip(b"\0")
            (named / f"{name}.ptx").write_bytes(text)
            (ir,) = (other for other in kept.glob("*.mlir") if _name(other.name) == name)
            shutil.copy(ir, named / f"{name}.mlir")
        (named / "variant.json").write_text(
            json.dumps(
                {"variant": dataclasses.asdict(variant), "versions": versions(python)}, indent=1
            )
        )
        if not folder.is_dir():  # another process may have been faster
            named.rename(folder)


def _name(file: str) -> str:
    """Short name of the kernel that a kept file belongs to."""
    for name in ("combine", "prepare", "BlocksToBatch", "SeqlensToBlocks"):
        if name in file:
            return name
    return "forward"


def _cache() -> Path:
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "fa4sim", "official")
    return Path(os.environ.get("FA4_CACHE", default))


def _key(variant: Variant, python: str) -> str:
    parts = [dataclasses.asdict(variant), versions(python), WORKER.read_text()]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:20]
