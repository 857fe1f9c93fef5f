"""Files that appear whole or not at all, and plain data as JSON."""

from __future__ import annotations

import json
import math
import os
import re
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

    ``target`` appears complete or not at all, also when the command is stopped half-way. An
    ``OSError`` names ``target``, not what is beside it.
    """
    beside = target.with_name(f".fa4sim-{os.getpid()}-{os.urandom(4).hex()}{target.suffix}")
    try:
        write(beside)
        beside.replace(target)
    except OSError as error:
        if error.filename not in (None, str(beside), beside):
            raise
        raise OSError(error.errno, error.strerror or str(error), str(target)) from error
    finally:
        beside.unlink(missing_ok=True)


def put_section(page: Path, text: str, begin: str, end: str, title: str) -> None:
    """Put a section into a page, in place of the one it has; the rest of the page stays.

    Args:
        page: Markdown; made if it doesn't exist. It appears whole or not at all.
        text: the section, with its markers.
        begin, end: the markers, alone on their lines.
        title: what a new page begins with.
    """
    old = page.read_text(encoding="utf-8") if page.exists() else title
    found = re.search(f"{re.escape(begin)}.*?{re.escape(end)}\n?", old, re.DOTALL)
    if found:
        new = old[: found.start()] + text + old[found.end() :]
    else:
        new = old.rstrip("\n") + "\n\n" + text
    page.parent.mkdir(parents=True, exist_ok=True)
    write_whole(page, lambda path: path.write_text(new, encoding="utf-8"))
