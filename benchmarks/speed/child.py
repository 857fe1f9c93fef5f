"""What a fresh interpreter runs for `demo`: import fa4sim, simulate, print time and memory.

python -m benchmarks.speed.child '{"batch": 4, "heads": 16, "seqlen_q": 8192}'
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

from benchmarks.speed.stopwatch import timed
from fa4sim import Problem, simulate

KIB = 1024


def peak_bytes(status: Path = Path("/proc/self/status")) -> int:
    """The most memory this process ever had resident.

    Linux's `ru_maxrss` will not do: a process that is started by a large one begins with the
    large one's peak. `VmHWM` begins anew.
    """
    if status.is_file():
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * KIB
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * KIB


def main(problem: Problem) -> dict[str, float]:
    """CPU and wall seconds of one call, its cycles, and this process's peak in MB (10⁶ bytes)."""
    spent, run = timed(lambda: simulate(problem))
    return {
        "cpu_s": spent.cpu_s,
        "wall_s": spent.wall_s,
        "cycles": run.report.cycles,
        "events": run.report.events,
        "ctas": run.report.ctas,
        "detailed_runs": run.report.detailed_runs,
        "peak_mb": peak_bytes() / 1e6,
    }


if __name__ == "__main__":
    print(json.dumps(main(Problem(**json.loads(sys.argv[1])))))
