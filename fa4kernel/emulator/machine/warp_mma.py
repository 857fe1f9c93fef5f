"""``mma.sync``: a product of small matrices that a warp holds in registers (PTX ISA 9.7.14.5.14).

Its rounding in the faithful arithmetic is taken to be that of the architecture's larger MMAs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.machine.loads import spread
from fa4kernel.emulator.machine.operands import Value, items_of
from fa4kernel.emulator.machine.program import (
    Context,
    Handler,
    Outcome,
    allow,
    decodes,
    unsupported,
)
from fa4kernel.emulator.machine.warps import lanes_of_whole_warps
from fa4kernel.emulator.ptx.module import Instruction, Operand, Sink
from fa4kernel.emulator.tensor import formats
from fa4kernel.emulator.tensor.faithful import Architecture
from fa4kernel.emulator.tensor.fragments import Elements
from fa4kernel.emulator.tensor.product import product
from fa4kernel.emulator.tensor.warp_fragments import warp_a, warp_b, warp_c

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine
    from fa4kernel.emulator.machine.registers import Registers

#: Containers of the elements.
RAW: dict[str, Any] = {
    "f16": np.uint16, "bf16": np.uint16, "tf32": np.uint32, "e4m3": np.uint8, "e5m2": np.uint8,
    "s8": np.int8, "u8": np.uint8, "f64": np.float64, "f32": np.float32, "s32": np.int32,
}  # fmt: skip
#: Rows and K that there are for each type of A.
SHAPES = {
    "f16": ((16, 8), (16, 16)),
    "bf16": ((16, 8), (16, 16)),
    "tf32": ((16, 4), (16, 8)),
    **dict.fromkeys(["e4m3", "e5m2"], ((16, 16), (16, 32))),
    **dict.fromkeys(["s8", "u8"], ((8, 16), (16, 16), (16, 32))),
    "f64": ((8, 4), (16, 4), (16, 8), (16, 16)),
}
#: Types of C and D for each type of A.
RESULTS = {
    "f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "e4m3": ("f16", "f32"),
    "e5m2": ("f16", "f32"), "s8": ("s32",), "u8": ("s32",), "f64": ("f64",),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shape:
    """What an ``mma`` multiplies: A is (m, k), B (k, 8)."""

    m: int
    k: int
    a: str
    b: str
    d: str

    @classmethod
    def of(cls, instruction: Instruction) -> Shape:
        """Read the qualifiers."""
        shapes = [q for q in instruction.qualifiers if re.fullmatch(r"m\d+n8k\d+", q)]
        types = [q for q in instruction.qualifiers if q in RAW]
        allow(instruction, "sync", "aligned", "row", "col", "satfinite", *shapes, *types)
        layout = [q for q in instruction.qualifiers if q in ("row", "col")]
        if len(shapes) != 1 or len(types) != 4 or layout != ["row", "col"]:
            raise unsupported(instruction)
        m, k = (int(n) for n in re.findall(r"[mk](\d+)", shapes[0]))
        d, a, b, c = types
        family = {"s8": ("s8", "u8"), "u8": ("s8", "u8"), "e4m3": ("e4m3", "e5m2"),
                  "e5m2": ("e4m3", "e5m2")}.get(a, (a,))  # fmt: skip
        if (m, k) not in SHAPES.get(a, ()) or b not in family or d not in RESULTS[a] or c != d:
            raise unsupported(instruction, "this combination of shape and types")
        if "satfinite" in instruction.qualifiers and d != "s32":
            raise unsupported(instruction, ".satfinite is for integers")
        return cls(m, k, a, b, d)


class Fragment:
    """A matrix spread over the registers of a warp."""

    def __init__(
        self,
        instruction: Instruction,
        context: Context,
        operand: Operand,
        where: Elements,
        kind: str,
        shape: tuple[int, int],
    ) -> None:
        self.items = items_of(operand)
        self.where = where
        self.raw = np.dtype(RAW[kind])
        self.shape = shape
        self.cells = 2 if kind == "f64" else 1
        wanted = where.row.shape[1] * self.raw.itemsize // (4 * self.cells)
        if len(self.items) != wanted:
            raise unsupported(instruction, f"{len(self.items)} registers where {wanted} are wanted")
        self.values: list[Value] = []
        self._context = context

    def read(self, registers: Registers, lanes: NDArray[np.intp]) -> NDArray[Any]:
        """The matrices of all warps, shape (warps, rows, columns)."""
        if not self.values:
            wide = [self._context.value(item, self.cells) for item in self.items]
            self.values = [v.cell(i) for v in wide for i in range(self.cells)]
        words = np.stack([v.words(registers, lanes) for v in self.values], axis=1)
        elements = np.ascontiguousarray(words).view(self.raw).reshape(len(lanes) // 32, 32, -1)
        found = np.empty((len(elements), *self.shape), self.raw)
        found[:, self.where.row, self.where.column] = elements
        return found

    def write(self, machine: Machine, convoy: Convoy, matrices: NDArray[Any]) -> None:
        """Put matrices (warps, rows, columns) of the element type into the registers."""
        elements = matrices.astype(self.raw, copy=False)[:, self.where.row, self.where.column]
        kind = "u64" if self.cells == 2 else "u32"
        words = np.ascontiguousarray(elements).view(f"u{4 * self.cells}")
        for i, item in enumerate(self.items):
            if not isinstance(item, Sink):
                spread(machine, convoy, item, kind, words[:, :, i].reshape(-1))


def architecture_of(context: Context, faithful: bool) -> Architecture | None:
    """Whose rounding is modelled: that of the module's target; None for the fast arithmetic."""
    if not faithful:
        return None
    return "sm_90a" if context.module.target.startswith("sm_90") else "sm_100a"


@decodes("mma")
def decode_mma(instruction: Instruction, context: Context) -> Handler:
    """``mma.sync``: f16, bf16, tf32, 8-bit floats and integers, f64."""
    shape = Shape.of(instruction)
    operands = instruction.operands
    if len(operands) != 4:
        raise unsupported(instruction)
    m, k = shape.m, shape.k
    sizes = (np.dtype(RAW[shape.a]).itemsize, np.dtype(RAW[shape.b]).itemsize)
    d, c = (
        Fragment(instruction, context, o, warp_c(m), shape.d, (m, 8))
        for o in (operands[0], operands[3])
    )
    a = Fragment(instruction, context, operands[1], warp_a(m, k, sizes[0]), shape.a, (m, k))
    b = Fragment(instruction, context, operands[2], warp_b(k, sizes[1]), shape.b, (k, 8))
    types = (shape.a, shape.b, shape.d)
    saturate = "satfinite" in instruction.qualifiers

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        lanes = lanes_of_whole_warps(convoy, instruction)
        left, right, old = (x.read(machine.registers, lanes) for x in (a, b, c))
        if shape.d == "f16":
            old = formats.decode(old, "f16")
        found = product(
            left, right, types, old, saturate=saturate,
            architecture=architecture_of(context, machine.faithful),
        )  # fmt: skip
        d.write(machine, convoy, formats.encode(found, "f16") if shape.d == "f16" else found)
        return None

    return handler
