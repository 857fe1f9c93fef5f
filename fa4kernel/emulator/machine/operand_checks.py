"""Operands that no assembler takes, refused before anything else looks at them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fa4kernel.emulator.isa.semantics import flatten
from fa4kernel.emulator.machine.cells import STEADY
from fa4kernel.emulator.machine.dataflow import writes_first
from fa4kernel.emulator.machine.registers import CLOCKS
from fa4kernel.emulator.ptx.module import (
    Function,
    Instruction,
    Label,
    Operand,
    PtxError,
    Register,
    Sink,
    Special,
    Vector,
)

#: Vector qualifiers and how many operands they stand for.
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}


def check_operands(function: Function) -> None:
    """Refuse what an instruction cannot write or jump to: blocks and registers depend on these.

    Raises:
        PtxError: with the line and text of the first such instruction.

    >>> from fa4kernel.emulator.ptx import parse
    >>> module = parse('''.version 8.8
    ... .target sm_100a
    ... .address_size 64
    ... .visible .entry k() { .reg .b32 %r<2>;
    ... add.u32 5, %r0, %r1; ret; }''')
    >>> check_operands(module.entry())
    Traceback (most recent call last):
    fa4kernel.emulator.ptx.module.PtxError: line 5: 5 is nothing that can be written to: add.u32 \
5, %r0, %r1;
    """
    for instruction in function.instructions:
        operands, why = instruction.operands, ""
        if instruction.opcode == "bra":
            if len(operands) != 1 or not isinstance(operands[0], Label):
                why = "bra takes one label"
        elif writes_first(instruction):
            fixed = [o for o in flatten(operands[:1]) if not isinstance(o, Register | Sink)]
            why = f"{_text(fixed[0])} is nothing that can be written to" if fixed else ""
        if why:
            raise PtxError(why, instruction.line, instruction.text)


@contextmanager
def refusing(instruction: Instruction) -> Iterator[None]:
    """Whatever is wrong with an instruction that is decoded is told with its line and text."""
    try:
        _check(instruction)
        yield
    except PtxError:
        raise
    except (AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        more = f" ({error})" if str(error) else ""
        why = f"its operands are not those that {instruction.opcode} takes{more}"
        raise PtxError(why, instruction.line, instruction.text) from error


def _check(instruction: Instruction) -> None:
    """Raise ValueError for a special register that is not there, or too few of a vector."""
    for item in flatten(instruction.operands):
        if isinstance(item, Special) and item.name not in STEADY and item.name not in CLOCKS:
            raise ValueError(f"{item.name} is not modelled")
    if instruction.opcode in ("ld", "ldu", "st"):
        data = instruction.operands[1 if instruction.opcode == "st" else 0]
        wanted = next((_VECTORS[q] for q in instruction.qualifiers if q in _VECTORS), 1)
        found = len(data.items) if isinstance(data, Vector) else 1
        if found != wanted:
            raise ValueError(f"{found} values, not {wanted}")


def _text(operand: Operand) -> str:
    for name in ("name", "value"):
        if hasattr(operand, name):
            return str(getattr(operand, name))
    return "its first operand"
