"""PTX text read into a Module, and single instructions of the text replaced."""

from fa4kernel.emulator.ptx.module import Module, PtxError
from fa4kernel.emulator.ptx.parser import parse

__all__ = ["Module", "PtxError", "parse"]
