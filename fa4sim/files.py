"""Files that appear whole or not at all, and plain data as JSON."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

#: Version of every JSON object that we print or write.
SCHEMA = 1


def plain(value: object) -> Any:
    """``value`` as JSON can hold it: NumPy scalars as numbers, NaN and infinities as null.

    >>> plain({"a": float("inf"), "b": (1, np.float32(0.5))})
    {'a': None, 'b': [1, 0.5]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple | set | frozenset | range):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    return str(value)


def json_text(facts: Mapping[str, Any]) -> str:
    """One JSON object with its ``schema`` first."""
    whole = {"schema": SCHEMA, **facts}
    return json.dumps(plain(whole), indent=2, allow_nan=False)


def write_whole(target: Path, write: Callable[[Path], object]) -> None:
    """Have ``write`` fill a file beside ``target``, then put it in its place.

    ``target`` appears complete or not at all, also when the command is stopped half-way.
    """
    beside = target.with_name(f".fa4sim-{os.getpid()}-{os.urandom(4).hex()}{target.suffix}")
    try:
        write(beside)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
