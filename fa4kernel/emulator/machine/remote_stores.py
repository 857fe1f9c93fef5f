"""Stores that signal a barrier, and block fills: ``st.async``, ``red.async``, ``st.bulk``.

``st.async`` and ``red.async`` write into the shared memory of another CTA of the cluster, and
complete transaction bytes on an mbarrier there (PTX ISA 9.7.9.12, 9.7.13.7); their release forms
go to global memory and are plain stores and reductions here. ``st.bulk`` zeroes shared memory
(PTX ISA 9.7.9.13).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fa4kernel.emulator.errors import EmulationError
from fa4kernel.emulator.machine.atomics import decode_atom
from fa4kernel.emulator.machine.block_copies import (
    SIGNAL,
    TO_SHARED,
    Combine,
    Signal,
    reduction,
    start_load,
)
from fa4kernel.emulator.machine.bulk import Load
from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.machine.loads import bits_of, decode_st
from fa4kernel.emulator.machine.operands import items_of
from fa4kernel.emulator.machine.places import MEMORY, data_type, shared_places
from fa4kernel.emulator.machine.program import Context, Handler, Outcome, allow, unsupported
from fa4kernel.emulator.ptx.module import Instruction

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

STORED = ("b32", "b64", "u32", "u64", "s32", "s64", "f32", "f64")
SMALL = ("b8", "b16", "u8", "u16", "s8", "s16")
TO_OTHERS = "shared::cluster"


def decode_st_async(instruction: Instruction, context: Context) -> Handler:
    """``st.async``."""
    if "release" in instruction.qualifiers:
        scopes = ("gpu", "sys")
        allow(instruction, "async", "mmio", "release", *scopes, "global", *STORED, *SMALL)
        return decode_st(_plain(instruction, "async"), context)
    allow(instruction, "async", "weak", "cluster", TO_OTHERS, SIGNAL, "v2", "v4", *STORED)
    return _remote(instruction, context, None)


def decode_red_async(instruction: Instruction, context: Context) -> Handler:
    """``red.async``."""
    if "release" in instruction.qualifiers:
        allow(instruction, "async", "mmio", "release", "gpu", "sys", "cluster", "global", "add",
              "u32", "s32", "u64", "s64")  # fmt: skip
        renamed = {"s64": "u64"}  # sums of signed and unsigned numbers have the same bits
        return decode_atom(_plain(instruction, "async", renamed), context)
    names = [q for q in instruction.qualifiers if q in TO_SHARED]
    allow(instruction, "async", "relaxed", "cluster", TO_OTHERS, SIGNAL, *names, instruction.type)
    return _remote(instruction, context, reduction(instruction, TO_SHARED))


def _plain(
    instruction: Instruction, dropped: str, renamed: dict[str, str] | None = None
) -> Instruction:
    """The same instruction without a qualifier."""
    names = renamed or {}
    kept = tuple(names.get(q, q) for q in instruction.qualifiers if q != dropped)
    return replace(instruction, qualifiers=kept)


def _remote(instruction: Instruction, context: Context, combine: Combine | None) -> Handler:
    to, source, barrier = instruction.operands
    kind = data_type(instruction)
    items = items_of(source)
    if len(items) != next((int(q[1]) for q in instruction.qualifiers if q in ("v2", "v4")), 1):
        raise unsupported(instruction, f"{len(items)} values")
    target, values = context.value(to), [bits_of(context, i, kind) for i in items]
    signal = Signal(instruction, context, barrier)
    size = np.dtype(MEMORY[kind]).itemsize
    total = size * len(items)

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        lanes, registers = convoy.lanes(), machine.registers
        addresses = target(registers, lanes) & 0xFFFFFFFF
        ctas, offsets = shared_places(machine, lanes, addresses, total, instruction, False)
        data = np.stack([v(registers, lanes).astype(f"u{size}") for v in values], axis=1)
        raw = data.view(np.uint8)
        for i, lane in enumerate(lanes.tolist()):
            index = signal(machine, lane)
            owner = machine.barriers.place(index)[0]
            if owner != ctas[i] or machine.shape.size < 2:
                raise EmulationError(
                    f"an asynchronous store to CTA {ctas[i]} with its barrier in CTA {owner}: both"
                    " belong in one CTA, of a cluster of two or more", instruction, "remote-store",
                )  # fmt: skip
            load = Load(
                None, (), int(ctas[i]), int(offsets[i]), index, lane, instruction, raw[i],
                reduce=combine,
            )  # fmt: skip
            start_load(machine, convoy, load)
        return None

    return handler


def decode_st_bulk(instruction: Instruction, context: Context) -> Handler:
    """``st.bulk``: zeroes a block of shared memory."""
    allow(instruction, "bulk", "weak", "shared::cta", "shared")
    target, amount = (context.value(o) for o in instruction.operands[:2])
    if context.value(instruction.operands[2]).constant != 0:
        raise unsupported(instruction, "the value must be 0")

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        lanes, registers = convoy.lanes(), machine.registers
        addresses, sizes = target(registers, lanes) & 0xFFFFFFFF, amount(registers, lanes)
        for i, lane in enumerate(lanes.tolist()):
            size, one = int(sizes[i]), np.array([lane])
            if size % 8 or addresses[i] % 8:
                raise EmulationError(
                    f"st.bulk of {size} bytes at {int(addresses[i]):#x}: multiples of 8 are"
                    " wanted", instruction, "misaligned",
                )  # fmt: skip
            last = addresses[i : i + 1] + max(0, size - 8)
            shared_places(machine, one, last, 8, instruction, True)
            (cta,), (offset,) = shared_places(
                machine, one, addresses[i : i + 1], 8, instruction, True
            )
            machine.shared[cta, offset : offset + size] = 0
            if machine.monitor is not None:
                machine.monitor.shared_access(
                    convoy, one, np.array([cta]), np.array([offset]), size, True, instruction
                )
        return None

    return handler
