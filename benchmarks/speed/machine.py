"""The machine, the versions and the commit that the figures belong to."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

from benchmarks.speed.stopwatch import ROOT

#: What decides the figures: if one of these differs from the commit, the page says so.
MEASURED = ("fa4sim", "fa4kernel", "benchmarks", "pyproject.toml", "constraints.txt")


def facts() -> dict[str, str]:
    """What is said about the machine and the versions, by name."""
    return {
        "CPU": cpu_model(),
        "cores": str(os.cpu_count() or "unknown"),
        "load at the start": load(),
        "system": platform.system(),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "NumPy, SimPy": ", ".join(importlib.metadata.version(name) for name in ("numpy", "simpy")),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": commit(),
    }


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The CPU's name as the system gives it."""
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def load() -> str:
    """How many tasks wanted a core in the last minute, this command among them."""
    if not hasattr(os, "getloadavg"):
        return "unknown"
    return f"{os.getloadavg()[0]:.1f} tasks (mean of the last minute)"


def commit() -> str:
    """The git commit measured, and whether the files measured differ from it."""
    head = _git("rev-parse", "--short", "HEAD")
    if not head:
        return "unknown"
    changed = _git("status", "--porcelain", "--", *MEASURED)
    return f"{head}, with changes not committed" if changed else head


def _git(*arguments: str) -> str:
    """What git prints; nothing without git or outside a repository."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
