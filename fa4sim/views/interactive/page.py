"""A timeline as one HTML file that needs nothing else: no network, no library, no server."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fa4sim.views.figure import Picture, alt_text, png
from fa4sim.views.files import write_whole
from fa4sim.views.interactive.assets import PAGE, script, text
from fa4sim.views.interactive.data import Payload

ENDING = ".html"


def page(payload: Payload, picture: Picture) -> str:
    """The HTML of a page that shows ``payload``, and ``picture`` until a script replaces it."""
    return page_with(payload, png(picture), alt_text(picture))


def page_with(payload: Payload, picture: bytes, words: str) -> str:
    """:func:`page` with the bytes of a PNG, and ``words`` for who does not see it.

    Every name of the trace is data of the page, never part of its markup or of its script. The
    page's own policy lets it run its one script and load nothing.
    """
    code, styles = script(PAGE), text("style.css") + text("page.css")
    title = html.escape(str(payload.header["title"]))
    policy = (
        f"default-src 'none'; script-src {_hash(code)}; style-src {_hash(styles)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    image = base64.b64encode(picture).decode()
    columns = base64.b64encode(payload.columns).decode()
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="fa4sim">
<title>{title}</title>
<style>{styles}</style>
</head>
<body>
<main>
<div id="fa4-timeline"></div>
<figure id="fa4-picture"><img alt="{html.escape(words)}" src="data:image/png;base64,{image}"></figure>
</main>
<script type="application/json" id="fa4-header">{json_in_script(payload.header)}</script>
<script type="application/octet-stream" id="fa4-columns">{columns}</script>
<script type="module">{code}</script>
</body>
</html>
"""  # noqa: E501


def write_page(payload: Payload, picture: Picture, path: str | os.PathLike[str]) -> Path:
    """Write :func:`page` to ``path``, whole or not at all, and return the path.

    Raises ``ValueError`` for another ending than ``.html``, ``OSError`` if the folder cannot be
    written.
    """
    target = Path(path)
    if target.suffix.lower() != ENDING:
        raise ValueError(f"{os.fspath(path)!r} ends in {target.suffix!r}; a page ends in {ENDING}")
    return write_whole(target, page(payload, picture).encode())


def json_in_script(value: Mapping[str, Any]) -> str:
    r"""JSON that cannot end the script element it stands in, nor open a comment there.

    >>> json_in_script({"name": "</script><!--"})
    '{"name":"\\u003c/script>\\u003c!--"}'
    """
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _hash(source: str) -> str:
    digest = hashlib.sha256(source.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
