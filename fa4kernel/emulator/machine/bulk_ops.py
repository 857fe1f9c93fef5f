"""Instructions that start or await copies: ``cp.async.bulk`` and its kin, ``cp.async``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.errors import EmulationError
from fa4kernel.emulator.machine.barrier_address import one_barrier
from fa4kernel.emulator.machine.bulk import Load, Store
from fa4kernel.emulator.machine.convoy import Convoy, Mask
from fa4kernel.emulator.machine.layout import PARAM_WINDOW, RANK_SHIFT, SHARED_START
from fa4kernel.emulator.machine.program import (
    Condition,
    Context,
    Handler,
    Outcome,
    Wait,
    decodes,
    unsupported,
)
from fa4kernel.emulator.ptx.module import Instruction, TensorAddress
from fa4kernel.emulator.tensor.tensor_map import TensorMap

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

OFFSET = (1 << RANK_SHIFT) - 1
IGNORED = {"L2::cache_hint", "tile", "async", "bulk", "tensor", "weak"}
DIMENSIONS = {"1d", "2d", "3d", "4d", "5d"}
REDUCTIONS = {"add", "min", "max", "inc", "dec", "and", "or", "xor"}


@decodes("cp")
def decode_cp(instruction: Instruction, context: Context) -> Handler:
    """``cp.async`` and bulk copies of blocks and tensors, with reduction, prefetch and groups."""
    qualifiers = instruction.qualifiers
    if "bulk" not in qualifiers:
        from fa4kernel.emulator.machine.cp_async import decode_cp_async

        return decode_cp_async(instruction, context)
    if "commit_group" in qualifiers:
        return _commit
    if "wait_group" in qualifiers:
        return _wait_group(instruction, context)
    if "prefetch" in qualifiers:
        return _prefetch(instruction)
    if "tensor" in qualifiers:
        if _spaces(instruction)[0] == "global":
            return _tensor_store(instruction, context)
        return _tensor_load(instruction, context)
    from fa4kernel.emulator.machine.block_copies import decode_block_copy

    return decode_block_copy(instruction, context)


def _prefetch(instruction: Instruction) -> Handler:
    known = IGNORED | DIMENSIONS | {"prefetch", "L2", "global", "tile::gather4"}
    for qualifier in instruction.qualifiers:
        if qualifier not in known:
            raise unsupported(instruction, f"unknown qualifier .{qualifier}")
    return lambda machine, convoy: None


def _spaces(instruction: Instruction) -> list[str]:
    return [q for q in instruction.qualifiers if q.startswith(("global", "shared"))]


def tensor_map(machine: Machine, address: int, instruction: Instruction) -> TensorMap:
    """The tensor map at a generic address."""
    if address >> 32 == PARAM_WINDOW or address >> 32 == 0:
        return machine.memory.map_at(address & 0xFFFFFFFF, instruction)
    raise EmulationError(
        f"a tensor map at address {address:#x}, which is no parameter: pass it by value",
        instruction, "tensor-map",
    )  # fmt: skip


def _tensor_load(instruction: Instruction, context: Context) -> Handler:
    known = IGNORED | DIMENSIONS | {"mbarrier::complete_tx::bytes", "multicast::cluster"}
    known |= {"shared::cta", "shared::cluster", "global", "cta_group::1", "cta_group::2"}
    known |= {"tile::gather4"}
    for qualifier in instruction.qualifiers:
        if qualifier not in known:
            raise unsupported(instruction, f"unknown qualifier .{qualifier}")
    to, source, barrier, *more = instruction.operands
    if not isinstance(source, TensorAddress) or source.extra:
        raise unsupported(instruction)
    target = context.value(to)
    map_address = context.value(source.base, 2)
    coordinates = [context.value(c) for c in source.coordinates]
    signal = context.value(barrier)
    multicast = "multicast::cluster" in instruction.qualifiers
    to_ranks = context.value(more[0]) if multicast else None
    pair = "cta_group::2" in instruction.qualifiers
    gather = "tile::gather4" in instruction.qualifiers
    check_coordinates(instruction, source, gather)

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        registers = machine.registers
        loads: list[Load] = []
        for lane in convoy.lanes().tolist():
            found = tensor_map(machine, map_address.one(registers, lane), instruction)
            place = tuple([signed(c.one(registers, lane)) for c in coordinates])
            cta = lane // 32 % machine.shape.ctas
            to_address = target.one(registers, lane) & 0xFFFFFFFF
            signal_address = signal.one(registers, lane) & 0xFFFFFFFF
            offset = to_address & OFFSET
            if offset % 128:
                raise EmulationError(
                    f"TMA writes shared address {offset:#x}, which is no multiple of 128",
                    instruction, "misaligned",
                )  # fmt: skip
            ranks = [to_address >> RANK_SHIFT]
            if to_ranks is not None:
                ranks = bits(to_ranks.one(registers, lane) & 0xFFFF)
            for rank in ranks:
                signalled = signal_address >> RANK_SHIFT
                if to_ranks is not None and not pair:
                    signalled = rank
                elif pair:  # the CTA of this destination's pair that has the barrier's parity
                    signalled = (rank & ~1) | (signalled & 1)
                address = signalled << RANK_SHIFT | signal_address & OFFSET
                index = one_barrier(machine, lane, address, instruction, False)
                to_cta = int(machine.cta_at(cta, rank))
                load = Load(found, place, to_cta, offset, index, lane, instruction, gather=gather)
                check_room(machine, load, rank)
                loads.append(load)
        if machine.monitor is not None:
            machine.monitor.loads_issued(convoy, loads)
        machine.agents.bulk.loads.extend(loads)
        return None

    return handler


def check_room(machine: Machine, load: Load, rank: int) -> None:
    """Raise if a copy reaches past the shared memory of a CTA, or no CTA has that rank."""
    if load.offset + load.extent > machine.shared.shape[1] or rank >= machine.shape.size:
        raise EmulationError(
            f"a copy of {load.bytes:,} bytes to shared offset {load.offset:#x} of CTA rank {rank}: "
            f"a CTA has {room(machine)}, its cluster {machine.shape.size} CTAs",
            load.instruction, "out-of-bounds",
        )  # fmt: skip


def room(machine: Machine) -> str:
    """How much shared memory a CTA has, in words."""
    last = machine.shared.shape[1]
    return (
        f"offsets {SHARED_START:#x} to {last - 1:#x}: {last - SHARED_START:,} bytes, by "
        "shared_bytes of the launch and the PTX"
    )


def check_coordinates(instruction: Instruction, operand: TensorAddress, rows: bool) -> None:
    """Refuse a number of coordinates that does not fit ``.1d`` to ``.5d`` (or four rows)."""
    dimensions = [int(q[0]) for q in instruction.qualifiers if q in DIMENSIONS]
    wanted = 5 if rows else dimensions[0] if dimensions else 0
    if len(operand.coordinates) != wanted or (rows and dimensions != [2]):
        raise unsupported(instruction, f"{len(operand.coordinates)} coordinates")


def signed(word: int) -> int:
    """A 32-bit word as a signed number."""
    word &= 0xFFFFFFFF
    return word - (1 << 32) if word >> 31 else word


def bits(mask: int) -> list[int]:
    """Positions of the ones of a mask."""
    return [i for i in range(mask.bit_length()) if mask >> i & 1]


def _tensor_store(instruction: Instruction, context: Context) -> Handler:
    known = IGNORED | DIMENSIONS | REDUCTIONS | {"global", "shared::cta", "bulk_group", "reduce"}
    known |= {"tile::scatter4"}
    for qualifier in instruction.qualifiers:
        if qualifier not in known:
            raise unsupported(instruction, f"unknown qualifier .{qualifier}")
    to, source = instruction.operands[:2]
    if not isinstance(to, TensorAddress) or to.extra:
        raise unsupported(instruction)
    map_address = context.value(to.base, 2)
    coordinates = [context.value(c) for c in to.coordinates]
    origin = context.value(source)
    reduce: Any = next((q for q in instruction.qualifiers if q in REDUCTIONS), None)
    scatter = "tile::scatter4" in instruction.qualifiers
    check_coordinates(instruction, to, scatter)

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        lanes = store_lanes(convoy)
        registers = machine.registers
        origins = origin(registers, lanes) & OFFSET
        maps = map_address(registers, lanes)
        places = np.stack([c(registers, lanes) for c in coordinates], axis=1)
        places = places.astype(np.int64).astype(np.int32)
        for i, lane in enumerate(lanes):
            found = tensor_map(machine, int(maps[i]), instruction)
            cta = int(lane) // 32 % machine.shape.ctas
            store = Store(
                found, tuple(places[i].tolist()), cta, int(origins[i]), int(lane), instruction,
                reduce, scatter=scatter,
            )  # fmt: skip
            start_store(machine, convoy, store)
        return None

    return handler


def store_lanes(convoy: Convoy) -> NDArray[np.intp]:
    """Lanes that issue a store: one a warp, where all would issue the same.

    CuTe DSL emits no ``elect`` around tensor stores, and hardware issues them once per warp.
    """
    return convoy.warps()[1]


def start_store(machine: Machine, convoy: Convoy, store: Store) -> None:
    """Put a store under way, as part of its thread's open group."""
    if store.offset + store.extent > machine.shared.shape[1]:
        raise EmulationError(
            f"a copy of {store.bytes:,} bytes from shared offset {store.offset:#x}: a CTA has"
            f" {room(machine)}", store.instruction, "out-of-bounds",
        )  # fmt: skip
    if machine.monitor is not None:
        machine.monitor.store_issued(convoy, store)
    machine.agents.bulk.stores.append(store)
    machine.agents.bulk.open[store.issuer].append(store)


def _commit(machine: Machine, convoy: Convoy) -> Outcome:
    if machine.monitor is not None:
        machine.monitor.groups_committed(convoy)
    bulk, mask = machine.agents.bulk, convoy.full_mask()
    for lane in {*bulk.open, *bulk.groups}:  # for others an empty group changes nothing
        if convoy.lo <= lane < convoy.hi and mask[lane - convoy.lo]:
            bulk.commit(lane)
    return None


class GroupsDone(Condition):
    """Threads wait until at most ``most`` of their newest bulk groups are pending."""

    def __init__(self, most: int, reading: bool) -> None:
        self.most = most
        self.reading = reading

    def ready(self, machine: Machine, convoy: Convoy) -> Mask:
        """Those with few enough pending groups."""
        bulk = machine.agents.bulk
        late = [
            lane
            for lane in bulk.groups
            if convoy.lo <= lane < convoy.hi and bulk.pending(lane, self.reading) > self.most
        ]
        found = np.ones(convoy.hi - convoy.lo, np.bool_)
        for lane in late:
            found[lane - convoy.lo] = False
        if convoy.mask is not None:
            found |= ~convoy.mask
        return np.repeat(found.reshape(-1, 32).all(axis=1), 32)  # lanes that came together stay so

    def describe(self, machine: Machine, convoy: Convoy) -> list[str]:
        """How many groups are pending."""
        bulk = machine.agents.bulk
        return [
            f"bulk groups: {bulk.pending(int(lane), self.reading)} pending, at most {self.most} "
            "wanted"
            for lane in convoy.warps()[1]
        ]


def _wait_group(instruction: Instruction, context: Context) -> Handler:
    most = context.value(instruction.operands[0]).constant
    if most is None:
        raise unsupported(instruction)
    reading = "read" in instruction.qualifiers
    condition = GroupsDone(most, reading)

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        waiting = ~condition.ready(machine, convoy) & convoy.full_mask()
        if waiting.any():
            return Wait(waiting, condition, again=True, others_again=True)
        if machine.monitor is not None:
            machine.monitor.groups_waited(convoy, most, reading)
        return None

    return handler
