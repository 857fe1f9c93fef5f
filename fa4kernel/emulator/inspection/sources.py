"""The kernel's own source: the line, the call and the function that an instruction came from.

PTX made with line information names files and lines (`.loc`). Where such a file can be read on
this computer and is Python, its syntax tree tells more than a number: which call stands there.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from fa4kernel.emulator.ptx.module import Location

#: What is taken for source; a PTX file may name any file.
ENDINGS = frozenset((".py", ".cu", ".cuh", ".c", ".cc", ".cpp", ".h", ".hpp", ".cxx"))
LARGEST = 4 << 20  # bytes


class SourceFile:
    """One file: its lines, and if it is Python its calls and functions."""

    def __init__(self, path: str, text: str) -> None:
        self.lines = text.splitlines()
        self.calls: dict[tuple[int, int], ast.Call] = {}
        self.targets: dict[ast.Call, ast.expr] = {}
        self.functions: list[tuple[int, int, str]] = []
        self._holders: dict[int, str] = {}
        if path.endswith(".py"):
            with suppress(SyntaxError, ValueError, RecursionError):  # the lines are still there
                self._read(ast.parse(text))

    def _read(self, tree: ast.Module) -> None:
        for node in ast.walk(tree):  # outer calls come before those inside them
            if isinstance(node, ast.Call):
                self.calls.setdefault((node.lineno, node.col_offset), node)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                self.functions.append((first, node.end_lineno or first, node.name))
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                self.targets[node.value] = node.targets[0]

    def call(self, line: int, column: int) -> ast.Call | None:
        """The call at a place; of a place that has none, the only call of the line."""
        found = self.calls.get((line, column)) or self.calls.get((line, column - 1))
        if found is None:
            there = [call for (row, _), call in self.calls.items() if row == line]
            found = there[0] if len(there) == 1 else None
        return found

    def function(self, line: int) -> str:
        """The innermost function that holds a line, or ""."""
        if line not in self._holders:
            around = [f for f in self.functions if f[0] <= line <= f[1]]
            self._holders[line] = max(around)[2] if around else ""
        return self._holders[line]


class Sources:
    """The source files that locations name, each read once.

    >>> Sources().line(Location("/no/such/file.py", 3, 1))
    ''
    """

    def __init__(self) -> None:
        self._files: dict[str, SourceFile | None] = {}

    def file(self, location: Location | None) -> SourceFile | None:
        """The file of a location, or None if it cannot be read."""
        if location is None:
            return None
        name = location.file
        if name not in self._files:
            text = read(name)
            self._files[name] = None if text is None else SourceFile(name, text)
        return self._files[name]

    def line(self, location: Location | None) -> str:
        """The text of a location's line without the space around it, or ""."""
        file = self.file(location)
        if file is None or location is None or not 1 <= location.line <= len(file.lines):
            return ""
        return file.lines[location.line - 1].strip()

    def calls(self, location: Location | None) -> Iterator[tuple[SourceFile, ast.Call]]:
        """The calls at a location and, outwards, at the places where it was inlined."""
        while location is not None:
            file = self.file(location)
            call = file.call(location.line, location.column) if file is not None else None
            if file is not None and call is not None:
                yield file, call
            location = location.inlined_at

    def function(self, location: Location | None) -> str:
        """The name of the function that holds a location, or ""."""
        file = self.file(location)
        return "" if file is None or location is None else file.function(location.line)


def read(name: str) -> str | None:
    """The text of a source file; None if it is none, or cannot be read."""
    path = Path(name)
    if path.suffix not in ENDINGS or not os.path.isfile(path):
        return None
    try:
        if path.stat().st_size > LARGEST:
            return None
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
