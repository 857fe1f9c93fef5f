"""What an H200 gave: h200.json, which `run` writes there."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

PATH = Path(__file__).parent / "h200.json"
COMMAND = "python -m tests.emulator.device.run --full --out FOLDER"


@cache
def results() -> dict[str, Any]:
    """Everything in the file."""
    found: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
    return found


def result(group: str, name: str) -> Any:
    """One result; a test of what was added since the file was written is skipped, and says so."""
    found = results()[group]
    if name not in found:
        pytest.skip(f"{name!r} has not run on an H200 yet: {COMMAND}")
    return found[name]
