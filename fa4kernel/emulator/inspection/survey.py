"""Which instructions of a kernel the emulator does not execute: all of them, not just the first."""

from __future__ import annotations

from dataclasses import dataclass

from fa4kernel.emulator.machine.program import Context, Program
from fa4kernel.emulator.ptx.module import Function, Instruction, Module, PtxError


@dataclass(frozen=True)
class Refused:
    """An instruction that is not executed: its PTX line, its text, and why not."""

    line: int
    text: str
    why: str

    def __str__(self) -> str:
        return f"PTX line {self.line}: {self.text}: {self.why}"


class Survey(Program):
    """A program of which every instruction is decoded by itself, whatever becomes of the others."""

    def __init__(self, context: Context) -> None:
        self.refused: list[Refused] = []
        super().__init__(context)

    def _decode(self, start: int, end: int) -> None:
        code = self.context.function.instructions
        for index in range(start, end):
            try:
                super()._decode(index, index + 1)
            except Exception as error:
                self.refused.append(_refused(code[index], error))


def _refused(instruction: Instruction, error: Exception) -> Refused:
    if isinstance(error, PtxError):
        return Refused(instruction.line, instruction.text, error.message)
    why = f"it cannot be decoded ({type(error).__name__}: {error})"
    return Refused(instruction.line, instruction.text, why)


def refused(module: Module, function: Function) -> list[Refused]:
    """The instructions of a kernel that the emulator does not execute, in order.

    >>> from fa4kernel.emulator.ptx import parse
    >>> module = parse('''.version 8.8
    ... .target sm_100a
    ... .address_size 64
    ... .visible .entry k() { .reg .b32 %r<2>; tex.nowhere.b32 %r1; sad.nowhere %r1; ret; }''')
    >>> [r.line for r in refused(module, module.entry())]
    [4, 4]
    """
    try:
        return Survey(Context(module, function, 0)).refused
    except PtxError as error:
        return [Refused(error.line, error.text, error.message)]
