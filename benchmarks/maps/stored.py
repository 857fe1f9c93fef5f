"""Rows of a sweep, read back from the CSV file beside the page."""

from __future__ import annotations

import ast
import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def read(path: Path) -> list[Row]:
    """The rows of a CSV file that a sweep wrote; an empty cell is None."""
    with path.open(encoding="utf-8", newline="") as file:
        return [{name: _value(text) for name, text in row.items()} for row in csv.DictReader(file)]


def _value(text: str) -> Any:
    if not text:
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def one(rows: Iterable[Row], **settings: Any) -> Row | None:
    """The row with these settings, if it ran."""
    found = [row for row in rows if all(row[name] == value for name, value in settings.items())]
    if len(found) != 1:
        raise ValueError(f"{len(found)} rows have {settings}; the file is of another sweep")
    return found[0] if found[0]["status"] == "ok" else None


def values(rows: Iterable[Row], name: str) -> list[Any]:
    """The values of a setting, in the order of the file."""
    return list(dict.fromkeys(row[name] for row in rows))


def left_out(rows: Iterable[Row]) -> list[str]:
    """Sentences on rows that have no figures."""
    reasons: dict[str, int] = {}
    for row in rows:
        if row["status"] != "ok":
            text = f"{row['status']}: {str(row['reason']).splitlines()[0]}"
            reasons[text] = reasons.get(text, 0) + 1
    return [f"{count} of the points: {text}" for text, count in reasons.items()]
