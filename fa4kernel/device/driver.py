"""The CUDA driver, as far as it takes to run a kernel: modules, memory, launches, events.

Only ctypes and NumPy. The driver compiles the PTX.
"""

from __future__ import annotations

import ctypes
import subprocess
import time
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any, NamedTuple

import numpy as np

from fa4kernel.emulator.tensor.tensor_map import TensorMap

_NOT_READY = 600
_CLUSTER_DIMENSION = 4
_DYNAMIC_SHARED = 8
_CLOCK_RATE = 13
_SMS, _MAJOR, _MINOR = 16, 75, 76
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


class Prepared(NamedTuple):
    """A kernel with its arguments and sizes."""

    function: c_void_p
    configuration: _Configuration
    pointers: Any
    held: Any  # memory that the others point to


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
        self._modules: dict[str, c_void_p] = {}

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
        version = c_int()
        self.call("cuDriverGetVersion", byref(version))
        major, minor = self.capability
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        try:
            driver = subprocess.run(query, capture_output=True, text=True, timeout=30).stdout
        except (OSError, subprocess.TimeoutExpired):
            driver = ""
        return {
            "device": name.value.decode(),
            "architecture": f"sm_{major}{minor}",
            "driver": driver.strip().splitlines()[0] if driver.strip() else "",
            "cuda": f"{version.value // 1000}.{version.value % 1000 // 10}",
            "clock_khz": self.attribute(_CLOCK_RATE),
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

    def kept(self, ptx: str) -> c_void_p:
        """A module, compiled when it is first asked for and kept.

        Raises:
            Refused: the compiler's complaints.
        """
        if ptx not in self._modules:
            self._modules[ptx] = self.load(ptx)
        return self._modules[ptx]

    def attribute(self, number: int) -> int:
        """A number that the driver knows of the device (CUdevice_attribute)."""
        value = c_int()
        self.call("cuDeviceGetAttribute", byref(value), c_int(number), self.device)
        return value.value

    @property
    def capability(self) -> tuple[int, int]:
        """Compute capability, as (9, 0)."""
        return self.attribute(_MAJOR), self.attribute(_MINOR)

    @property
    def sms(self) -> int:
        """Multiprocessors."""
        return self.attribute(_SMS)

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

    def prepare(
        self, function: c_void_p, parameters: list[bytes], grid: tuple[int, ...],
        block: tuple[int, ...], cluster: tuple[int, ...] = (1, 1, 1), shared: int = 0,
    ) -> Prepared:  # fmt: skip
        """A kernel that can be started again and again without delay."""
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
        return Prepared(function, configuration, pointers, (buffers, attribute))

    def start(self, prepared: Prepared) -> None:
        """Start a kernel; it runs behind what was started before."""
        self.call(
            "cuLaunchKernelEx", byref(prepared.configuration), prepared.function,
            prepared.pointers, None,
        )  # fmt: skip

    def wait(self, patience: float = 10.0) -> None:
        """Until everything that was started has ended.

        Raises:
            GpuError: a kernel failed, or takes longer than ``patience`` seconds. The process can
                do nothing more on the device then.
        """
        started = time.monotonic()
        while (code := self.library.cuStreamQuery(None)) == _NOT_READY:
            if time.monotonic() - started > patience:
                raise GpuError(f"the kernel did not end in {patience:g} s")
            time.sleep(0.0002)
        if code:
            raise GpuError(f"the kernel failed: {self.error(code)}")

    def event(self) -> c_void_p:
        """A mark that can be put into the order of what is started."""
        event = c_void_p()
        self.call("cuEventCreate", byref(event), c_uint(0))
        return event

    def mark(self, event: c_void_p) -> None:
        """Put a mark behind what was started."""
        self.call("cuEventRecord", event, None)

    def milliseconds(self, first: c_void_p, last: c_void_p) -> float:
        """Between two marks that have been passed; they are given back."""
        elapsed = ctypes.c_float()
        self.call("cuEventElapsedTime_v2", byref(elapsed), first, last)
        self.call("cuEventDestroy_v2", first)
        self.call("cuEventDestroy_v2", last)
        return elapsed.value

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
