"""Sections of a page that commands write, between two markers; the rest of it stays."""

from __future__ import annotations

from pathlib import Path

from fa4sim.files import put_section

TITLE = "# The emulator, held against the kernels\n"


def put(page: Path, text: str, begin: str, end: str) -> None:
    """Put a section into a page, in place of the one it has; the page appears whole or not at all.

    Args:
        page: Markdown; made if it doesn't exist.
        text: the section, with its markers.
        begin, end: the markers.
    """
    put_section(page, text, begin, end, TITLE)
