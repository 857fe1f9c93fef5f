"""CPU time and wall time of something, in this process or in a fresh one."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parents[2]

T = TypeVar("T")


@dataclass(frozen=True)
class Spent:
    """CPU seconds of the process and seconds that went by."""

    cpu_s: float
    wall_s: float


def timed(action: Callable[[], T]) -> tuple[Spent, T]:
    """Run `action` once; return what it took and what it returned.

    The garbage of whatever ran before is collected first, and is not counted.
    """
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    result = action()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Spent(cpu, wall), result


def fresh(
    *arguments: str, python: str = sys.executable, environment: Mapping[str, str] | None = None
) -> dict[str, float]:
    """What a fresh interpreter prints as JSON when it is started with these arguments.

    It keeps bytecode, as interpreters do unless the environment forbids it. ``environment`` is
    added to this process's.

    Raises:
        RuntimeError: it failed; the message holds what it wrote to stderr.
    """
    mine = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [python, *arguments],
        cwd=ROOT, env=mine | dict(environment or {}), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"a fresh interpreter failed with {done.returncode}: {done.stderr}")
    values: dict[str, float] = json.loads(done.stdout)
    return values
