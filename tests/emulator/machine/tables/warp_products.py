"""``mma.sync`` (PTX ISA 9.7.14.5): products of small whole numbers, which every format holds.

Where an element is, is written down here as the manual has it, shape by shape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fa4kernel.emulator.tensor import formats
from tests.emulator.machine.case import Case

#: Row and column of element i of thread t, given the group g = t / 4 and t % 4.
Place = Callable[[int, int, int], tuple[int, int]]

_STORED = {"f16": "u2", "bf16": "u2", "tf32": "u4", "e4m3": "u1", "e5m2": "u1", "f32": "f4",
           "s8": "i1", "u8": "u1", "s32": "i4", "f64": "f8"}  # fmt: skip


def a_16bit_k16(g: int, t: int, i: int) -> tuple[int, int]:
    return (g if i < 2 or 4 <= i < 6 else g + 8), 2 * t + i % 2 + (8 if i >= 4 else 0)


def a_16bit_k8(g: int, t: int, i: int) -> tuple[int, int]:
    return (g if i < 2 else g + 8), 2 * t + i % 2


def a_32bit_k8(g: int, t: int, i: int) -> tuple[int, int]:
    return (g if i in (0, 2) else g + 8), (t if i < 2 else t + 4)


def a_32bit_k4(g: int, t: int, i: int) -> tuple[int, int]:
    return (g if i == 0 else g + 8), t


def a_8bit_k32(g: int, t: int, i: int) -> tuple[int, int]:
    return (g if i < 4 or 8 <= i < 12 else g + 8), 4 * t + i % 4 + (16 if i >= 8 else 0)


def a_8bit_k16(g: int, t: int, i: int) -> tuple[int, int]:
    return (g if i < 4 else g + 8), 4 * t + i % 4


def a_8_rows(g: int, t: int, i: int) -> tuple[int, int]:
    return g, 4 * t + i


def a_8_rows_k4(g: int, t: int, i: int) -> tuple[int, int]:
    return g, t


def b_16bit(g: int, t: int, i: int) -> tuple[int, int]:
    return 2 * t + i % 2 + (8 if i >= 2 else 0), g


def b_32bit(g: int, t: int, i: int) -> tuple[int, int]:
    return t + 4 * i, g


def b_8bit(g: int, t: int, i: int) -> tuple[int, int]:
    return 4 * t + i % 4 + (16 if i >= 4 else 0), g


def c_all(g: int, t: int, i: int) -> tuple[int, int]:
    return (g if i < 2 else g + 8), 2 * t + i % 2


def encoded(values: np.ndarray, kind: str) -> np.ndarray:
    """Whole numbers in the container of a format."""
    if kind in ("f32", "s8", "u8", "s32", "f64"):
        return values.astype(_STORED[kind])
    return formats.encode(values.astype(np.float32), kind)


def words(matrix: np.ndarray, place: Place) -> np.ndarray:
    """The registers of each thread, (32, words)."""
    count = matrix.size // 32
    found = np.zeros((32, count), matrix.dtype)
    for t in range(32):
        for i in range(count):
            found[t, i] = matrix[place(t // 4, t % 4, i)]
    return found.view(np.uint32)


def product(
    shape: tuple[int, int], kinds: tuple[str, str, str], a_at: Place, b_at: Place,
    flags: str = "", needs: str = "sm_90", large: bool = False,
) -> Case:  # fmt: skip
    """A case of one product, D = A B + C."""
    m, k = shape
    rng = np.random.default_rng(m * k + len(kinds[0]))
    low = 0 if kinds[0] == "u8" else -3
    a, b = rng.integers(low, 4, (m, k)), rng.integers(0 if kinds[1] == "u8" else -3, 4, (k, 8))
    c = rng.integers(-8, 9, (m, 8))
    d = a @ b + c
    if large:  # stops at the limits of 32 bits
        c = np.where(c > 0, 2**31 - 1, -(2**31))
        d = np.clip(a @ b + c, -(2**31), 2**31 - 1)
    given = [words(encoded(x, kind), at) for x, kind, at in
             ((a, kinds[0], a_at), (b, kinds[1], b_at), (c, kinds[2], c_all))]  # fmt: skip
    wide = kinds[2] == "f64"
    name, load, size = ("g", "f64", 8) if wide else ("a", "u32", 4)
    body, registers, offset, number = "", [], 0, 0
    for part in given:
        count = part.shape[1] * 4 // size
        body += f"mul.wide.u32 %d1, t, {size * count}; add.u64 %d1, src, %d1;\n"
        names = [f"%{name}{number + i + (0 if wide else 10)}" for i in range(count)]
        for i, register in enumerate(names):
            body += f"ld.global.{load} {register}, [%d1+{offset + size * i}];\n"
        registers.append("{" + ", ".join(names) + "}")
        offset += 4 * part.size
        number += count
    outputs = registers[2]
    types = f"{kinds[2]}.{kinds[0]}.{kinds[1]}.{kinds[2]}"
    body += (
        f"mma.sync.aligned.m{m}n8k{k}.row.col{flags}.{types}"
        f" {outputs}, {registers[0]}, {registers[1]}, {outputs};\n"
    )
    for i, register in enumerate(outputs.strip("{}").split(", ")):
        body += f"st.global.{load} [mine+{size * i}], {register};\n"
    expected = words(encoded(d, kinds[2]), c_all)
    source: Any = np.concatenate([x.reshape(-1) for x in given])
    return Case(
        f"mma.m{m}n8k{k}{flags}.{types}", body, expected, source, words=expected.shape[1],
        needs=needs,
    )  # fmt: skip


CASES = (
    product((16, 16), ("f16", "f16", "f32"), a_16bit_k16, b_16bit),
    product((16, 16), ("f16", "f16", "f16"), a_16bit_k16, b_16bit),
    product((16, 8), ("f16", "f16", "f32"), a_16bit_k8, b_16bit),
    product((16, 16), ("bf16", "bf16", "f32"), a_16bit_k16, b_16bit),
    product((16, 8), ("bf16", "bf16", "f32"), a_16bit_k8, b_16bit),
    product((16, 8), ("tf32", "tf32", "f32"), a_32bit_k8, b_32bit),
    product((16, 4), ("tf32", "tf32", "f32"), a_32bit_k4, b_32bit),
    product((16, 32), ("e4m3", "e4m3", "f32"), a_8bit_k32, b_8bit),
    product((16, 32), ("e4m3", "e5m2", "f32"), a_8bit_k32, b_8bit),
    product((16, 16), ("e5m2", "e5m2", "f32"), a_8bit_k16, b_8bit),
    product((16, 32), ("s8", "u8", "s32"), a_8bit_k32, b_8bit),
    product((16, 16), ("u8", "s8", "s32"), a_8bit_k16, b_8bit),
    product((8, 16), ("s8", "s8", "s32"), a_8_rows, b_8bit),
    product((16, 32), ("s8", "s8", "s32"), a_8bit_k32, b_8bit, flags=".satfinite", large=True),
    product((8, 4), ("f64", "f64", "f64"), a_8_rows_k4, b_32bit),
    product((16, 8), ("f64", "f64", "f64"), a_32bit_k8, b_32bit),
)
