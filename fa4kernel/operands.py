"""Arrays as callers have them, NumPy's or PyTorch's, and back.

The kernel works with bf16 and fp16. PyTorch has both; NumPy has fp16, and bf16 if `ml_dtypes` is
there. Arrays of float32 are taken too, if the caller says to what they shall be rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4sim.numerics.formats import from_bits16, round_to, to_bits16

Bits = NDArray[np.uint16]

_NAMES = {"bfloat16": "bf16", "float16": "fp16"}


def is_torch(array: Any) -> bool:
    """Whether an array is a PyTorch tensor; PyTorch is not imported to tell."""
    return type(array).__module__.split(".")[0] == "torch"


@dataclass(frozen=True)
class Operand:
    """An array of a caller.

    Attributes:
        name: how the caller calls it.
        array: NumPy's or PyTorch's.
        dtype: "bf16" or "fp16", in which the kernel takes it.
    """

    name: str
    array: Any
    dtype: str

    @classmethod
    def of(cls, name: str, array: Any, dtype: str | None) -> Operand:
        """Look at an array; `dtype` says to what float32 shall be rounded.

        Raises:
            ValueError: it is no array, or of a type that the kernel does not take.
        """
        if not is_torch(array) and not isinstance(array, np.ndarray):
            raise ValueError(
                f"{name} is a {type(array).__name__}; it must be a NumPy array or a PyTorch tensor"
            )
        _check_data(name, array)
        kind = str(array.dtype).rpartition(".")[2]
        if kind in _NAMES:
            if dtype not in (None, _NAMES[kind]):
                raise ValueError(
                    f"{name} is {kind}, but dtype={dtype!r} was asked for; leave dtype out"
                )
            return cls(name, array, _NAMES[kind])
        if kind == "float32" and dtype in _NAMES.values():
            assert dtype is not None
            return cls(name, array, dtype)
        what = "say dtype='bf16' or 'fp16' to round it" if kind == "float32" else "convert it"
        raise ValueError(f"{name} is {kind}; the kernel takes bfloat16 and float16: {what}")

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array."""
        return tuple(self.array.shape)

    def bits(self) -> Bits:
        """Its values' bit patterns, contiguous, in NumPy."""
        array = self.array
        if is_torch(array):
            import torch

            wanted = {"bf16": torch.bfloat16, "fp16": torch.float16}[self.dtype]
            whole = array.detach().resolve_neg().to(wanted).cpu().contiguous()
            return np.asarray(whole.view(torch.uint16).numpy())
        if array.dtype == np.float32:
            return to_bits16(round_to(np.ascontiguousarray(array), self.dtype), self.dtype)
        return np.ascontiguousarray(array).view(np.uint16)

    def result(self, bits: Bits) -> Any:
        """Bit patterns as an array of the caller's kind and type."""
        array = self.array
        if is_torch(array):
            import torch

            wanted = {"bf16": torch.bfloat16, "fp16": torch.float16}[self.dtype]
            return torch.from_numpy(bits).view(wanted).to(array.device).to(array.dtype)
        if array.dtype == np.float32:
            return from_bits16(bits, self.dtype)
        return bits.view(array.dtype)

    def like(self, values: NDArray[np.float32]) -> Any:
        """float32 values in the caller's library, and on its device."""
        if is_torch(self.array):
            import torch

            return torch.from_numpy(values).to(self.array.device)
        return values


def _check_data(name: str, array: Any) -> None:
    """Refuse arrays that do not simply have a value everywhere."""
    if isinstance(array, np.ma.MaskedArray):
        raise ValueError(f"{name} is a masked array; fill it first: the kernel knows no such mask")
    if is_torch(array) and array.is_meta:
        raise ValueError(f"{name} is on the meta device, which has shapes but no values")
    if is_torch(array) and str(array.layout) != "torch.strided":
        raise ValueError(f"{name} has layout {array.layout}; make it dense: {name}.to_dense()")


def numbers(name: str, array: Any, dtype: Any, length: int | None) -> NDArray[Any]:
    """A short list of numbers (sink logits, places where sequences begin) in NumPy.

    Args:
        name: how the caller calls it.
        array: a list, or an array of NumPy's or PyTorch's.
        dtype: `np.float32` or `np.int32`.
        length: how many there must be; None for any number.

    Raises:
        ValueError: it has another shape or kind, or something in it is no number of that type.
    """
    if is_torch(array):
        array = array.detach().cpu().float() if dtype is np.float32 else array.detach().cpu()
        array = array.numpy()
    values = np.asarray(array)
    if values.ndim != 1 or length not in (None, len(values)):
        wanted = "one-dimensional" if length is None else f"({length},)"
        raise ValueError(f"{name} has shape {values.shape}; it must be {wanted}")
    if dtype is np.int32:
        if not np.issubdtype(values.dtype, np.integer):
            raise ValueError(f"{name} is {values.dtype}; it must hold integers")
        if ((values < 0) | (values > np.iinfo(np.int32).max)).any():
            raise ValueError(f"{name}={values.tolist()} must hold 32-bit integers, 0 or more")
    elif values.dtype.kind not in "fiu" and str(values.dtype) != "bfloat16":
        raise ValueError(f"{name} is {values.dtype}; it must hold real numbers")
    elif np.isnan(values).any():
        raise ValueError(f"{name}={values.tolist()} has a NaN in it")
    return np.ascontiguousarray(values, dtype)
