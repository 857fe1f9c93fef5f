"""From a configuration to PTX, compiled once and kept in the user's cache directory."""

from __future__ import annotations

from dataclasses import asdict

from fa4kernel.combine.config import Config
from fa4kernel.compiling import compile_module


def compile_ptx(cfg: Config) -> str:
    """The PTX of a combine kernel.

    Raises:
        CompilationError: the compiler failed.
    """
    return compile_module("fa4kernel.combine.kernel", **asdict(cfg))
