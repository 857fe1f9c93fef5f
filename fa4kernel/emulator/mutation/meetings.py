"""Mutants of named barriers, fences, waits for asynchronous work, allocation and clusters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fa4kernel.emulator.mutation.barriers import Change
from fa4kernel.emulator.mutation.mutant import Edit
from fa4kernel.emulator.mutation.sites import Sites
from fa4kernel.emulator.ptx.module import Immediate

#: Threads of a warp, the unit in which named barriers count.
WARP = 32
#: Registers in which setmaxnreg counts.
REGISTERS = 8


def meeting_mutants(sites: Sites, index: int) -> Iterator[Change]:
    """Kind, change and edit of each mutant of the instruction there."""
    instruction = sites.code[index]
    opcode, has = instruction.opcode, instruction.has
    if opcode in ("bar", "barrier"):
        if has("cluster"):
            yield "cluster barrier", "dropped", Edit.drop(index)
        elif has("warp"):
            yield "warp barrier", "dropped", Edit.drop(index)
        elif has("sync") or has("arrive"):
            yield from _named(sites, index)
    elif opcode in ("fence", "membar"):
        yield "fence", "dropped", Edit.drop(index)
    elif opcode == "tcgen05":
        yield from _tensor_memory(sites, index)
    elif opcode in ("cp", "wgmma") and has("commit_group"):
        yield "group", "not committed", Edit.drop(index)
    elif opcode in ("cp", "wgmma") and (has("wait_group") or has("wait_all")):
        yield "group wait", "dropped", Edit.drop(index)
        if has("wait_group"):
            yield "group wait", "for one group less", sites.altered(index, 0, 1)
    elif opcode == "wgmma" and has("fence"):
        yield "fence", "dropped", Edit.drop(index)
    elif opcode == "setmaxnreg":
        yield "registers", "dropped", Edit.drop(index)
        yield "registers", "8 more", sites.altered(index, 0, REGISTERS)
    elif opcode == "griddepcontrol":
        yield "grid", "dropped", Edit.drop(index)


def _named(sites: Sites, index: int) -> Iterator[Change]:
    instruction = sites.code[index]
    kind = "named barrier"
    yield kind, "dropped", Edit.drop(index)
    yield kind, "id + 1", sites.altered(index, 0, 1)
    if len(instruction.operands) < 2:
        return
    old, new = ("sync", "arrive") if instruction.has("sync") else ("arrive", "sync")
    swapped = tuple(new if q == old else q for q in instruction.qualifiers)
    yield kind, f"{old} → {new}", Edit.to(index, replace(instruction, qualifiers=swapped))
    yield kind, "count + 32", sites.altered(index, 1, WARP)
    yield kind, "count − 32", sites.altered(index, 1, -WARP)


def _tensor_memory(sites: Sites, index: int) -> Iterator[Change]:
    instruction = sites.code[index]
    first = instruction.qualifiers[0]
    if first.startswith("wait::"):
        yield "tcgen05 wait", "dropped", Edit.drop(index)
    elif first.startswith("fence::"):
        yield "tcgen05 fence", "dropped", Edit.drop(index)
    elif first in ("alloc", "dealloc"):
        yield "allocation", f"{first} dropped", Edit.drop(index)
        columns = sites.constant(instruction.operands[1])
        if columns is not None and columns > WARP:
            changed = replace(
                instruction, operands=(instruction.operands[0], Immediate(columns // 2))
            )
            yield "allocation", f"{first} of half the columns", Edit.to(index, changed)
    elif first == "relinquish_alloc_permit":
        yield "allocation", "permit kept", Edit.drop(index)
