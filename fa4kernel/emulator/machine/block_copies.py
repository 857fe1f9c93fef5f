"""Bulk copies of plain blocks, and bulk reductions (PTX ISA 9.7.9.25.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.errors import EmulationError
from fa4kernel.emulator.machine.atomics import flushed
from fa4kernel.emulator.machine.barrier_address import barrier_index
from fa4kernel.emulator.machine.bulk import Load, Store
from fa4kernel.emulator.machine.bulk_ops import REDUCTIONS, bits, check_room, start_store
from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.machine.layout import RANK_SHIFT
from fa4kernel.emulator.machine.memory import Region
from fa4kernel.emulator.machine.program import Context, Handler, Outcome, allow, unsupported
from fa4kernel.emulator.ptx.module import Instruction, Operand
from fa4kernel.emulator.tensor.reductions import reduced

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

Bytes = NDArray[np.uint8]
#: Combines what is in memory with what comes.
Combine = Callable[[Bytes, Bytes], Bytes]

OFFSET = (1 << RANK_SHIFT) - 1
SIGNAL = "mbarrier::complete_tx::bytes"
SHARED = ("shared::cluster", "shared::cta")

_INTEGERS = ("u32", "s32", "u64", "s64")
_BITS = dict.fromkeys(["and", "or", "xor"], ("b32", "b64"))
_COUNTS = dict.fromkeys(["inc", "dec"], ("u32",))
#: Element types of each reduction into global and into shared memory (PTX ISA 9.7.9.25.4.2).
TO_GLOBAL: dict[str, tuple[str, ...]] = {
    "add": ("u32", "s32", "u64", "f32", "f64", "f16", "bf16"),
    **dict.fromkeys(["min", "max"], (*_INTEGERS, "f16", "bf16")),
    **_BITS,
    **_COUNTS,
}
TO_SHARED: dict[str, tuple[str, ...]] = {
    "add": ("u32", "s32", "u64"),
    **dict.fromkeys(["min", "max"], ("u32", "s32")),
    **dict.fromkeys(["and", "or", "xor"], ("b32",)),
    **_COUNTS,
}
_VIEWS = {"u32": "u4", "s32": "i4", "u64": "u8", "s64": "i8", "f32": "f4", "f64": "f8",
          "f16": "f2", "bf16": "u2"}  # fmt: skip


def decode_block_copy(instruction: Instruction, context: Context) -> Handler:
    """A bulk copy of a plain block, or a reduction, in any of its directions."""
    qualifiers = instruction.qualifiers
    spaces = [q for q in qualifiers if q in ("global", *SHARED)]
    combine = None
    if "reduce" in qualifiers:
        combine = reduction(instruction, TO_GLOBAL if spaces[0] == "global" else TO_SHARED)
        kinds = ("reduce", *REDUCTIONS, instruction.type, "noftz")
    else:
        kinds = ()
    allow(instruction, "async", "bulk", "weak", *spaces, *kinds, SIGNAL, "bulk_group",
          "multicast::cluster", "L2::cache_hint", "cp_mask")  # fmt: skip
    signals, groups = SIGNAL in qualifiers, "bulk_group" in qualifiers
    if signals == groups:
        raise unsupported(instruction, "one completion mechanism is wanted")
    if spaces in (["global", "shared::cta"], ["global", "shared"]) and groups:
        return _store(instruction, context, combine)
    if len(spaces) == 2 and spaces[0] in SHARED and spaces[1] == "global" and signals:
        if combine is not None:
            raise unsupported(instruction)
        return _load(instruction, context)
    if spaces == ["shared::cluster", "shared::cta"] and signals:
        return _move(instruction, context, combine)
    raise unsupported(instruction, "this direction")


def reduction(instruction: Instruction, types: dict[str, tuple[str, ...]]) -> Combine:
    """What a reduction does to bytes; refuses types that it does not have."""
    names = [q for q in instruction.qualifiers if q in REDUCTIONS]
    kind = instruction.type
    if len(names) != 1 or kind not in types[names[0]]:
        raise unsupported(instruction, f"type .{kind}")
    name: Any = names[0]
    if name == "add" and kind in ("f16", "bf16") and "noftz" not in instruction.qualifiers:
        raise unsupported(instruction, ".noftz is wanted")
    element = kind.replace("b32", "u32").replace("b64", "u64")
    view = np.dtype(_VIEWS[element])

    def combine(old: Bytes, new: Bytes) -> Bytes:
        a, b = old.view(view), np.ascontiguousarray(new).view(view)
        if kind == "f32":  # sums flush subnormals (PTX ISA 9.7.9.25.4.2)
            return flushed(reduced(flushed(a), flushed(b), "f32", name)).view(np.uint8)
        return np.ascontiguousarray(reduced(a, b, element, name)).view(np.uint8)

    return combine


def check_block(target: int, source: int, size: int, instruction: Instruction) -> None:
    """Raise if a block copy's addresses or size are no multiples of 16."""
    if size % 16 or target % 16 or source % 16:
        raise EmulationError(
            f"a bulk copy of {size} bytes from {source:#x} to {target:#x}: size and addresses must"
            " be multiples of 16", instruction, "misaligned",
        )  # fmt: skip


class Signal:
    """The barriers that a copy to each of some CTAs signals."""

    def __init__(self, instruction: Instruction, context: Context, operand: Operand) -> None:
        self.instruction = instruction
        self.address = context.value(operand)

    def __call__(self, machine: Machine, lane: int, rank: int | None = None) -> int:
        """Index of the barrier; with ``rank``, the one at that place in that CTA."""
        lanes = np.array([lane])
        address = self.address(machine.registers, lanes) & 0xFFFFFFFF
        if rank is not None:
            address = rank << RANK_SHIFT | address & OFFSET
        index = barrier_index(machine, lanes, np.asarray(address), self.instruction, False)
        machine.barriers.check(index, self.instruction)
        return int(index[0])


def start_load(machine: Machine, convoy: Convoy, load: Load) -> None:
    """Put a write into shared memory under way."""
    check_room(machine, load, int(machine.rank_of(load.cta)))
    if machine.monitor is not None:
        machine.monitor.loads_issued(convoy, [load])
    machine.agents.bulk.loads.append(load)


def cta_of(machine: Machine, lane: int, rank: int, instruction: Instruction) -> int:
    """The CTA of a rank in a lane's cluster.

    Raises:
        EmulationError: the cluster has no such rank.
    """
    if not 0 <= rank < machine.shape.size:
        raise EmulationError(
            f"CTA rank {rank} of a cluster of {machine.shape.size}", instruction, "out-of-bounds"
        )
    return int(machine.cta_at(lane // 32 % machine.shape.ctas, rank))


def _memory(
    machine: Machine, address: int, size: int, instruction: Instruction
) -> tuple[Region, Bytes]:
    """The region and the bytes at a global address."""
    found = machine.memory.region_of(np.array([address]), size, instruction)
    assert found is not None
    start = int(found[1][0])
    return found[0], found[0].memory[start : start + size]


def _load(instruction: Instruction, context: Context) -> Handler:
    to, source, size, barrier, *more = instruction.operands
    target, origin, amount = context.value(to), context.value(source, 2), context.value(size)
    signal = Signal(instruction, context, barrier)
    multicast = "multicast::cluster" in instruction.qualifiers
    if "cp_mask" in instruction.qualifiers or (multicast and not more):
        raise unsupported(instruction)
    to_ranks = context.value(more[0]) if multicast else None

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        lanes, registers = convoy.lanes(), machine.registers
        targets = target(registers, lanes) & 0xFFFFFFFF
        origins, sizes = origin(registers, lanes), amount(registers, lanes)
        masks = None if to_ranks is None else to_ranks(registers, lanes)
        for i, lane in enumerate(lanes.tolist()):
            check_block(int(targets[i]), int(origins[i]), int(sizes[i]), instruction)
            _, source = _memory(machine, int(origins[i]), int(sizes[i]), instruction)
            ranks = (
                [int(targets[i]) >> RANK_SHIFT] if masks is None else bits(int(masks[i]) & 0xFFFF)
            )
            for rank in ranks:
                load = Load(
                    None, (), cta_of(machine, lane, rank, instruction), int(targets[i]) & OFFSET,
                    signal(machine, lane, rank if multicast else None), lane, instruction, source,
                )  # fmt: skip
                start_load(machine, convoy, load)
        return None

    return handler


def _move(instruction: Instruction, context: Context, combine: Combine | None) -> Handler:
    """From a CTA's shared memory into that of another of its cluster."""
    to, source, size, barrier = instruction.operands
    target, origin, amount = context.value(to), context.value(source), context.value(size)
    signal = Signal(instruction, context, barrier)

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        lanes, registers = convoy.lanes(), machine.registers
        targets = target(registers, lanes) & 0xFFFFFFFF
        origins, sizes = origin(registers, lanes) & OFFSET, amount(registers, lanes)
        for i, lane in enumerate(lanes.tolist()):
            check_block(int(targets[i]), int(origins[i]), int(sizes[i]), instruction)
            own = lane // 32 % machine.shape.ctas
            cta = cta_of(machine, lane, int(targets[i]) >> RANK_SHIFT, instruction)
            if cta == own:
                raise EmulationError(
                    "a copy from shared::cta to shared::cluster stays in its own CTA: the target"
                    " must be another's", instruction, "own-shared-memory",
                )  # fmt: skip
            start, size = int(origins[i]), int(sizes[i])
            load = Load(
                None, (), cta, int(targets[i]) & OFFSET, signal(machine, lane), lane, instruction,
                machine.shared[own, start : start + size], origin=(own, start), reduce=combine,
            )  # fmt: skip
            start_load(machine, convoy, load)
        return None

    return handler


def _store(instruction: Instruction, context: Context, combine: Combine | None) -> Handler:
    to, source, size, *more = instruction.operands
    target, origin, amount = context.value(to, 2), context.value(source), context.value(size)
    masked = context.value(more[-1]) if "cp_mask" in instruction.qualifiers and more else None
    reduce = next((q for q in instruction.qualifiers if q in REDUCTIONS), None)

    def writer(memory: Bytes, mask: int) -> Callable[[Bytes], None]:
        chosen = np.tile([mask >> i & 1 for i in range(16)], len(memory) // 16).astype(bool)

        def act(data: Bytes) -> None:
            new = data if combine is None else combine(memory, data)
            np.copyto(memory, new, where=chosen)

        return act

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        lanes, registers = convoy.lanes(), machine.registers
        targets, origins = target(registers, lanes), origin(registers, lanes) & OFFSET
        sizes = amount(registers, lanes)
        masks = None if masked is None else masked(registers, lanes)
        for i, lane in enumerate(lanes.tolist()):
            check_block(int(targets[i]), int(origins[i]), int(sizes[i]), instruction)
            region, memory = _memory(machine, int(targets[i]), int(sizes[i]), instruction)
            if not region.memory.flags.writeable:
                raise EmulationError(f"{region.name} is read-only", instruction, "read-only")
            mask = 0xFFFF if masks is None else int(masks[i])
            store = Store(
                None, (), lane // 32 % machine.shape.ctas, int(origins[i]), lane, instruction,
                reduce, writer(memory, mask), int(sizes[i]),
                block=memory if masks is None else None,
            )  # fmt: skip
            start_store(machine, convoy, store)
        return None

    return handler
