"""Run a kernel that is meant for an NVIDIA GPU on any computer, and check it.

>>> from fa4kernel.emulator import Launch, emulate
"""

from fa4kernel.emulator import machine as _machine  # noqa: F401
from fa4kernel.emulator.emulate import Emulation, emulate
from fa4kernel.emulator.errors import DeadlockError, EmulationError
from fa4kernel.emulator.inspection.report import inspect
from fa4kernel.emulator.labels import Labels, Ring
from fa4kernel.emulator.launch import Launch, Pointer, Struct
from fa4kernel.emulator.tensor.tensor_map import TensorMap
from fa4kernel.emulator.waiting import Waiting

__all__ = [
    "DeadlockError",
    "Emulation",
    "EmulationError",
    "Labels",
    "Launch",
    "Pointer",
    "Ring",
    "Struct",
    "TensorMap",
    "Waiting",
    "emulate",
    "inspect",
]
