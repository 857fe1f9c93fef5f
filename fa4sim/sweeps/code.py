"""Which simulator this is: rows of two of them don't belong into one table."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import fa4sim

#: Parts of the package that no simulated figure depends on.
_APART = ("cli", "views", "validation", "sweeps", "__pycache__")


@functools.cache
def code_digest() -> str:
    """A name for the version and the source of everything that figures depend on."""
    root = Path(fa4sim.__file__).parent
    whole = hashlib.sha256(fa4sim.__version__.encode())
    for path in sorted(root.rglob("*")):
        part = path.relative_to(root)
        if path.suffix in (".py", ".json") and part.parts[0] not in _APART:
            whole.update(part.as_posix().encode() + path.read_bytes())
    return whole.hexdigest()
