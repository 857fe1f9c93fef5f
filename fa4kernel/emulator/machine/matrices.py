"""``ldmatrix``, ``stmatrix``, ``movmatrix``: 8 x 8 matrices between shared memory and a warp.

Each thread of a warp holds two neighbouring elements of a matrix of 16-bit elements: thread t has
row t/4, columns 2(t%4) and 2(t%4)+1; transposed, rows and columns change places. Row addresses
come from the threads: 8i to 8i+7 for matrix i. Sources: PTX ISA 9.7.14.5.15 to 9.7.14.5.17.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.machine.loads import spread
from fa4kernel.emulator.machine.operands import items_of
from fa4kernel.emulator.machine.places import shared_places
from fa4kernel.emulator.machine.program import (
    Context,
    Handler,
    Outcome,
    allow,
    decodes,
    unsupported,
)
from fa4kernel.emulator.machine.warps import lanes_of_whole_warps
from fa4kernel.emulator.ptx.module import Instruction, Sink

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

COUNTS = {"x1": 1, "x2": 2, "x4": 4}
ROW_BYTES = 16


class MatrixRows:
    """Which rows of shared memory the matrices of an instruction are."""

    def __init__(self, instruction: Instruction, context: Context, address: int, data: int) -> None:
        allow(instruction, "sync", "aligned", "m8n8", *COUNTS, "trans", "shared", "shared::cta",
              "b16")  # fmt: skip
        counts = [COUNTS[q] for q in instruction.qualifiers if q in COUNTS]
        self.items = items_of(instruction.operands[data])
        if len(counts) != 1 or len(self.items) != counts[0] or "m8n8" not in instruction.qualifiers:
            raise unsupported(instruction, f"{len(self.items)} registers")
        self.count = counts[0]
        self.transposed = "trans" in instruction.qualifiers
        self.instruction = instruction
        self.address = context.value(instruction.operands[address])

    def __call__(self, machine: Machine, convoy: Convoy) -> tuple[Any, Any, Any]:
        """CTAs and offsets of all rows, both (warps, matrices, 8), and the lanes that gave them."""
        lanes_of_whole_warps(convoy, self.instruction)
        slots, _ = convoy.warps()
        lanes = (slots[:, None] * 32 + np.arange(8 * self.count)).reshape(-1)
        addresses = self.address(machine.registers, lanes) & 0xFFFFFFFF
        ctas, offsets = shared_places(machine, lanes, addresses, ROW_BYTES, self.instruction, True)
        form = (len(slots), self.count, 8)
        if machine.monitor is not None:
            store = self.instruction.opcode == "stmatrix"
            machine.monitor.shared_access(
                convoy, lanes, ctas, offsets, ROW_BYTES, store, self.instruction
            )
        return ctas.reshape(form), offsets.reshape(form), lanes


def elements(machine: Machine, ctas: Any, offsets: Any) -> tuple[NDArray[np.uint16], Any]:
    """Shared memory as 16-bit elements, and the index of those of all rows (…, 8, 8)."""
    memory = machine.shared.reshape(-1).view(np.uint16)
    first = ctas * (machine.shared.shape[1] // 2) + offsets // 2
    return memory, first[..., None] + np.arange(8)


@decodes("ldmatrix")
def decode_ldmatrix(instruction: Instruction, context: Context) -> Handler:
    """``ldmatrix`` of 8 x 8 matrices of 16-bit elements."""
    rows = MatrixRows(instruction, context, 1, 0)

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        ctas, offsets, _ = rows(machine, convoy)
        memory, index = elements(machine, ctas, offsets)
        matrices = memory[index]  # (warps, matrices, 8, 8)
        if rows.transposed:
            matrices = matrices.swapaxes(2, 3)
        words = np.ascontiguousarray(matrices).reshape(-1, rows.count, 64).view(np.uint32)
        for i, item in enumerate(rows.items):
            if not isinstance(item, Sink):
                spread(machine, convoy, item, "u32", words[:, i].reshape(-1))
        return None

    return handler


@decodes("stmatrix")
def decode_stmatrix(instruction: Instruction, context: Context) -> Handler:
    """``stmatrix`` of 8 x 8 matrices of 16-bit elements."""
    rows = MatrixRows(instruction, context, 0, 1)
    values = [context.value(item) for item in rows.items]

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        ctas, offsets, _ = rows(machine, convoy)
        lanes = lanes_of_whole_warps(convoy, instruction)
        words = np.stack([v.words(machine.registers, lanes).reshape(-1, 32) for v in values], 1)
        matrices = words.view(np.uint16).reshape(-1, rows.count, 8, 8)
        memory, index = elements(machine, ctas, offsets)
        memory[index] = matrices.swapaxes(2, 3) if rows.transposed else matrices
        return None

    return handler


@decodes("movmatrix")
def decode_movmatrix(instruction: Instruction, context: Context) -> Handler:
    """``movmatrix``: a transpose within the registers of a warp."""
    allow(instruction, "sync", "aligned", "m8n8", "trans", "b16")
    value = context.value(instruction.operands[1])
    target = instruction.operands[0]

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        words = value.words(machine.registers, lanes_of_whole_warps(convoy, instruction))
        matrices = np.ascontiguousarray(words).view(np.uint16).reshape(-1, 8, 8)
        turned = np.ascontiguousarray(matrices.swapaxes(1, 2)).reshape(-1, 64).view(np.uint32)
        spread(machine, convoy, target, "u32", turned.reshape(-1))
        return None

    return handler
