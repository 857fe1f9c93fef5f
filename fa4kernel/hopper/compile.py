"""From a configuration to PTX, compiled once and kept in the user's cache directory."""

from __future__ import annotations

from dataclasses import asdict

from fa4kernel.compiling import compile_module
from fa4kernel.hopper.config import Config


def compile_ptx(cfg: Config, head_dim: int | None = None, head_dim_v: int | None = None) -> str:
    """The PTX of a Hopper kernel.

    Args:
        cfg: what is fixed when it is compiled.
        head_dim, head_dim_v: columns of the arrays, if fewer than `cfg`'s, which are padded.

    Raises:
        CompilationError: the compiler failed.
    """
    return compile_module(
        "fa4kernel.hopper.kernel",
        architecture="sm_90a",
        columns=head_dim or cfg.head_dim,
        columns_v=head_dim_v or cfg.head_dim_v,
        **asdict(cfg),
    )
