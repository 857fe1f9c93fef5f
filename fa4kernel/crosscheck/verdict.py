"""What a part of the cross-check says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Part:
    """One part's verdict.

    Attributes:
        name: of the part.
        compared: how many things were held against each other.
        differences: what differs, in words, the first one first.
        notes: what is known to differ and why it is no fault, and figures worth telling.
        figures: numbers of both sides, by name.
    """

    name: str
    compared: int = 0
    differences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def agrees(self) -> bool:
        """Whether nothing differs, and something was compared."""
        return self.compared > 0 and not self.differences

    def equal(self, what: str, simulator: object, kernel: object) -> bool:
        """Compare one thing; a difference is noted as ``what: …``."""
        self.compared += 1
        if simulator == kernel:
            return True
        self.differences.append(f"{what}: simulator {simulator}, kernel {kernel}")
        return False

    def holds(self, what: str, true: bool) -> bool:
        """Demand one thing; if it is not so, ``what`` is the difference."""
        self.compared += 1
        if not true:
            self.differences.append(what)
        return true

    def facts(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "agrees": self.agrees,
            "compared": self.compared,
            "differences": len(self.differences),
            "first_difference": self.differences[0] if self.differences else None,
            "notes": self.notes,
            "figures": self.figures,
        }

    def words(self) -> str:
        """In a line, and one more for the first difference."""
        if self.agrees:
            return f"{self.name}: agree ({self.compared:,} compared)"
        if not self.differences:
            return f"{self.name}: NOTHING COMPARED"
        more = len(self.differences) - 1
        rest = f" (and {more:,} more)" if more else ""
        return f"{self.name}: DIFFER: {self.differences[0]}{rest}"


def ordered(differences: Iterable[tuple[tuple[Any, ...], str]]) -> list[str]:
    """Texts by what stands before them."""
    return [text for _, text in sorted(differences, key=lambda pair: pair[0])]
