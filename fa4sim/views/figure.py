"""The figure every view returns, its alt text, and how it is written to a file."""

from __future__ import annotations

import base64
import html
import io
import os
import re
import zlib
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.text import Text

from fa4sim.views.files import write_whole

FORMATS = (".png", ".svg", ".pdf")
#: A notebook shows a picture at 100 pixels an inch; sharp screens have room for more.
PNG_DPI = 150


class Picture(Figure):
    """A matplotlib figure that says in words what it shows.

    ``fa4sim_alt`` is that description, with the picture's own numbers, and ``fa4sim_title`` its
    title. A notebook shows the picture with the description as its alt text.
    """

    fa4sim_alt: str = ""
    fa4sim_title: str = ""

    def describe(self, title: str, alt: str) -> None:
        """Set the title and the alt text."""
        self.fa4sim_title = title
        self.fa4sim_alt = " ".join(alt.split())

    def draw(self, renderer: Any) -> None:
        """Draw it; names of a trace are shown as they are, a dollar sign begins no formula."""
        with rc_context({"text.parse_math": False}):
            for text in self.findobj(Text):
                text.set_parse_math(False)
            super().draw(renderer)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture to ``path``; see :func:`save`."""
        return save(self, path)

    def _repr_html_(self) -> str:
        data = base64.b64encode(png(self)).decode()
        width = round(self.get_figwidth() * self.dpi)
        return (
            f'<img alt="{html.escape(self.fa4sim_alt)}" width="{width}" style="max-width:100%" '
            f'src="data:image/png;base64,{data}">'
        )


def alt_text(figure: Figure) -> str:
    """The description of a figure that a view made, in words and numbers.

    Raises ``ValueError`` if the figure has none.
    """
    text = getattr(figure, "fa4sim_alt", "")
    if not text:
        raise ValueError(f"{figure!r} has no alt text: it was not made by fa4sim.views")
    return str(text)


def save(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a view's figure to ``path``, its alt text inside, and return the path.

    The ending says what to write: ``.png`` (alt text as ``Description``), ``.svg`` (as ``<title>``
    and ``<desc>``) or ``.pdf`` (as ``Subject``). The file appears whole or not at all; the same
    figure gives the same bytes. Raises ``ValueError`` for another ending or a figure without alt
    text, ``OSError`` if the folder cannot be written.
    """
    target = Path(path)
    alt_text(figure)
    ending = target.suffix.lower()
    if ending not in FORMATS:
        raise ValueError(
            f"{os.fspath(path)!r} ends in {ending!r}; a picture is written as "
            f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
        )
    draw = {".png": png, ".svg": _svg, ".pdf": _pdf}[ending]
    return write_whole(target, draw(figure))


def png(figure: Figure) -> bytes:
    """A view's figure as the bytes of a PNG, its alt text inside."""
    out = io.BytesIO()
    metadata = {
        "Title": getattr(figure, "fa4sim_title", ""),
        "Description": getattr(figure, "fa4sim_alt", ""),
        "Software": "fa4sim",
    }
    figure.savefig(out, format="png", dpi=PNG_DPI, metadata=metadata)
    return out.getvalue()


def _pdf(figure: Figure) -> bytes:
    out = io.BytesIO()
    metadata = {
        "Title": getattr(figure, "fa4sim_title", ""),
        "Subject": getattr(figure, "fa4sim_alt", ""),
        "Creator": "fa4sim",
        "CreationDate": None,  # the same figure, the same bytes
    }
    figure.savefig(out, format="pdf", metadata=metadata)
    return out.getvalue()


def _svg(figure: Figure) -> bytes:
    out = io.BytesIO()
    with rc_context({"svg.hashsalt": "fa4sim"}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": "fa4sim"})
    text = out.getvalue().decode()
    title = html.escape(getattr(figure, "fa4sim_title", ""), quote=False)
    alt = html.escape(getattr(figure, "fa4sim_alt", ""), quote=False)
    head = re.search(r"<svg\b[^>]*>", text)
    assert head is not None
    name = f"fa4sim-{zlib.crc32(text.encode()):08x}"  # several may stand in one page
    opening = f'{head.group()[:-1]} role="img" aria-labelledby="{name}-title {name}-desc">'
    words = f'\n <title id="{name}-title">{title}</title>\n <desc id="{name}-desc">{alt}</desc>'
    return (text[: head.start()] + opening + words + text[head.end() :]).encode()
