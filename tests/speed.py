"""Speed that a test can hold on any machine, busy or not: CPU time beside that of something known.

The absolute figures are in docs/benchmarks.md, measured by `make bench`.
"""

import os
import resource
import subprocess
import sys

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
