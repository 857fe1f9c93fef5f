"""From a kernel in CuTe DSL to PTX text, on a machine that needs no GPU.

The DSL settles for an architecture when it is first imported. So the compiler runs in a fresh
Python process, whose environment names the architecture, asks for the PTX to be kept
(`CUTE_DSL_KEEP`, `CUTE_DSL_DUMP_DIR`) and for source lines in it (`CUTE_DSL_LINEINFO`). The text is
stored in the user's cache directory; nothing compiled belongs in a repository.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fa4sim.files import write_whole

if TYPE_CHECKING:
    from fa4kernel.emulator import Launch

#: The data-centre Blackwell GPUs, with the instructions that exist only there (tcgen05).
ARCHITECTURE = "sm_100a"


class CompilationError(RuntimeError):
    """The DSL refused the kernel, the message is the compiler's; or there is no DSL."""


@dataclass(frozen=True)
class Compiled:
    """A kernel's PTX, and the function that describes its launch on given arrays."""

    ptx: str
    launch: Callable[..., Launch]


def compile_module(module: str, *, architecture: str = ARCHITECTURE, **options: Any) -> str:
    """The PTX of a module that has a function `build(**options)` with a `cute.compile` in it.

    If the module takes code from other packages, its `USES` names them. Where the cache directory
    cannot be written, a warning says so, and the next process compiles anew.

    Args:
        module: the full name of an importable module with one kernel.
        architecture: of the GPU, as `sm_90a`.
        options: what `build` takes; JSON must be able to hold it.

    Raises:
        CompilationError: the compiler failed, or is not installed.
    """
    if find_spec("cutlass") is None:
        raise CompilationError("our kernel needs the CuTe DSL: pip install 'fa4sim[kernel]'")
    text = json.dumps(options, sort_keys=True)
    stored = (
        cache_directory()
        / f"{module.rpartition('.')[2]}-{_fingerprint(module, text, architecture)}.ptx"
    )
    kept_before = _read_whole(stored)
    if kept_before is not None:
        return kept_before
    with tempfile.TemporaryDirectory(prefix="fa4sim-") as folder:
        done = subprocess.run(
            [sys.executable, "-m", __name__, module, text],
            env={**os.environ, **_settings(folder, architecture)},
            capture_output=True,
            text=True,
        )
        kept = sorted(Path(folder).glob("*.ptx"))
        if done.returncode or len(kept) != 1:
            raise CompilationError(
                f"{module} with {text} gave {len(kept)} PTX files, one is wanted:\n"
                f"{done.stdout[-2000:]}{done.stderr[-4000:]}"
            )
        ptx = kept[0].read_text().rstrip("\0")
    _keep(stored, ptx)
    return ptx


def cache_directory() -> Path:
    """Where PTX is stored: `fa4sim/ptx` in the user's cache directory (`XDG_CACHE_HOME`)."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "fa4sim" / "ptx"


def _settings(folder: str, architecture: str) -> dict[str, str]:
    """The compiler's environment. Its own cache is off: a hit there would keep no PTX."""
    return {
        "CUTE_DSL_ARCH": architecture,
        "CUTE_DSL_KEEP": "ptx",
        "CUTE_DSL_DUMP_DIR": folder,
        "CUTE_DSL_LINEINFO": "1",
        "CUTE_DSL_DISABLE_FILE_CACHING": "1",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }


def _fingerprint(module: str, options: str, architecture: str) -> str:
    """Changes with whatever the PTX depends on: sources, paths (they stand in it), versions."""
    imported = importlib.import_module(module)
    assert imported.__file__ is not None, f"{module} is no module with a file"
    folders = [Path(imported.__file__).parent]
    folders += [Path(p) for u in getattr(imported, "USES", ()) for p in _package_path(u)]
    versions = [architecture, version("nvidia-cutlass-dsl"), sys.version]
    digest = hashlib.sha256("\n".join([*versions, options]).encode())
    for path in sorted(path for folder in folders for path in folder.glob("*.py")):
        digest.update(f"\n{path}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:20]


def _package_path(package: str) -> list[str]:
    return list(importlib.import_module(package).__path__)


def _read_whole(path: Path) -> str | None:
    """What is stored; None if that is nothing, or less than a kernel, as after a power cut."""
    try:
        text = path.read_text()
    except (OSError, ValueError):
        return None
    is_whole = text and "\0" not in text and text.count("{") == text.count("}")
    return text if is_whole else None


def _keep(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, lambda beside: beside.write_text(text))
    except OSError as error:
        warnings.warn(
            f"a compiled kernel cannot be kept in {str(path.parent)!r} ({error.strerror}); set "
            "XDG_CACHE_HOME to a folder that can be written, or it is compiled every time",
            RuntimeWarning,
            stacklevel=3,
        )


if __name__ == "__main__":
    importlib.import_module(sys.argv[1]).build(**json.loads(sys.argv[2]))
