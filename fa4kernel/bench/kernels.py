"""The kernels of the points, compiled: on any computer, into a folder that the GPU's may read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from fa4kernel.bench.points import Point
from fa4kernel.kernels import Kernel, kernel_for
from fa4sim.specs import B200

INDEX = "index.json"


def kernel_of(point: Point, architecture: str) -> Kernel:
    """The kernel for a point."""
    return kernel_for(point.problem, architecture, B200, point.changes)


def key(kernel: Kernel) -> str:
    """Equal for points that the same compiled kernel runs."""
    return hashlib.sha256(f"{kernel.architecture} {kernel.design}".encode()).hexdigest()[:16]


def write(
    folder: Path,
    points: Iterable[Point],
    architecture: str,
    tell: Callable[[str], None] = lambda _: None,
) -> int:
    """Compile what the points need into a folder. Returns how many kernels these are."""
    return write_kernels(folder, ((p.name, kernel_of(p, architecture)) for p in points), tell)


def write_kernels(
    folder: Path,
    kernels: Iterable[tuple[str, Kernel]],
    tell: Callable[[str], None] = lambda _: None,
) -> int:
    """Compile kernels, for what is named with each, into a folder. Returns how many these are."""
    folder.mkdir(parents=True, exist_ok=True)
    names: dict[str, str] = {}
    for what, kernel in kernels:
        name = key(kernel)
        if name not in names:
            tell(what)
            (folder / f"{name}.ptx").write_text(kernel.ptx)
            names[name] = str(kernel.design)
    (folder / INDEX).write_text(json.dumps(names, indent=1))
    return len(names)


def read(folder: Path, kernel: Kernel) -> str:
    """A kernel's PTX from such a folder.

    Raises:
        ValueError: it is not there.
    """
    path = folder / f"{key(kernel)}.ptx"
    if not path.exists():
        raise ValueError(
            f"{str(folder)!r} has no kernel for {kernel.design}; write it with "
            f"fa4kernel bench --compile-to {str(folder)!r}"
        )
    return path.read_text()
