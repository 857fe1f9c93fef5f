"""Scalar instructions bound to a range of lanes: lists of calls that take no argument.

Binding looks up rows, makes the typed views and picks the NumPy call once; a run of instructions
is then executed by calling one after the other. Where only some lanes of the range take part, the
calls get ``where=mask``, a buffer that holds the convoy's mask at the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from fa4kernel.emulator.isa.semantics import Semantics, flatten
from fa4kernel.emulator.machine.registers import DTYPES, Array, Reader, Registers
from fa4kernel.emulator.ptx.module import Instruction, Not, Operand, Register, Sink

Step = Callable[[], Any]


def bind(
    instruction: Instruction,
    semantics: Semantics,
    registers: Registers,
    lo: int,
    hi: int,
    mask: Array | None,
) -> list[Step]:
    """The calls that execute one scalar instruction for lanes ``lo`` to ``hi``.

    Args:
        mask: bool (hi - lo), the lanes that take part, read at each call; None if all do.
    """
    if instruction.guard is not None:
        return _guarded(instruction, semantics, registers, lo, hi, mask)
    outputs = _outputs(instruction, semantics)
    sources = flatten(instruction.operands[1:])
    if semantics.packed == 2:
        return _packed(instruction, semantics, registers, lo, hi, mask)
    inputs = [
        _source(registers, operand, kind, lo, hi)
        for operand, kind in zip(sources, semantics.inputs, strict=True)
    ]
    plain = all(isinstance(i, list) for i in inputs)
    to = outputs[0][0]
    direct = len(outputs) == 1 and isinstance(to, Register) and _bits(semantics.outputs[0]) <= 32
    if semantics.ufunc and plain and direct:
        views = [i[0] for i in inputs if isinstance(i, list)]
        out = registers.source(to, semantics.outputs[0], lo, hi)
        assert isinstance(out, list)
        more = {} if mask is None else {"where": mask}
        return [partial(semantics.function, *views, out=out[0], **more)]
    return [_general(semantics, inputs, outputs, registers, lo, hi, mask)]


def _bits(kind: str) -> int:
    return int(np.dtype(DTYPES[kind]).itemsize) * 8


def _outputs(instruction: Instruction, semantics: Semantics) -> list[tuple[Operand, str]]:
    return list(zip(flatten(instruction.operands[:1]), semantics.outputs, strict=True))


def _source(
    registers: Registers, operand: Operand, kind: str, lo: int, hi: int
) -> list[Array] | Reader:
    if isinstance(operand, Not):
        view = registers.predicate(operand.register, lo, hi)
        return lambda: ~view
    return registers.source(operand, kind, lo, hi)


def _packed(
    instruction: Instruction,
    semantics: Semantics,
    registers: Registers,
    lo: int,
    hi: int,
    mask: Array | None,
) -> list[Step]:
    sources = [registers.halves(o, lo, hi) for o in instruction.operands[1:]]
    rows = registers.rows_of(instruction.operands[0])
    steps: list[Step] = []
    for half, row in enumerate(rows):
        out = registers.words[row, lo:hi].view(np.float32)
        views = [s[half] for s in sources]
        if semantics.ufunc:
            more = {} if mask is None else {"where": mask}
            steps.append(partial(semantics.function, *views, out=out, **more))
        else:
            steps.append(partial(_into, semantics.function, views, out, mask))
    return steps


def _into(
    function: Callable[..., Array], views: list[Array], out: Array, mask: Array | None
) -> None:
    np.copyto(out, function(*views), where=True if mask is None else mask)


def _general(
    semantics: Semantics,
    inputs: Sequence[list[Array] | Reader],
    outputs: Sequence[tuple[Operand, str]],
    registers: Registers,
    lo: int,
    hi: int,
    mask: Array | None,
) -> Step:
    stores = [store(registers, place, kind, lo, hi) for place, kind in outputs]
    where: Any = True if mask is None else mask
    warps = (-1, 32)
    active = None
    if semantics.collective:
        active = np.ones((hi - lo) // 32 * 32, np.bool_) if mask is None else mask
        active = active.reshape(warps)

    def step() -> None:
        values = [i[0] if isinstance(i, list) else i() for i in inputs]
        if active is not None:
            values = [v.reshape(warps) if v.ndim else v for v in values]
            found = semantics.function(*values, active=active)
        else:
            found = semantics.function(*values)
        if not isinstance(found, tuple):
            found = (found,)
        for put, value in zip(stores, found, strict=True):
            put(np.asarray(value).reshape(-1) if np.ndim(value) > 1 else value, where)

    return step


Store = Callable[[Any, Any], None]


def quarters_of(wide: Array) -> list[Array]:
    """The four 32-bit words of 128-bit values (2, n), lowest first."""
    halves = np.ascontiguousarray(wide).view(np.uint32).reshape(2, -1, 2)
    return [halves[i, :, j] for i in (0, 1) for j in (0, 1)]


def store(registers: Registers, place: Operand, kind: str, lo: int, hi: int) -> Store:
    """A function ``(values, where)`` that writes a destination of this type."""
    if isinstance(place, Sink):
        return lambda values, where: None
    if kind == "pred":
        view = registers.predicate(place, lo, hi)
        return lambda values, where: np.copyto(view, values, where=where)
    rows = registers.rows_of(place)
    if kind == "b128":
        quarters = [registers.words[row, lo:hi] for row in rows]

        def spread(values: Any, where: Any) -> None:
            for view, part in zip(quarters, quarters_of(values), strict=True):
                np.copyto(view, part, where=where)

        return spread
    bits = _bits(kind)
    if bits <= 32:
        target = registers.words[rows[0], lo:hi]
        if bits == 32:
            typed = target.view(DTYPES[kind])
            return lambda values, where: np.copyto(typed, values, where=where)
        unsigned = np.uint16

        def narrow(values: Any, where: Any) -> None:
            raw = np.asarray(values, DTYPES[kind]).view(unsigned)
            np.copyto(target, raw, where=where)

        return narrow
    views = [registers.words[row, lo:hi] if row >= 0 else None for row in rows]

    def split(values: Any, where: Any) -> None:
        wide = np.asarray(values, DTYPES[kind]).view(np.uint64)
        parts = (wide & np.uint64(0xFFFFFFFF), wide >> np.uint64(32))
        for view, part in zip(views, parts, strict=True):
            if view is not None:
                np.copyto(view, part.astype(np.uint32), where=where)

    return split


def _guarded(
    instruction: Instruction,
    semantics: Semantics,
    registers: Registers,
    lo: int,
    hi: int,
    mask: Array | None,
) -> list[Step]:
    """As unguarded, under a mask of its own that is worked out first."""
    from dataclasses import replace

    assert instruction.guard is not None
    own = np.empty(hi - lo, np.bool_)
    view = registers.predicate(instruction.guard.register, lo, hi)
    if instruction.guard.negated:
        steps: list[Step] = [partial(np.logical_not, view, out=own)]
    else:
        steps = [partial(np.copyto, own, view)]
    if mask is not None:
        steps.append(partial(np.logical_and, own, mask, out=own))
    return steps + bind(replace(instruction, guard=None), semantics, registers, lo, hi, own)
