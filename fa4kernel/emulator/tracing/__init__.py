"""What happened in an emulation, step by step, in the form that every picture is drawn from."""

from fa4kernel.emulator.tracing.recorder import Recorder
from fa4kernel.emulator.tracing.selection import Selection
from fa4kernel.emulator.tracing.watchers import Watchers

__all__ = ["Recorder", "Selection", "Watchers"]
