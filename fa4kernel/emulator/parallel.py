"""Clusters shared out among processes.

Clusters that don't talk to each other can run anywhere. Each process takes a part of them; global
memory is moved to memory that all processes see, and back when they are done.
"""

from __future__ import annotations

import copy
import mmap
import multiprocessing
import pickle
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.machine.memory import Memory
from fa4kernel.emulator.ptx.module import Function

T = TypeVar("T")
Bytes = NDArray[np.uint8]


def is_possible() -> bool:
    """Whether this system can start a process that shares the parent's memory."""
    return "fork" in multiprocessing.get_all_start_methods()


def clusters_talk(function: Function) -> bool:
    """Whether a kernel's clusters may wait for each other, or take each other's work."""
    for instruction in function.instructions:
        if instruction.opcode == "clusterlaunchcontrol":
            return True
        shared = any(q.startswith("shared") for q in instruction.qualifiers)
        if instruction.opcode in ("atom", "red") and not shared:
            return True
    return False


class SharedMemory:
    """Global memory moved to where child processes see it; use it in a ``with`` statement."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._copies: list[tuple[Bytes, Bytes]] = []
        self._regions = [region.memory for region in memory.regions]
        self._maps = list(memory.maps)

    def __enter__(self) -> SharedMemory:
        views = [*self._regions, *(m.memory for m in self._maps)]
        for low, high in _merged([_ends(view) for view in views if len(view)]):
            whole = np.frombuffer(mmap.mmap(-1, high - low), np.uint8)
            self._copies.append((_at(views, low, high), whole))
        for original, shared in self._copies:
            shared[:] = original
        for region in self._memory.regions:
            region.memory = self._moved(region.memory)
        for number, tensor_map in enumerate(self._maps):
            moved = copy.copy(tensor_map)
            moved.__dict__["memory"] = self._moved(tensor_map.memory)
            self._memory.maps[number] = moved
        return self

    def __exit__(self, *error: object) -> None:
        for region, original in zip(self._memory.regions, self._regions, strict=True):
            if original.flags.writeable:
                original[:] = region.memory
            region.memory = original
        for number, tensor_map in enumerate(self._maps):
            if tensor_map.memory.flags.writeable:
                tensor_map.memory[:] = self._memory.maps[number].memory
            self._memory.maps[number] = tensor_map

    def _moved(self, view: Bytes) -> Bytes:
        """The same bytes in shared memory, read-only if they were."""
        if not len(view):
            return view
        low, high = _ends(view)
        for original, shared in self._copies:
            start = _ends(original)[0]
            if start <= low and high <= start + len(original):
                found = shared[low - start : high - start]
                found.flags.writeable = view.flags.writeable
                return found
        raise AssertionError("a view lies in no copy")


def _ends(view: Bytes) -> tuple[int, int]:
    start = view.__array_interface__["data"][0]
    return start, start + len(view)


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges that overlap put together."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low < found[-1][1]:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return found


class _Span:
    """Bytes of this process by address; keeps the arrays alive."""

    def __init__(self, keep: list[Bytes], low: int, high: int) -> None:
        self.keep = keep
        self.__array_interface__ = {
            "version": 3, "typestr": "|u1", "shape": (high - low,), "data": (low, True),
        }  # fmt: skip


def _at(views: list[Bytes], low: int, high: int) -> Bytes:
    return np.asarray(_Span(views, low, high))


def share_out(work: Callable[[int], T], parts: int) -> list[T]:
    """``[work(0), …, work(parts - 1)]``, each in a process of its own, the last in this one.

    Raises:
        Whatever the first of them raised.
    """
    context = multiprocessing.get_context("fork")
    children = []
    for part in range(parts - 1):
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_child, args=(work, part, theirs), daemon=True)
        child.start()
        theirs.close()
        children.append((child, ours))
    last: Any = None
    trouble: BaseException | None = None
    try:
        last = work(parts - 1)
    except BaseException as error:  # an interrupt, too, must not leave the children running
        trouble = error
    results = [_result(child, pipe, trouble is None) for child, pipe in children]
    if isinstance(trouble, KeyboardInterrupt):
        raise trouble
    for result in results:
        if isinstance(result, BaseException):
            raise result
    if trouble is not None:
        raise trouble
    return [*results, last]


def _child(work: Callable[[int], Any], part: int, pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends us
    try:
        result: Any = work(part)
    except Exception as error:
        result = error
    try:
        pipe.send_bytes(pickle.dumps(result))
    except Exception as error:
        pipe.send_bytes(pickle.dumps(RuntimeError(f"{type(result).__name__}: {result} ({error})")))


def _result(child: Any, pipe: Connection, wait: bool) -> Any:
    try:
        if not wait and not pipe.poll():
            child.terminate()
            return None
        return pickle.loads(pipe.recv_bytes())
    except EOFError:
        return RuntimeError("a process of the emulator ended without a result")
    finally:
        child.join()
