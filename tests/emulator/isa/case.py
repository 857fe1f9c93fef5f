"""One opcode test: a line of PTX, what goes in, and what must come out.

A case is data, so it can be run by anything that has the registers: the emulator's functions here,
or a GPU through a kernel that loads the inputs, executes the line and stores the outputs.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fa4kernel.emulator.isa import DTYPES, semantics_of
from fa4kernel.emulator.ptx.module import FloatImmediate, Immediate, Instruction, Not, Operand
from fa4kernel.emulator.ptx.parser import parse

#: What a cell may be: bits, or a float that stands for its bits in the register's type. As an
#: expectation, a float NaN stands for any NaN and None for anything at all.
Cell = int | float | bool | None

_BITS = {"pred": 1, "u8": 8, "s8": 8, "b8": 8}


@dataclass(frozen=True)
class Case:
    """A line of PTX over registers named in it, and rows of bits.

    Attributes:
        text: the line, with registers d, e (or p, q) for results and a, b, c, f, g for sources.
        results, sources: types of these registers, in that order.
        rows: for each lane the cells of the sources, then those of the results.
        needs: the oldest architecture that has the instruction.
    """

    text: str
    results: tuple[tuple[str, str], ...]
    sources: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Cell, ...], ...]
    needs: str = "sm_90"


def op(text: str, kinds: str, *rows: Sequence[Cell], needs: str = "sm_90") -> Case:
    """Build a case; ``kinds`` is like "f32 f32 -> f32": types of a, b, ... and of d (or p)."""
    source_kinds, result_kinds = (side.split() for side in kinds.split("->"))
    sources = tuple(zip("abcfg", source_kinds, strict=False))
    words, predicates = iter("de"), iter("pq")
    results = tuple((next(predicates if k == "pred" else words), k) for k in result_kinds)
    for row in rows:
        assert len(row) == len(sources) + len(results), (text, row)
    return Case(text, results, sources, tuple(tuple(row) for row in rows), needs)


def register_type(kind: str) -> str:
    """The type to declare a register of: packed and small types live in bits."""
    if kind in ("pred", "f16", "f32", "f64") or (kind[:1] in "usb" and kind[1:].isdigit()):
        return {"u8": "b16", "s8": "b16", "b8": "b16"}.get(kind, kind)
    if kind == "f32x2":
        return "b64"
    return f"b{DTYPES[kind].itemsize * 8}"


def ptx(case: Case) -> str:
    """A module whose only function declares the case's registers and has its line."""
    names = {name: register_type(kind) for name, kind in (*case.sources, *case.results)}
    declared = "".join(f".reg .{kind} {name};\n" for name, kind in names.items())
    head = ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k()\n{\n"
    return f"{head}{declared}{case.text}\nret;\n}}\n"


def instruction(case: Case) -> Instruction:
    """The case's line, parsed."""
    return parse(ptx(case)).entry().instructions[0]


def bits(cell: Cell, kind: str) -> int:
    """The bits that a cell stands for in a register of this type."""
    if isinstance(cell, bool):
        return int(cell)
    if isinstance(cell, float):
        if kind == "bf16":
            return struct.unpack("<I", struct.pack("<f", cell))[0] >> 16
        code = {"f16": "<e", "f32": "<f", "f64": "<d"}[kind]
        return int.from_bytes(struct.pack(code, cell), "little")
    assert cell is not None
    return cell


def columns(case: Case) -> list[np.ndarray]:
    """The bits of the source registers, each as uint64 over the lanes."""
    kinds = [kind for _, kind in case.sources]
    return [
        np.array([bits(row[i], kind) & 2**64 - 1 for row in case.rows], np.uint64)
        for i, kind in enumerate(kinds)
    ]


def typed(raw: np.ndarray, kind: str) -> np.ndarray:
    """The bits in a register as the array the function takes."""
    dtype = np.dtype(np.uint64) if kind == "f32x2" else DTYPES[kind]
    if dtype == np.bool_:
        return raw.astype(bool)
    return raw.astype(f"u{dtype.itemsize}").view(dtype)


def column(case: Case, index: int, kind: str) -> np.ndarray:
    """The cells of one source register as the array the function takes."""
    return typed(columns(case)[index], kind)


def scalar(operand: Operand, kind: str) -> np.generic:
    """An immediate operand as a NumPy scalar of the type."""
    dtype = np.dtype(np.uint64) if kind == "f32x2" else DTYPES[kind]
    assert isinstance(operand, Immediate | FloatImmediate)
    value = operand.value if isinstance(operand, Immediate) else operand.bits
    if isinstance(operand, FloatImmediate) and operand.width == 64 and dtype.itemsize == 4:
        value = int(
            np.float64(struct.unpack("<d", struct.pack("<Q", value))[0]).astype("f4").view("u4")
        )
    mask = (1 << 8 * dtype.itemsize) - 1
    return np.array([value & mask], f"u{dtype.itemsize}").view(dtype)[0]


def run(case: Case) -> list[np.ndarray]:
    """Execute the case with the emulator's functions; the bits of every result."""
    return evaluate(case, columns(case))


def evaluate(case: Case, sources: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Execute a case's line on other inputs: bits of each source register, uint64 over the lanes.

    Returns the bits of every result.
    """
    line = instruction(case)
    semantics = semantics_of(line)
    assert semantics is not None and not semantics.collective
    names = [name for name, _ in case.sources]
    operands: list[Operand] = []
    for operand in line.operands[1:]:
        operands.extend(getattr(operand, "items", (operand,)))
    arrays = []
    for operand, kind in zip(operands, semantics.inputs, strict=True):
        kind = "f32x2" if semantics.packed == 2 else kind
        register = operand.register if isinstance(operand, Not) else operand
        name = getattr(register, "name", None)
        known = name in names
        array = typed(sources[names.index(name)], kind) if known else scalar(operand, kind)
        arrays.append(~array if isinstance(operand, Not) else array)
    with np.errstate(all="ignore"):
        if semantics.packed == 2:
            halves = [np.atleast_1d(x).view(np.float32).reshape(-1, 2) for x in arrays]
            low, high = (semantics.function(*(h[:, i] for h in halves)) for i in (0, 1))
            pair = np.stack(np.broadcast_arrays(low, high), axis=-1).astype(np.float32)
            return [np.ascontiguousarray(pair).view(np.uint64).reshape(-1)]
        found = semantics.function(*arrays)
    found = found if len(semantics.outputs) > 1 else (found,)
    results = []
    for array, kind in zip(found, semantics.outputs, strict=True):
        array = np.asarray(array)
        assert array.dtype == DTYPES[kind], (case.text, array.dtype, kind)
        array = np.broadcast_to(array, (len(sources[0]),))
        raw = array if array.dtype == bool else array.view(f"u{array.dtype.itemsize}")
        results.append(raw)
    return results


def is_nan(raw: int, kind: str) -> bool:
    """Whether the bits of a float type are a NaN."""
    if kind == "bf16":
        return raw & 0x7FFF > 0x7F80
    code, size = {"f16": ("<e", 2), "f32": ("<f", 4), "f64": ("<d", 8)}[kind]
    return math.isnan(struct.unpack(code, raw.to_bytes(size, "little"))[0])


def complaints(case: Case, results: Sequence[np.ndarray]) -> list[str]:
    """Every lane and result that isn't what the case says."""
    found = []
    for lane, row in enumerate(case.rows):
        wanted = row[len(case.sources) :]
        for (name, kind), raw, want in zip(case.results, results, wanted, strict=True):
            got = int(raw[lane])
            if want is None or (isinstance(want, float) and math.isnan(want) and is_nan(got, kind)):
                continue
            width = _BITS.get(kind, 64)
            if got != bits(want, kind) & ((1 << max(width, 16)) - 1 if width > 1 else 1):
                sources = [hex(bits(c, k)) for c, (_, k) in zip(row, case.sources, strict=False)]
                found.append(
                    f"{case.text} with {', '.join(sources)}: "
                    f"{name} = {got:#x}, not {bits(want, kind):#x}"
                )
    return found


def values(text: str, kinds: str, *rows: Sequence[Cell]) -> list[tuple[int, ...]]:
    """What a line gives for rows of source cells: the bits of its results, row by row."""
    count = len(kinds.split("->")[1].split())
    case = op(text, kinds, *((*row, *(None,) * count) for row in rows))
    return [tuple(int(v) for v in lane) for lane in zip(*run(case), strict=True)]
