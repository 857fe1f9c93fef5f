"""Run a grid: on processes of this machine or on a Dask cluster, and go on where it was stopped."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fa4sim.specs.checks import quoted, whole, whole_between
from fa4sim.sweeps.cluster import Note, connected, run_there
from fa4sim.sweeps.code import code_digest
from fa4sim.sweeps.files import check_output, write_rows
from fa4sim.sweeps.grid import Grid, Point, digest
from fa4sim.sweeps.journal import Journal, journal_of
from fa4sim.sweeps.local import Task, cores, run_here
from fa4sim.sweeps.rows import Outcome, Row

Progress = Callable[[int, int], object]
Outcomes = Iterator[tuple[int, Outcome]]

_MOST_REASONS = 3


def sweep(
    grid: Grid,
    *,
    output: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    cluster: Any = None,
    restart: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
    note: Note | None = None,
) -> list[Row]:
    """Simulate every point of a grid and return a row for each, in the grid's order.

    All points are put together first. A design that does not fit is a row with the reason; if
    none fits, nothing is run. The rows do not depend on where, or in which order, points ran.

    Args:
        grid: what is to be run.
        output: a file for the rows, by its ending ``.csv``, ``.json`` or ``.parquet`` (that needs
            pyarrow). It appears whole when all is done. Until then every finished point is kept
            in ``OUTPUT.journal``, and the same sweep goes on from there, however it was stopped.
        jobs: processes; by default one per core. With more than one, a script must start its work
            under ``if __name__ == "__main__":`` where Python copies processes by starting the
            script again (macOS, Windows, and wherever threads run).
        cluster: run on this Dask cluster instead: the address of its scheduler
            (``"tcp://127.0.0.1:8786"``), a client or a cluster object; needs dask.distributed.
        restart: throw away a journal that is there.
        seed: of everything that is drawn.
        progress: called with the points done and all points that can run, first before any is.
        note: called with what the reader should know; nothing is said if not given.

    Returns:
        One :class:`Row` per point.

    Raises:
        ValueError: no point can run (with the reasons); the file cannot be written; the journal
            is of another grid, seed or version of the simulator; the cluster does not answer or
            runs another fa4sim.
        ImportError: pyarrow or dask.distributed is missing; the message names the extra.
        RuntimeError: a point ended several processes.

    >>> rows = sweep(Grid({"kv_stages": (2, 3)}, base={"seqlen_q": 512}), jobs=1)
    >>> [row.status for row in rows]
    ['ok', 'ok']
    """
    if not isinstance(grid, Grid):
        raise ValueError(f"grid={quoted(grid)} must be a Grid, as Grid({{'kv_stages': (2, 3)}})")
    whole("seed", seed)
    target = None if output is None else check_output(output)
    if jobs is not None:
        whole_between("jobs", jobs, 1, 10_000)
    if jobs is not None and cluster is not None:
        raise ValueError(
            f"jobs={jobs} and a cluster contradict each other: the cluster's workers decide how "
            "many points run at a time; leave jobs out"
        )
    points = list(grid.points())
    check_some_fit(points)
    done: dict[int, Outcome] = {}
    with contextlib.ExitStack() as stack:
        journal = None if target is None else _journal(stack, target, grid, points, seed, restart)
        if journal is not None:
            done.update(journal.done)
            if done and note is not None:
                note(f"{len(done)} of {len(points)} points are in {journal.path}; going on")
        tasks = [(p.index, p.setup) for p in points if p.setup is not None and p.index not in done]
        total = len(done) + len(tasks)
        if progress is not None:
            progress(len(done), total)
        for index, outcome in _outcomes(stack, tasks, seed, jobs, cluster, note):
            done[index] = outcome
            if journal is not None:
                journal.add(index, outcome)
            if progress is not None:
                progress(len(done), total)
        rows = [Row.of(point, done.get(point.index)) for point in points]
        if target is not None and journal is not None:
            write_rows(grid, rows, target)
            journal.remove()
    return rows


def check_some_fit(points: Sequence[Point]) -> None:
    """Raise ``ValueError`` if every point is refused, with the reasons."""
    if any(point.setup is not None for point in points):
        return
    reasons = list(dict.fromkeys(point.reason for point in points))
    if len(points) == 1:
        raise ValueError(reasons[0])
    more = (
        [f"and {len(reasons) - _MOST_REASONS} more reasons"] if len(reasons) > _MOST_REASONS else []
    )
    head = f"none of the {len(points)} variants can run:"
    raise ValueError("\n  ".join([head, *reasons[:_MOST_REASONS], *more]))


def _journal(
    stack: contextlib.ExitStack, target: Path, grid: Grid, points: Sequence[Point], seed: int,
    restart: bool,
) -> Journal:  # fmt: skip
    path = journal_of(target)
    about = {
        "grid": grid.described(), "seed": seed, "code": code_digest(), "points": digest(points)
    }  # fmt: skip
    journal = Journal(path, about, len(points), restart)
    stack.callback(journal.close)
    return journal


def _outcomes(
    stack: contextlib.ExitStack, tasks: Sequence[Task], seed: int, jobs: int | None, cluster: Any,
    note: Note | None,
) -> Outcomes:  # fmt: skip
    """What comes of the tasks, one by one; all that was started ends with ``stack``."""
    if cluster is None or not tasks:
        found = run_here(tasks, seed, cores() if jobs is None else jobs)
    else:
        client, ours = connected(cluster, note or (lambda _: None))
        if ours:
            stack.callback(client.close)
        found = run_there(tasks, seed, client)
    return stack.enter_context(contextlib.closing(found))  # type: ignore[type-var]
