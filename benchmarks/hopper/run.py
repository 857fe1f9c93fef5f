"""Build and run the microbenchmarks, and write one result file.

    python benchmarks/hopper/run.py --out results.json            # five runs of everything
    python benchmarks/hopper/run.py --quick --out smoke.json      # does everything still run?

Needs a Hopper GPU, its driver and nvcc, and nothing of Python but the standard library. GPU
settings are left as found.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BUILD = HERE / "build"
# In the order they run; `clock` last, because it heats the chip.
PROGRAMS = (
    "barriers",
    "rates",
    "softmax_step",
    "tensor",
    "beside",
    "tma",
    "tma_bandwidth",
    "paged",
    "turnover",
    "clock",
)
# Not `-arch=sm_90a`: some nvcc releases then add a plain sm_90 pass, which has no wgmma.
NVCC_FLAGS = ("-gencode", "arch=compute_90a,code=sm_90a", "-std=c++17", "-O3")
SCHEMA = 1

Row = dict[str, Any]


def build(programs: tuple[str, ...], nvcc: str = "nvcc") -> None:
    """Compile `<program>.cu` to `build/<program>`, several at a time."""
    BUILD.mkdir(exist_ok=True)

    def compile_one(program: str) -> None:
        command = [nvcc, *NVCC_FLAGS, "-o", str(BUILD / program), str(HERE / f"{program}.cu")]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        list(pool.map(compile_one, programs))


def run_program(program: str, quick: bool, timeout_s: float) -> list[Row]:
    """Run one program and return its rows, each marked with the program's name."""
    command = [str(BUILD / program)] + (["--quick"] if quick else [])
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
    if done.returncode != 0:
        raise RuntimeError(f"{program} exited with {done.returncode}: {done.stderr.strip()}")
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for row in rows:
        row["program"] = program
    return rows


def merge(runs: list[list[Row]]) -> list[Row]:
    """Merge the rows of repeated runs by name.

    `value`, `p10` and `p90` become the medians over the runs; `run_min` and `run_max` are the
    smallest and largest value of a run, which is the spread between runs.

    >>> row = {"name": "x_cycles", "unit": "cycles", "n": 5, "method": "m", "params": {}}
    >>> runs = [[row | {"value": v, "p10": v - 1, "p90": v + 1}] for v in (10.0, 12.0, 11.0)]
    >>> (merged,) = merge(runs)
    >>> merged["value"], merged["p10"], merged["run_min"], merged["run_max"], merged["runs"]
    (11.0, 10.0, 10.0, 12.0, 3)
    """
    by_name: dict[str, list[Row]] = {}
    for run in runs:
        for row in run:
            by_name.setdefault(row["name"], []).append(row)
    merged = []
    for same in by_name.values():
        values = [row["value"] for row in same]
        merged.append(
            same[0]
            | {key: statistics.median(row[key] for row in same) for key in ("value", "p10", "p90")}
            | {"run_min": min(values), "run_max": max(values), "runs": len(same)}
        )
    return merged


def command_output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def gpu_state() -> dict[str, str]:
    """What nvidia-smi shows of the first GPU: read only."""
    fields = (
        "name",
        "driver_version",
        "memory.total",
        "power.limit",
        "power.draw",
        "temperature.gpu",
        "clocks.sm",
        "clocks.max.sm",
        "clocks.mem",
        "ecc.mode.current",
    )
    line = command_output(
        "nvidia-smi", "-i", "0", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"
    )
    return dict(zip(fields, (part.strip() for part in line.split(",")), strict=False))


def nvcc_version(nvcc: str) -> str:
    found = re.search(r"release [\d.]+, V([\d.]+)", command_output(nvcc, "--version"))
    return found.group(1) if found else ""


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="result file to write")
    parser.add_argument("--repeat", type=int, default=5, help="runs of every program (default 5)")
    parser.add_argument("--quick", action="store_true", help="tiny loops, one run: a smoke test")
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=PROGRAMS)
    parser.add_argument("--no-build", action="store_true", help="use the programs in build/")
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--timeout", type=float, default=120, help="seconds per program run")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = parse_arguments(arguments)
    programs = tuple(options.programs)
    repeat = 1 if options.quick else options.repeat
    started = time.monotonic()
    if not options.no_build:
        build(programs, options.nvcc)
        print(f"built in {time.monotonic() - started:.1f} s", flush=True)

    before = gpu_state()
    runs: list[list[Row]] = []
    failures: list[str] = []
    for number in range(repeat):
        rows: list[Row] = []
        for program in programs:
            began = time.monotonic()
            try:
                rows += run_program(program, options.quick, options.timeout)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                failures.append(str(error))
                print(f"FAILED {error}", file=sys.stderr, flush=True)
            print(f"run {number + 1} {program}: {time.monotonic() - began:.1f} s", flush=True)
        runs.append(rows)

    rows = merge(runs)
    clocks = [row for row in rows if row["name"].startswith("sm_clock_")]
    result = {
        "schema": SCHEMA,
        "device": before.get("name", ""),
        "driver": before.get("driver_version", ""),
        "cuda": nvcc_version(options.nvcc),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "runs": repeat,
        "quick": options.quick,
        "nvcc_flags": list(NVCC_FLAGS),
        "clocks": {row["name"]: row["value"] for row in clocks},
        "gpu_before": before,
        "gpu_after": gpu_state(),
        "rows": rows,
    }
    temporary = options.out.with_name(options.out.name + ".partial")
    temporary.write_text(json.dumps(result, indent=1) + "\n")
    temporary.replace(options.out)
    for row in rows:
        print(f"{row['name']:58} {row['value']:>12.6g} {row['p10']:>10.5g} {row['p90']:>10.5g}")
    print(f"{len(rows)} rows, {time.monotonic() - started:.0f} s, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
