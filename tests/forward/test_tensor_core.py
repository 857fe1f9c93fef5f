"""What the tensor core is told, read as the emulator reads it: it finds what TMA wrote."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cutlass", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")

from fa4kernel.emulator.tensor import swizzle, tma
from fa4kernel.emulator.tensor.descriptors import SmemDescriptor, read
from fa4kernel.emulator.tensor.instruction import InstructionDescriptor
from fa4kernel.emulator.tensor.tensor_map import TensorMap
from fa4kernel.forward.config import TILE, Config, swizzle_bytes
from fa4kernel.forward.tensor_core import STEP, descriptor, instruction, k_steps, n_steps

KIND = np.dtype(np.uint16)
COLUMNS = (16, 32, 48, 64, 80, 96, 112, 128, 192)


class Place:
    """A place in shared memory."""

    def __init__(self, address: int) -> None:
        self.address = address

    def toint(self) -> int:
        return self.address


def written(rows: int, columns: int, start: int) -> tuple[np.ndarray, np.ndarray]:
    """A random tile (rows, columns) of 16-bit values, and shared memory with it, slab by slab."""
    rng = np.random.default_rng(columns)
    matrix = rng.integers(0, 1 << 16, (rows, columns)).astype(KIND)
    width = swizzle_bytes(columns)
    shared = np.zeros((1, 1 << 17), np.uint8)
    box = TensorMap.of(matrix, (1, 0), (width // 2, rows), swizzle=f"{width}B")
    for slab in range(2 * columns // width):
        place = np.array([[slab * width // 2], [0]], np.int64).T
        data = tma.load_box(box, place)
        swizzle.write(shared, slice(None), start + slab * box.box_bytes, data, f"{width}B")
    return matrix, shared


def described(start: int, rows: int, columns: int, step: int) -> SmemDescriptor:
    """A tile's descriptor, moved by a step as `multiply` moves it."""
    made = descriptor(Place(start), rows, columns)
    low = int(made.low.value) + step
    return SmemDescriptor.decode(low | made.high << 32)


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("rows, start", [(128, 0), (128, 65536), (64, 8192)])
def test_steps_along_k_find_16_columns_each(rows, columns, start):
    matrix, shared = written(rows, columns, start)
    steps = k_steps(rows, columns)
    assert len(steps) == columns // STEP
    for number, step in enumerate(steps):
        (got,) = read(shared, described(start, rows, columns, step), rows, STEP, KIND)
        assert (got == matrix[:, number * STEP :][:, :STEP]).all()


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("start", [0, 65536])
def test_steps_along_n_find_16_rows_each(columns, start):
    matrix, shared = written(TILE, columns, start)
    steps = n_steps(columns)
    assert len(steps) == TILE // STEP
    for number, step in enumerate(steps):
        what = described(start, TILE, columns, step)
        (got,) = read(shared, what, columns, STEP, KIND, "MN")
        assert (got == matrix[number * STEP :][:STEP].T).all()


@pytest.mark.parametrize("dtype, name", [("bf16", "bf16"), ("fp16", "f16")])
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("along_n", [False, True])
def test_the_instruction_says_shape_and_types(dtype, name, group, columns, along_n):
    code = instruction(Config(dtype=dtype, cta_group=group), columns, b_along_n=along_n)
    read_back = InstructionDescriptor.decode(code, "f16")
    read_back.check_shape(cta_group=group)
    assert read_back == InstructionDescriptor(
        kind="f16", m=TILE * group, n=columns, a_dtype=name, b_dtype=name, d_dtype="f32",
        a_major="K", b_major="MN" if along_n else "K",
    )  # fmt: skip
