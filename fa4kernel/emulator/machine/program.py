"""A function decoded once: runs of scalar instructions, and everything else one by one."""

from __future__ import annotations

from collections.abc import Callable, Container
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from fa4kernel.emulator.isa.semantics import Semantics
from fa4kernel.emulator.isa.table import semantics_of
from fa4kernel.emulator.launch import MOST_SHARED_BYTES
from fa4kernel.emulator.machine.cells import Cells
from fa4kernel.emulator.machine.convoy import Convoy, Mask
from fa4kernel.emulator.machine.dataflow import ENDS, read, target
from fa4kernel.emulator.machine.fusion import Group, plan
from fa4kernel.emulator.machine.in_flight import in_flight
from fa4kernel.emulator.machine.layout import SHARED_START, AddressOf
from fa4kernel.emulator.machine.neighbours import neighbours
from fa4kernel.emulator.machine.operand_checks import check_operands, refusing
from fa4kernel.emulator.machine.operands import Value
from fa4kernel.emulator.machine.rows import Rows
from fa4kernel.emulator.ptx.module import (
    Function,
    Instruction,
    Module,
    Operand,
    PtxError,
    Register,
)

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine
    from fa4kernel.emulator.names import Names


class UnsupportedError(PtxError):
    """An instruction or qualifier that the emulator does not execute."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Lanes that cannot go on.

    Attributes:
        lanes: bool over the convoy's range; the others go on.
        condition: tells when they can; see :class:`Condition`.
        again: whether they execute the instruction once more then, or go on after it.
        others_again: whether the other lanes have not executed it yet either.
    """

    lanes: Mask
    condition: Condition
    again: bool = False
    others_again: bool = False


class Condition:
    """What waiting lanes wait for.

    ``ready`` says for each lane of the convoy's range whether it can go on now.
    """

    def ready(self, machine: Machine, convoy: Convoy) -> Mask:
        """Lanes (bool over the range) that can go on."""
        raise NotImplementedError

    def version(self, machine: Machine) -> int | None:
        """A number without whose change nobody becomes ready; None if there is no such number."""
        return None

    def woken(self, machine: Machine, convoy: Convoy) -> None:
        """What else is to be done for lanes that go on."""

    def expire(self, machine: Machine, convoy: Convoy) -> bool:
        """Give up waiting, if the instruction may; True if the convoy goes on behind it."""
        return False

    def describe(self, machine: Machine, convoy: Convoy) -> list[str]:
        """For each of the convoy's warps what it waits for, in words."""
        raise NotImplementedError


Outcome: TypeAlias = Wait | None
#: Executes an instruction for a convoy; returns who has to wait.
Handler: TypeAlias = "Callable[[Machine, Convoy], Outcome]"
#: Makes a handler of an instruction; raises UnsupportedError for what it does not know.
Decoder: TypeAlias = "Callable[[Instruction, Context], Handler]"

DECODERS: dict[str, Decoder] = {}


def decodes(*opcodes: str) -> Callable[[Decoder], Decoder]:
    """Mark a function as the decoder of instructions with these opcodes."""

    def mark(decoder: Decoder) -> Decoder:
        for opcode in opcodes:
            DECODERS[opcode] = decoder
        return decoder

    return mark


class Context:
    """What a decoder may ask about the function."""

    def __init__(self, module: Module, function: Function, shared_bytes: int) -> None:
        self.module = module
        self.function = function
        check_operands(function)
        self.address_of = AddressOf.lay_out(module, function, shared_bytes)
        wanted = self.address_of.shared_bytes - SHARED_START
        if wanted > MOST_SHARED_BYTES:
            raise ValueError(
                f"{function.name} wants {wanted:,} bytes of shared memory, {shared_bytes:,} of "
                f"them by shared_bytes of the launch; a CTA has {MOST_SHARED_BYTES:,}"
            )
        self.cells = Cells(function, self.address_of)
        self.in_flight = in_flight(function, self.cells.blocks)
        together = neighbours(self.cells, self.in_flight.touching)
        self.rows = Rows(self.cells, self.in_flight.waits, together)
        self.names: Names | None = None
        self._read = {r.name for each in function.instructions for r in read(each)}

    def value(self, operand: Operand, count: int = 1) -> Value:
        """An accessor of a source operand with ``count`` cells."""
        if isinstance(operand, Register) and operand.type == "pred":
            raise ValueError(f"{operand.name} is a predicate, not a value")
        return Value(self.cells, self.rows, operand, count)

    def is_read(self, register: Register) -> bool:
        """Whether any instruction reads a register."""
        return register.name in self._read

    def quarter(self, operand: Operand, index: int) -> Value:
        """An accessor of 32 bits of a 128-bit operand, ``index`` 0 to 3 from the lowest."""
        return Value(self.cells, self.rows, operand, 4).cell(index)


def unsupported(instruction: Instruction, why: str = "") -> UnsupportedError:
    """The error for an instruction that is not executed."""
    more = f" ({why})" if why else ""
    return UnsupportedError(
        f"this instruction is not supported{more}", instruction.line, instruction.text
    )


def allow(instruction: Instruction, *known: str) -> None:
    """Refuse qualifiers that are not among these."""
    for qualifier in instruction.qualifiers:
        if qualifier not in known:
            raise unsupported(instruction, f"unknown qualifier .{qualifier}")


def is_aligned(instruction: Instruction) -> bool:
    """Whether all lanes of a warp execute an instruction together (``.aligned``, barriers)."""
    if instruction.opcode in ("bar", "barrier"):
        return "cluster" not in instruction.qualifiers and "warp" not in instruction.qualifiers
    return "aligned" in instruction.qualifiers


@dataclass(slots=True)
class Run:
    """Scalar instructions one after the other, ``start`` to ``end`` (exclusive)."""

    start: int
    end: int
    parts: list[tuple[Instruction, Semantics]]
    groups: list[Group] = field(default_factory=list)


@dataclass(slots=True)
class Branch:
    """A branch to ``goal``; ``end`` is the instruction after it."""

    start: int
    end: int
    goal: int
    instruction: Instruction


@dataclass(slots=True)
class Exit:
    """``ret`` or ``exit``."""

    start: int
    end: int
    instruction: Instruction


@dataclass(slots=True)
class Special:
    """Any other instruction."""

    start: int
    end: int
    instruction: Instruction
    handler: Handler


Item: TypeAlias = Run | Branch | Exit | Special


class Program:
    """All items of a function, found by the index of their first instruction."""

    def __init__(self, context: Context) -> None:
        self.context = context
        code = context.function.instructions
        self.item_at: list[Item | None] = [None] * (len(code) + 1)
        self.length = len(code)
        for block in context.cells.blocks:
            self._decode(block.start, block.end)
        for item in self.item_at:
            if isinstance(item, Run):
                item.groups = plan(item.parts, context.cells, context.rows)

    def _decode(self, start: int, end: int) -> None:
        code, vanished = self.context.function.instructions, self.context.cells.vanished
        run: Run | None = None
        for index in range(start, end):
            instruction = code[index]
            if index in vanished:
                if run is None:
                    run = self.item_at[index] = Run(index, index, [])
                run.end = index + 1
                continue
            semantics = None
            if instruction.opcode not in ENDS:
                with refusing(instruction):
                    semantics = semantics_of(instruction)
            touches = index in self.context.in_flight.touching
            if semantics is not None and not semantics.collective and not touches:
                if run is None:
                    run = self.item_at[index] = Run(index, index, [])
                run.parts.append((instruction, semantics))
                run.end = index + 1
                continue
            run = None
            with refusing(instruction):
                item = self.item_at[index] = self._special(index, instruction, semantics)
            if touches and isinstance(item, Special):
                from fa4kernel.emulator.machine.wgmma_ops import settled_first

                item.handler = settled_first(item.handler, instruction, self.context)

    def beside(self, begun: Container[int]) -> tuple[Instruction, ...]:
        """The instructions of all items but those that begin at the given indices."""
        code = self.context.function.instructions
        found: list[Instruction] = []
        for item in self.item_at:
            if item is not None and item.start not in begun:
                found.extend(code[item.start : item.end])
        return tuple(found)

    def changed(self, index: int, instruction: Instruction | None) -> Program | None:
        """The program without an instruction (None), or with another in its place.

        The other may name no register that the first does not. Only for what is no part of a run
        of scalar instructions; else the answer is None, and the text must be decoded again.
        """
        if not isinstance(self.item_at[index], Special):
            return None
        function = self.context.function
        gone = Instruction("nop", (), (), line=function.instructions[index].line)
        code = list(function.instructions)
        code[index] = instruction or gone
        made = copy(self)
        made.item_at = list(self.item_at)
        made.context = copy(self.context)
        made.context.function = replace(function, instructions=tuple(code))
        made.context.names = None  # they may depend on what was changed
        if instruction is None:
            made.item_at[index] = Run(index, index + 1, [])
            return made
        made._decode(index, index + 1)
        item = made.item_at[index]
        if isinstance(item, Run):
            item.groups = plan(item.parts, self.context.cells, self.context.rows)
        return made

    def _special(self, index: int, instruction: Instruction, semantics: Semantics | None) -> Item:
        if instruction.opcode == "bra":
            return Branch(index, index + 1, target(self.context.function, instruction), instruction)
        if instruction.opcode in ("ret", "exit"):
            return Exit(index, index + 1, instruction)
        if semantics is not None:
            from fa4kernel.emulator.machine.collectives import collective

            handler = collective(instruction, semantics, self.context)
        else:
            decoder = DECODERS.get(instruction.opcode)
            if decoder is None:
                raise unsupported(instruction)
            handler = decoder(instruction, self.context)
            if is_aligned(instruction):
                from fa4kernel.emulator.machine.collectives import whole_warp

                handler = whole_warp(handler)
        return Special(index, index + 1, instruction, handler)
