"""From arrays to kernel parameters, as the DSL lays them out.

A tensor becomes a pointer, the extents and the strides that were not known at compile time; a
tensor behind a TMA map becomes its extents alone, beside the map. Which numbers are 32 and which
are 64 bits wide stands in the kernel's :class:`~fa4kernel.official.facts.Argument`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fa4kernel.emulator.launch import Struct
from fa4kernel.emulator.tensor.tensor_map import TensorMap
from fa4kernel.official.facts import Argument
from fa4kernel.official.layouts import Tree, at, leaves, step_path
from fa4kernel.official.problem import Array

ELEMENTS = {"bf16": "bf16", "f16": "f16", "f32": "f32", "f8E4M3FN": "e4m3", "f8E5M2": "e5m2"}
"""Element types of maps: the DSL's name, the emulator's."""


@dataclass(frozen=True)
class View:
    """An array seen with its axes reordered, grouped or repeated.

    Attributes:
        array: whose memory it is.
        shape, stride: trees of extents, and of strides in elements.
    """

    array: Array
    shape: Tree
    stride: Tree

    @classmethod
    def of(cls, array: Array, axes: Tree) -> View:
        """A view whose modes are the array's ``axes``, grouped as they are."""
        strides = tuple(s // array.itemsize for s in array.strides)
        return cls(array, _take(array.shape, axes), _take(strides, axes))

    def packed(self, ratio: int, head_mode: int) -> View:
        """The view with ``ratio`` heads of a group moved before the rows (pack_gqa.py)."""
        if ratio == 1:
            return self
        shape, stride = list(self.shape), list(self.stride)
        step = stride[head_mode]
        shape[0], stride[0] = (ratio, shape[0]), (step, stride[0])
        shape[head_mode] //= ratio
        stride[head_mode] *= ratio
        return View(self.array, tuple(shape), tuple(stride))


@dataclass(frozen=True)
class Divmod:
    """A divisor that the kernel divides by with a multiplication and two shifts.

    Source: Granlund and Montgomery, "Division by invariant integers using multiplication" (1994),
    figure 4.1; the field order was read from the kernel's PTX.

    >>> d = Divmod(7)
    >>> all(d.divide(n) == n // 7 for n in (0, 6, 7, 48, 2**31 - 1, 2**32 - 1))
    True
    """

    divisor: int

    @property
    def numbers(self) -> tuple[int, int, int]:
        """Multiplier and the two shifts."""
        bits = (self.divisor - 1).bit_length()
        multiplier = (2**32 * (2**bits - self.divisor)) // self.divisor + 1
        return multiplier, min(bits, 1), max(bits - 1, 0)

    def divide(self, n: int) -> int:
        """What the kernel computes for ``n // divisor``."""
        multiplier, shift1, shift2 = self.numbers
        high = (n * multiplier) >> 32
        return (((n - high) >> shift1) + high) >> shift2

    def encode(self) -> Struct:
        """The 12 bytes of the parameter."""
        multiplier, shift1, shift2 = self.numbers
        return Struct(
            np.uint32(self.divisor),
            np.uint32(multiplier),
            np.uint8(shift1),
            np.uint8(shift2),
            bytes(2),
        )


def encode(argument: Argument, value: Any) -> Any:
    """``value`` as the launch argument that the kernel's parameter needs.

    Args:
        argument: what the parameter is.
        value: a :class:`View`, :class:`Divmod`, array (a pointer), number, or None.

    Raises:
        TypeError: the value is not of the parameter's kind.
    """
    kind = argument.kind
    if kind == "unread" and value is None:
        return None
    if kind == "f32" and isinstance(value, float):
        return np.float32(value)
    if kind == "i32" and isinstance(value, int):
        return np.int32(value)
    if kind == "divmod" and isinstance(value, Divmod):
        return value.encode()
    if kind == "pointer" and isinstance(value, np.ndarray):
        return value
    if isinstance(value, View):
        if kind == "extents":
            return Struct(*_dynamic(argument.shape, value.shape))
        if kind == "tensor":
            numbers = _dynamic(argument.shape, value.shape)
            return Struct(value.array, *numbers, *_dynamic(argument.stride, value.stride))
        if kind == "map":
            return _map(argument, value)
    raise TypeError(f"a parameter of kind {kind} cannot be made from {value!r}")


def _map(argument: Argument, view: View) -> TensorMap:
    paths = [step_path(step) for step in leaves(argument.basis)]
    strides = [at(view.stride, path) * view.array.itemsize for path in paths]
    assert strides[0] == view.array.itemsize, "a map's first dimension is contiguous"
    return TensorMap(
        view.array,
        dims=tuple(at(view.shape, path) for path in paths),
        strides=tuple(strides[1:]),
        box=tuple(int(extent) for extent in leaves(argument.box)),
        dtype=ELEMENTS[argument.element],
        swizzle=argument.swizzle,
    )


def _dynamic(printed: Tree, values: Tree) -> list[np.integer[Any]]:
    """The numbers that were not known at compile time; the known ones are checked."""
    numbers: list[np.integer[Any]] = []
    for text, value in zip(leaves(printed), leaves(values), strict=True):
        if text.startswith("?"):
            numbers.append(np.int64(value) if "i64" in text else np.int32(value))
        else:
            assert int(text) == value, f"compiled for {printed}, launched with {values}"
    return numbers


def _take(items: Tree, axes: Tree) -> Tree:
    if isinstance(axes, tuple):
        return tuple(_take(items, axis) for axis in axes)
    return items[axes]
