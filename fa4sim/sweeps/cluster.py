"""Points run by the workers of a Dask cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fa4sim.specs.checks import quoted
from fa4sim.specs.setup import Setup
from fa4sim.sweeps.code import code_digest
from fa4sim.sweeps.local import Task, check_deaths
from fa4sim.sweeps.rows import Outcome, simulate_point

#: Seconds within which a scheduler must answer.
PATIENCE_S = 10

Note = Callable[[str], object]


def connected(cluster: Any, note: Note) -> tuple[Any, bool]:
    """A Dask client for ``cluster``, and whether it is ours to close.

    Args:
        cluster: the address of a scheduler (``tcp://host:8786``), a ``dask.distributed`` client,
            or a cluster object that has a ``scheduler_address``.
        note: told what the reader should know.

    Raises ``ValueError`` if there is no scheduler there or a worker runs another fa4sim, or none;
    ``ImportError`` without ``distributed``.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError(
            "a Dask cluster needs dask.distributed: pip install 'fa4sim[sweep]'", name=error.name
        ) from error
    if isinstance(cluster, Client):
        client, ours = cluster, False
    else:
        client, ours = _at(getattr(cluster, "scheduler_address", cluster), Client), True
    try:
        _check_workers(client, note)
    except BaseException:
        if ours:
            client.close()
        raise
    return client, ours


def _at(address: object, kind: Any) -> Any:
    if not isinstance(address, str) or not address:
        raise ValueError(
            f"cluster={quoted(address)} must be the address of a Dask scheduler, as "
            "'tcp://127.0.0.1:8786', or a dask.distributed client"
        )
    try:
        with ThreadPoolExecutor(1) as apart:  # where no event loop runs
            apart.submit(asyncio.run, _greeted(address)).result()
        return kind(address, timeout=PATIENCE_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ValueError(
            f"no Dask scheduler answers at {quoted(address)} ({reason}); give the address that "
            "`dask scheduler` prints"
        ) from None


async def _greeted(address: str) -> None:
    """Return once a scheduler has greeted.

    A client waits for ever if somebody else is there who says nothing, as a page of Dask's own.
    """
    from distributed.comm import connect
    from distributed.security import Security

    how = Security().get_connection_args("client")
    try:
        greeting = connect(address, timeout=PATIENCE_S, **how)
        comm = await asyncio.wait_for(greeting, PATIENCE_S + 1)
    except TimeoutError:
        raise OSError(f"somebody is there, and said nothing within {PATIENCE_S} s") from None
    await comm.close()


def _check_workers(client: Any, note: Note) -> None:
    """All workers that are there must run this simulator."""
    found = client.run(code_digest, on_error="return")
    if not found:
        note("the cluster has no workers yet: points wait for the first")
    for address, digest in found.items():
        if isinstance(digest, BaseException):
            raise ValueError(
                f"worker {address} cannot run fa4sim ({type(digest).__name__}: {digest}); install "
                "the same version where the workers run"
            )
        if digest != code_digest():
            raise ValueError(_another(address))


def _another(where: str) -> str:
    return (
        f"worker {where} runs another version of fa4sim than this process; install the same one "
        "in both, so that all rows are of one simulator"
    )


def run_there(tasks: Sequence[Task], seed: int, client: Any) -> Iterator[tuple[int, Outcome]]:
    """``(index, outcome)`` of every task as it finishes on the cluster.

    A point whose worker dies is run by another; Dask gives one up that has ended several workers.
    Close the iterator to cancel what is not finished. Raises ``RuntimeError`` naming such points,
    once all others are done.
    """
    from distributed import KilledWorker, as_completed

    futures = {
        client.submit(_simulate, setup, seed, code_digest(), pure=False, key=None): index
        for index, setup in tasks
    }
    given_up: list[str] = []
    try:
        for future in as_completed(list(futures), loop=client.loop):
            index = futures.pop(future)
            try:
                outcome = future.result()
            except KilledWorker:
                given_up.append(f"point {index} ended every worker that ran it")
                continue
            future.release()
            yield index, outcome
    finally:
        client.cancel(list(futures))
    check_deaths(given_up)


def _simulate(setup: Setup, seed: int, digest: str) -> Outcome:
    """What a worker does. Workers that joined later are looked at here."""
    if digest != code_digest():
        raise RuntimeError(_another("of the cluster"))
    return simulate_point(setup, seed)
