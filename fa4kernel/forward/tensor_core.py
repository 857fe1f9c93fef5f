"""MMAs: what the tensor core is told about its operands, and how it is told to start.

An MMA takes 32 bytes of every row of A (16 columns; of FP8 32) and as many rows of B, and adds
their product to a sum in tensor memory. B, and A unless it lies in tensor memory, are described by
64-bit *descriptors*: where a tile begins in shared memory and how it goes on. The constants are the
PTX ISA's ("Matrix Descriptor", "Instruction Descriptor"); addresses and strides count 16 bytes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cutlass.cute as cute
from cutlass import Int32

from fa4kernel.forward.config import TILE, Config, swizzle_bytes


def instruction(cfg: Config, columns: int, b_along_n: bool) -> int:
    """The instruction descriptor of A (rows × k) times B (k × columns), summed in f32.

    Args:
        cfg: says the type of A and B, and the rows: 128, of a pair 256.
        columns: of B and of the sum.
        b_along_n: whether B is contiguous along its columns (as V), not along K (as K).
    """
    f32, dtype = 1, {"fp16": 0, "bf16": 1, "e4m3": 0, "e5m2": 1}[cfg.dtype]
    rows = TILE * cfg.cta_group
    return (
        f32 << 4 | dtype << 7 | dtype << 10 | int(b_along_n) << 16 | columns // 8 << 17
        | rows // 16 << 24
    )  # fmt: skip


class Descriptor(NamedTuple):
    """A matrix descriptor in two halves: only the lower one, the address, is not constant."""

    low: Any  # Int32
    high: int


def kind(cfg: Config) -> str:
    """The kind of MMA, which says what the types in an instruction descriptor mean."""
    return "f8f6f4" if cfg.is_fp8 else "f16"


def descriptor(memory: Any, rows: int, columns: int, element_bytes: int = 2) -> Descriptor:
    """The descriptor of a tile that TMA has written: slabs with the swizzle of its width.

    Groups of 8 rows follow each other at once (the stride byte offset). Slabs follow each other
    after all rows; the tensor core looks for the next slab (the leading byte offset) only where a
    tile is contiguous along N. Along K, `k_steps` says where to begin.
    """
    width = swizzle_bytes(columns, element_bytes)
    swizzle = {128: 2, 64: 4, 32: 6}[width]
    version = 1
    low = Int32(memory.toint() >> 4) | (rows * width >> 4) << 16
    return Descriptor(low, swizzle << 29 | version << 14 | 8 * width >> 4)


def zero(turn: Any) -> Any:
    """0, but the compiler does not know: it would compute all descriptors of Q once, before the
    loops, and run out of registers to keep them in.

    Args:
        turn: some number that changes in the loop and is never negative.
    """
    return cute.arch.inline_ptx(
        "min.s32 {$w0}, {$r0}, 0;", write_only_types=[Int32], read_only_args=[turn]
    )


def k_steps(rows: int, columns: int, element_bytes: int = 2) -> list[int]:
    """By how much a descriptor moves per MMA, the operand being contiguous along K.

    Within a slab, 32 bytes on; then the next slab.

    >>> k_steps(128, 128)
    [0, 2, 4, 6, 1024, 1026, 1028, 1030]
    """
    width = swizzle_bytes(columns, element_bytes)
    per_slab = width // 32
    return [
        step // per_slab * (rows * width >> 4) + step % per_slab * 2
        for step in range(columns * element_bytes // 32)
    ]


def n_steps(columns: int, element_bytes: int = 2) -> list[int]:
    """By how much a descriptor moves per MMA, the operand being contiguous along N.

    An MMA takes 16 rows, of FP8 32.
    """
    rows = 32 // element_bytes
    return [
        step * (rows * swizzle_bytes(columns, element_bytes) >> 4) for step in range(TILE // rows)
    ]


def multiply(
    cfg: Config, total: Any, a: Any, b: Descriptor, steps: Any, instruction: int, more: Any
) -> None:
    """Issue MMAs by one thread; those of one thread complete in the order of their issue.

    Args:
        cfg: says the kind, and whether both CTAs of a pair multiply.
        total: address of the sum in tensor memory.
        a: a `Descriptor`, or an address in tensor memory.
        b: a `Descriptor`.
        steps: for each MMA, by how much `a` and `b` move.
        instruction: the instruction descriptor.
        more: whether the first adds to the sum or overwrites it; the others add.
    """
    in_tmem = not isinstance(a, Descriptor)
    known = isinstance(more, bool)  # when the kernel is compiled
    with cute.arch.elect_one():
        for number, (a_step, b_step) in enumerate(steps):
            adds = str(int(number > 0 or more)) if number or known else "more"
            # Descriptors are put together here. Outside, all of them would be kept in registers.
            code = [
                "setp.ne.b32 more, {$r4}, 0;" if adds == "more" else "",
                f"add.s32 low, {{$r1}}, {a_step};",
                "" if in_tmem else f"mov.b32 high, {a.high}; mov.b64 a, {{low, high}};",
                f"add.s32 low_b, {{$r2}}, {b_step};",
                f"mov.b32 high, {b.high}; mov.b64 b, {{low_b, high}};",
                f"tcgen05.mma.cta_group::{cfg.cta_group}.kind::{kind(cfg)}",
                f"[{{$r0}}], {'[low]' if in_tmem else 'a'}, b, {{$r3}}, {adds};",
            ]
            operands = [total, a if in_tmem else a.low, b.low, Int32(instruction)]
            cute.arch.inline_ptx(
                "{.reg .pred more; .reg .b32 low, low_b, high; .reg .b64 a, b; "
                + " ".join(code)
                + "}",
                read_only_args=operands + ([Int32(more)] if adds == "more" else []),
            )
