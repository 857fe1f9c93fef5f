"""The operands of an instruction, read in the scope it stands in.

Invariant: a scope is the body of a function or a block nested in it; a name means what the
innermost scope around it that declares it says (PTX ISA 5.4, 9.4).
"""

from __future__ import annotations

import re

from fa4kernel.emulator.ptx.literals import integer, literal
from fa4kernel.emulator.ptx.module import (
    Address,
    Immediate,
    Label,
    Not,
    Operand,
    Pair,
    PtxError,
    Register,
    Sink,
    Special,
    Symbol,
    TensorAddress,
    Vector,
)

#: One operand: anything up to a comma that is in no bracket.
_OPERAND = re.compile(r"(?:[^,\[\]{}()]|\[[^\]]*\]|\{[^}]*\}|\([^)]*\))+")
_BASE_OFFSET = re.compile(r"([\w$%.]+)\s*(?:([+-])\s*([+-]?\s*\w+))?")
#: Special registers (PTX ISA 10).
_SPECIAL = re.compile(
    r"%(?:(?:n?tid|n?ctaid|n?clusterid|cluster_n?ctaid)(?:\.[xyzw])?|laneid|n?warpid|n?smid|gridid"
    r"|is_explicit_cluster|cluster_n?ctarank|lanemask_(?:eq|le|lt|ge|gt)|clock(?:64|_hi)?"
    r"|globaltimer(?:_lo|_hi)?|pm\d(?:_64)?|envreg\d+|(?:total|dynamic|aggr)_smem_size"
    r"|reserved_smem_offset_(?:begin|end|cap|\d+)|current_graph_exec)"
)


class Scope:
    """The names that one block declares, inside the scope `outer` (None for a module).

    `number` tells nested blocks of a function apart: 0 for the module and the function's body.
    `used` gathers, by their unique names, the registers that a function's operands name.
    """

    def __init__(self, outer: Scope | None, number: int = 0) -> None:
        self.outer = outer
        self.number = number
        self.used: dict[str, Register] = outer.used if outer is not None and number else {}
        self._names: dict[str, Register | Symbol | Label] = {}
        self._families: dict[str, tuple[int, str]] = {}
        self._read: dict[str, Operand] = {}

    def unique(self, name: str) -> str:
        """What a name declared in this scope is called in the function."""
        return f"{name}@{self.number}" if self.number else name

    def declare(self, name: str, kind: str, type: str = "") -> None:
        """Declare a "register" (of this type), "symbol" or "label"; PtxError if it is twice."""
        if name in self._names:
            raise PtxError(f"{name} is declared twice")
        own = self.unique(name)
        if kind == "register":
            self._names[name] = Register(own, type)
        else:
            self._names[name] = Symbol(own) if kind == "symbol" else Label(own)
        self._read.clear()

    def declare_family(self, stem: str, count: int, type: str) -> None:
        """Declare the registers stem0 to stem(count - 1)."""
        if stem in self._families:
            raise PtxError(f"{stem}<> is declared twice")
        self._families[stem] = count, type
        self._read.clear()

    def find(self, name: str) -> Register | Symbol | Label | None:
        """What a name means here, or None if nothing around declares it."""
        scope: Scope | None = self
        while scope is not None:
            found = scope._names.get(name) or scope._member(name)
            if found is not None:
                if isinstance(found, Register):
                    self.used[found.name] = found
                return found
            scope = scope.outer
        return None

    def _member(self, name: str) -> Register | None:
        stem = name.rstrip("0123456789")
        number = name[len(stem) :]
        if number == "" or (number[0] == "0" and number != "0"):
            return None
        # The stem of a family may itself end in digits.
        for end in range(len(stem), len(name)):
            count, type = self._families.get(name[:end], (0, ""))
            if int(name[end:]) < count and str(int(name[end:])) == name[end:]:
                register = self._names[name] = Register(self.unique(name), type)
                return register
        return None

    def operands(self, text: str) -> tuple[Operand, ...]:
        """The operands in a text such as ``%r1, [%r2+4], {%r3, _}``."""
        read = self._read
        if "[" in text or "{" in text or "(" in text:
            parts = _OPERAND.findall(text)
            if len(",".join(parts)) != len(text):
                raise PtxError("operands with a comma too many or a bracket too few")
        else:
            parts = text.split(",")
        found = []
        for part in parts:
            operand = read.get(part)
            if operand is None:
                operand = read[part] = self._operand(part.strip())
            found.append(operand)
        return tuple(found)

    def _operand(self, text: str) -> Operand:
        first = text[:1]
        if first == "[" and text[-1] == "]":
            return self._address(text[1:-1])
        if first in ("{", "(") and text[-1] in "})":
            inner = text[1:-1].strip()
            return Vector(self.operands(inner) if inner else ())
        if first == "!":
            return Not(self.predicate(text[1:].strip()))
        if "|" in text:
            results = [self._operand(part.strip()) for part in text.split("|")]
            if len(results) == 2:
                return Pair(self._result(results[0]), self._result(results[1]))
        if text == "_":
            return Sink()
        found = self.find(text) or literal(text)
        if found is not None:
            return found
        if _SPECIAL.fullmatch(text):
            return Special(text)
        base, offset = self._base_offset(text)
        if isinstance(base, Symbol):
            return Symbol(base.name, offset)
        raise PtxError(f"{text!r} cannot be an operand")

    def _address(self, text: str) -> Address | TensorAddress:
        parts = _OPERAND.findall(text)
        base, offset = self._base_offset(parts[0].strip() if parts else "")
        if len(parts) == 1:
            return Address(base, offset)
        coordinates, *extra = self.operands(text[len(parts[0]) + 1 :])
        if not isinstance(coordinates, Vector) or offset:
            raise PtxError(f"[{text}] is neither an address nor a place in a tensor")
        return TensorAddress(base, coordinates.items, tuple(extra))

    def _base_offset(self, text: str) -> tuple[Register | Symbol | Immediate, int]:
        match = _BASE_OFFSET.fullmatch(text)
        if match:
            name, sign, number = match.groups()
            base = self.find(name) or literal(name)
            offset = integer(number) if number else 0
            if offset is not None and isinstance(base, Register | Symbol | Immediate):
                return base, -offset if sign == "-" else offset
        raise PtxError(f"{text!r} is no address: unknown name or odd offset")

    def _result(self, operand: Operand) -> Register | Sink:
        if isinstance(operand, Register | Sink):
            return operand
        raise PtxError("of a pair a|b, both must be registers or _")

    def predicate(self, name: str) -> Register:
        """The predicate register of that name; PtxError if it is none."""
        found = self.find(name)
        if isinstance(found, Register) and found.type == "pred":
            return found
        raise PtxError(f"{name!r} is no predicate register")
