"""Run the arithmetic of our softmax step on an H200, and compare it with the emulator.

What the FMA units compute must be equal bit for bit. 2^x of the special function units is NVIDIA's
own; the emulator rounds the true value (docs/emulator.md), so there the distance is told.

    python -m tests.forward.device.run --compile FOLDER      where the CuTe DSL is
    python -m tests.forward.device.run --ptx FOLDER --out FOLDER      where the H200 is

The first writes a PTX file for each of `steps.STEPS`, for Hopper. The second needs the CUDA driver
and NumPy; it runs each file on the GPU and in the emulator, and writes OUT/h200.json, which belongs
beside this file.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from fa4kernel.device import Gpu
from fa4kernel.device import run as run_on_gpu
from fa4kernel.emulator import emulate
from fa4kernel.forward.config import FRAGMENT, TILE
from tests.emulator.device import bits
from tests.forward.device.steps import STEPS, Step


def file_of(folder: Path, step: Step) -> Path:
    """Where a step's PTX is kept."""
    return folder / f"{step.name.replace(', ', '-').replace(' ', '-')}.ptx"


def exact(step: Step, outputs: list[np.ndarray[Any, Any]]) -> dict[str, Any]:
    """What must be equal bit for bit: what the FMA units compute, and the maxima.

    Args:
        step: says which columns these are.
        outputs: 2^x (rows, 128), P (rows, 128), and factor, maximum, sum (rows, 3), as bits.
    """
    exponentials, _, numbers = outputs
    columns = on_fma(step)
    return {
        "columns": len(columns),
        "on FMA": bits.digest(np.ascontiguousarray(exponentials[:, columns])),
        "maxima": bits.digest(np.ascontiguousarray(numbers[:, 1])),
    }


def on_fma(step: Step) -> list[int]:
    """Columns whose exponential the FMA units compute."""
    return [i for i in range(TILE) if step.cfg.emulated(i // FRAGMENT, i % FRAGMENT)]


def apart(theirs: np.ndarray[Any, Any], mine: np.ndarray[Any, Any]) -> dict[str, Any]:
    """How far two outputs are apart: elements that differ, and the most by counted bits."""
    off = np.abs(theirs.astype(np.int64) - mine.astype(np.int64))
    return {"differ": int((off > 0).sum()), "of": off.size, "most ulps": int(off.max())}


def near(step: Step, ptx: str, got: list[np.ndarray[Any, Any]]) -> dict[str, Any]:
    """What the special function units have a part in: how far the emulator is from the GPU."""
    launch, own = step.launch()
    emulate(ptx, launch, checks="off")
    columns = [i for i in range(TILE) if i not in on_fma(step)]
    return {
        "on MUFU": apart(got[0][:, columns], own[0][:, columns]),
        "P": apart(got[1], own[1]),
        "factor": apart(got[2][:, 0], own[2][:, 0]),
        "sum": apart(got[2][:, 2], own[2][:, 2]),
    }


def conduct(gpu: Gpu, folder: Path) -> dict[str, Any]:
    """Results of all steps on the GPU, and how far the emulator is from them."""
    results: dict[str, Any] = {"about": gpu.about(), "steps": {}}
    for step in STEPS:
        ptx = file_of(folder, step).read_text(encoding="utf-8")
        launch, outputs = step.launch()
        run_on_gpu(gpu, ptx, launch)
        found = {"exact": exact(step, outputs), "near": near(step, ptx, outputs)}
        results["steps"][step.name] = found
        print(f"{step.name}: {json.dumps(found)}", flush=True)
    return results


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compile", type=Path, metavar="FOLDER")
    parser.add_argument("--ptx", type=Path, metavar="FOLDER")
    parser.add_argument("--out", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    if given.compile:
        given.compile.mkdir(parents=True, exist_ok=True)
        for step in STEPS:
            file_of(given.compile, step).write_text(step.ptx(packed=False), encoding="utf-8")
        return 0
    if not (given.ptx and given.out):
        parser.error("give --compile FOLDER, or both --ptx FOLDER and --out FOLDER")
    given.out.mkdir(parents=True, exist_ok=True)
    results = conduct(Gpu(), given.ptx)
    text = json.dumps(results, indent=1, sort_keys=True)
    (given.out / "h200.json").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
