"""What an instruction means, and how its spelling is read.

A *spelling* is an opcode with its qualifiers. Builders take off the qualifiers they know; whatever
is left is unknown, and the instruction is refused with its line and text, never half executed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.ptx.module import (
    TYPE_BITS,
    Immediate,
    Instruction,
    Operand,
    Pair,
    PtxError,
    Vector,
)

Array: TypeAlias = NDArray[Any]
Where: TypeAlias = NDArray[np.bool_] | bool

#: The NumPy type of the array for a register operand of each PTX type. Types of 8 bits come in
#: the low half of 16; of packed types and of bfloat16 there are the bits; b128 is an array (2, n),
#: its low half first.
DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(dtype)
    for dtype, names in {
        np.bool_: "pred",
        np.uint16: "u8 b8 u16 b16 bf16 e4m3x2 e5m2x2 e2m3x2 e3m2x2 e2m1x2 ue8m0x2",
        np.int16: "s8 s16",
        np.float16: "f16",
        np.uint32: "u32 b32 f16x2 bf16x2 u16x2 s16x2 tf32",
        np.int32: "s32",
        np.float32: "f32",
        np.uint64: "u64 b64 b128",
        np.int64: "s64",
        np.float64: "f64",
    }.items()
    for name in names.split()
}


class Unsupported(PtxError):
    """A scalar instruction with a qualifier, type or operand that isn't modelled."""


@dataclass(frozen=True, slots=True)
class Semantics:
    """What a scalar instruction computes.

    Inputs and outputs are in the order of the operands, with the items of vectors and of
    ``p|q`` pairs one by one; a ``!p`` is negated before the call.

    Attributes:
        function: takes one array (n,), or a NumPy scalar for an immediate, per input and returns
            one array per output (a tuple if there are several), of a shape that broadcasts to
            (n,). It changes no input.
        inputs: PTX type of each input; :data:`DTYPES` has the NumPy types.
        outputs: PTX type of each output.
        ufunc: the function also takes ``out=`` (an array that may be one of the inputs) and
            ``where=`` (bool array or True), as a `numpy.ufunc` does.
        packed: 2 where the operands are pairs (f32x2): apply the function to each half.
        collective: the function exchanges values between the lanes of a warp. Arrays are
            (warps, 32), and it takes ``active=``, bool (warps, 32): the lanes that execute.
    """

    function: Callable[..., Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    ufunc: bool = False
    packed: int = 1
    collective: bool = False


class Spelling:
    """The qualifiers of one instruction, taken off one by one.

    >>> from fa4kernel.emulator.ptx.module import Instruction
    >>> s = Spelling(Instruction("add", ("rn", "x", "f32"), (), line=7, text="add.x a;"))
    >>> s.types(), s.take("rz", "rn"), s.rest
    (('f32',), 'rn', ['x'])
    >>> s.finish()
    Traceback (most recent call last):
    fa4kernel.emulator.isa.semantics.Unsupported: line 7: add with .x is not modelled: add.x a;
    """

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction
        self.opcode = instruction.opcode
        self.rest = list(instruction.qualifiers)
        operands = instruction.operands
        self.results = flatten(operands[:1])
        self.sources = flatten(operands[1:])

    def take(self, *names: str) -> str:
        """Take off the first qualifier that is one of ``names``; "" if there is none."""
        for qualifier in self.rest:
            if qualifier in names:
                self.rest.remove(qualifier)
                return qualifier
        return ""

    def need(self, *names: str) -> str:
        """Take off one of ``names``, or refuse the instruction."""
        found = self.take(*names)
        if not found:
            raise self.refusal(f"{self.opcode} needs one of ." + ", .".join(names))
        return found

    def flag(self, name: str) -> bool:
        """Take off ``name`` if it is there, and say whether it was."""
        return bool(self.take(name))

    def types(self) -> tuple[str, ...]:
        """Take off all qualifiers that are types, in their order."""
        found = tuple(q for q in self.rest if q in TYPE_BITS)
        self.rest = [q for q in self.rest if q not in TYPE_BITS]
        return found

    def type(self, *allowed: str) -> str:
        """Take off the only type, which must be one of ``allowed`` (if there are any)."""
        found = self.types()
        if len(found) != 1 or (allowed and found[0] not in allowed):
            listed = " ." + ".".join(found) if found else "out a type"
            raise self.refusal(f"{self.opcode} with{listed} is not modelled")
        return found[0]

    def immediate(self, index: int) -> int:
        """The value of a source that must be an integer literal."""
        operand = self.sources[index] if index < len(self.sources) else None
        if not isinstance(operand, Immediate):
            raise self.refusal(f"operand {index + 2} of {self.opcode} must be an integer literal")
        return operand.value

    def refusal(self, message: str) -> Unsupported:
        """The error that names this instruction's line and text."""
        return Unsupported(message, self.instruction.line, self.instruction.text)

    def finish(self) -> None:
        """Refuse the instruction if a qualifier is left."""
        if self.rest:
            left = ".".join(self.rest)
            raise self.refusal(f"{self.opcode} with .{left} is not modelled")


#: Reads a spelling and says what it means.
Builder: TypeAlias = Callable[[Spelling], Semantics]


def flatten(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
    """Operands with vectors and pairs replaced by their items."""
    found: list[Operand] = []
    for operand in operands:
        if isinstance(operand, Vector):
            found.extend(operand.items)
        elif isinstance(operand, Pair):
            found.extend((operand.first, operand.second))
        else:
            found.append(operand)
    return tuple(found)


def bits_of(kind: str) -> int:
    """How many bits a type has."""
    return TYPE_BITS[kind]


def is_signed(kind: str) -> bool:
    """Whether a type is a signed integer."""
    return kind[0] == "s" and kind[1:].isdigit()


def is_float(kind: str) -> bool:
    """Whether a type is for floating-point arithmetic."""
    return kind in ("f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64", "tf32")
