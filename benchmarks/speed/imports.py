"""`import fa4sim` in a fresh interpreter."""

from __future__ import annotations

from benchmarks.speed.measurement import Measurement, Table, seconds_figure
from benchmarks.speed.stopwatch import Spent, fresh
from benchmarks.speed.words import median, spread

#: Nothing may be imported before the clock starts that the package would import itself.
CODE = """
import time
cpu, main, wall = time.process_time(), time.thread_time(), time.perf_counter()
import {modules}
wall, main = time.perf_counter() - wall, time.thread_time() - main
cpu = time.process_time() - cpu
print('{{"cpu_s": %r, "main_s": %r, "wall_s": %r}}' % (cpu, main, wall))
"""
OURS = "fa4sim"
THEIRS = "numpy, simpy"


def measure(repeats: int = 5) -> Measurement:
    """The package, and what it cannot do without, in turn."""
    found: dict[str, list[dict[str, float]]] = {OURS: [], THEIRS: []}
    for modules in found:
        import_once(modules)  # compiled files are written and read from disk here
    for _ in range(repeats):
        for modules, runs in found.items():
            runs.append(import_once(modules))
    rows = []
    for modules, runs in found.items():
        cpu, main, wall = ([run[clock] for run in runs] for clock in ("cpu_s", "main_s", "wall_s"))
        rows.append(
            (
                f"`import {modules}`",
                median(cpu, "s"),
                spread(cpu, "s"),
                median(main, "s"),
                median(wall, "s"),
            )
        )
    spent = [Spent(run["main_s"], run["wall_s"]) for run in found[OURS]]
    return Measurement(
        "Import",
        f"The statement alone, in {repeats} fresh interpreters after one that does not count; "
        "starting the interpreter is not included. The libraries that fa4sim needs are imported "
        "in fresh interpreters in turn, to see how much of it is theirs. The main thread's CPU "
        "time is held against the target: importing NumPy can start threads of its linear algebra "
        "library that spin for a while with nothing to do, and nobody waits for them. The CPU time "
        "of all threads is in the table.",
        (seconds_figure("`import fa4sim` in a fresh interpreter (main thread)", spent, 0.3),),
        (
            Table(
                "Medians.",
                ("statement", "CPU time", "min – max", "main thread's part", "wall time"),
                tuple(rows),
            ),
        ),
    )


def import_once(modules: str) -> dict[str, float]:
    """Seconds that importing takes in a fresh interpreter: CPU, main thread's CPU, wall."""
    return fresh("-c", CODE.format(modules=modules))
