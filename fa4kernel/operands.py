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
            whole = array.detach().to(wanted).cpu().contiguous()
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


def numbers(name: str, array: Any, dtype: Any, length: int) -> NDArray[Any]:
    """A short list of numbers (sink logits, places where sequences begin) in NumPy.

    Raises:
        ValueError: it has another shape or kind.
    """
    if is_torch(array):
        array = array.detach().cpu().float() if dtype is np.float32 else array.detach().cpu()
        array = array.numpy()
    values = np.asarray(array)
    if values.shape != (length,):
        raise ValueError(f"{name} has shape {values.shape}; it must be ({length},)")
    if dtype is np.int32 and not np.issubdtype(values.dtype, np.integer):
        raise ValueError(f"{name} is {values.dtype}; it must hold integers")
    return np.ascontiguousarray(values, dtype)
