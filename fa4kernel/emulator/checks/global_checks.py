"""Accesses to global memory, as the machine tells of them; see :mod:`global_history`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.checks.flags import is_strong
from fa4kernel.emulator.checks.global_arena import PIECE, Arena, Ints
from fa4kernel.emulator.checks.global_history import Access, GlobalHistory, Same
from fa4kernel.emulator.ptx.module import Instruction
from fa4kernel.emulator.tensor.boxes import parts_of
from fa4kernel.emulator.tensor.tensor_map import TensorMap

if TYPE_CHECKING:
    from fa4kernel.emulator.checks.reports import Reports
    from fa4kernel.emulator.machine.bulk import Load, Store
    from fa4kernel.emulator.machine.copies import Copy
    from fa4kernel.emulator.machine.machine import Machine

#: Flags that one instruction may name; of more it is taken to add up data.
MOST_FLAGS = 64


def history_of(machine: Machine) -> GlobalHistory:
    """A history of the memory of a launch."""
    memory, launch = machine.memory, machine.launch
    views = [(region.memory, region.name) for region in memory.regions]
    numbers = {id(a.array): i for i, a in enumerate(launch.arguments) if isinstance(a, TensorMap)}
    for each in memory.maps:
        number = numbers.get(id(each.array))
        name = "a tensor map's array" if number is None else launch.labels.tensor(number)
        views.append((each.memory, name))
    kind = "CTA" if launch.cluster_size == 1 else "cluster"
    return GlobalHistory(views, lambda number: f"{kind} {number}")


class GlobalChecks:
    """What threads and copies do with global memory.

    Args:
        machine: the wave.
        reports: where hazards go.
        history: of the launch so far.
    """

    def __init__(self, machine: Machine, reports: Reports, history: GlobalHistory) -> None:
        self.machine = machine
        self.reports = reports
        self.history = history
        self._arenas: dict[int, tuple[Arena, int]] = {}
        self._silent: NDArray[np.bool_] = np.zeros(0, np.bool_)

    def _arena(self, memory: NDArray[np.uint8]) -> tuple[Arena, int]:
        """Of the memory of an argument, which stays where it is."""
        found = self._arenas.get(id(memory))
        if found is None:
            held = self.history.arena(memory)
            assert held is not None, "memory that belongs to no argument"
            found = self._arenas[id(memory)] = held
        return found

    def _clusters(self, ctas: Any) -> Any:
        return self.machine.clusters[ctas % self.machine.shape.clusters]

    def access(
        self, lanes: NDArray[np.intp], addresses: Ints, size: int, write: bool,
        instruction: Instruction, agent: str = "", same: Same | None = None,
    ) -> None:  # fmt: skip
        """Each lane accesses ``size`` bytes at its address.

        Args:
            same: of stores, which lanes find and which leave there what they store.
        """
        found = self.machine.memory.region_of(addresses, size, instruction)
        if found is None:
            for i in range(len(lanes)):
                one = slice(i, i + 1)
                part = None if same is None else (same[0][one], same[1][one])
                self.access(lanes[one], addresses[one], size, write, instruction, agent, part)
            return
        region, offsets = found
        arena, start = self._arena(region.memory)
        clusters = self._clusters(lanes // 32 % self.machine.shape.ctas)
        strong = is_strong(instruction)
        if strong:
            self._flags(arena, start + offsets, clusters)
        width = -(-size // PIECE)
        at = ((start + offsets) // PIECE)[:, None] + np.arange(width)
        number = self._number(instruction, agent, strong, size)
        who = np.repeat(clusters, width)
        where = at.reshape(-1)
        if write:
            wide = same and (np.repeat(same[0], width), np.repeat(same[1], width))
            self._tell(arena, self.history.write(arena, where, who, number, wide))
        else:
            self._tell(arena, self.history.read(arena, lambda: where, len(where), who, number))

    def storing(
        self, addresses: Ints, values: Sequence[NDArray[Any]], instruction: Instruction
    ) -> None:
        """Threads are about to store; those that change nothing do no harm."""
        self._silent = self._holds(addresses, values, instruction)

    def stored_by_threads(
        self, lanes: NDArray[np.intp], addresses: Ints, values: Sequence[NDArray[Any]],
        instruction: Instruction,
    ) -> None:  # fmt: skip
        """They have stored; those that find their own value do one another no harm."""
        size = values[0].dtype.itemsize * len(values)
        same = self._silent, self._holds(addresses, values, instruction)
        self.access(lanes, addresses, size, True, instruction, same=same)

    def _holds(
        self, addresses: Ints, values: Sequence[NDArray[Any]], instruction: Instruction
    ) -> NDArray[np.bool_]:
        """Whether memory holds these values, bit for bit."""
        found = np.ones(len(addresses), np.bool_)
        for i, value in enumerate(values):
            size = value.dtype.itemsize
            there = self.machine.memory.load(addresses + i * size, value.dtype, instruction)
            raw = [np.ascontiguousarray(x).view(np.uint8).reshape(-1, size) for x in (there, value)]
            found &= (raw[0] == raw[1]).all(axis=1)
        return found

    def _flags(self, arena: Arena, offsets: Ints, clusters: Any) -> None:
        """Strong accesses order clusters, in some order."""
        pairs = np.unique(np.stack([clusters, arena.base + offsets]), axis=1)
        if pairs.shape[1] > MOST_FLAGS:
            pairs = np.unique(np.stack([clusters, np.zeros_like(clusters)]), axis=1)
        for cluster, flag in pairs.T.tolist():
            self.history.meet(cluster, flag)

    def copied(self, copy: Copy) -> None:
        """``cp.async`` reads its sources."""
        some = copy.taken > 0
        if some.any():
            size = int(copy.taken[some].min())
            self.access(copy.lanes[some], copy.sources[some], size, False, copy.instruction,
                        "cp.async copy")  # fmt: skip

    def loaded(self, load: Load) -> None:
        """A bulk copy reads."""
        held: tuple[Arena, int] | None = None
        if load.tensor_map is not None and not load.gather:
            held = self._arena(load.tensor_map.memory)
        elif isinstance(load.source, np.ndarray) and load.origin is None:
            held = self.history.arena(load.source)
        if held is None:  # values of threads, other shared memory, rows that are gathered
            return
        arena, start = held
        where = (
            partial(pieces, load.tensor_map, load.coordinates, start)
            if load.tensor_map is not None
            else partial(np.arange, start // PIECE, (start + load.bytes) // PIECE)
        )
        number = self._number(load.instruction, "TMA copy", False, 16)
        cluster = int(self._clusters(load.cta))
        count = load.bytes // PIECE
        self._tell(arena, self.history.read(arena, where, count, cluster, number))

    def stored(self, store: Store) -> None:
        """A bulk copy writes, or adds."""
        if store.tensor_map is not None and not store.scatter:
            arena, start = self._arena(store.tensor_map.memory)
            where = pieces(store.tensor_map, store.coordinates, start)
        elif store.block is not None and (held := self.history.arena(store.block)):
            arena, start = held
            where = np.arange(start // PIECE, (start + len(store.block)) // PIECE)
        else:
            return
        number = self._number(store.instruction, "bulk store", store.reduce is not None, 16)
        cluster = int(self._clusters(store.cta))
        self._tell(arena, self.history.write(arena, where, cluster, number))

    def _number(self, instruction: Instruction, agent: str, strong: bool, size: int) -> int:
        access = Access(instruction, self.machine.steps, agent, strong, size)
        return self.history.add(access)

    def _tell(self, arena: Arena, meetings: list[Any]) -> None:
        for meeting in meetings:
            self.reports.add("global-race", *self.history.report(arena, meeting))


def pieces(tensor_map: TensorMap, coordinates: tuple[int, ...], start: int) -> Ints:
    """Pieces of memory that a box covers whole, those outside the tensor left out.

    >>> x = np.zeros((4, 8), np.float32)
    >>> pieces(TensorMap(x, (8, 4), box=(4, 2)), (4, 3), 0).tolist()
    [28, 29, 30, 31]
    """
    found = []
    steps = tensor_map.element_strides
    for part in parts_of(tensor_map, np.array([coordinates], np.int64)):
        if not len(part.starts) or 0 in part.counts:
            continue
        rows = np.zeros(1, np.int64)
        for stride, step, count in zip(tensor_map.strides, steps[1:], part.counts[1:], strict=True):
            rows = (rows[:, None] + np.arange(count) * stride * step).reshape(-1)
        first = start + int(part.starts[0]) + rows
        run = part.counts[0] * tensor_map.element_size // PIECE
        found.append(((first + PIECE - 1) // PIECE)[:, None] + np.arange(run))
    return np.concatenate([f.reshape(-1) for f in found]) if found else np.zeros(0, np.int64)
