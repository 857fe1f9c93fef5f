"""Products of the tensor core: operands from shared and tensor memory, the result to the latter."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.errors import EmulationError
from fa4kernel.emulator.ptx.module import Instruction
from fa4kernel.emulator.tensor import faithful, formats, mma, tmem
from fa4kernel.emulator.tensor.descriptors import SmemDescriptor
from fa4kernel.emulator.tensor.instruction import InstructionDescriptor

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

#: How elements of each type are kept.
RAW = {"f16": np.uint16, "bf16": np.uint16, "tf32": np.uint32, "f32": np.uint32,
       "e4m3": np.uint8, "e5m2": np.uint8}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Operation:
    """What one MMA multiplies; equal ones of several CTAs are done together.

    Attributes:
        d: tensor-memory address of the accumulator.
        a: descriptor of A, or its tensor-memory address.
        a_in_tmem: which of the two.
        b: descriptor of B.
        shape: the decoded instruction descriptor.
        group: CTAs that take part, 1 or 2.
        k: the inner dimension.
        scale: power of two by which the accumulator is divided first.
        masked: lanes of D that are not written, as a bit mask.
        ws: weight-stationary form.
    """

    d: int
    a: int
    a_in_tmem: bool
    b: int
    shape: InstructionDescriptor
    group: int
    k: int
    scale: int = 0
    masked: int = 0
    ws: bool = False

    def continues(self, first: Operation) -> bool:
        """Whether it adds to the same accumulator in the same way."""
        return (
            self.d == first.d
            and self.shape == first.shape
            and self.a_in_tmem == first.a_in_tmem
            and not (self.scale or self.masked or first.masked)
        )


def multiply(
    machine: Machine,
    ctas: list[int],
    operations: list[Operation],
    accumulate: bool,
    instruction: Instruction,
) -> None:
    """``D (+)= A B`` for one run of MMAs into one accumulator, in several CTAs at once.

    Args:
        ctas: the CTAs that issued it (the leaders, in pairs).
        operations: the MMAs, in order; those after the first accumulate.
        accumulate: whether the first one does.
    """
    first = operations[0]
    leaders = np.array(ctas)
    members = [leaders]
    if first.group == 2:
        clusters = machine.shape.clusters
        ranks, at = leaders // clusters, leaders % clusters
        members = [(ranks & ~1) * clusters + at, (ranks | 1) * clusters + at]
    try:
        _multiply(machine, members, operations, accumulate)
    except (ValueError, IndexError) as error:
        raise EmulationError(str(error), instruction, "mma") from error


def _multiply(
    machine: Machine,
    members: list[NDArray[np.intp]],
    operations: list[Operation],
    accumulate: bool,
) -> None:
    first = operations[0]
    shape = first.shape
    fast = not machine.faithful
    columns = shape.n // first.group
    b = np.concatenate(
        [_operand(machine.shared, each, [o.b for o in operations], columns, first.k, shape.b_dtype,
                  shape.b_major) for each in members], axis=1,
    )  # fmt: skip
    layout = tmem.accumulator(shape.m, shape.n, first.group, first.ws)
    copies = tmem.copies_of_a(shape.m, first.group, first.ws)
    rows = shape.m // first.group
    for each in members:
        parts = []
        for copy in range(copies):
            if first.a_in_tmem:
                a = np.concatenate(
                    [_packed_a(machine, each, o, rows, copy) for o in operations], axis=2
                )
            elif copy == 0:
                a = _operand(machine.shared, each, [o.a for o in operations], rows, first.k,
                             shape.a_dtype, shape.a_major)  # fmt: skip
            width = shape.n // copies
            part_b = b[:, copy * width : (copy + 1) * width]
            parts.append((a, part_b, slice(copy * width, (copy + 1) * width)))
        _write(machine, each, first, layout, parts, accumulate, fast)


def _operand(
    shared: NDArray[np.uint8],
    ctas: NDArray[np.intp],
    descriptors: list[int],
    rows: int,
    k: int,
    dtype: str,
    major: str,
) -> NDArray[Any]:
    """Raw elements of a matrix, shape (n, rows, k of all descriptors)."""
    raw = np.dtype(RAW[dtype])
    chunks = _chunks(tuple(descriptors), rows, k, raw.itemsize, major)
    view = shared.view(np.complex128)
    if len(ctas) == len(view) and (ctas == np.arange(len(view))).all():
        found = view.take(chunks, axis=1)
    else:
        found = view[ctas[:, None, None], chunks]
    matrix = found.view(raw)
    return matrix if major == "K" else matrix.swapaxes(1, 2)


def check_operands(operation: Operation, shared_bytes: int, instruction: Instruction) -> None:
    """Raise if a type or shape is none that is executed, or a matrix lies outside memory.

    Args:
        operation: the MMA.
        shared_bytes: shared memory of a CTA.
    """
    shape, group = operation.shape, operation.group
    for dtype in (shape.a_dtype, shape.b_dtype):
        if dtype not in RAW:
            raise EmulationError(f"an MMA of {dtype} is not supported", instruction, "mma")
    operands = [(operation.b, shape.n // group, shape.b_dtype, shape.b_major)]
    if not operation.a_in_tmem:
        operands.append((operation.a, shape.m // group, shape.a_dtype, shape.a_major))
    try:
        for descriptor, rows, dtype, major in operands:
            size = np.dtype(RAW[dtype]).itemsize
            end = int(_chunks((descriptor,), rows, operation.k, size, major).max()) * 16 + 16
            if end > shared_bytes:
                raise IndexError(
                    f"a matrix operand reaches byte {end:,} of a shared memory of {shared_bytes:,}"
                )
        tmem.accumulator(shape.m, shape.n, group, operation.ws)
    except (ValueError, IndexError) as error:
        raise EmulationError(str(error), instruction, "out-of-bounds") from error


@lru_cache(maxsize=8192)
def _chunks(
    descriptors: tuple[int, ...], rows: int, k: int, size: int, major: Any
) -> NDArray[np.intp]:
    parts = [SmemDescriptor.decode(d).chunks(rows, k, size, major) for d in descriptors]
    return np.concatenate(parts, axis=1 if major == "K" else 0)


def _packed_a(
    machine: Machine, ctas: NDArray[np.intp], operation: Operation, rows: int, copy: int
) -> NDArray[Any]:
    """Raw elements of A in tensor memory, shape (n, rows, k)."""
    raw = np.dtype(RAW[operation.shape.a_dtype])
    lane, column = operation.a >> 16, operation.a & 0xFFFF
    words = operation.k * raw.itemsize // 4
    if rows == 128 and lane == 0:
        found = machine.tmem.words[ctas, column : column + words]  # (n, words, lanes)
        return np.ascontiguousarray(found.swapaxes(1, 2)).view(raw)
    places = tmem.packed_a(
        operation.shape.m, operation.k * raw.itemsize, operation.group, operation.ws, copy
    )
    found = machine.tmem.words[ctas[:, None, None], places.column + column, places.lane + lane]
    return np.ascontiguousarray(found).view(raw)


def _write(
    machine: Machine,
    ctas: NDArray[np.intp],
    operation: Operation,
    layout: tmem.Places,
    parts: list[tuple[NDArray[Any], NDArray[Any], slice]],
    accumulate: bool,
    fast: bool,
) -> None:
    shape = operation.shape
    words = machine.tmem.words
    lane, column = operation.d >> 16, operation.d & 0xFFFF
    plain = layout.lane.shape[0] == tmem.LANES and lane == 0 and not operation.masked
    if fast and plain and shape.d_dtype == "f32" and not operation.scale:
        ((a, b, _),) = parts
        target = words.view(np.float32)
        at = slice(column, column + shape.n)
        signs = -1.0 if shape.negate_a != shape.negate_b else 1.0
        product = mma.multiply(
            formats.decode(b, shape.b_dtype), formats.decode(a, shape.a_dtype).swapaxes(1, 2), None
        )
        if signs < 0:
            product = -product
        if accumulate:
            product += target[ctas, at]
        target[ctas, at] = product
        return
    index = (ctas[:, None, None], layout.column + column, layout.lane + lane)
    old = words[index]
    c = None
    if accumulate:
        half = shape.d_dtype == "f16"
        c = formats.decode(old.astype(np.uint16), "f16") if half else old.view(np.float32)
        c = (c * np.float32(2.0**-operation.scale)).astype(np.float32)
    found = np.empty(old.shape, np.float32)
    for a, b, at_n in parts:
        before = None if c is None else c[:, :, at_n]
        found[:, :, at_n] = product_of(shape, a, b, before, fast)
    if shape.d_dtype == "f16":
        raw = formats.encode(found, "f16").astype(np.uint32)
        raw |= old & np.uint32(0xFFFF0000)
    else:
        raw = found.view(np.uint32)
    if operation.masked:
        kept = np.array([operation.masked >> i & 1 for i in range(tmem.LANES)], bool)
        raw = np.where(kept[layout.lane + lane], old, raw)
    words[index] = raw


def product_of(
    shape: InstructionDescriptor,
    a: NDArray[Any],
    b: NDArray[Any],
    c: NDArray[np.float32] | None,
    fast: bool,
) -> NDArray[np.float32]:
    """``c + a bᵀ`` of raw operands (n, m, k) and (n, columns, k), fast or bit for bit."""
    sign = -1.0 if shape.negate_a != shape.negate_b else 1.0
    if fast:
        product = mma.multiply(
            formats.decode(a, shape.a_dtype) * np.float32(sign),
            formats.decode(b, shape.b_dtype).swapaxes(1, 2), c,
        )  # fmt: skip
        return product
    if sign < 0:
        a = a ^ RAW[shape.a_dtype](1 << 8 * a.itemsize - 1)
    types = (shape.a_dtype, shape.b_dtype, shape.d_dtype)
    return faithful.multiply(a, b.swapaxes(1, 2), types, c, shape.kind)
