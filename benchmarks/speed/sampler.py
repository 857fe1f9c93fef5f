"""Where CPU time goes, by module, from samples of the running stack.

A profiler that hooks every call would charge most to the code with the shortest functions. Here
a signal interrupts the program every few milliseconds of CPU time and the module at work is
counted. Needs a POSIX system and the main thread.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from types import FrameType

PACKAGES = ("fa4sim", "simpy")
INTERVAL_S = 0.001  # of CPU time; the system's clock tick makes it a few times longer


def module_of(frame: FrameType | None) -> str:
    """The module at work: the innermost of fa4sim or SimPy, which answers for what it calls."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.partition(".")[0] in PACKAGES:
            return name
        frame = frame.f_back
    return "other"


def sample(action: Callable[[], object]) -> Counter[str]:
    """Run `action`; return how many samples fell into each module."""
    seen: Counter[str] = Counter()

    def tick(_signal: int, frame: FrameType | None) -> None:
        seen[module_of(frame)] += 1

    before = signal.signal(signal.SIGPROF, tick)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)
    try:
        action()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return seen


def shares(seen: Counter[str], least: float = 0.03) -> list[tuple[str, float]]:
    """The modules by their part of all samples, largest first; those below `least` as one.

    >>> shares(Counter({"simpy.core": 6, "fa4sim.trace": 3, "a": 1, "b": 1}), least=0.1)
    [('simpy.core', 0.5454...), ('fa4sim.trace', 0.2727...), ('the rest', 0.1818...)]
    """
    total = seen.total()
    large = [(name, n / total) for name, n in seen.most_common() if n / total >= least]
    rest = 1 - sum(part for _, part in large)
    return [*large, ("the rest", rest)] if total and len(large) < len(seen) else large
