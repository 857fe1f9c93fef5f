"""Loads and stores of single threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.errors import EmulationError
from fa4kernel.emulator.machine.binding import store
from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.machine.layout import RANK_SHIFT
from fa4kernel.emulator.machine.memory import aligned, check_aligned
from fa4kernel.emulator.machine.operands import items_of
from fa4kernel.emulator.machine.places import (
    HINTS,
    MEMORY,
    SPACES,
    Place,
    data_type,
    local_places,
    register_type,
    shared_places,
)
from fa4kernel.emulator.machine.program import Context, Handler, Outcome, decodes, unsupported
from fa4kernel.emulator.machine.registers import DTYPES, Registers
from fa4kernel.emulator.ptx.module import TYPE_BITS, Instruction, Operand, Sink

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine


@decodes("ld", "ldu")
def decode_ld(instruction: Instruction, context: Context) -> Handler:
    """``ld`` from any space, scalars and vectors."""
    known = {*SPACES, *HINTS, *MEMORY, "v2", "v4", "v8"}
    for qualifier in instruction.qualifiers:
        if qualifier not in known:
            raise unsupported(instruction, f"unknown qualifier .{qualifier}")
    place = Place(instruction, context, 1)
    kind = data_type(instruction)
    targets = items_of(instruction.operands[0])
    size = np.dtype(MEMORY[kind]).itemsize
    total = size * len(targets)

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        lanes = convoy.lanes()
        space, addresses = place.split(machine, lanes)
        values = load(machine, space, lanes, addresses, MEMORY[kind], len(targets), instruction)
        for i, target in enumerate(targets):
            if isinstance(target, Sink):
                continue
            into = register_type(kind, target)
            column = values[:, i] if kind == "b128" else values[:, i].astype(DTYPES[into])
            spread(machine, convoy, target, into, column)
        monitor = machine.monitor
        if monitor is not None and space == "global":
            monitor.global_access(lanes, addresses, total, False, instruction)
        if monitor is not None and space.startswith("shared"):
            ctas = lanes // 32 % machine.shape.ctas
            where = machine.cta_at(ctas, addresses >> RANK_SHIFT)
            monitor.shared_access(
                convoy, lanes, where, addresses & 0xFFFFFF, total, False, instruction
            )
        return None

    return handler


def spread(machine: Machine, convoy: Convoy, target: Any, kind: str, values: NDArray[Any]) -> None:
    """Write one value for each lane of the convoy to a register."""
    put = store(machine.registers, target, kind, convoy.lo, convoy.hi)
    if kind == "b128":
        wide = np.zeros((2, convoy.hi - convoy.lo), np.uint64)
        mask = convoy.full_mask()
        wide[:, mask] = np.ascontiguousarray(values).view(np.uint64).reshape(-1, 2).T
        put(wide, mask)
        return
    if convoy.mask is None:
        put(values, True)
        return
    wide = np.zeros(convoy.hi - convoy.lo, DTYPES[kind])
    wide[convoy.mask] = values
    put(wide, convoy.mask)


def load(
    machine: Machine,
    space: str,
    lanes: NDArray[np.intp],
    addresses: NDArray[np.int64],
    dtype: Any,
    count: int,
    instruction: Instruction,
) -> NDArray[Any]:
    """``count`` values from each lane's address on, shape (lanes, count)."""
    size = np.dtype(dtype).itemsize
    total = size * count
    if space == "param":
        block = machine.memory.parameters
        at = addresses[:, None] + np.arange(total)
        if (at < 0).any() or (at >= len(block)).any():
            raise EmulationError(
                f"parameter bytes {int(at.min())} to {int(at.max())} of {len(block)}",
                instruction, "out-of-bounds",
            )  # fmt: skip
        return np.ascontiguousarray(block[at]).view(dtype)
    if space == "global":
        columns = [
            machine.memory.load(addresses + i * size, dtype, instruction) for i in range(count)
        ]
        check_aligned(addresses, total, instruction)
        return np.stack(columns, axis=1)
    if space == "local":
        flat = aligned(machine.local.reshape(-1), dtype)
        start = local_places(machine, lanes, addresses, total, instruction) // size
    else:
        ctas, offsets = shared_places(
            machine, lanes, addresses, total, instruction, space != "shared::cluster"
        )
        flat = aligned(machine.shared.reshape(-1), dtype)
        start = ctas * (machine.shared.shape[1] // size) + offsets // size
    values: NDArray[Any] = flat[start[:, None] + np.arange(count)]
    return values


def bits_of(context: Context, source: Operand, kind: str) -> Callable[..., NDArray[Any]]:
    """A function ``(registers, lanes)`` that gives a source's values, as bits in any integer type.

    128 bits come as complex128, which only stands for 16 bytes.
    """
    if kind != "b128":
        return context.value(source, 2 if TYPE_BITS[kind] == 64 else 1)
    quarters = [context.quarter(source, i) for i in range(4)]

    def whole(registers: Registers, lanes: NDArray[np.intp]) -> NDArray[Any]:
        words = np.stack([q.words(registers, lanes) for q in quarters], axis=1)
        return np.ascontiguousarray(words).view(np.complex128)[:, 0]

    return whole


@decodes("st")
def decode_st(instruction: Instruction, context: Context) -> Handler:
    """``st`` to global, shared and local memory, scalars and vectors."""
    if "async" in instruction.qualifiers:
        from fa4kernel.emulator.machine.remote_stores import decode_st_async

        return decode_st_async(instruction, context)
    if "bulk" in instruction.qualifiers:
        from fa4kernel.emulator.machine.remote_stores import decode_st_bulk

        return decode_st_bulk(instruction, context)
    known = {*SPACES, *HINTS, *MEMORY, "v2", "v4", "v8"}
    for qualifier in instruction.qualifiers:
        if qualifier not in known:
            raise unsupported(instruction, f"unknown qualifier .{qualifier}")
    place = Place(instruction, context, 0)
    kind = data_type(instruction)
    sources = items_of(instruction.operands[1])
    values = [bits_of(context, source, kind) for source in sources]
    size = np.dtype(MEMORY[kind]).itemsize
    raw = np.dtype("c16" if size == 16 else f"u{size}")
    total = size * len(sources)

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        lanes = convoy.lanes()
        space, addresses = place.split(machine, lanes)
        columns = [v(machine.registers, lanes).astype(raw, copy=False) for v in values]
        if space == "global":
            check_aligned(addresses, total, instruction)
            monitor = machine.monitor
            if monitor is not None:
                monitor.global_store(lanes, addresses, columns, instruction)
            for i, column in enumerate(columns):
                machine.memory.store(addresses + i * size, column, instruction)
            if monitor is not None:
                monitor.global_stored(lanes, addresses, columns, instruction)
            return None
        if space == "param":
            raise EmulationError("parameters are read-only", instruction, "read-only")
        if space == "local":
            flat = aligned(machine.local.reshape(-1), raw)
            start = local_places(machine, lanes, addresses, total, instruction) // size
            for i, column in enumerate(columns):
                flat[start + i] = column
            return None
        ctas, offsets = shared_places(
            machine, lanes, addresses, total, instruction, space != "shared::cluster"
        )
        flat = aligned(machine.shared.reshape(-1), raw)
        start = ctas * (machine.shared.shape[1] // size) + offsets // size
        for i, column in enumerate(columns):
            flat[start + i] = column
        if machine.monitor is not None:
            machine.monitor.shared_access(convoy, lanes, ctas, offsets, total, True, instruction)
        return None

    return handler


__all__ = ["Place", "load", "shared_places", "spread"]
