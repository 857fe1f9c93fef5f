"""The journal of a sweep: every finished point on a line, so that nothing is run twice.

It lies beside the output until that is written. The first line says which grid and which simulator
the points are of; a line that was cut off when a process was killed does not count.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from fa4sim.files import plain
from fa4sim.specs.checks import quoted
from fa4sim.sweeps.rows import Outcome

if sys.platform != "win32":
    import fcntl

KIND = "fa4sim sweep"
#: Version of the journal's lines.
SCHEMA = 1
#: What every journal begins with.
_BEGINNING = json.dumps({"kind": KIND}).removesuffix("}").encode()


def journal_of(output: Path) -> Path:
    """The journal of a sweep that writes ``output``.

    >>> journal_of(Path("rows.csv")).name
    'rows.csv.journal'
    """
    return output.with_name(output.name + ".journal")


class Journal:
    """Finished points, kept in a file; ``done`` has the outcome by the point's place in the grid.

    Opening one goes on from what the file holds. Raises ``ValueError`` if that is of another grid
    or another simulator (with what differs), no journal at all, or in use; ``OSError`` with the
    file's name if it cannot be written. ``restart`` throws away what a journal holds.
    """

    def __init__(
        self, path: Path, about: Mapping[str, Any], count: int, restart: bool = False
    ) -> None:
        self.path = path
        self.done: dict[int, Outcome] = {}
        self._about = plain({"kind": KIND, "schema": SCHEMA, **about})
        self._count = count
        self._file: IO[bytes] = path.open("a+b")
        try:
            self._lock()
            self._read(restart)
        except BaseException:
            self._end()
            raise

    def add(self, index: int, outcome: Outcome) -> None:
        """Keep one finished point. It outlives this process, however that ends."""
        self.done[index] = outcome
        self._write({"point": index, **asdict(outcome)})

    def close(self) -> None:
        """Close the file; one that holds no point is removed."""
        if not self.done:
            self.path.unlink(missing_ok=True)
        self._end()

    def remove(self) -> None:
        """Close and remove the file: what it held is in the output."""
        self.path.unlink(missing_ok=True)
        self._end()

    def _end(self) -> None:
        with contextlib.suppress(OSError):  # of a line that could not be written: that was told
            self._file.close()

    def _write(self, facts: Mapping[str, Any]) -> None:
        try:
            self._file.write(json.dumps(plain(facts), allow_nan=False).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from error

    def _lock(self) -> None:
        if sys.platform == "win32":
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(
                f"{str(self.path)!r} is in use: another sweep is writing the same output; wait "
                "for it, or give another file"
            ) from None

    def _read(self, restart: bool) -> None:
        self._file.seek(0)
        *lines, cut_off = self._file.read().split(b"\n")
        self._check_kind(lines, cut_off)
        if restart:
            lines = []
        if restart or cut_off:
            self._file.truncate(sum(len(line) + 1 for line in lines))
        if not lines:
            self._begin()
            return
        self._check_head(lines[0])
        for number, line in enumerate(lines[1:], 2):
            index, outcome = self._point(number, line)
            self.done.setdefault(index, outcome)

    def _begin(self) -> None:
        try:
            self._write(self._about)
        except OSError:
            self.path.unlink(missing_ok=True)
            raise

    def _check_kind(self, lines: list[bytes], cut_off: bytes) -> None:
        """Refuse a file that is no journal, which is not ours to change."""
        if lines:
            ours = self._parsed(1, lines[0]).get("kind") == KIND
        else:
            ours = _BEGINNING.startswith(cut_off[: len(_BEGINNING)])
        if not ours:
            raise ValueError(self._no_journal(1))

    def _check_head(self, line: bytes) -> None:
        found = self._parsed(1, line)
        for name, wanted in self._about.items():
            if found.get(name) != wanted:
                raise ValueError(
                    f"{str(self.path)!r} keeps {len(self._lines()) - 1} points of another sweep, "
                    f"{_difference(name, found.get(name), wanted)}. To go on with it, repeat its "
                    "command; to start afresh, use --restart (restart=True), which throws these "
                    "points away, or give another output"
                )

    def _lines(self) -> list[bytes]:
        self._file.seek(0)
        return self._file.read().splitlines()

    def _point(self, number: int, line: bytes) -> tuple[int, Outcome]:
        found = self._parsed(number, line)
        try:
            index = found.pop("point")
            outcome = Outcome(**found)
        except (KeyError, TypeError):
            raise ValueError(self._no_journal(number)) from None
        if not isinstance(index, int) or not 0 <= index < self._count:
            raise ValueError(self._no_journal(number))
        return index, outcome

    def _parsed(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ValueError(self._no_journal(number))
        return found

    def _no_journal(self, number: int) -> str:
        return (
            f"line {number} of {str(self.path)!r} is none that a sweep writes; remove the file, "
            "or give another output"
        )


def _difference(name: str, found: Any, wanted: Any) -> str:
    if name == "grid" and isinstance(found, dict) and isinstance(wanted, dict):
        for part in wanted:
            if found.get(part) != wanted[part]:
                return _changed(part, found.get(part), wanted[part])
    if name == "code":
        return "run by another version of the simulator"
    if name == "points":
        return "whose problems, designs or machines were others"
    return _changed(name, found, wanted)


def _changed(name: str, found: Any, wanted: Any) -> str:
    if isinstance(found, dict) and isinstance(wanted, dict):
        for part in {**wanted, **found}:
            if found.get(part) != wanted.get(part):
                return _changed(part, found.get(part), wanted.get(part))
        return f"whose {name} came in another order"
    if found is None:
        return f"in which {name} was not set (now {quoted(wanted)})"
    if wanted is None:
        return f"in which {name} was {quoted(found)} (now not set)"
    return f"in which {name} was {quoted(found)} (now {quoted(wanted)})"
