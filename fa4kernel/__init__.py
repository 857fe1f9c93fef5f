"""FlashAttention-4 for Blackwell, and what checks it on a computer that has no such GPU.

`fa4kernel.attention` is our forward kernel, written in CuTe DSL (`fa4kernel.forward`, which needs
the extra `kernel`). `fa4kernel.emulator` executes and checks compiled kernels, ours and others',
and needs NumPy only. `fa4kernel.examples` are smaller kernels to learn from. The package may
import `fa4sim`, never the reverse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fa4kernel.api import Result as Result
    from fa4kernel.api import attention as attention
    from fa4kernel.api import run as run

__all__ = ["Result", "attention", "run"]


def __getattr__(name: str) -> Any:
    """Import what runs the kernel when it is first asked for."""
    if name in __all__:
        from fa4kernel import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
