"""Speed that a test can hold on any machine, busy or not: CPU time beside that of something known.

The absolute figures are in docs/benchmarks.md, measured by `make bench`.
"""

import os
import resource
import subprocess
import sys
import time

import simpy

from tests.packaging.project import ROOT


def cpu_seconds(folder, *arguments, runs=5):
    """CPU seconds of a Python process with these arguments: the least of some runs.

    Modules come from bytecode, kept in `folder`, whatever the environment says about that.
    """
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPYCACHEPREFIX": str(folder), "OPENBLAS_NUM_THREADS": "1"}

    def once():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, *arguments], cwd=ROOT, env=environment, check=True, capture_output=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    once()  # writes the bytecode
    return min(once() for _ in range(runs))


BARE_SECONDS = 0.68e-6
"""Of one timeout of SimPy alone, on the machine of docs/benchmarks.md."""
_TIMEOUTS = 20_000


def slowness():
    """How many times as long as that machine this one takes now; 1 if it is as fast or faster."""

    def timeouts():
        for _ in range(_TIMEOUTS):
            yield environment.timeout(1)

    started = time.process_time()
    environment = simpy.Environment()
    environment.process(timeouts())
    environment.run()
    taken = time.process_time() - started
    return max(1.0, taken / (_TIMEOUTS * BARE_SECONDS))


def usual_seconds(measure):
    """What `measure` returns, in seconds that the machine of docs/benchmarks.md would take.

    How fast a machine is changes within seconds if others use it, so it is asked before and after.
    """
    before = slowness()
    seconds = measure()
    return seconds / max(before, slowness())
