"""A GPU behind the emulator's own interface: PTX text and a `Launch`, run by the CUDA driver.

Only ctypes and NumPy. The driver compiles the PTX; arrays of the launch are copied to the device
and, after the kernel, back into place.
"""

from __future__ import annotations

import ctypes
import subprocess
import time
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

import numpy as np

from fa4kernel.emulator import Launch
from fa4kernel.emulator.launch import Pointer, scalar_bytes
from fa4kernel.emulator.ptx.parser import parse
from fa4kernel.emulator.tensor.tensor_map import TensorMap

_NOT_READY = 600
_CLUSTER_DIMENSION = 4
_DYNAMIC_SHARED = 8
_CLOCK_RATE = 13
_ERROR_LOG, _ERROR_LOG_BYTES = 5, 6
_DTYPES = (
    "u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32_ftz", "tf32",
    "tf32_ftz",
)  # fmt: skip
_SWIZZLES = (
    "none", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B",
)  # fmt: skip


class GpuError(RuntimeError):
    """The driver refused something, or a kernel failed or did not end."""


class Refused(GpuError):
    """The driver's compiler refused the PTX; the text is its log."""


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute, with the three dimensions of a cluster as its value."""

    _fields_ = [("id", c_uint), ("pad", c_uint), ("value", c_uint * 16)]


class _Configuration(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("grid", c_uint * 3), ("block", c_uint * 3), ("shared", c_uint), ("stream", c_void_p),
        ("attributes", POINTER(_Attribute)), ("count", c_uint),
    ]  # fmt: skip


class Gpu:
    """The first GPU, in this process.

    Raises:
        OSError: there is no CUDA driver.
        GpuError: there is no GPU, or the driver refuses it.
    """

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", c_uint(0))
        self.device = c_int()
        self.call("cuDeviceGet", byref(self.device), c_int(0))
        self.context = c_void_p()
        self.call("cuDevicePrimaryCtxRetain", byref(self.context), self.device)
        self.call("cuCtxSetCurrent", self.context)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver and raise what it complains of."""
        code = getattr(self.library, name)(*arguments)
        if code:
            raise GpuError(f"{name}: {self.error(code)}")

    def error(self, code: int) -> str:
        """The name of a result."""
        text = c_char_p()
        self.library.cuGetErrorName(c_int(code), byref(text))
        return (text.value or b"").decode() or f"error {code}"

    def about(self) -> dict[str, Any]:
        """Which device and driver these are, and the date."""
        name = ctypes.create_string_buffer(128)
        self.call("cuDeviceGetName", name, c_int(128), self.device)
        version, clock, major, minor = c_int(), c_int(), c_int(), c_int()
        self.call("cuDriverGetVersion", byref(version))
        self.call("cuDeviceGetAttribute", byref(clock), c_int(_CLOCK_RATE), self.device)
        self.call("cuDeviceGetAttribute", byref(major), c_int(75), self.device)
        self.call("cuDeviceGetAttribute", byref(minor), c_int(76), self.device)
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        try:
            driver = subprocess.run(query, capture_output=True, text=True, timeout=30).stdout
        except (OSError, subprocess.TimeoutExpired):
            driver = ""
        return {
            "device": name.value.decode(),
            "architecture": f"sm_{major.value}{minor.value}",
            "driver": driver.strip().splitlines()[0] if driver.strip() else "",
            "cuda": f"{version.value // 1000}.{version.value % 1000 // 10}",
            "clock_khz": clock.value,
            "date": time.strftime("%Y-%m-%d"),
        }

    # -- modules ----------------------------------------------------------------------------------

    def load(self, ptx: str) -> c_void_p:
        """Compile a module.

        Raises:
            Refused: the compiler's complaints.
        """
        log = ctypes.create_string_buffer(1 << 16)
        options = (c_int * 2)(_ERROR_LOG, _ERROR_LOG_BYTES)
        values = (c_void_p * 2)(ctypes.addressof(log), len(log))
        module = c_void_p()
        code = self.library.cuModuleLoadDataEx(
            byref(module), c_char_p(ptx.encode()), c_uint(2), options, values
        )
        if code:
            raise Refused(f"{self.error(code)}: {log.value.decode(errors='replace').strip()}")
        return module

    def unload(self, module: c_void_p) -> None:
        """Forget a module."""
        self.call("cuModuleUnload", module)

    def function(self, module: c_void_p, name: str) -> c_void_p:
        """A kernel of a module."""
        function = c_void_p()
        self.call("cuModuleGetFunction", byref(function), module, c_char_p(name.encode()))
        return function

    # -- memory -----------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> int:
        """Memory of the device, aligned to 256 bytes."""
        pointer = c_uint64()
        self.call("cuMemAlloc_v2", byref(pointer), c_size_t(max(nbytes, 1)))
        return pointer.value

    def free(self, pointer: int) -> None:
        """Give memory back."""
        self.call("cuMemFree_v2", c_uint64(pointer))

    def upload(self, pointer: int, array: np.ndarray) -> None:
        """Copy a contiguous array to the device."""
        self.call(
            "cuMemcpyHtoD_v2", c_uint64(pointer), c_void_p(array.ctypes.data),
            c_size_t(array.nbytes),
        )  # fmt: skip

    def download(self, pointer: int, array: np.ndarray) -> None:
        """Copy from the device into a contiguous array."""
        self.call(
            "cuMemcpyDtoH_v2", c_void_p(array.ctypes.data), c_uint64(pointer),
            c_size_t(array.nbytes),
        )  # fmt: skip

    # -- kernels ----------------------------------------------------------------------------------

    def launch(
        self, function: c_void_p, parameters: list[bytes], grid: tuple[int, ...],
        block: tuple[int, ...], cluster: tuple[int, ...] = (1, 1, 1), shared: int = 0,
        patience: float = 10.0,
    ) -> None:  # fmt: skip
        """Run a kernel to its end.

        Raises:
            GpuError: it failed, or takes longer than ``patience`` seconds. The process can do
                nothing more on the device then.
        """
        buffers = [ctypes.create_string_buffer(raw, len(raw)) for raw in parameters]
        pointers = (c_void_p * max(len(buffers), 1))(*(ctypes.addressof(b) for b in buffers))
        attribute = _Attribute(_CLUSTER_DIMENSION)
        attribute.value[:3] = cluster
        clustered = tuple(cluster) != (1, 1, 1)
        configuration = _Configuration(
            (c_uint * 3)(*grid), (c_uint * 3)(*block), shared, None,
            ctypes.pointer(attribute), int(clustered),
        )  # fmt: skip
        if shared > 48 * 1024:
            self.call("cuFuncSetAttribute", function, c_int(_DYNAMIC_SHARED), c_int(shared))
        self.call("cuLaunchKernelEx", byref(configuration), function, pointers, None)
        started = time.monotonic()
        while (code := self.library.cuStreamQuery(None)) == _NOT_READY:
            if time.monotonic() - started > patience:
                raise GpuError(f"the kernel did not end in {patience:g} s")
            time.sleep(0.0002)
        if code:
            raise GpuError(f"the kernel failed: {self.error(code)}")

    def run(self, ptx: str, launch: Launch, patience: float = 10.0) -> None:
        """Run a kernel as the emulator would; the arrays of the launch have its results.

        Raises:
            GpuError: as in `load` and `launch`.
        """
        entry = parse(ptx).entry(launch.entry)
        module = self.load(ptx)
        held: dict[int, tuple[int, np.ndarray]] = {}

        def address(array: np.ndarray) -> int:
            if id(array) not in held:
                if not array.flags.c_contiguous:
                    raise ValueError("the GPU's arrays must be contiguous")
                held[id(array)] = (self.allocate(array.nbytes), array)
                self.upload(held[id(array)][0], array)
            return held[id(array)][0]

        parameters = []
        for parameter, argument in zip(entry.parameters, launch.arguments, strict=True):
            if isinstance(argument, np.ndarray):
                raw = address(argument).to_bytes(8, "little")
            elif isinstance(argument, Pointer):
                raw = (address(argument.array) + argument.byte_offset).to_bytes(8, "little")
            elif isinstance(argument, TensorMap):
                raw = self.encode(argument, address(argument.array))
            elif isinstance(argument, bytes):
                raw = argument
            else:
                raw = scalar_bytes(argument, parameter.size, parameter.type)
            parameters.append(raw)
        self.launch(
            self.function(module, entry.name), parameters, launch.grid, launch.block,
            launch.cluster, launch.shared_bytes, patience,
        )  # fmt: skip
        for pointer, array in held.values():
            if array.flags.writeable:
                self.download(pointer, array)
            self.free(pointer)
        self.unload(module)

    def encode(self, tensor_map: TensorMap, address: int) -> bytes:
        """The 128 bytes of a tensor map over memory of the device."""
        rank = tensor_map.rank
        room = ctypes.create_string_buffer(128 + 64)
        aligned = -(-ctypes.addressof(room) // 64) * 64
        dtype = {"e4m3": "u8", "e5m2": "u8"}.get(tensor_map.dtype, tensor_map.dtype)
        self.call(
            "cuTensorMapEncodeTiled", c_void_p(aligned), c_int(_DTYPES.index(dtype)), c_uint(rank),
            c_void_p(address + tensor_map.offset), (c_uint64 * rank)(*tensor_map.dims),
            (c_uint64 * max(rank - 1, 1))(*tensor_map.strides), (c_uint * rank)(*tensor_map.box),
            (c_uint * rank)(*tensor_map.element_strides), c_int(0),
            c_int(_SWIZZLES.index(tensor_map.swizzle)), c_int(0),
            c_int(int(tensor_map.oob == "nan")),
        )  # fmt: skip
        return ctypes.string_at(aligned, 128)
