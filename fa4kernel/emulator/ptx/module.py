"""What a PTX text says: a module of functions, a function of instructions, their operands.

Invariant: every name in here is unique in its function. A register, variable or label that the
text declares inside the n-th nested block of a function is called "name@n"; outside any block it
keeps its name. Section numbers in this package are those of the PTX ISA, version 9.1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

#: Bits of each fundamental type (PTX ISA 5.2.1), and of packed and alternate ones (5.2.3, 5.2.5).
TYPE_BITS = {
    **{f"{kind}{bits}": bits for kind in "bus" for bits in (8, 16, 32, 64)},
    **{"pred": 1, "b128": 128, "f16": 16, "f32": 32, "f64": 64, "bf16": 16, "tf32": 32},
    **{"f16x2": 32, "bf16x2": 32, "f32x2": 64, "u16x2": 32, "s16x2": 32, "u8x4": 32, "s8x4": 32},
    **{"e4m3": 8, "e5m2": 8, "e2m3": 8, "e3m2": 8, "e2m1": 4, "ue8m0": 8},
    **{f"{name}x2": 16 for name in ("e4m3", "e5m2", "e2m3", "e3m2", "ue8m0")},
    **{f"{name}x4": 32 for name in ("e4m3", "e5m2", "e2m3", "e3m2")},
    **{"e2m1x2": 8, "e2m1x4": 16},
}


class PtxError(ValueError):
    """A PTX text that cannot be read: `line` (1-based, 0 if unknown) and `text` quote the place.

    >>> raise PtxError("unknown register", 7, "mov.b32 %r1, %r2;")
    Traceback (most recent call last):
    fa4kernel.emulator.ptx.module.PtxError: line 7: unknown register: mov.b32 %r1, %r2;
    """

    def __init__(self, message: str, line: int = 0, text: str = "") -> None:
        self.message = message
        self.line = line
        self.text = text
        place = f"line {line}: " if line else ""
        super().__init__(f"{place}{message}{': ' if text else ''}{text}")


@dataclass(frozen=True, slots=True)
class Register:
    """A register; `type` is its declared type without the dot ("pred", "b32", "f32", ...)."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """An integer literal, as written: hexadecimal ones are not negative."""

    value: int


@dataclass(frozen=True, slots=True)
class FloatImmediate:
    """A floating-point literal: its bits, and whether they are those of 32 or of 64.

    A decimal literal has 64 bits, whatever the type of its instruction (PTX ISA 4.5.2).
    """

    bits: int
    width: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable, parameter or function, plus `offset` bytes."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Special:
    """A special register, with its component: "%tid.x", "%laneid"."""

    name: str


@dataclass(frozen=True, slots=True)
class Label:
    """A place in the function; `Function.labels` has the index."""

    name: str


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`: a result that nobody wants."""


@dataclass(frozen=True, slots=True)
class Not:
    """`!%p`: a predicate operand taken negated."""

    register: Register


@dataclass(frozen=True, slots=True)
class Pair:
    """`first|second`: two results of one instruction; either may be a sink."""

    first: Register | Sink
    second: Register | Sink


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b, ...}`; the `(a, b)` of a call is one as well."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Address:
    """`[base + offset]`, the offset in bytes (in columns for tensor memory)."""

    base: Register | Symbol | Immediate
    offset: int = 0


@dataclass(frozen=True, slots=True)
class TensorAddress:
    """`[base, {coordinates}]`: a box of the tensor that a tensor map at `base` describes."""

    base: Register | Symbol | Immediate
    coordinates: tuple[Operand, ...]
    extra: tuple[Operand, ...] = ()


Operand: TypeAlias = (
    Register
    | Immediate
    | FloatImmediate
    | Symbol
    | Special
    | Label
    | Sink
    | Not
    | Pair
    | Vector
    | Address
    | TensorAddress
)


@dataclass(frozen=True, slots=True)
class Guard:
    """`@%p` or `@!%p` before an instruction."""

    register: Register
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the kernel's own source: file name, line, column (0: none).

    `function` is the inlined function this place lies in and `inlined_at` where it was inlined;
    both are None outside inlined functions.
    """

    file: str
    line: int
    column: int
    function: str | None = None
    inlined_at: Location | None = None

    def __str__(self) -> str:
        """``file:line``, and the chain of places it was inlined at."""
        at = f" in {self.inlined_at}" if self.inlined_at else ""
        return f"{self.file}:{self.line}{at}"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: ``@guard opcode.qualifier.qualifier operands;``.

    A qualifier keeps its double colons ("shared::cta"). `line` and `column` say from 1 where the
    PTX text has it, `text` what it says there, comments and line breaks taken out; `inline`
    whether it came from inline assembly (NVVM marks such code with comments).
    """

    opcode: str
    qualifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None = None
    line: int = 0
    text: str = ""
    location: Location | None = None
    inline: bool = False
    column: int = 1

    def has(self, *qualifiers: str) -> bool:
        """Whether all these qualifiers are there, in any order.

        >>> Instruction("add", ("rn", "ftz", "f32"), ()).has("ftz", "rn")
        True
        """
        return all(qualifier in self.qualifiers for qualifier in qualifiers)

    @property
    def type(self) -> str:
        """The last qualifier that is a type, or "" without one.

        >>> Instruction("cvt", ("rn", "bf16x2", "f32"), ()).type
        'f32'
        """
        for qualifier in reversed(self.qualifiers):
            if qualifier in TYPE_BITS:
                return qualifier
        return ""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable in memory: `align` and `size` in bytes, size None if the launch gives it.

    `type` is the element type, `initial` the bytes it starts with (None if not initialised).
    """

    name: str
    space: str
    align: int
    size: int | None
    type: str
    initial: bytes | None = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter: `align`, `size` and `offset` in the parameter block are in bytes."""

    name: str
    type: str
    align: int
    size: int
    offset: int


@dataclass(frozen=True, slots=True)
class Function:
    """An entry or a device function.

    `registers` has, by name, those registers that an instruction names; `labels` the index of the
    instruction a label stands before (the number of instructions, for one at the end); `targets`
    the labels that each `.branchtargets` lists; `directives` the performance and cluster
    directives with their numbers ({"reqntid": (512, 1, 1)}).
    """

    name: str
    is_entry: bool
    parameters: tuple[Parameter, ...]
    registers: dict[str, Register]
    instructions: tuple[Instruction, ...]
    labels: dict[str, int]
    variables: tuple[Variable, ...] = ()
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Module:
    """A PTX file: `files` has the source files' names by the numbers the text gives them."""

    version: str
    target: str
    address_size: int
    functions: tuple[Function, ...]
    variables: tuple[Variable, ...]
    files: dict[int, str]

    def entry(self, name: str | None = None) -> Function:
        """The entry of that name, or the only one.

        Raises PtxError, listing the entries, if there is none of that name, or several and no
        name to choose by.
        """
        entries = [function for function in self.functions if function.is_entry]
        found = [function for function in entries if name in (None, function.name)]
        if len(found) != 1:
            names = ", ".join(function.name for function in entries) or "none"
            wanted = "one entry" if name is None else f"entry {name}"
            which = "; name one in Launch(entry=…)" if name is None and found else ""
            raise PtxError(f"wanted {wanted}, the module has: {names}{which}")
        return found[0]
