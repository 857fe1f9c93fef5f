"""How a kernel is launched: grid, cluster, block, shared memory and arguments."""

from __future__ import annotations

import operator
import reprlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.labels import PLAIN, Labels

Dim3 = tuple[int, int, int]

#: Dynamic and static shared memory that one CTA can have on sm_90 and sm_100, in bytes
#: (CUDA C++ Programming Guide, table of compute capabilities).
MOST_SHARED_BYTES = 232_448
#: CTAs of a grid, and threads of a CTA, in x, y, z (from the same table).
MOST_CTAS = (2**31 - 1, 65_535, 65_535)
MOST_THREADS = (1024, 1024, 64)


@dataclass(frozen=True)
class Pointer:
    """The address of a byte inside an array: ``array``'s first byte plus ``byte_offset``."""

    array: NDArray[Any]
    byte_offset: int = 0


@dataclass(frozen=True)
class Struct:
    """An argument of several fields, packed as C would: each field at its natural alignment.

    Fields are what arguments are: arrays (pointers), scalars, structs, bytes.
    """

    fields: tuple[Any, ...]

    def __init__(self, *fields: Any) -> None:
        object.__setattr__(self, "fields", tuple(fields))


@dataclass(frozen=True)
class Launch:
    """A launch of one kernel.

    Args:
        grid: CTAs in x, y, z.
        block: threads of a CTA in x, y, z.
        cluster: CTAs of a cluster in x, y, z; the grid is a multiple of it.
        shared_bytes: dynamic shared memory of a CTA.
        arguments: one for each kernel parameter. A NumPy array stands for a pointer to its
            memory (which the kernel reads and writes), a :class:`TensorMap` for a tensor map
            passed by value; NumPy scalars have their own type, Python ints and floats that of the
            parameter; :class:`Struct` and ``bytes`` fill parameters of several bytes; ``None`` is
            for a parameter that the kernel never reads.
        entry: the kernel's name; may be left out if the module has one.
        registers_per_thread: registers a thread starts with (what ptxas chose); by default as many
            as 65,536 give every thread of the block, a multiple of 8, at most 255.
        labels: what to call barriers, tensors and slots in reports and traces.
        pending: numbers of the arguments that the kernel before may still be writing when this one
            begins (programmatic dependent launch); ``griddepcontrol.wait`` waits for it.

    Raises:
        ValueError: a dimension is out of range, the grid is no multiple of the cluster, or there is
            no such argument.

    >>> Launch(grid=(4, 1, 1), block=(128, 1, 1)).ctas
    4
    """

    grid: Dim3
    block: Dim3
    cluster: Dim3 = (1, 1, 1)
    shared_bytes: int = 0
    arguments: Sequence[Any] = field(default_factory=tuple)
    entry: str | None = None
    registers_per_thread: int | None = None
    labels: Labels = PLAIN
    pending: Sequence[int] = ()

    def __post_init__(self) -> None:
        for name in ("grid", "block", "cluster"):
            value = getattr(self, name)
            if isinstance(value, int):
                value = (value,)
            value = tuple(_whole(name, n) for n in value)
            if not 1 <= len(value) <= 3 or any(n < 1 for n in value):
                raise ValueError(f"{name}={value}: give one to three numbers of at least 1")
            object.__setattr__(self, name, value + (1,) * (3 - len(value)))
        if self.threads > 1024:
            raise ValueError(f"block={self.block} has {self.threads} threads; 1024 are the most")
        for name, most in (("grid", MOST_CTAS), ("block", MOST_THREADS)):
            if any(n > limit for n, limit in zip(getattr(self, name), most, strict=True)):
                raise ValueError(f"{name}={getattr(self, name)}: the most are {most}")
        if prod(self.cluster) > 16:
            raise ValueError(f"cluster={self.cluster} has more than 16 CTAs")
        for name, grid, cluster in zip("xyz", self.grid, self.cluster, strict=True):
            if grid % cluster:
                raise ValueError(
                    f"grid={self.grid} is no multiple of cluster={self.cluster} in {name}: "
                    f"make {name} a multiple of {cluster}"
                )
        if isinstance(self.arguments, np.ndarray | str | bytes) or not isinstance(
            self.arguments, Sequence
        ):
            raise ValueError(
                f"arguments is a {type(self.arguments).__name__}: give a list, one for each "
                "parameter of the kernel"
            )
        for number in self.pending:
            if not 0 <= number < len(self.arguments):
                raise ValueError(
                    f"pending has {number!r}: give numbers of arguments, 0 to "
                    f"{len(self.arguments) - 1}"
                )
        registers = self.registers_per_thread
        if registers is not None and not 1 <= registers <= 255:
            raise ValueError(f"registers_per_thread={registers}: a thread has 1 to 255")
        if not 0 <= self.shared_bytes <= MOST_SHARED_BYTES:
            raise ValueError(
                f"shared_bytes={self.shared_bytes}: a CTA has 0 to {MOST_SHARED_BYTES:,}"
            )

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return prod(self.block)

    @property
    def ctas(self) -> int:
        """CTAs of the grid."""
        return prod(self.grid)

    @property
    def cluster_size(self) -> int:
        """CTAs of a cluster."""
        return prod(self.cluster)


def _whole(name: str, value: Any) -> int:
    """A dimension as an int; 1.5 is none."""
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{name} has {value!r} in it: give whole numbers") from None


def check_launch(launch: Launch, directives: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse a launch that the kernel's own directives exclude (PTX ISA 11.4, 11.5).

    Args:
        launch: the launch.
        directives: of the function, as the parser gives them.

    Raises:
        ValueError: block or cluster is none that the kernel was compiled for.

    >>> check_launch(Launch((1, 1, 1), (64, 1, 1)), {"reqntid": (128, 1, 1)})
    Traceback (most recent call last):
    ValueError: block=(64, 1, 1), but the kernel was compiled for (128, 1, 1) (.reqntid)
    """
    for name, given, what in (
        ("reqntid", launch.block, "block"),
        ("reqnctapercluster", launch.cluster, "cluster"),
    ):
        wanted = directives.get(name)
        if wanted and (*wanted, 1, 1)[:3] != given:
            wanted = (*wanted, 1, 1)[:3]
            raise ValueError(f"{what}={given}, but the kernel was compiled for {wanted} (.{name})")
    most = directives.get("maxntid")
    if most and launch.threads > prod(most):
        raise ValueError(
            f"block={launch.block} has {launch.threads} threads; the kernel was compiled for"
            f" at most {prod(most)} (.maxntid)"
        )


def misfit(number: int, value: Any, has: int, wanted: int) -> str:
    """What is wrong with an argument of ``has`` bytes for a parameter of ``wanted``.

    >>> misfit(2, np.zeros((4, 8), np.float32), 8, 4)
    'argument 2 has 8 bytes, the parameter 4: a pointer to float32 (4, 8)'
    """
    what, more = reprlib.repr(value), ""
    if isinstance(value, np.ndarray | Pointer):
        array = value.array if isinstance(value, Pointer) else value
        what = f"a pointer to {array.dtype} {array.shape}"
        if has < wanted:
            more = (
                "; if a struct begins with that pointer, as a CuTe tensor does, give "
                "Struct(array, ...) with what comes behind it"
            )
    return f"argument {number} has {has} bytes, the parameter {wanted}: {what}{more}"


_FORMATS = {"f32": "<f", "f64": "<d", "f16": "<e"}


def scalar_bytes(value: Any, size: int, kind: str) -> bytes:
    r"""A scalar as ``size`` bytes; ``kind`` is the parameter's PTX type.

    Raises:
        ValueError: it does not fit.

    >>> scalar_bytes(-1, 4, "b32")
    b'\xff\xff\xff\xff'
    """
    if isinstance(value, np.generic):
        raw = value.tobytes()
        if len(raw) != size:
            raise ValueError(
                f"{value!r} ({value.dtype}) has {len(raw)} bytes, the parameter {size}: "
                f"pass a NumPy scalar of {size} bytes or a Python number"
            )
        return raw
    if not isinstance(value, int | float):
        raise ValueError(
            f"{reprlib.repr(value)} ({type(value).__name__}) cannot be passed to a kernel: give a "
            "NumPy array, a number, a TensorMap, a Struct or bytes"
        )
    if isinstance(value, float) and kind[0] in "us":
        raise ValueError(f"{value!r} is a float; the parameter is a whole number ({kind})")
    if isinstance(value, float) or kind in _FORMATS:
        form = _FORMATS.get(kind) or {4: "<f", 8: "<d"}.get(size)
        if form is None or struct.calcsize(form) != size:
            raise ValueError(f"{value!r} is a float; the parameter is a {kind} of {size} bytes")
        return struct.pack(form, value)
    number = int(value)
    if not -(1 << (8 * size - 1)) <= number < 1 << (8 * size):
        raise ValueError(f"{number} does not fit into the {size} bytes of a {kind} parameter")
    return (number & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
