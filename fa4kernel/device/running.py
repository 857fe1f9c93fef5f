"""A kernel and its launch on a GPU: run once for its results, or often for its time."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.device.driver import Gpu
from fa4kernel.emulator import Launch
from fa4kernel.emulator.launch import Pointer, scalar_bytes
from fa4kernel.emulator.ptx.parser import parse
from fa4kernel.emulator.tensor.tensor_map import TensorMap


def run(gpu: Gpu, ptx: str, launch: Launch, patience: float = 10.0) -> None:
    """Run a kernel as the emulator would; the arrays of the launch have its results.

    Raises:
        Refused: the driver's compiler did not take the PTX.
        GpuError: the kernel failed, or did not end in ``patience`` seconds.
    """
    with Loaded(gpu, ptx, launch) as loaded:
        loaded.start()
        gpu.wait(patience)
        loaded.download()


class Loaded:
    """A kernel on the GPU, its arrays beside it, ready to be started again and again.

    Args:
        gpu: where.
        ptx: the module.
        launch: arguments; arrays must be contiguous.
        addresses: where arrays already are on the device, by their `id`; the others are copied.
    """

    def __init__(
        self, gpu: Gpu, ptx: str, launch: Launch, addresses: Mapping[int, int] | None = None
    ) -> None:
        self.gpu = gpu
        entry = parse(ptx).entry(launch.entry)
        self._held: dict[int, tuple[int, NDArray[Any]]] = {}
        self._there = dict(addresses or {})
        parameters = [
            self._bytes(argument, parameter)
            for parameter, argument in zip(entry.parameters, launch.arguments, strict=True)
        ]
        self._prepared = gpu.prepare(
            gpu.function(gpu.kept(ptx), entry.name), parameters, launch.grid, launch.block,
            launch.cluster, launch.shared_bytes,
        )  # fmt: skip

    def __enter__(self) -> Loaded:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give memory back, unless the kernel failed: nothing works then."""
        if error is None:
            for pointer, _ in self._held.values():
                self.gpu.free(pointer)

    @property
    def addresses(self) -> dict[int, int]:
        """Where its arrays are on the device, by their `id`, for another kernel."""
        return self._there | {key: pointer for key, (pointer, _) in self._held.items()}

    def start(self) -> None:
        """Start the kernel once."""
        self.gpu.start(self._prepared)

    def times(self, count: int, warm_up: int = 3, patience: float = 60.0) -> list[float]:
        """Milliseconds of ``count`` runs, one by one, after a few that don't count."""
        marks = [(self.gpu.event(), self.gpu.event()) for _ in range(count)]
        for _ in range(warm_up):
            self.start()
        for first, last in marks:
            self.gpu.mark(first)
            self.start()
            self.gpu.mark(last)
        self.gpu.wait(patience)
        return [self.gpu.milliseconds(*pair) for pair in marks]

    def download(self) -> None:
        """Copy the device's arrays back into those of the launch that can be written."""
        for pointer, array in self._held.values():
            if array.flags.writeable:
                self.gpu.download(pointer, array)

    def _bytes(self, argument: Any, parameter: Any) -> bytes:
        """An argument as the kernel takes it."""
        if isinstance(argument, np.ndarray):
            return self._address(argument).to_bytes(8, "little")
        if isinstance(argument, Pointer):
            return (self._address(argument.array) + argument.byte_offset).to_bytes(8, "little")
        if isinstance(argument, TensorMap):
            return self.gpu.encode(argument, self._address(argument.array))
        if isinstance(argument, bytes):
            return argument
        return scalar_bytes(argument, parameter.size, parameter.type)

    def _address(self, array: NDArray[Any]) -> int:
        """Where an array is on the device; it is copied there when it is first asked for."""
        array = _whole(array)
        if id(array) in self._there:
            return self._there[id(array)]
        if id(array) not in self._held:
            if not array.flags.c_contiguous:
                raise ValueError("the GPU's arrays must be contiguous")
            self._held[id(array)] = (self.gpu.allocate(array.nbytes), array)
            self.gpu.upload(self._held[id(array)][0], array)
        return self._held[id(array)][0]


def _whole(array: NDArray[Any]) -> NDArray[Any]:
    """The array of which this is a view of everything, in another shape: both are in one place."""
    base = array.base
    if isinstance(base, np.ndarray) and base.nbytes == array.nbytes and base.flags.c_contiguous:
        return _whole(base)
    return array
