"""A GPU behind the emulator's own interface: PTX text and a `Launch`, run by the CUDA driver.

What the emulator runs here, a GPU runs with the same arguments: nothing is compiled twice, and no
DSL is needed on the machine with the GPU.
"""

from fa4kernel.device.clock import MeanClock as MeanClock
from fa4kernel.device.driver import Gpu as Gpu
from fa4kernel.device.driver import GpuError as GpuError
from fa4kernel.device.driver import Refused as Refused
from fa4kernel.device.running import Loaded as Loaded
from fa4kernel.device.running import run as run
