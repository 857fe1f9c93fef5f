"""Bulk copies: TMA tensors and plain blocks, between global and shared memory (PTX ISA 9.7.9.25).

A load writes shared memory and completes transaction bytes on an mbarrier; a store belongs to a
bulk group of the thread that issued it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.errors import EmulationError
from fa4kernel.emulator.ptx.module import Instruction
from fa4kernel.emulator.tensor import swizzle, tma
from fa4kernel.emulator.tensor.tensor_map import TensorMap

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine
    from fa4kernel.emulator.machine.schedule import Schedule


@dataclass(slots=True)
class Load:
    """A write into the shared memory of one CTA that signals a barrier.

    Attributes:
        tensor_map: what it reads, or None for a plain block from ``source``.
        coordinates: where in the tensor.
        cta, offset: where it writes.
        barrier: index of the barrier.
        issuer: lane that issued it.
        source: the block's bytes, looked at when the copy completes; or a function that then
            gives them.
        size: bytes, where ``source`` is a function.
        origin: CTA and offset, where the source is shared memory.
        reduce: combines what is there with what comes.
        gather: four rows of the tensor (``.tile::gather4``).
    """

    tensor_map: TensorMap | None
    coordinates: tuple[int, ...]
    cta: int
    offset: int
    barrier: int
    issuer: int
    instruction: Instruction
    source: NDArray[np.uint8] | Callable[[], NDArray[np.uint8]] | None = None
    note: Any = None
    size: int = 0
    origin: tuple[int, int] | None = None
    reduce: Callable[[NDArray[np.uint8], NDArray[np.uint8]], NDArray[np.uint8]] | None = None
    gather: bool = False

    @property
    def bytes(self) -> int:
        """Bytes it writes."""
        if self.tensor_map is not None:
            return self.tensor_map.box_bytes * (4 if self.gather else 1)
        return len(self.source) if isinstance(self.source, np.ndarray) else self.size

    @property
    def extent(self) -> int:
        """Bytes of shared memory over which it spreads them."""
        if self.tensor_map is not None:
            return self.tensor_map.extent * (4 if self.gather else 1)
        return self.bytes


@dataclass(slots=True)
class Store:
    """A copy out of shared memory; ``reduce`` combines it with what is there.

    ``scatter``: into four rows of the tensor (``.tile::scatter4``). ``block``: the memory that a
    plain block goes to, all of it.
    """

    tensor_map: TensorMap | None
    coordinates: tuple[int, ...]
    cta: int
    offset: int
    issuer: int
    instruction: Instruction
    reduce: Any = None
    target: Callable[[NDArray[np.uint8]], None] | None = None
    size: int = 0
    data: NDArray[np.uint8] | None = None
    note: Any = None
    scatter: bool = False
    block: NDArray[np.uint8] | None = None

    @property
    def bytes(self) -> int:
        """Bytes it reads."""
        if self.tensor_map is not None:
            return self.tensor_map.box_bytes * (4 if self.scatter else 1)
        return self.size

    @property
    def extent(self) -> int:
        """Bytes of shared memory over which they are spread."""
        if self.tensor_map is not None:
            return self.tensor_map.extent * (4 if self.scatter else 1)
        return self.size


class BulkCopies:
    """The copies under way.

    Attributes:
        loads: those into shared memory, oldest first.
        stores: those out of it that have not read their source yet, and those not yet written.
        open: stores of each lane that belong to no group yet.
        groups: committed groups of each lane that are not complete, oldest first.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.loads: list[Load] = []
        self.stores: list[Store] = []
        self.open: dict[int, list[Store]] = defaultdict(list)
        self.groups: dict[int, list[list[Store]]] = defaultdict(list)

    @property
    def busy(self) -> bool:
        """Whether a copy is under way."""
        return bool(self.loads or self.stores)

    def advance_loads(self, schedule: Schedule) -> bool:
        """Complete some copies into shared memory; True if there were any."""
        if not self.loads:
            return False
        self.loads = self._some(self.loads, self.complete_loads, schedule)
        return True

    def advance_stores(self, schedule: Schedule) -> bool:
        """Complete some copies out of shared memory; True if there were any."""
        if not self.stores:
            return False
        self.stores = self._some(self.stores, self.complete_stores, schedule)
        return True

    def _some(
        self, copies: list[Any], act: Callable[[list[Any]], list[Any]], schedule: Schedule
    ) -> list[Any]:
        if not copies:
            return []
        chosen = schedule.completes(len(copies))
        if chosen is None:
            return act(copies)
        now = [c for c, yes in zip(copies, chosen, strict=True) if yes]
        return act(now) + [c for c, yes in zip(copies, chosen, strict=True) if not yes]

    def complete_loads(self, loads: list[Load]) -> list[Load]:
        """Write what these read, and signal their barriers; returns those left (none)."""
        machine = self.machine
        by_map: dict[tuple[int, int, bool], list[Load]] = defaultdict(list)
        for load in loads:
            by_map[id(load.tensor_map), load.offset, load.gather].append(load)
        for (_, offset, gather), group in by_map.items():
            tensor_map = group[0].tensor_map
            if tensor_map is None:
                for load in group:
                    write_block(machine.shared[load.cta, offset : offset + load.bytes], load)
                continue
            places = np.array([load.coordinates for load in group], np.int64)
            boxes = read_boxes(tensor_map, places, group[0].instruction, gather)
            write_shared(machine.shared, [x.cta for x in group], offset, boxes, group[0])
        index = np.array([load.barrier for load in loads])
        if machine.monitor is not None:
            machine.monitor.loads_done(loads)
        sizes = np.array([load.bytes for load in loads])
        lanes = np.array([load.issuer for load in loads])
        machine.barriers.apply(index, loads[0].instruction, 0, 0, sizes, lanes)
        return []

    def complete_stores(self, stores: list[Store]) -> list[Store]:
        """Read shared memory first, write global memory at another time."""
        left = []
        for store in stores:
            if store.data is None:
                store.data = read_shared(self.machine.shared, store)
                left.append(store)
                if self.machine.monitor is not None:
                    self.machine.monitor.store_read(store)
                continue
            write(store)
            store.data = DONE
        for lane in {s.issuer for s in stores}:
            groups = self.groups.get(lane)
            while groups and all(s.data is DONE for s in groups[0]):
                groups.pop(0)
        return left

    def commit(self, lane: int) -> None:
        """Close the group of a lane's stores since the last one."""
        groups = self.groups[lane]
        while groups and all(s.data is DONE for s in groups[0]):
            groups.pop(0)
        groups.append(self.open.pop(lane, []))

    def pending(self, lane: int, reading: bool) -> int:
        """The newest groups of a lane, from the oldest incomplete one (to be read) on."""
        groups = self.groups.get(lane, [])
        for i, group in enumerate(groups):
            if any(s.data is None if reading else s.data is not DONE for s in group):
                return len(groups) - i
        return 0


#: Marks a store that has written global memory.
DONE: NDArray[np.uint8] = np.zeros(0, np.uint8)


def read_boxes(
    tensor_map: TensorMap, places: NDArray[np.int64], instruction: Instruction, gather: bool
) -> NDArray[np.uint8]:
    """Boxes of a tensor (or four rows each), dense, shape (n, bytes)."""
    try:
        return (tma.gather_rows if gather else tma.load_box)(tensor_map, places)
    except (IndexError, ValueError) as error:
        raise EmulationError(str(error), instruction, "out-of-bounds") from error


def write_block(target: NDArray[np.uint8], load: Load) -> None:
    """Put a plain block into shared memory."""
    source = load.source() if callable(load.source) else load.source
    if source is None or len(target) != len(source):
        raise EmulationError(
            f"a copy of {load.bytes} bytes to shared offset {load.offset:#x} reaches past the end"
            " of shared memory", load.instruction, "out-of-bounds",
        )  # fmt: skip
    target[:] = source if load.reduce is None else load.reduce(target, source)


def write_shared(
    shared: NDArray[np.uint8],
    ctas: list[int],
    offset: int,
    boxes: NDArray[np.uint8],
    load: Load,
) -> None:
    """Put dense boxes into the shared memory of CTAs, swizzled."""
    assert load.tensor_map is not None
    try:
        mode, row = load.tensor_map.swizzle, load.tensor_map.row_bytes
        swizzle.write(shared, np.array(ctas), offset, boxes, mode, row)
    except (ValueError, IndexError) as error:
        raise EmulationError(str(error), load.instruction, "out-of-bounds") from error


def read_shared(shared: NDArray[np.uint8], store: Store) -> NDArray[np.uint8]:
    """What a store reads, dense."""
    mode, row = "none", 0
    if store.tensor_map is not None:
        mode, row = store.tensor_map.swizzle, store.tensor_map.row_bytes
    try:
        box = swizzle.read(shared, np.array([store.cta]), store.offset, store.bytes, mode, row)
        block: NDArray[np.uint8] = box[0]
        return block
    except (ValueError, IndexError) as error:
        raise EmulationError(str(error), store.instruction, "out-of-bounds") from error


def write(store: Store) -> None:
    """Write a store's data to global memory."""
    assert store.data is not None
    if store.tensor_map is None:
        assert store.target is not None
        store.target(store.data)
        return
    place, data = np.array([store.coordinates], np.int64), store.data[None]
    try:
        if store.scatter:
            place, data = tma.row_coordinates(store.tensor_map, place), data.reshape(4, -1)
        tma.store_box(store.tensor_map, place, data, store.reduce)
    except (IndexError, ValueError) as error:
        raise EmulationError(str(error), store.instruction, "out-of-bounds") from error
