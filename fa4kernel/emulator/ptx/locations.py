"""Places in the kernel's source, as `.loc` directives name them (PTX ISA 11.5)."""

from __future__ import annotations

import re

from fa4kernel.emulator.ptx.module import Location

_NUMBERS = re.compile(r"\d+")
_INLINED = re.compile(
    r"function_name\s+([\w$]+)(?:\s*\+\s*\w+)?\s*,\s*inlined_at\s+(.*)", re.DOTALL
)


class Locations:
    """The place that the last `.loc` named is `current`; `files` has the names of the numbers.

    A place inside an inlined function tells where that was inlined; the whole chain is found when
    the text names the outer places first, as LLVM does.
    """

    def __init__(self, files: dict[int, str]) -> None:
        self.files = files
        self.current: Location | None = None
        self._plain: dict[str, Location] = {}
        self._last: dict[tuple[str, int, int], Location] = {}

    def move(self, text: str) -> None:
        """Take the place of a `.loc` directive as the current one.

        >>> locations = Locations({1: "kernel.py"})
        >>> locations.move(".loc 1 20 4")
        >>> locations.move(".loc 1 7 0, function_name $L__info_string0, inlined_at 1 20 4")
        >>> str(locations.current)
        'kernel.py:7 in kernel.py:20'
        """
        place = self._plain.get(text)
        if place is None:
            place = self._place(text)
            if place.inlined_at is None:
                self._plain[text] = place
        self._last[place.file, place.line, place.column] = place
        self.current = place

    def _place(self, text: str) -> Location:
        file, line, column = self._triple(text)
        match = _INLINED.search(text)
        if match is None:
            return Location(file, line, column)
        outer = self._triple(match[2])
        return Location(file, line, column, match[1], self._last.get(outer) or Location(*outer))

    def _triple(self, text: str) -> tuple[str, int, int]:
        file, line, column = (int(number) for number in _NUMBERS.findall(text)[:3])
        return self.files.get(file, str(file)), line, column
