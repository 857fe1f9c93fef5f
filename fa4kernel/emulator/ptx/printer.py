"""Instructions back to text, and texts with one instruction changed (for mutation tests)."""

from __future__ import annotations

from fa4kernel.emulator.ptx.lexer import blank_comments
from fa4kernel.emulator.ptx.module import (
    Address,
    FloatImmediate,
    Immediate,
    Instruction,
    Not,
    Operand,
    Pair,
    PtxError,
    Sink,
    Symbol,
    TensorAddress,
    Vector,
)


def replace_instruction(text: str, instruction: Instruction, new_text: str | None) -> str:
    r"""The PTX text with one of its instructions replaced, or deleted (None).

    `instruction` is one that `parse(text)` gave; its guard goes with it, labels before it stay.
    Every other statement keeps its line, so `new_text` (whole statements, with their semicolons)
    may have no more line breaks than what it replaces. Raises PtxError if it has, or if the text
    does not have this instruction where it says it stands.

    >>> from fa4kernel.emulator.ptx.parser import parse
    >>> text = ".entry e() {\n    bar.sync 0;  // all\n    ret;\n}"
    >>> barrier = parse(text).entry().instructions[0]
    >>> print(replace_instruction(text, barrier, "bar.arrive 0, 64;"))
    .entry e() {
        bar.arrive 0, 64;  // all
        ret;
    }
    """
    clean = blank_comments(text)
    start = 0
    for _ in range(instruction.line - 1):
        start = clean.find("\n", start) + 1
    start += instruction.column - 1
    end = clean.find(";", start) + 1
    if " ".join(clean[start:end].split()) != instruction.text:
        raise PtxError("the text does not have this", instruction.line, instruction.text)
    new = new_text or ""
    breaks = text.count("\n", start, end) - new.count("\n")
    if breaks < 0:
        raise PtxError("more lines than there were before", instruction.line, new)
    return text[:start] + new + "\n" * breaks + text[end:]


def instruction_text(instruction: Instruction) -> str:
    """The statement that an instruction is, written from its parts.

    Names are those of the text again, without the number of their block.
    """
    guard = ""
    if instruction.guard is not None:
        name = _name(instruction.guard.register.name)
        guard = f"@{'!' if instruction.guard.negated else ''}{name} "
    opcode = ".".join((instruction.opcode, *instruction.qualifiers))
    operands = [operand_text(operand) for operand in instruction.operands]
    if instruction.opcode == "call":
        operands = [text.replace("{", "(").replace("}", ")") for text in operands]
    return f"{guard}{opcode}{' ' if operands else ''}{', '.join(operands)};"


def operand_text(operand: Operand) -> str:
    """One operand as PTX writes it.

    >>> operand_text(Address(Immediate(64), -8)), operand_text(Vector((Sink(), Immediate(1))))
    ('[64+-8]', '{_, 1}')
    """
    match operand:
        case Immediate(value):
            return str(value)
        case FloatImmediate(bits, width):
            return f"0f{bits:08X}" if width == 32 else f"0d{bits:016X}"
        case Symbol(name, offset):
            return _name(name) + (f"+{offset}" if offset else "")
        case Sink():
            return "_"
        case Not(register):
            return f"!{_name(register.name)}"
        case Pair(first, second):
            return f"{operand_text(first)}|{operand_text(second)}"
        case Vector(items):
            return f"{{{_list(items)}}}"
        case Address(base, offset):
            return f"[{operand_text(base)}{f'+{offset}' if offset else ''}]"
        case TensorAddress(base, coordinates, extra):
            rest = f", {_list(extra)}" if extra else ""
            return f"[{operand_text(base)}, {{{_list(coordinates)}}}{rest}]"
        case _:
            return _name(operand.name)


def _list(operands: tuple[Operand, ...]) -> str:
    return ", ".join(operand_text(operand) for operand in operands)


def _name(name: str) -> str:
    return name.partition("@")[0]
