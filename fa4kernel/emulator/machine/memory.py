"""Global memory and the parameter block: what a kernel may read and write besides its own SM.

Every array that an argument points to gets an address range of its own, far from the others, so
that running over the end of one is noticed. A kernel never sees an address of this computer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.errors import EmulationError
from fa4kernel.emulator.launch import Launch, Pointer, Struct, misfit, scalar_bytes
from fa4kernel.emulator.machine.layout import GLOBAL_WINDOW
from fa4kernel.emulator.ptx.module import Function, Instruction, Module, Parameter
from fa4kernel.emulator.tensor.tensor_map import TensorMap

#: First bytes of a tensor map's 128: what they are, and which of the launch's maps.
MAP_MAGIC = 0x4D_41_50_34
#: Free addresses between two arrays.
GAP = 1 << 20
#: What an array that is an argument is called, before its number.
ARGUMENT = "argument "


class Region:
    """An array's memory at an address."""

    def __init__(self, name: str, start: int, memory: NDArray[np.uint8]) -> None:
        self.name = name
        self.start = start
        self.memory = memory

    @property
    def end(self) -> int:
        """The address after its last byte."""
        return self.start + len(self.memory)


def bytes_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    """An array's memory as bytes (a view).

    Raises:
        ValueError: it is not contiguous, or its elements are not what a kernel would read.
    """
    if not isinstance(array, np.ndarray):
        raise ValueError(f"a Pointer to a {type(array).__name__}: it must be a NumPy array")
    if array.dtype.hasobject or not array.dtype.isnative:
        raise ValueError(
            f"an argument of dtype {array.dtype}: a kernel reads numbers, low byte first"
        )
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise ValueError(
            f"an argument of shape {array.shape} and strides {array.strides} is not contiguous; "
            "pass np.ascontiguousarray(...), or a Pointer to the array it is a view of"
        )
    flat = array.reshape(-1, order="A") if array.ndim else array.reshape(1)
    return flat.view(np.uint8)


class Memory:
    """Regions, the parameter block and the launch's tensor maps.

    Attributes:
        parameters: the parameter block, uint8.
        maps: tensor maps by number.
    """

    def __init__(self, module: Module, function: Function, launch: Launch) -> None:
        self.regions: list[Region] = []
        self.maps: list[TensorMap] = []
        self._next = GLOBAL_WINDOW << 32
        self._known: dict[tuple[int, int], Region] = {}
        self.globals: dict[str, int] = {}
        for variable in (*module.variables, *function.variables):
            if variable.space in ("global", "const"):
                memory = np.zeros(variable.size or 0, np.uint8)
                if variable.initial is not None:
                    memory[: len(variable.initial)] = np.frombuffer(variable.initial, np.uint8)
                self.globals[variable.name] = self._add(variable.name, memory).start
        self.parameters = self._parameter_block(function, launch)
        self._starts = np.array([r.start for r in self.regions], np.int64)

    def _add(self, name: str, memory: NDArray[np.uint8]) -> Region:
        region = Region(name, self._next, memory)
        self._next = -(-(region.end + GAP) // GAP) * GAP
        self.regions.append(region)
        return region

    def _address(self, array: NDArray[Any], name: str) -> int:
        memory = bytes_of(array)
        key = (memory.ctypes.data, len(memory))
        if key not in self._known:
            self._known[key] = self._add(name, memory)
        return self._known[key].start

    def _parameter_block(self, function: Function, launch: Launch) -> NDArray[np.uint8]:
        parameters, given = function.parameters, launch.arguments
        if len(parameters) != len(given):
            raise ValueError(
                f"the kernel has {len(parameters)} parameters, the launch gives {len(given)} "
                "arguments: give one for each (None for one that is never read)"
            )
        size = max((p.offset + p.size for p in parameters), default=0)
        block = np.zeros(max(16, size), np.uint8)
        for number, (parameter, value) in enumerate(zip(parameters, given, strict=True)):
            raw = self._packed(value, parameter, f"{ARGUMENT}{number}")
            if len(raw) != parameter.size and value is not None:
                raise ValueError(misfit(number, value, len(raw), parameter.size))
            block[parameter.offset : parameter.offset + len(raw)] = np.frombuffer(raw, np.uint8)
        return block

    def _packed(self, value: Any, parameter: Parameter, name: str) -> bytes:
        if value is None:
            return b""
        if isinstance(value, bytes | bytearray):
            return bytes(value)
        if isinstance(value, Struct):
            raw = b""
            for field in value.fields:
                part, align = self._field(field, name)
                raw += bytes(-len(raw) % align) + part
            return raw + bytes(max(0, parameter.size - len(raw)))
        if isinstance(value, TensorMap | Pointer | np.ndarray):
            return self._field(value, name)[0]
        try:
            return scalar_bytes(value, parameter.size, parameter.type)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    def _field(self, value: Any, name: str) -> tuple[bytes, int]:
        """Bytes and alignment of a field of a struct."""
        if isinstance(value, TensorMap):
            self.maps.append(value)
            head = np.array([MAP_MAGIC, len(self.maps) - 1], np.uint32).tobytes()
            return head + bytes(120), 64
        if isinstance(value, Pointer):
            return (self._address(value.array, name) + value.byte_offset).to_bytes(8, "little"), 8
        if isinstance(value, np.ndarray):
            return self._address(value, name).to_bytes(8, "little"), 8
        if isinstance(value, bytes | bytearray):
            return bytes(value), 1
        if isinstance(value, np.generic):
            return value.tobytes(), value.itemsize
        if isinstance(value, bool | int):
            return scalar_bytes(value, 4, "b32"), 4
        if isinstance(value, float):
            return scalar_bytes(value, 4, "f32"), 4
        raise ValueError(f"{name}: {value!r} ({type(value).__name__}) cannot be passed to a kernel")

    def argument_at(self, address: int) -> int:
        """The number of the argument that is the array at an address; -1 if none is."""
        at = int(np.searchsorted(self._starts, address, "right")) - 1
        region = self.regions[at] if at >= 0 else None
        if region is None or address >= region.end or not region.name.startswith(ARGUMENT):
            return -1
        return int(region.name.removeprefix(ARGUMENT))

    def map_at(self, offset: int, instruction: Instruction) -> TensorMap:
        """The tensor map whose 128 bytes stand at this offset of the parameter block."""
        if 0 <= offset <= len(self.parameters) - 8:
            magic, number = self.parameters[offset : offset + 8].view(np.uint32)
            if magic == MAP_MAGIC:
                return self.maps[int(number)]
        raise EmulationError(
            f"there is no tensor map at byte {offset} of the parameters: pass a TensorMap as the "
            "argument that the instruction reads", instruction, "tensor-map",
        )  # fmt: skip

    def region_of(
        self, addresses: NDArray[np.int64], size: int, instruction: Instruction
    ) -> tuple[Region, NDArray[np.int64]] | None:
        """The one region that accesses of ``size`` bytes lie in, and their offsets in it.

        Returns:
            None if they lie in several.

        Raises:
            EmulationError: one lies in none.
        """
        low, high = int(addresses.min()), int(addresses.max()) + size
        at = int(np.searchsorted(self._starts, low, "right")) - 1
        region = self.regions[at] if at >= 0 else None
        if region is not None and high <= region.end:
            return region, addresses - region.start
        each = np.searchsorted(self._starts, addresses, "right") - 1
        ends = np.array([r.end for r in self.regions], np.int64)
        outside = each < 0
        if len(ends):
            outside |= addresses + size > ends[each]
        if outside.any():
            bad = int(addresses[outside][0])
            raise EmulationError(
                f"global address {bad:#x}: {self._near(bad)}", instruction, "out-of-bounds"
            )
        return None

    def _near(self, address: int) -> str:
        below = [r for r in self.regions if r.start <= address]
        if not below or address >= below[-1].end + GAP:
            return "no argument points there"
        region = below[-1]
        return (
            f"{address - region.end:,} bytes past the end of {region.name}"
            f" ({len(region.memory):,} bytes)"
        )

    def load(
        self, addresses: NDArray[np.int64], dtype: Any, instruction: Instruction
    ) -> NDArray[Any]:
        """Values at addresses of global memory."""
        size = np.dtype(dtype).itemsize
        found = self.region_of(addresses, size, instruction)
        if found is None:
            parts = [self.load(a[None], dtype, instruction) for a in addresses]
            return np.concatenate(parts)
        region, offsets = found
        check_aligned(offsets, size, instruction)
        values: NDArray[Any] = aligned(region.memory, dtype)[offsets // size]
        return values

    def store(
        self, addresses: NDArray[np.int64], values: NDArray[Any], instruction: Instruction
    ) -> None:
        """Write values to addresses of global memory."""
        size = values.dtype.itemsize
        found = self.region_of(addresses, size, instruction)
        if found is None:
            for address, value in zip(addresses, values, strict=True):
                self.store(address[None], value[None], instruction)
            return
        region, offsets = found
        check_aligned(offsets, size, instruction)
        if not region.memory.flags.writeable:
            raise EmulationError(f"{region.name} is read-only", instruction, "read-only")
        aligned(region.memory, values.dtype)[offsets // size] = values


def aligned(memory: NDArray[np.uint8], dtype: Any) -> NDArray[Any]:
    """Memory as values of a type (a view); a rest of too few bytes is left out."""
    size = np.dtype(dtype).itemsize
    return memory[: len(memory) // size * size].view(dtype)


def check_aligned(offsets: Any, size: int, instruction: Instruction) -> None:
    """Raise if an access is no multiple of its size."""
    if np.any(np.asarray(offsets) % size):
        bad = int(np.atleast_1d(offsets)[np.atleast_1d(offsets) % size != 0][0])
        raise EmulationError(
            f"an access of {size} bytes at offset {bad:#x}, which is no multiple of {size}",
            instruction, "misaligned",
        )  # fmt: skip


Regions = Sequence[Region]
