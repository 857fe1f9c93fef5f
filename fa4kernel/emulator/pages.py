"""Sections of a page that commands write, between two markers; the rest of it stays."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

TITLE = "# The emulator, held against the kernels\n"


def put(page: Path, text: str, begin: str, end: str) -> None:
    """Put a section into a page, in place of the one it has; the page appears whole or not at all.

    Args:
        page: Markdown; made if it doesn't exist.
        text: the section, with its markers.
        begin, end: the markers.
    """
    old = page.read_text() if page.exists() else TITLE
    found = re.search(f"{re.escape(begin)}.*{re.escape(end)}\n?", old, re.DOTALL)
    if found:
        new = old[: found.start()] + text + old[found.end() :]
    else:
        new = old.rstrip("\n") + "\n\n" + text
    page.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=page.parent, suffix=".part", delete=False) as part:
        part.write(new)
    os.chmod(part.name, page.stat().st_mode & 0o777 if page.exists() else 0o644)
    os.replace(part.name, page)
