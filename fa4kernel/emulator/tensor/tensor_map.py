"""Tensor maps: how TMA sees an array in global memory.

A `TensorMap` says what ``cuTensorMapEncodeTiled`` is told: where a tensor of up to five dimensions
lies, how large a box of it one copy moves, and how the box is swizzled in shared memory. Dimension
0 is the fastest and always contiguous; NumPy's order is the reverse. Strides are in bytes and are
given from dimension 1 on.

The map reads and writes the memory of a NumPy array of the caller. NumPy has no bf16, fp8 or tf32;
such arrays are unsigned integers of the right size and the map names the type.

Source: CUDA driver API, "Tensor Map Object Management", and PTX ISA 5.5.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.tensor import swizzle as swizzles
from fa4kernel.emulator.tensor.memory import first_byte, memory_of

Fill = Literal["zero", "nan"]

ELEMENT_TYPES: dict[str, np.dtype[Any]] = {
    "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "s32": np.dtype(np.int32),
    "u64": np.dtype(np.uint64),
    "s64": np.dtype(np.int64),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "bf16": np.dtype(np.uint16),
    "f32_ftz": np.dtype(np.float32),
    "tf32": np.dtype(np.uint32),
    "tf32_ftz": np.dtype(np.uint32),
    "e4m3": np.dtype(np.uint8),
    "e5m2": np.dtype(np.uint8),
}
"""What one element of each type is kept in; e4m3 and e5m2 are "u8" to the driver."""

FLOATING = ("f16", "f32", "f64", "bf16", "f32_ftz", "tf32", "tf32_ftz")
"""Types that the driver takes as floating point, which out-of-bounds NaN needs."""

_NAMES = {
    "uint8": "u8",
    "int8": "u8",
    "uint16": "u16",
    "int16": "u16",
    "uint32": "u32",
    "int32": "s32",
    "uint64": "u64",
    "int64": "s64",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "bfloat16": "bf16",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
}


def _check_array(array: Any) -> None:
    if not isinstance(array, np.ndarray) or array.ndim == 0:
        what = "a single number" if isinstance(array, np.ndarray) else type(array).__name__
        raise ValueError(f"the array is {what}; it must be a NumPy array of 1 to 5 axes")


def _whole(name: str, values: Iterable[Any]) -> tuple[int, ...]:
    """Numbers as ints; 1.5 is none."""
    try:
        return tuple(operator.index(n) for n in values)
    except TypeError:
        raise ValueError(f"{name} {values!r} must be whole numbers") from None


@dataclass(frozen=True, eq=False)
class TensorMap:
    """A tensor in global memory and the box of it that one TMA copy moves.

    Args:
        array: whose memory is meant. Any strides; the map's own layout starts at its first element.
        dims: elements in each dimension, dimension 0 the fastest; 1 to 5 of them.
        box: elements of a box in each dimension, 1 to 256 each.
        strides: bytes from one element to the next in dimensions 1 and up, multiples of 16.
            Default: compact.
        dtype: element type, one of `ELEMENT_TYPES`. Default: by the array's type.
        swizzle: mode of `fa4kernel.emulator.tensor.swizzle`.
        interleave: only "none" is modelled.
        oob: what elements outside the tensor read as, "zero" or "nan".
        element_strides: take every n-th element of a box in each dimension, 1 to 8 each.
        offset: bytes from the array's first element to the tensor's. May be negative, and the
            tensor may reach past the array, as long as no copy touches what isn't there.

    Rules:
        What the driver refuses is refused here, with the value and the rule. The one exception is
        the alignment of the array itself: NumPy's allocations needn't be aligned to 16 bytes.

    >>> x = np.zeros((4, 100, 64), np.float16)  # (heads, rows, d)
    >>> tensor_map = TensorMap(x, (64, 100, 4), box=(64, 32, 1), swizzle="128B")
    >>> tensor_map.strides, tensor_map.box_bytes
    ((128, 12800), 4096)
    """

    array: NDArray[Any] = field(repr=False)
    dims: tuple[int, ...]
    _: KW_ONLY
    box: tuple[int, ...]
    strides: tuple[int, ...] = ()
    dtype: str = ""
    swizzle: str = "none"
    interleave: str = "none"
    oob: Fill = "zero"
    element_strides: tuple[int, ...] = ()
    offset: int = 0

    def __post_init__(self) -> None:
        fill = object.__setattr__
        fill(self, "dtype", self.dtype or dtype_of(self.array))
        if self.dtype not in ELEMENT_TYPES:
            known = ", ".join(ELEMENT_TYPES)
            raise ValueError(f"element type {self.dtype!r} is not known; use one of {known}")
        fill(self, "dims", _whole("dims", self.dims))
        fill(self, "box", _whole("box", self.box))
        fill(self, "strides", _whole("strides", self.strides or self._compact_strides()))
        ones = (1,) * len(self.dims)
        fill(self, "element_strides", _whole("element_strides", self.element_strides or ones))
        self._check()

    @classmethod
    def of(
        cls,
        array: NDArray[Any],
        order: tuple[int, ...],
        box: tuple[int, ...],
        swizzle: str = "none",
        *,
        dtype: str = "",
        oob: Fill = "zero",
        element_strides: tuple[int, ...] = (),
    ) -> TensorMap:
        """Describe a NumPy array by its own shape and strides.

        Args:
            array: any array whose elements lie together along ``order[0]``.
            order: its axes, from the fastest (dimension 0 of the map) to the slowest; all of them.
            box, swizzle, dtype, oob, element_strides: as in `TensorMap`.

        Raises:
            ValueError: ``order`` is no permutation of the axes, elements are not contiguous along
                ``order[0]``, or the driver would refuse the map.

        >>> q = np.zeros((2, 100, 4, 64), np.uint16)  # (batch, rows, heads, d)
        >>> m = TensorMap.of(q, (3, 1, 2, 0), (64, 128, 1, 1), "128B", dtype="bf16")
        >>> m.dims, m.strides
        ((64, 100, 4, 2), (512, 128, 51200))
        """
        _check_array(array)
        if sorted(order) != list(range(array.ndim)):
            raise ValueError(f"order {order} must name each of the {array.ndim} axes once")
        if array.strides[order[0]] != array.itemsize and array.shape[order[0]] > 1:
            raise ValueError(
                f"axis {order[0]} has a stride of {array.strides[order[0]]} bytes, but elements of "
                f"{array.itemsize} bytes must be contiguous along dimension 0"
            )
        dims = tuple(array.shape[axis] for axis in order)
        strides: list[int] = []
        span = dims[0] * array.itemsize
        for axis, n in zip(order[1:], dims[1:], strict=True):
            # NumPy leaves the stride of an axis of length 1 to chance.
            strides.append(array.strides[axis] if n > 1 else -(-span // 16) * 16)
            span = max(span, strides[-1] * n)
        return cls(
            array,
            dims,
            box=box,
            strides=tuple(strides),
            dtype=dtype,
            swizzle=swizzle,
            oob=oob,
            element_strides=element_strides,
        )

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dims)

    @property
    def element_size(self) -> int:
        """Bytes of an element."""
        return ELEMENT_TYPES[self.dtype].itemsize

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Elements that a box holds in each dimension, element strides taken into account."""
        steps = zip(self.box, self.element_strides, strict=True)
        return (self.box[0], *(-(-n // step) for n, step in list(steps)[1:]))

    @cached_property
    def box_bytes(self) -> int:
        """Bytes of a box in shared memory, and what a copy counts as transaction bytes."""
        return prod(self.counts) * self.element_size

    @cached_property
    def row_bytes(self) -> int:
        """Bytes of a box along dimension 0."""
        return self.counts[0] * self.element_size

    @cached_property
    def extent(self) -> int:
        """Bytes of shared memory over which a box is spread.

        With a swizzle every row has the swizzle's full width, however narrow the box is: what an
        H200 does, and not in the manual.
        """
        pitch = max(self.row_bytes, swizzles.rule_of(self.swizzle).width)
        return self.box_bytes // self.row_bytes * pitch

    @cached_property
    def memory(self) -> NDArray[np.uint8]:
        """The bytes of the caller's array, from its lowest to its highest address, as a view."""
        return memory_of(self.array)

    @cached_property
    def origin(self) -> int:
        """Where the tensor's first element lies in ``memory``, in bytes."""
        return self.offset + first_byte(self.array)

    def _compact_strides(self) -> tuple[int, ...]:
        sizes = [self.element_size * prod(self.dims[: i + 1]) for i in range(len(self.dims) - 1)]
        return tuple(sizes)

    def _check(self) -> None:
        """Refuse what the driver refuses."""
        rank, size = self.rank, self.element_size
        if not 1 <= rank <= 5:
            raise ValueError(f"a tensor map has 1 to 5 dimensions, not {rank}: dims {self.dims}")
        for name, values, length in (
            ("strides", self.strides, rank - 1),
            ("box", self.box, rank),
            ("element_strides", self.element_strides, rank),
        ):
            if len(values) != length:
                raise ValueError(
                    f"{name} {values} must have {length} entries for the {rank} dims {self.dims}"
                )
        if self.array.itemsize != size:
            raise ValueError(
                f"element type {self.dtype!r} has {size} bytes, but the array's elements "
                f"({self.array.dtype}) have {self.array.itemsize}"
            )
        if any(not 1 <= n <= 2**32 for n in self.dims):
            raise ValueError(f"dims {self.dims} must lie in 1 to 2**32")
        if any(s % 16 or not 0 <= s < 2**40 for s in self.strides):
            raise ValueError(f"strides {self.strides} must be multiples of 16 bytes below 2**40")
        if any(not 1 <= n <= 256 for n in self.box):
            raise ValueError(f"box {self.box} must lie in 1 to 256")
        if any(not 1 <= n <= 8 for n in self.element_strides):
            raise ValueError(f"element_strides {self.element_strides} must lie in 1 to 8")
        inner = self.box[0] * size
        if inner % 16:
            raise ValueError(
                f"box {self.box} of {self.dtype} is {inner} bytes wide; it must be a multiple of 16"
            )
        width = swizzles.rule_of(self.swizzle).width
        if width and inner > width:
            raise ValueError(
                f"box {self.box} of {self.dtype} is {inner} bytes wide; swizzle {self.swizzle} "
                f"allows {width}"
            )
        if self.interleave != "none":
            raise ValueError(f"interleave {self.interleave!r} is not modelled; use 'none'")
        if self.oob not in ("zero", "nan"):
            raise ValueError(f"oob {self.oob!r} is not known; use 'zero' or 'nan'")
        if self.oob == "nan" and self.dtype not in FLOATING:
            raise ValueError(f"oob 'nan' needs a floating-point type, not {self.dtype!r}")
        if self.offset % 16:
            raise ValueError(f"offset {self.offset} must be a multiple of 16 bytes")


def dtype_of(array: NDArray[Any]) -> str:
    """Return the element type that an array's own type means.

    Raises:
        ValueError: TMA has no such type.

    >>> dtype_of(np.zeros(4, np.float16))
    'f16'
    """
    if array.dtype.name not in _NAMES:
        raise ValueError(f"TMA has no element type for {array.dtype}; give dtype=")
    return _NAMES[array.dtype.name]
