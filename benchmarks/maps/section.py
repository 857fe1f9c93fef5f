"""What a map puts on the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fa4sim.validation import markdown
from fa4sim.views import Picture


@dataclass(frozen=True)
class Section:
    """Title, text above the picture, the picture, a short description of it, text below."""

    title: str
    before: str
    picture: Picture
    shown: str
    after: str


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; all columns but the first stand on the right."""
    return markdown.table(head, [[str(cell) for cell in row] for row in rows], head[:1])
