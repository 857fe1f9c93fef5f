"""One table of a trace: integer columns, some of which are codes of interned strings.

Invariant: the table is a dense ``(rows, columns)`` int64 array. A column that holds text stores
the index of the text in the trace's shared string list; ``NONE`` (-1) stands for "not given".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: The value of an integer or text column that was not given.
NONE = -1

Ints = NDArray[np.int64]


class Table:
    """Read-only rows of one trace table.

    ``table["start"]`` is an int64 array of shape ``(len(table),)``; ``table.text("role")`` the
    strings of a text column as an object array; ``table.where(role="mma", op=("qk", "pv"))`` the
    rows that match, as a new table that remembers the original row numbers in ``table.ids``.

    A table of a folded trace (``table.folded``) holds each repeated stretch once: to count rows or
    to add them up, take ``trace.expand()`` first, or weigh them by ``trace.weights(table.name)``.

    Source: the columns are those of :data:`fa4sim.trace.COLUMNS`.
    """

    def __init__(
        self,
        name: str,
        columns: Sequence[str],
        text_columns: frozenset[str],
        rows: Ints,
        strings: Sequence[str],
        ids: Ints | None = None,
        folded: bool = False,
    ) -> None:
        self.name = name
        self.folded = folded
        self.columns = tuple(columns)
        self._index = {column: i for i, column in enumerate(self.columns)}
        self._text = text_columns
        self._rows = rows
        self._strings = strings
        self.ids: Ints = np.arange(len(rows), dtype=np.int64) if ids is None else ids

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        folded = ", folded: repeated rows are there once, see Trace.expand" if self.folded else ""
        return f"<Table {self.name}: {len(self):,} rows of {', '.join(self.columns)}{folded}>"

    def __getitem__(self, column: str) -> Ints:
        """The int64 values of ``column``; for a text column, the string codes."""
        return self._rows[:, self._column(column)]

    def _column(self, column: str) -> int:
        try:
            return self._index[column]
        except KeyError:
            raise KeyError(
                f"table {self.name!r} has no column {column!r}; it has {', '.join(self.columns)}"
            ) from None

    def text(self, column: str) -> NDArray[np.object_]:
        """The strings of a text column, shape ``(len(table),)``; '' where not given."""
        if column not in self._text:
            raise KeyError(f"column {column!r} of table {self.name!r} holds numbers, not text")
        lookup = np.array([*self._strings, ""], dtype=object)
        return lookup[self[column]]

    def unique(self, column: str) -> list[str]:
        """The distinct strings of a text column in order of first appearance."""
        codes, first = np.unique(self[column], return_index=True)
        order = np.argsort(first)
        return [self._strings[codes[i]] for i in order if codes[i] != NONE]

    def where(self, mask: NDArray[np.bool_] | None = None, **equals: object) -> Table:
        """The rows that match ``mask`` and every ``column=value`` (or ``column=(values…)``).

        A text that occurs nowhere in the trace matches no row: what a run never did is not in it.
        Of a folded table only the recorded rows are looked at, so ``len`` of the result is no
        count of what happened. Raises ``KeyError`` for a column that the table does not have,
        ``ValueError`` for a text in a column of numbers.
        """
        keep = np.ones(len(self), dtype=bool) if mask is None else np.asarray(mask, dtype=bool)
        for column, wanted in equals.items():
            self._column(column)
            values = wanted if isinstance(wanted, tuple | list | set | frozenset) else (wanted,)
            if column in self._text:
                lookup = {text: code for code, text in enumerate(self._strings)}
                codes = [lookup.get(str(value), -2) for value in values]
            else:
                codes = [self._number(column, value) for value in values]
            keep &= np.isin(self[column], codes)
        return Table(
            self.name, self.columns, self._text, self._rows[keep], self._strings, self.ids[keep],
            self.folded,
        )  # fmt: skip

    def _number(self, column: str, value: Any) -> int:
        """``value`` as a number to look for in a column of numbers."""
        try:
            return int(value)
        except (TypeError, ValueError):
            raise ValueError(
                f"column {column!r} of table {self.name!r} holds whole numbers, and {value!r} is "
                f"none; columns of text are {', '.join(sorted(self._text)) or 'not among it'}"
            ) from None

    def rows(self) -> Iterator[dict[str, int | str]]:
        """Each row as a dictionary of plain numbers and strings (slow: for printing)."""
        for row in self._rows:
            yield {
                column: (
                    (self._strings[value] if value != NONE else "")
                    if column in self._text
                    else int(value)
                )
                for column, value in zip(self.columns, row, strict=True)
            }

    @property
    def array(self) -> Ints:
        """The raw rows, shape ``(len(table), len(columns))``, int64. Do not write to it."""
        return self._rows
