"""What was measured on an H200, stored beside this file."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any


def measured() -> dict[str, Any]:
    """As `fa4kernel bench -o` wrote it: "about", "torch", "points".

    >>> about = measured()["about"]
    >>> about["device"]
    'NVIDIA H200'
    """
    text = resources.files("fa4kernel.bench") / "data" / "h200.json"
    found: dict[str, Any] = json.loads(text.read_text(encoding="utf-8"))
    return found
