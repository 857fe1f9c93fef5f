"""Mutants of the instructions that work on mbarriers (PTX ISA 9.7.13.15)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fa4kernel.emulator.mutation.mutant import Edit
from fa4kernel.emulator.mutation.sites import Sites, address_operand, without
from fa4kernel.emulator.ptx.module import Address, Immediate, Instruction, Pair, Register

#: Bytes by which an expectation is changed: what a TMA moves at least.
UNIT = 16

Change = tuple[str, str, Edit]


def barrier_mutants(sites: Sites, index: int) -> Iterator[Change]:
    """Kind, change and edit of each mutant of the instruction there."""
    instruction = sites.code[index]
    if instruction.opcode == "mbarrier":
        make = {
            "init": _init,
            "try_wait": _wait,
            "test_wait": _wait,
            "arrive": _arrive,
            "arrive_drop": _arrive,
            "expect_tx": _expect,
            "complete_tx": _expect,
        }.get(instruction.qualifiers[0])
        if make is not None:
            yield from make(sites, index, address_operand(instruction))
    elif instruction.opcode == "tcgen05" and instruction.has("commit"):
        yield from _commit(sites, index)
    elif instruction.opcode == "cp" and instruction.has("async", "mbarrier"):
        yield "arrive", "dropped", Edit.drop(index)
        yield "arrive", "on the next barrier", sites.next_barrier(index, 0)
    else:
        at = completion_barrier(instruction)
        if at is not None:
            yield "copy", "on the next barrier", sites.next_barrier(index, at)


def completion_barrier(instruction: Instruction) -> int | None:
    """Which operand of an asynchronous copy is the mbarrier that counts its bytes, if one does."""
    if not any(q.startswith("mbarrier::complete_tx") for q in instruction.qualifiers):
        return None
    addresses = [i for i, o in enumerate(instruction.operands) if isinstance(o, Address)]
    return addresses[-1] if len(addresses) > 1 else None


def _init(sites: Sites, index: int, at: int) -> Iterator[Change]:
    yield "init", "dropped", Edit.drop(index)
    yield "init", "count + 1", sites.altered(index, at + 1, 1)
    yield "init", "count − 1", sites.altered(index, at + 1, -1)
    yield "init", "of the next barrier", sites.next_barrier(index, at)


def _wait(sites: Sites, index: int, at: int) -> Iterator[Change]:
    instruction = sites.code[index]
    done = instruction.operands[0]
    done = done.first if isinstance(done, Pair) else done
    passed = replace(
        instruction, opcode="mov", qualifiers=("pred",), operands=(done, Immediate(-1))
    )
    if isinstance(done, Register):
        yield "wait", "dropped", Edit.to(index, passed)
    if instruction.has("parity"):
        yield "wait", "for the other parity", sites.altered(index, at + 1, 1, "xor")
    yield "wait", "on the next barrier", sites.next_barrier(index, at)


def _arrive(sites: Sites, index: int, at: int) -> Iterator[Change]:
    instruction = sites.code[index]
    expects = instruction.has("expect_tx")
    kind = "expect" if expects else "arrive"
    yield kind, "dropped", Edit.drop(index)
    if expects:
        plain = replace(without(instruction, "expect_tx"), operands=instruction.operands[: at + 1])
        yield kind, "without bytes", Edit.to(index, plain)
        yield kind, "bytes + 16", sites.altered(index, at + 1, UNIT)
        yield kind, "bytes − 16", sites.altered(index, at + 1, -UNIT)
    elif len(instruction.operands) > at + 1:
        yield kind, "count + 1", sites.altered(index, at + 1, 1)
    else:
        twice = replace(instruction, operands=(*instruction.operands, Immediate(2)))
        yield kind, "count + 1", Edit.to(index, twice)
    yield kind, "on the next barrier", sites.next_barrier(index, at)


def _expect(sites: Sites, index: int, at: int) -> Iterator[Change]:
    yield "expect", "dropped", Edit.drop(index)
    yield "expect", "bytes + 16", sites.altered(index, at + 1, UNIT)
    yield "expect", "bytes − 16", sites.altered(index, at + 1, -UNIT)
    yield "expect", "on the next barrier", sites.next_barrier(index, at)


def _commit(sites: Sites, index: int) -> Iterator[Change]:
    instruction = sites.code[index]
    yield "commit", "dropped", Edit.drop(index)
    yield "commit", "on the next barrier", sites.next_barrier(index, 0)
    if len(instruction.operands) > 1:
        for rank in (0, 1):
            edit = sites.altered(index, 1, 1 << rank, "and")
            yield "commit", f"only to CTA {rank}", edit
