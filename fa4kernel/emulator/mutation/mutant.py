"""A mutant: a kernel in which one synchronisation instruction is missing, altered or moved."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fa4kernel.emulator.machine.dataflow import read, written
from fa4kernel.emulator.machine.program import Program
from fa4kernel.emulator.ptx.module import Function, Instruction
from fa4kernel.emulator.ptx.printer import instruction_text, replace_instruction


@dataclass(frozen=True, slots=True)
class Edit:
    """What stands in place of one instruction.

    Attributes:
        index: of the instruction in its function.
        text: statements instead of it; None deletes it.
        instruction: the same as ``text``, where that is one instruction with known registers.
    """

    index: int
    text: str | None
    instruction: Instruction | None = None

    @staticmethod
    def drop(index: int) -> Edit:
        """Delete the instruction."""
        return Edit(index, None)

    @staticmethod
    def to(index: int, instruction: Instruction) -> Edit:
        """Put another instruction there."""
        text = instruction_text(instruction)
        return Edit(index, text, replace(instruction, text=text))


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of a kernel.

    Attributes:
        kind: the family of instructions, "wait".
        change: what was done to it, "dropped".
        index: of the instruction that is changed or moved.
        line: of that instruction in the PTX text.
        original: what it says.
        source: the line of the kernel's own source that it comes from; "" if unknown.
        edits: what to do to the text.
    """

    kind: str
    change: str
    index: int
    line: int
    original: str
    source: str
    edits: tuple[Edit, ...]

    @property
    def name(self) -> str:
        """Kind, change and line: ``wait dropped, line 512``."""
        return f"{self.kind} {self.change}, line {self.line}"

    def text(self, ptx: str, function: Function) -> str:
        """The mutated PTX; all other statements stay on their lines.

        Args:
            ptx: the text that ``function`` was parsed from.
            function: the function that the mutant was made of.
        """
        code = function.instructions
        last_first = sorted(self.edits, key=lambda e: e.index, reverse=True)
        for edit in sorted(last_first, key=lambda e: _place(code[e.index]), reverse=True):
            ptx = replace_instruction(ptx, code[edit.index], edit.text)
        return ptx

    def patch(self, program: Program) -> Program | None:
        """The mutated program made from the decoded original; None if it must be decoded anew.

        That is possible for one instruction that is deleted, or replaced by one with no other
        registers: places of registers and all other instructions stay as they are.
        """
        if len(self.edits) != 1:
            return None
        (edit,) = self.edits
        if edit.text is None:
            return program.changed(edit.index, None)
        if edit.instruction is None:
            return None
        old = program.context.function.instructions[edit.index]
        more = {r.name for r in read(edit.instruction)} - {r.name for r in read(old)}
        if more or not {r.name for r in written(edit.instruction)} <= {
            r.name for r in written(old)
        }:
            return None
        return program.changed(edit.index, edit.instruction)


def _place(instruction: Instruction) -> tuple[int, int]:
    return instruction.line, instruction.column
