"""What docs/validation/h200.md says of every point."""

from __future__ import annotations

import re

_ROW = re.compile(r"^\| (?P<name>d\d+ [^|]*?) \| [\d.]+ \| [\d.]+ \| (?P<error>[+-][\d.]+)%")


def page_errors(text: str) -> dict[str, float]:
    """Simulated by measured time less 1, by the name of the point.

    Raises:
        ValueError: this is not the page.

    >>> page_errors("| d128 full 512 b64 h16 | 0.200 | 0.210 | +5.0% |")
    {'d128 full 512 b64 h16': 0.05}
    """
    found = {m["name"]: float(m["error"]) / 100 for m in map(_ROW.match, text.splitlines()) if m}
    if not found:
        raise ValueError("there is no table of points in this text: give docs/validation/h200.md")
    return found
