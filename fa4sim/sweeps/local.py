"""Points shared out among processes of this machine."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from fa4sim.specs.setup import Setup
from fa4sim.sweeps.rows import Outcome, simulate_point

#: A point whose process dies so often (killed for its memory, say) is given up.
MOST_DEATHS = 3

Task = tuple[int, Setup]


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_here(tasks: Sequence[Task], seed: int, jobs: int) -> Iterator[tuple[int, Outcome]]:
    """``(index, outcome)`` of every task as it finishes, from ``jobs`` processes.

    A process that dies is replaced and its point run again. Close the iterator to end all of
    them. Raises ``RuntimeError`` naming points that ended their process three times over, once
    all others are done.
    """
    jobs = min(jobs, len(tasks))
    if jobs <= 1:
        for index, setup in tasks:
            yield index, simulate_point(setup, seed)
        return
    waiting = deque(tasks)
    deaths: dict[int, int] = {}
    given_up: list[str] = []
    workers = [_Worker(seed) for _ in range(jobs)]
    try:
        for worker in workers:
            worker.give(waiting)
        while busy := [worker for worker in workers if worker.task is not None]:
            ready = connection.wait([worker.pipe for worker in busy])
            for place, worker in enumerate(workers):
                if worker.pipe not in ready or worker.task is None:
                    continue
                index = worker.task[0]
                try:
                    outcome = worker.result()
                except (EOFError, OSError):
                    worker.end()
                    deaths[index] = deaths.get(index, 0) + 1
                    if deaths[index] < MOST_DEATHS:
                        waiting.appendleft(worker.task)
                    else:
                        given_up.append(
                            f"point {index} ended its process {MOST_DEATHS} times (exit code "
                            f"{worker.process.exitcode})"
                        )
                    worker = workers[place] = _Worker(seed)
                else:
                    worker.task = None
                    yield index, outcome
                worker.give(waiting)
    finally:
        for worker in workers:
            worker.end()
    check_deaths(given_up)


def check_deaths(given_up: Sequence[str]) -> None:
    """Raise ``RuntimeError`` with what was given up, if anything was."""
    if given_up:
        raise RuntimeError(
            f"{'; '.join(given_up)}. Such a point may need more memory than there is: run fewer at "
            "a time, or leave it out; all others are done"
        )


@dataclass
class _Worker:
    """A process and the point that it is at."""

    seed: int
    task: Task | None = None
    pipe: Connection = field(init=False)
    process: BaseProcess = field(init=False)

    def __post_init__(self) -> None:
        context: Any = multiprocessing.get_context(_start_method())
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, self.seed), daemon=True)
        self.process.start()
        theirs.close()

    def give(self, waiting: deque[Task]) -> None:
        """Start on the next point, if there is one."""
        if not waiting:
            return
        self.task = waiting.popleft()
        with contextlib.suppress(OSError):  # it is dead: its end of the pipe will say so
            self.pipe.send(self.task[1])

    def result(self) -> Outcome:
        """What came of the point. Raises ``EOFError`` if the process is dead, or its error."""
        outcome = self.pipe.recv()
        if isinstance(outcome, Exception):
            raise RuntimeError("a point ended in an error that is a bug of fa4sim") from outcome
        assert isinstance(outcome, Outcome)
        return outcome

    def end(self) -> None:
        """End the process at once."""
        self.process.terminate()
        self.process.join()
        self.pipe.close()


def _start_method() -> str:
    """Copies of this process where that is possible: they start at once, and import nothing."""
    methods = multiprocessing.get_all_start_methods()
    return "fork" if "fork" in methods and threading.active_count() == 1 else "spawn"


def _work(pipe: Connection, seed: int) -> None:
    """Simulate what comes through the pipe, until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends us
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    while True:
        try:
            setup = pipe.recv()
        except EOFError:
            return
        try:
            result: Outcome | Exception = simulate_point(setup, seed)
        except Exception as error:
            result = error
        try:
            data = pickle.dumps(result)
        except Exception:
            data = pickle.dumps(RuntimeError(repr(result)))
        try:
            pipe.send_bytes(data)
        except OSError:
            return


def _end_with_the_parent() -> None:
    """Wait for the parent's end, then end at once, also in the middle of a point.

    A copy of the parent has the journal open, too, so it would keep that locked.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)
