"""Where the addresses of loads, stores and atomics point: spaces, alignment, limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.errors import EmulationError
from fa4kernel.emulator.machine.layout import (
    LOCAL_WINDOW,
    PARAM_WINDOW,
    RANK_SHIFT,
    SHARED_WINDOW,
)
from fa4kernel.emulator.machine.memory import check_aligned
from fa4kernel.emulator.machine.program import Context, unsupported
from fa4kernel.emulator.ptx.module import TYPE_BITS, Instruction, Register

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

#: Qualifiers that say how to cache or order, which changes no value here.
HINTS = frozenset(
    ["weak", "relaxed", "acquire", "release", "acq_rel", "volatile", "gpu", "sys",
     "cluster", "cta", "nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "L1::evict_normal",
     "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate",
     "L2::cache_hint", "L2::64B", "L2::128B", "L2::256B", "L2::evict_last",
     "L2::evict_normal", "L2::evict_first", "mmio"]
)  # fmt: skip
SPACES = ("global", "shared", "shared::cta", "shared::cluster", "param", "param::entry", "local",
          "const")  # fmt: skip
#: The space that the high word of a generic address means; others mean global memory.
WINDOWS = {SHARED_WINDOW: "shared::cluster", PARAM_WINDOW: "param", LOCAL_WINDOW: "local"}
#: How the bytes of each type are kept in memory (complex128 only stands for 16 bytes).
MEMORY = {
    "b8": np.uint8, "u8": np.uint8, "s8": np.int8, "b16": np.uint16, "u16": np.uint16,
    "s16": np.int16, "f16": np.uint16, "bf16": np.uint16, "b32": np.uint32, "u32": np.uint32,
    "s32": np.int32, "f32": np.float32, "b64": np.uint64, "u64": np.uint64, "s64": np.int64,
    "f64": np.float64, "f16x2": np.uint32, "bf16x2": np.uint32, "b128": np.complex128,
}  # fmt: skip


class Place:
    """Where the addresses of an instruction point: one space, or (generic) any."""

    def __init__(self, instruction: Instruction, context: Context, operand: int) -> None:
        self.instruction = instruction
        spaces = [q for q in instruction.qualifiers if q in SPACES]
        self.space = spaces[0] if spaces else "generic"
        wide = 1 if self.space.startswith("shared") else 2
        self.address = context.value(instruction.operands[operand], wide)

    def split(self, machine: Machine, lanes: NDArray[np.intp]) -> tuple[str, NDArray[np.int64]]:
        """The space and addresses within it, of lanes that all mean the same space."""
        addresses = self.address(machine.registers, lanes)
        if self.space == "generic":
            return self._generic(addresses)
        if self.space.startswith("param"):
            return "param", addresses & 0xFFFFFFFF
        if self.space == "local":
            return "local", addresses & 0xFFFFFFFF
        if self.space == "const":
            return "global", addresses
        if self.space.startswith("shared"):
            return self.space, addresses & 0xFFFFFFFF
        return self.space, addresses

    def _generic(self, addresses: NDArray[np.int64]) -> tuple[str, NDArray[np.int64]]:
        windows = addresses >> 32
        space = WINDOWS.get(int(windows[0]), "global")
        if not (windows == windows[0]).all():
            spaces = {WINDOWS.get(int(w), "global") for w in np.unique(windows)}
            if len(spaces) > 1:
                raise EmulationError(
                    f"generic addresses in {' and '.join(sorted(spaces))} memory in one"
                    " instruction, which is not modelled", self.instruction, "mixed-spaces",
                )  # fmt: skip
        return space, addresses if space == "global" else addresses & 0xFFFFFFFF


def local_places(
    machine: Machine,
    lanes: NDArray[np.intp],
    offsets: NDArray[np.int64],
    size: int,
    instruction: Instruction,
) -> NDArray[np.int64]:
    """Offsets in the local memories of all lanes, one after the other.

    Raises:
        EmulationError: an address is outside or misaligned.
    """
    limit = machine.local.shape[1]
    if (offsets + size > limit).any() or (offsets < 0).any():
        raise EmulationError(
            f"local addresses {int(offsets.min()):#x} to {int(offsets.max()) + size - 1:#x}: a"
            f" thread has {limit:#x} bytes", instruction, "out-of-bounds",
        )  # fmt: skip
    check_aligned(offsets, size, instruction)
    found: NDArray[np.int64] = lanes * limit + offsets
    return found


def shared_places(
    machine: Machine,
    lanes: NDArray[np.intp],
    addresses: NDArray[np.int64],
    size: int,
    instruction: Instruction,
    own: bool,
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """CTA and offset of shared addresses.

    Args:
        own: whether only the CTA's own window is meant.

    Raises:
        EmulationError: an address is outside, misaligned, or in another CTA's window.
    """
    ctas = lanes // 32 % machine.shape.ctas
    ranks, offsets = addresses >> RANK_SHIFT, addresses & ((1 << RANK_SHIFT) - 1)
    limit = machine.shared.shape[1]
    if (offsets + size > limit).any() or (offsets < 0).any():
        raise EmulationError(
            f"shared addresses {int(offsets.min()):#x} to {int(offsets.max()) + size - 1:#x}: a CTA"
            f" has {limit:#x} bytes", instruction, "out-of-bounds",
        )  # fmt: skip
    check_aligned(offsets, size, instruction)
    mine = machine.rank_of(ctas)
    if (ranks >= machine.shape.size).any() or (own and (ranks != mine).any()):
        raise EmulationError(
            f"shared address {int(addresses[(ranks != mine)][0]):#x} is in the window of CTA rank"
            f" {int(ranks[ranks != mine][0])}; this instruction reaches"
            f" {'only its own CTA' if own else f'ranks 0 to {machine.shape.size - 1}'}",
            instruction, "out-of-bounds",
        )  # fmt: skip
    return machine.cta_at(ctas, ranks), offsets


def data_type(instruction: Instruction) -> str:
    """The type of what is moved."""
    kind = instruction.type
    if kind not in MEMORY:
        raise unsupported(instruction, f"type .{kind}")
    return kind


def register_type(kind: str, register: object) -> str:
    """The type in which a value is put into a register: loads widen to its size."""
    bits = TYPE_BITS[kind]
    if bits == 128:
        return kind
    width = max(bits, TYPE_BITS[register.type] if isinstance(register, Register) else bits)
    width = max(width, 16)
    letter = "s" if kind[0] == "s" else "u"
    return f"{letter}{width}" if kind[0] != "f" or bits < 32 else kind
