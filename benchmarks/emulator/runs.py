"""Measured runs in fresh interpreters, with one BLAS thread in each process."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.emulator.problem import Work, arrays, check
from benchmarks.speed.stopwatch import fresh
from fa4kernel.official.compile import interpreter

#: So many threads for any library of linear algebra that NumPy or torch may be built with.
ONE_THREAD = {name: "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
TILED = Path(__file__).with_name("tiled_attention.py")


def emulated(
    work: Work, checks: str = "off", processes: int = 1, repeats: int = 1
) -> dict[str, float]:
    """One run of the official kernel in the emulator; see `child.main`."""
    options: dict[str, Any] = vars(work) | {
        "checks": checks, "processes": processes, "repeats": repeats
    }  # fmt: skip
    return fresh("-m", "benchmarks.emulator.child", json.dumps(options), environment=ONE_THREAD)


def interpreted(work: Work, processes: int = 1) -> dict[str, float]:
    """One run of tiled attention in Triton's interpreter, on the same arrays."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.npz"), Path(folder, "out.npy")
        np.savez(source, **dict(zip("qkv", arrays(work), strict=True)))
        options = json.dumps({"causal": work.shape == "causal", "processes": processes})
        found = fresh(
            str(TILED), options, str(source), str(target), python=interpreter(),
            environment=ONE_THREAD | {"TRITON_INTERPRET": "1", "PYTHONPATH": os.devnull},
        )  # fmt: skip
        check(work, np.load(target))
    return found
