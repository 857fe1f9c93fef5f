"""Run the arithmetic of our softmax step on an H200, and compare it with the emulator, bit by bit.

    python -m tests.forward.device.run --compile FOLDER      where the CuTe DSL is
    python -m tests.forward.device.run --ptx FOLDER --out FOLDER      where the H200 is

The first writes a PTX file for each of `steps.STEPS`, for Hopper. The second needs the CUDA driver
and NumPy; it runs each file on the GPU and in the emulator, writes OUT/h200.json, which belongs
beside this file, and ends with 1 if any bit differs.
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
from tests.emulator.device import bits
from tests.forward.device.steps import STEPS, Step

NAMES = ("exponentials", "probabilities", "factor, maximum and sum")
FEW = 4


def file_of(folder: Path, step: Step) -> Path:
    """Where a step's PTX is kept."""
    return folder / f"{step.name.replace(', ', '-').replace(' ', '-')}.ptx"


def kept(outputs: list[np.ndarray[Any, Any]]) -> dict[str, Any]:
    """What is kept of a step's outputs: a checksum of each, and the first numbers of some rows."""
    return {
        name: {
            "crc": bits.digest(each),
            "first": [[f"{int(x):x}" for x in row[:FEW]] for row in each[:: len(each) // 16]],
        }
        for name, each in zip(NAMES, outputs, strict=True)
    }


def differences(step: Step, ptx: str, got: list[np.ndarray[Any, Any]]) -> dict[str, Any]:
    """Where the emulator, running the same text, gives other bits."""
    launch, own = step.launch()
    emulate(ptx, launch, checks="off")
    found = {}
    for name, theirs, mine in zip(NAMES, got, own, strict=True):
        at = np.argwhere(theirs != mine)
        if len(at):
            some = [[*map(int, i), f"{int(theirs[*i]):x}", f"{int(mine[*i]):x}"] for i in at[:16]]
            found[name] = {"differ": len(at), "of": theirs.size, "row, column, GPU, emulator": some}
    return found


def conduct(gpu: Gpu, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Results of all steps on the GPU, and where the emulator differs."""
    results: dict[str, Any] = {"about": gpu.about(), "steps": {}}
    report = {}
    for step in STEPS:
        ptx = file_of(folder, step).read_text(encoding="utf-8")
        launch, outputs = step.launch()
        run_on_gpu(gpu, ptx, launch)
        results["steps"][step.name] = kept(outputs)
        if found := differences(step, ptx, outputs):
            report[step.name] = found
        print(f"{step.name}: {'DIFFERENT' if found else 'equal, bit for bit'}", flush=True)
    return results, report


def main() -> int:
    """Read the command line; 1 if a bit differs."""
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
    results, report = conduct(Gpu(), given.ptx)
    text = json.dumps(results, separators=(",", ":"), sort_keys=True)
    (given.out / "h200.json").write_text(text, encoding="utf-8")
    (given.out / "report.json").write_text(json.dumps(report, indent=0), encoding="utf-8")
    print(json.dumps(report, indent=1)[:4000])
    return 1 if report else 0


if __name__ == "__main__":
    sys.exit(main())
