"""What a fresh interpreter runs to measure the emulator; it prints times and memory.

python -m benchmarks.emulator.child '{"shape": "full", "checks": "off", "processes": 2}'
"""

from __future__ import annotations

import contextlib
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.emulator.problem import Work, check, prepare
from benchmarks.speed.child import peak_bytes
from benchmarks.speed.stopwatch import timed
from fa4kernel.emulator import emulate
from fa4kernel.emulator.emulate import decode


def main(checks: str, processes: int = 1, repeats: int = 1, **problem: Any) -> dict[str, float]:
    """Decode the kernel and run it, ``repeats`` times; the last output is checked.

    Returns:
        of the run that took least: ``cpu_s``, the CPU seconds of the busiest process, and
        ``wall_s``, both without ``decode_s``, the CPU seconds of reading and decoding (the least);
        ``instructions``; ``before_mb`` and ``peak_mb``, the memory that this process had resident
        before the first run, and the most it had during the runs.
    """
    work = Work(**problem)
    ptx, launch, out = prepare(work)
    before = forget_peak()
    found = []
    for _ in range(repeats):
        decoded, program = timed(lambda: decode(ptx, launch))
        children = _cpu(resource.RUSAGE_CHILDREN)
        started, wall = time.process_time(), time.perf_counter()
        run = emulate(program, launch, checks=checks, processes=processes)
        wall, own = time.perf_counter() - wall, time.process_time() - started
        children = _cpu(resource.RUSAGE_CHILDREN) - children
        # One of the processes is this one; the others have like shares.
        busiest = max(own, children / max(1, processes - 1))
        found.append((busiest, wall, decoded.cpu_s))
    peak = peak_bytes()
    if run.hazards:
        raise RuntimeError(f"a hazard is reported: {run.hazards[0]}")
    check(work, out)
    cpu, wall, _ = min(found)
    return {
        "cpu_s": cpu,
        "wall_s": wall,
        "decode_s": min(each[2] for each in found),
        "instructions": run.instructions,
        "before_mb": before / 1e6,
        "peak_mb": peak / 1e6,
    }


def forget_peak() -> int:
    """Bytes resident now, from where Linux counts the peak again (elsewhere the peak so far)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return peak_bytes()


def _cpu(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
