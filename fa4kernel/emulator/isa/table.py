"""The table of scalar instructions: from an instruction to what it computes.

Every opcode has one builder per kind of number, in the module for its family. Instructions that
touch memory, barriers, branches or the tensor core are not in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fa4kernel.emulator.isa import (
    approximations,
    collectives,
    compare,
    convert,
    extremes,
    fields,
    floats,
    halves,
    integers,
    logic,
    moves,
)
from fa4kernel.emulator.isa.semantics import (
    DTYPES,
    Array,
    Builder,
    Semantics,
    Spelling,
    Unsupported,
    bits_of,
    is_float,
    is_signed,
)
from fa4kernel.emulator.ptx.module import Instruction, Operand, Register

_ANY: dict[str, Builder] = {
    **moves.BUILDERS,
    **logic.BUILDERS,
    **fields.BUILDERS,
    **compare.BUILDERS,
    **convert.BUILDERS,
    **collectives.BUILDERS,
}
_INTEGER: dict[str, Builder] = integers.BUILDERS
_HALF: dict[str, Builder] = halves.BUILDERS
_FLOAT: dict[str, Builder] = {
    **floats.BUILDERS,
    **extremes.BUILDERS,
    **approximations.BUILDERS,
}

#: Every opcode that :func:`semantics_of` knows.
OPCODES: tuple[str, ...] = tuple(sorted({*_ANY, *_INTEGER, *_FLOAT}))


def semantics_of(instruction: Instruction) -> Semantics | None:
    """Say what a scalar instruction reads, computes and writes.

    Where a register is wider than the instruction's type, as cvt allows, the function returned
    takes and gives the wide register, so types always have the width of their operands (PTX ISA
    9.4.1).

    Args:
        instruction: as the parser gives it.

    Returns:
        The semantics, or None if the opcode is none of :data:`OPCODES`.

    Raises:
        Unsupported: a qualifier, type or operand isn't modelled; names the line and its text.

    >>> from fa4kernel.emulator.ptx.module import Register
    >>> r = Register("%r1", "b32")
    >>> semantics_of(Instruction("add", ("s32",), (r, r, r))).inputs
    ('s32', 's32')
    """
    opcode = instruction.opcode
    builder = _ANY.get(opcode)
    if builder is None:
        if opcode not in _INTEGER and opcode not in _FLOAT:
            return None
        floating = [q for q in instruction.qualifiers if is_float(q)]
        family = _INTEGER
        if floating:
            half = any(kind in halves.KINDS for kind in floating) and opcode in _HALF
            family = _HALF if half else _FLOAT
        builder = family.get(opcode)
    spelling = Spelling(instruction)
    if builder is None:
        raise spelling.refusal(f"{opcode} of this type is not modelled")
    semantics = builder(spelling)
    spelling.finish()
    for what, operands, kinds in (
        ("sources", spelling.sources, semantics.inputs),
        ("results", spelling.results, semantics.outputs),
    ):
        if len(operands) != len(kinds):
            raise spelling.refusal(f"{opcode} takes {len(kinds)} {what}, not {len(operands)}")
        _check_predicates(spelling, operands, kinds)
    return _fitted(semantics, spelling)


def _check_predicates(
    spelling: Spelling, operands: tuple[Operand, ...], kinds: tuple[str, ...]
) -> None:
    """Refuse a predicate where a value belongs, and the reverse."""
    for operand, kind in zip(operands, kinds, strict=True):
        if isinstance(operand, Register) and (operand.type == "pred") != (kind == "pred"):
            wanted = "a predicate" if kind == "pred" else f".{kind}"
            raise spelling.refusal(f"{operand.name} is .{operand.type}, not {wanted}")


def _fitted(semantics: Semantics, spelling: Spelling) -> Semantics:
    """The same semantics with types as wide as the registers."""
    if semantics.packed > 1:
        return semantics
    inputs = _widths(spelling, spelling.sources, semantics.inputs)
    outputs = _widths(spelling, spelling.results, semantics.outputs)
    if inputs == semantics.inputs and outputs == semantics.outputs:
        return semantics
    resized = _resized(semantics, inputs, outputs)
    return Semantics(resized, inputs, outputs, collective=semantics.collective)


def _widths(
    spelling: Spelling, operands: tuple[Operand, ...], kinds: tuple[str, ...]
) -> tuple[str, ...]:
    return tuple(
        _width(operand, kind, spelling) for operand, kind in zip(operands, kinds, strict=True)
    )


def _width(operand: Operand, kind: str, spelling: Spelling) -> str:
    """The type itself, or an integer type of the register's width if that is wider."""
    if not isinstance(operand, Register) or operand.type == "pred" or kind == "pred":
        return kind
    have, want = max(16, bits_of(operand.type)), max(16, bits_of(kind))
    if have < want:
        raise spelling.refusal(f"{operand.name} has {have} bits, too few for .{kind}")
    if have == want:
        return kind
    return f"{'s' if is_signed(kind) else 'b'}{have}"


def _resized(
    semantics: Semantics, inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> Callable[..., Any]:
    narrow = [(a, b) for a, b in zip(inputs, semantics.inputs, strict=True)]
    widen = [DTYPES[kind] for kind in outputs]

    def cut(x: Array, have: str, want: str) -> Array:
        if have == want:
            return x
        bits = np.dtype(f"u{DTYPES[want].itemsize}")
        return np.asarray(x).astype(bits).view(DTYPES[want])

    def call(*arrays: Array, **more: Any) -> Any:
        results = semantics.function(
            *(cut(x, *pair) for x, pair in zip(arrays, narrow, strict=True)), **more
        )
        if len(widen) == 1:
            results = (results,)
        grown = tuple(
            _grow(x, kind, dtype)
            for x, kind, dtype in zip(results, semantics.outputs, widen, strict=True)
        )
        return grown[0] if len(grown) == 1 else grown

    return call


def _grow(x: Array, kind: str, dtype: np.dtype[Any]) -> Array:
    """Sign or zero extend a result to a wider register."""
    x = np.asarray(x)
    if x.dtype == dtype:
        return x
    if x.dtype.kind == "f":
        x = x.view(f"u{x.dtype.itemsize}")
    return x.astype(dtype)


__all__ = ["OPCODES", "Semantics", "Unsupported", "semantics_of"]
