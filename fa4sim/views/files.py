"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: str | os.PathLike[str], data: bytes) -> Path:
    """Write ``data`` to ``path`` and return it; nothing is left behind if that fails.

    Raises ``OSError`` if the folder cannot be written.
    """
    target = Path(path)
    # A short name of its own: the target's may be as long as the file system allows.
    partial = target.with_name(f".fa4sim-{os.getpid()}-{os.urandom(4).hex()}.partial")
    try:
        partial.write_bytes(data)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target
