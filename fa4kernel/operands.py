"""Arrays as callers have them, NumPy's or PyTorch's, and back.

The kernel works with bf16, fp16 and FP8 (e4m3, e5m2). PyTorch has them all; NumPy has fp16, and the
others if `ml_dtypes` is there. Arrays of float32 are taken too, if the caller says to what they
shall be rounded; and of uint8, if the caller says of which FP8 these are the bit patterns.

FP8 gives bf16 results, which are float32 where the caller's library has no bf16.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4sim.numerics.formats import from_bits16, round_to, to_bits8, to_bits16
from fa4sim.numerics.kinds import in_numpy
from fa4sim.specs import FP8

Bits = NDArray[np.unsignedinteger[Any]]

_NAMES = {
    "bfloat16": "bf16", "float16": "fp16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"
}  # fmt: skip


def is_torch(array: Any) -> bool:
    """Whether an array is a PyTorch tensor; PyTorch is not imported to tell."""
    return type(array).__module__.split(".")[0] == "torch"


@dataclass(frozen=True)
class Operand:
    """An array of a caller.

    Attributes:
        name: how the caller calls it.
        array: NumPy's or PyTorch's.
        dtype: "bf16", "fp16", "e4m3" or "e5m2", in which the kernel takes it.
    """

    name: str
    array: Any
    dtype: str

    @classmethod
    def of(cls, name: str, array: Any, dtype: str | None) -> Operand:
        """Look at an array; `dtype` says to what float32 shall be rounded, or what uint8 means.

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
        allowed = {"float32": tuple(_NAMES.values()), "uint8": FP8}.get(kind, ())
        if dtype in allowed:
            assert dtype is not None
            return cls(name, array, dtype)
        what = {
            "float32": "say dtype='bf16', 'fp16', 'e4m3' or 'e5m2' to round it",
            "uint8": "say dtype='e4m3' or 'e5m2' if these are bit patterns",
        }.get(kind, "convert it")
        raise ValueError(
            f"{name} is {kind}; the kernel takes bfloat16, float16 and FP8 (float8_e4m3fn, "
            f"float8_e5m2): {what}"
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array."""
        return tuple(self.array.shape)

    def bits(self) -> Bits:
        """Its values' bit patterns, contiguous, in NumPy."""
        array, fp8 = self.array, self.dtype in FP8
        if is_torch(array) and str(array.dtype) == "torch.float32":
            array = array.detach().resolve_neg().cpu().numpy()
        if is_torch(array):
            import torch

            whole = array.detach().resolve_neg().cpu().contiguous()
            return np.asarray(whole.view(torch.uint8 if fp8 else torch.uint16).numpy())
        if array.dtype == np.float32:
            rounded = round_to(np.ascontiguousarray(array), self.dtype)
            return to_bits8(rounded, self.dtype) if fp8 else to_bits16(rounded, self.dtype)
        return np.ascontiguousarray(array).view(np.uint8 if fp8 else np.uint16)

    @property
    def out_dtype(self) -> str:
        """In which the kernel gives results: "bf16" or "fp16"."""
        return "bf16" if self.dtype in FP8 else self.dtype

    def result(self, bits: NDArray[np.uint16]) -> Any:
        """16-bit patterns as an array of the caller's kind and type; of FP8 in bf16."""
        array, fp8 = self.array, self.dtype in FP8
        if is_torch(array):
            import torch

            made = torch.from_numpy(bits).view(torch_type(self.out_dtype))
            return self.as_callers(made.to(array.device))
        if fp8 and array.dtype.name in _NAMES:
            return bits.view(import_module("ml_dtypes").bfloat16)  # there: q has a type of it
        if fp8 or array.dtype == np.float32:
            return from_bits16(bits, self.out_dtype)
        return bits.view(array.dtype)

    def as_callers(self, tensor: Any) -> Any:
        """A tensor of results of the kernel's type in the caller's; of FP8 it stays bf16."""
        keeps = self.dtype in FP8 and str(self.array.dtype) != "torch.float32"
        return tensor if keeps else tensor.to(self.array.dtype)

    def like(self, values: NDArray[np.float32]) -> Any:
        """float32 values in the caller's library, and on its device."""
        if is_torch(self.array):
            import torch

            return torch.from_numpy(values).to(self.array.device)
        return values


def torch_type(dtype: str) -> Any:
    """PyTorch's name of a type of ours."""
    import torch

    return {
        "bf16": torch.bfloat16, "fp16": torch.float16,
        "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2,
    }[dtype]  # fmt: skip


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
    wanted = "integers" if dtype is np.int32 else "real numbers"
    if is_torch(array) and dtype is np.float32:
        array = array.float()
    values = in_numpy(name, array, wanted)
    if values.ndim != 1 or length not in (None, len(values)):
        shape = "one-dimensional" if length is None else f"({length},)"
        raise ValueError(f"{name} has shape {values.shape}; it must be {shape}")
    if dtype is np.int32:
        if not np.issubdtype(values.dtype, np.integer):
            raise ValueError(f"{name} is {values.dtype}; it must hold {wanted}")
        if ((values < 0) | (values > np.iinfo(np.int32).max)).any():
            raise ValueError(f"{name}={values.tolist()} must hold 32-bit integers, 0 or more")
    elif values.dtype.kind not in "fiu" and str(values.dtype) != "bfloat16":
        raise ValueError(f"{name} is {values.dtype}; it must hold {wanted}")
    elif np.isnan(values).any():
        raise ValueError(f"{name}={values.tolist()} has a NaN in it")
    elif (values > np.finfo(np.float32).max).any():
        raise ValueError(
            f"{name}={values.tolist()} has a number in it that is too large for float32"
        )
    with np.errstate(over="ignore"):  # what is too small becomes -inf
        return np.ascontiguousarray(values, dtype)
