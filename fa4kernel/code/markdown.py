"""Tables and numbers in Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def number(count: float) -> str:
    """A count with up to two decimals; "" for none.

    >>> number(65.3333), number(0)
    ('65.33', '')
    """
    return f"{round(count, 2):g}" if count else ""


def large(count: float) -> str:
    """A count with commas.

    >>> large(16777216.0), large(2.5)
    ('16,777,216', '2.50')
    """
    return f"{count:,.0f}" if count == round(count) else f"{count:,.2f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; columns of numbers are aligned right.

    >>> print(table(["unit", "n"], [["MUFU", "8"]]))
    | unit | n |
    | --- | ---: |
    | MUFU | 8 |
    """
    marks = []
    for column in range(len(head)):
        cells = [row[column].strip("*") for row in rows if row[column]]
        plain = all(cell.replace(",", "").replace(".", "").lstrip("-−").isdigit() for cell in cells)
        marks.append("---:" if cells and plain else "---")
    lines = [head, marks, *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
