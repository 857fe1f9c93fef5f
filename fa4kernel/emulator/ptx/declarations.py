"""Declarations of registers, variables and parameters (PTX ISA 5.4), and function heads."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from fa4kernel.emulator.ptx.literals import literal
from fa4kernel.emulator.ptx.module import (
    TYPE_BITS,
    FloatImmediate,
    Immediate,
    Parameter,
    PtxError,
    Variable,
)

SPACES = ("shared", "global", "const", "local", "param")
_MODIFIER = re.compile(r"\s*\.(\w+(?:::\w+)?)(?:\s*\([^)]*\)|\s+(\d+)(?=[\s.]))?\s*")
_DECLARATOR = re.compile(r"(?:[^,{]|\{[^;]*\})+")
_NAME = re.compile(
    r"([\w$%]+)\s*(?:<\s*(\d+)\s*>)?\s*((?:\[\s*\w*\s*\]\s*)*)(?:=\s*(.*))?", re.DOTALL
)
_HEAD = re.compile(
    r"(?P<linkage>(?:\.(?:visible|extern|weak)\s+)*)\.(?P<kind>entry|func)\s*"
    r"(?:\.attribute\s*\([^)]*\)\s*)?(?:\((?P<results>[^)]*)\)\s*)?(?P<name>[\w$%]+)\s*"
    r"(?:\((?P<parameters>[^)]*)\))?(?P<directives>.*)",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"\.(\w+)\s*((?:\d+\s*,\s*)*\d+)?")


@dataclass(frozen=True, slots=True)
class Declarator:
    """One name of a declaration: `family` for ``name<n>``, `extents` for ``name[a][b]``."""

    name: str
    family: int | None
    extents: tuple[int | None, ...]
    initial: str | None


@dataclass(frozen=True, slots=True)
class Declaration:
    """What precedes the names (`align` in bytes, 0 if not given; `lanes` of a vector) and those."""

    space: str
    type: str
    align: int
    lanes: int
    external: bool
    names: tuple[Declarator, ...]

    @property
    def unit(self) -> int:
        """Bytes of one element, all lanes of a vector."""
        return max(TYPE_BITS[self.type] // 8, 1) * self.lanes


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a function: `defined` is False for a mere declaration of it."""

    name: str
    is_entry: bool
    parameters: tuple[Parameter, ...]
    results: tuple[Parameter, ...]
    directives: dict[str, tuple[int, ...]]
    defined: bool


def read_declaration(text: str) -> Declaration:
    """Read ``.reg .pred p, q;``, ``.shared .align 8 .b8 x[64];`` and the like.

    >>> read_declaration(".reg .b32 %r<8>;").names[0].family
    8
    """
    words: dict[str, int] = {}
    position = 0
    while match := _MODIFIER.match(text, position):
        if "ptr" not in words:  # what follows .ptr is about the memory it points to
            words[match[1].split("::")[0]] = int(match[2] or 0)
        position = match.end()
    names = tuple(
        _declarator(part) for part in _DECLARATOR.findall(text[position:].rstrip("; \n\t"))
    )
    space = next((word for word in words if word in (*SPACES, "reg")), "")
    type = next((word for word in words if word in TYPE_BITS), "")
    if not (space and type and names):
        raise PtxError("no declaration that is known here")
    lanes = next((int(word[1]) for word in words if word in ("v2", "v4", "v8")), 1)
    return Declaration(space, type, words.get("align", 0), lanes, "extern" in words, names)


def _declarator(text: str) -> Declarator:
    match = _NAME.fullmatch(text.strip())
    if match is None:
        raise PtxError(f"{text.strip()!r} declares no name")
    name, family, extents, initial = match.groups()
    sizes = tuple(
        int(size, 0) if size else None for size in re.findall(r"\[\s*(\w*)\s*\]", extents)
    )
    return Declarator(name, int(family) if family else None, sizes, initial)


def variables_of(declaration: Declaration) -> list[Variable]:
    """The variables in memory that a declaration makes, under the names it gives them.

    An array without an extent has the size of its initial values, or None.
    """
    made = []
    for name in declaration.names:
        if name.family is not None:
            raise PtxError(f"{name.name}<{name.family}> can be registers only")
        unit = declaration.unit
        initial = _initial_bytes(name.initial, declaration.type) if name.initial else None
        size: int | None = unit
        for extent in name.extents:
            size = None if extent is None or size is None else size * extent
        if size is None and initial is not None:
            size = len(initial)
        if initial is not None and size is not None:
            nested = (name.initial or "").count("{") > 1
            if len(initial) > size or (nested and len(initial) < size):
                raise PtxError("initial values that do not fill the array")
            initial = initial.ljust(size, b"\0")
        align = declaration.align or unit
        made.append(Variable(name.name, declaration.space, align, size, declaration.type, initial))
    return made


def _initial_bytes(text: str, type: str) -> bytes:
    size = max(TYPE_BITS[type] // 8, 1)
    values = [part.strip() for part in re.split(r"[{},]", text) if part.strip()]
    return b"".join(_bytes_of(value, size) for value in values)


def _bytes_of(text: str, size: int) -> bytes:
    value = literal(text)
    if isinstance(value, Immediate):
        return (value.value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    if isinstance(value, FloatImmediate):
        if value.width == 8 * size:
            return value.bits.to_bytes(size, "little")
        raw = value.bits.to_bytes(value.width // 8, "little")
        number = struct.unpack("<f" if value.width == 32 else "<d", raw)[0]
        return struct.pack({2: "<e", 4: "<f", 8: "<d"}[size], number)
    raise PtxError(f"initial value {text!r} is no number")


def parameters_of(text: str) -> tuple[Parameter, ...]:
    """The parameters in the parentheses of a function's head, laid out one after the other.

    Each begins at the next multiple of its alignment (PTX ISA 7.1; CUDA's parameter buffer).

    >>> [
    ...     p.offset
    ...     for p in parameters_of(".param .u32 a, .param .align 16 .b8 b[24], .param .f32 c")
    ... ]
    [0, 16, 40]
    """
    found = []
    end = 0
    for part in text.split(","):
        if not part.strip():
            continue
        declaration = read_declaration(part)
        (variable,) = variables_of(declaration)
        if declaration.space != "param":
            raise PtxError("a parameter that is not in .param")
        offset = -(-end // variable.align) * variable.align
        size = variable.size or 0
        found.append(Parameter(variable.name, variable.type, variable.align, size, offset))
        end = offset + size
    return tuple(found)


def read_head(text: str) -> Head:
    """Read the head of a function, from its linkage to the brace of its body or its semicolon."""
    match = _HEAD.fullmatch(text)
    if match is None:
        raise PtxError("no head of a function")
    rest = re.sub(r"\.pragma[^;]*;", "", match["directives"])
    directives = {
        name: tuple(int(number) for number in numbers.split(",")) if numbers else ()
        for name, numbers in _DIRECTIVE.findall(rest)
    }
    return Head(
        name=match["name"],
        is_entry=match["kind"] == "entry",
        parameters=parameters_of(match["parameters"] or ""),
        results=parameters_of(match["results"] or ""),
        directives=directives,
        defined=not rest.rstrip().endswith(";"),
    )
