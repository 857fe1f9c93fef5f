"""The component's JavaScript and styles, as files.

The scripts are parts of one module and are put one after the other in the order of their numbers;
98 ends the module that a notebook loads, 99 the one of a page.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

WIDGET, PAGE = "98_widget.js", "99_page.js"


def script(ending: str) -> str:
    """The module: what :data:`WIDGET` and :data:`PAGE` have in common, and one of them."""
    parts = [name for name in _names() if name.endswith(".js") and name not in (WIDGET, PAGE)]
    return "\n".join(text(name) for name in [*parts, ending])


@cache
def text(name: str) -> str:
    """The text of one file."""
    return (resources.files(__name__) / name).read_text(encoding="utf-8")


@cache
def _names() -> tuple[str, ...]:
    return tuple(sorted(entry.name for entry in resources.files(__name__).iterdir()))
