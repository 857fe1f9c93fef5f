"""bf16 matrices as the GEMM examples take them: for the compiler, for a launch, for the reference.

NumPy has no bf16; such a matrix is an array of uint16, the bit patterns. Rows may be padded, as TMA
wants each of them to start at a multiple of 16 bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator import TensorMap
from fa4kernel.emulator.launch import MOST_SHARED_BYTES
from fa4kernel.emulator.tensor.formats import decode, encode

Matrix = NDArray[np.uint16]

BARRIER_BYTES = 1024  # far more than barriers take: what follows must begin at a multiple of 1,024


def matrix(values: Any) -> Matrix:
    """Numbers (rows, columns), rounded to bf16 and stored with rows padded to 16 bytes.

    >>> matrix([[1.0, 2.0], [3.0, 4.0]]).strides
    (16, 2)
    """
    values = np.asarray(values, np.float32)
    rows, columns = values.shape
    padded = np.zeros((rows, -(-columns // 8) * 8), np.uint16)
    padded[:, :columns] = encode(values, "bf16")
    return padded[:, :columns]


def arguments(*operands: tuple[Matrix, int]) -> list[Any]:
    """Kernel arguments: for each matrix its map, for boxes of so many rows × 64, and its shape."""
    together: list[Any] = []
    for operand, rows in operands:
        box = (64, rows)  # 64 bf16 are the 128 bytes of the swizzle that the tensor core reads
        together += [
            TensorMap.of(operand, order=(1, 0), box=box, dtype="bf16", swizzle="128B"),
            np.array(operand.shape, np.int32).tobytes(),
        ]
    return together


def shared_bytes(stages: int, slot: int, c: int) -> int:
    """Shared memory of a CTA in bytes: barriers, a ring of slots of A and B, a tile of C.

    Raises:
        ValueError: the ring has too few slots to load and multiply at once, or too many to fit.
    """
    most = (MOST_SHARED_BYTES - BARRIER_BYTES - c) // slot
    if not 2 <= stages <= most:
        raise ValueError(f"stages={stages}: the ring has 2 to {most} slots of {slot:,} bytes")
    return BARRIER_BYTES + stages * slot + c


def check(a: Matrix, b: Matrix, c: Matrix) -> tuple[int, int, int]:
    """The sizes m, n, k of C = A Bᵀ.

    Raises:
        ValueError: the shapes do not fit together.
    """
    (m, k), (n, other_k) = a.shape, b.shape
    if other_k != k or c.shape != (m, n):
        raise ValueError(
            f"C = A Bᵀ takes A (m, k), B (n, k) and C (m, n), not {a.shape}, {b.shape}, {c.shape}"
        )
    return m, n, k


def reference(a: Matrix, b: Matrix) -> NDArray[np.float32]:
    """A Bᵀ of A (m, k) and B (n, k) in float64, given as float32.

    >>> a = matrix([[1.0, 2.0], [3.0, 4.0]])
    >>> reference(a, a).tolist()
    [[5.0, 11.0], [11.0, 25.0]]
    """
    exact = decode(a, "bf16").astype(np.float64) @ decode(b, "bf16").T.astype(np.float64)
    return exact.astype(np.float32)
