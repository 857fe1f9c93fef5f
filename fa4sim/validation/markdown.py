"""Tables and numbers of the validation pages, and how a page is written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import fa4sim
from fa4sim import files


def write_whole(page: Path, text: str, root: Path | None = None) -> Path:
    """Write ``text`` into the repository at ``root``, by default the one this code lies in.

    Returns the page's path. Raises ``ValueError`` if there is no such repository: an installed
    package has no docs.
    """
    path = repository(root) / page
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_whole(path, lambda beside: beside.write_text(text, encoding="utf-8"))
    return path


def repository(root: Path | None = None) -> Path:
    """The repository at ``root``, by default the one this code lies in.

    Raises ``ValueError`` if there is none.
    """
    root = Path(fa4sim.__file__).resolve().parents[1] if root is None else root
    if not (root / "pyproject.toml").is_file():
        raise ValueError(
            f"{root} is not a copy of the fa4sim repository; run this from a clone, or print the "
            "page without writing it"
        )
    return root


def signed(fraction: float) -> str:
    """A change in percent, with its sign."""
    return f"{fraction:+.1%}".replace("%", " %").replace("-", "−")


def number(value: float) -> str:
    """A constant as a page shows it."""
    if 0 < abs(value) < 1e-3:
        return f"{value:.3g}"
    return f"{value:,.6g}" if abs(value) < 1e7 else f"{value:.3g}"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], words: Sequence[str]) -> str:
    """A Markdown table; the columns headed by one of ``words`` are left-aligned."""
    rule = ["---" if head in words else "---:" for head in heads]
    return "\n".join("| " + " | ".join(line) + " |" for line in (heads, rule, *rows))
