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
from fa4kernel.forward.tensor_core import descriptor, instruction, k_steps, kind, n_steps

#: Columns of a tile, and bytes of an element.
TILES = [(columns, 2) for columns in (16, 32, 48, 64, 80, 96, 112, 128, 192)]
TILES += [(columns, 1) for columns in (32, 64, 96, 128, 192)]
#: Of the kernel's types, the names of the PTX manual.
TYPES = {"bf16": "bf16", "fp16": "f16", "e4m3": "e4m3", "e5m2": "e5m2"}


class Place:
    """A place in shared memory."""

    def __init__(self, address: int) -> None:
        self.address = address

    def toint(self) -> int:
        return self.address


def element(size: int) -> np.dtype:
    """Unsigned integers of so many bytes."""
    return np.dtype(f"u{size}")


def written(rows: int, columns: int, start: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """A random tile (rows, columns), and shared memory with it, slab by slab."""
    rng = np.random.default_rng(columns)
    matrix = rng.integers(0, 1 << 8 * size, (rows, columns)).astype(element(size))
    width = swizzle_bytes(columns, size)
    shared = np.zeros((1, 1 << 17), np.uint8)
    box = TensorMap.of(matrix, (1, 0), (width // size, rows), swizzle=f"{width}B")
    for slab in range(size * columns // width):
        place = np.array([[slab * width // size], [0]], np.int64).T
        data = tma.load_box(box, place)
        swizzle.write(shared, slice(None), start + slab * box.box_bytes, data, f"{width}B")
    return matrix, shared


def described(start: int, rows: int, columns: int, size: int, step: int) -> SmemDescriptor:
    """A tile's descriptor, moved by a step as `multiply` moves it."""
    made = descriptor(Place(start), rows, columns, size)
    low = int(made.low.value) + step
    return SmemDescriptor.decode(low | made.high << 32)


@pytest.mark.parametrize("columns, size", TILES)
@pytest.mark.parametrize("rows, start", [(128, 0), (128, 65536), (64, 8192)])
def test_steps_along_k_find_32_bytes_each(rows, columns, size, start):
    matrix, shared = written(rows, columns, start, size)
    steps, taken = k_steps(rows, columns, size), 32 // size
    assert len(steps) == columns // taken
    for number, step in enumerate(steps):
        what = described(start, rows, columns, size, step)
        (got,) = read(shared, what, rows, taken, element(size))
        assert (got == matrix[:, number * taken :][:, :taken]).all()


@pytest.mark.parametrize("columns, size", TILES)
@pytest.mark.parametrize("start", [0, 65536])
def test_steps_along_n_find_as_many_rows_as_32_bytes_are_columns(columns, size, start):
    matrix, shared = written(TILE, columns, start, size)
    steps, taken = n_steps(columns, size), 32 // size
    assert len(steps) == TILE // taken
    for number, step in enumerate(steps):
        what = described(start, TILE, columns, size, step)
        (got,) = read(shared, what, columns, taken, element(size), "MN")
        assert (got == matrix[number * taken :][:taken].T).all()


@pytest.mark.parametrize(
    "dtype, columns",
    [
        (dtype, columns)
        for dtype in TYPES
        for columns, size in TILES
        if size == Config(dtype=dtype).element_bytes
    ],
)
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("along_n", [False, True])
def test_the_instruction_says_shape_and_types(dtype, group, columns, along_n):
    cfg = Config(dtype=dtype, cta_group=group)
    code = instruction(cfg, columns, b_along_n=along_n)
    read_back = InstructionDescriptor.decode(code, kind(cfg))
    read_back.check_shape(cta_group=group)
    name = TYPES[dtype]
    assert read_back == InstructionDescriptor(
        kind=kind(cfg), m=TILE * group, n=columns, a_dtype=name, b_dtype=name, d_dtype="f32",
        a_major="K", b_major="MN" if along_n else "K",
    )  # fmt: skip
