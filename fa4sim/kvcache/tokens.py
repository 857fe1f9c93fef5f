"""Requests as trees of tokens: what they have in common is there once.

Invariant: a path from the root to a leaf is one sequence, its tokens those of the nodes on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fa4sim.specs.checks import whole_between

MOST_TOKENS = 10**9


@dataclass(frozen=True)
class Tokens:
    """``tokens`` in a row, and what follows them: nothing, or several continuations.

    A continuation of 0 tokens is a sequence that ends where the others go on.

    Raises ``ValueError`` for a negative count or something else than trees behind it.

    >>> list(Tokens(100, (Tokens(20), Tokens(0))).sequences())
    [120, 100]
    """

    tokens: int
    then: tuple[Tokens, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", whole_between("tokens", self.tokens, 0, MOST_TOKENS))
        object.__setattr__(self, "then", tuple(self.then))
        for part in self.then:
            if not isinstance(part, Tokens):
                raise ValueError(f"then={part!r} must be Tokens, as (Tokens(20), Tokens(5))")

    def sequences(self, before: int = 0) -> Iterator[int]:
        """The length of every sequence, ``before`` tokens included."""
        length = before + self.tokens
        if not self.then:
            yield length
        for part in self.then:
            yield from part.sequences(length)

    @property
    def distinct(self) -> int:
        """Tokens that have to be kept if each is kept once."""
        return self.tokens + sum(part.distinct for part in self.then)

    def pages(self, page_size: int) -> int:
        """Pages that hold them if common pages are shared, and copied where paths part inside one.

        Of a node from token s to token e these are ⌊e/p⌋ − ⌊s/p⌋ pages that it fills, and one more
        if a sequence ends in it and e is no multiple of p. A page that a node leaves unfinished
        belongs to its continuations, each of which has a copy of its own.

        Raises ``ValueError`` for a page size below 1.

        >>> [Tokens(100, (Tokens(20), Tokens(20))).pages(size) for size in (1, 16, 128)]
        [140, 10, 2]
        """
        _check(page_size)
        return self._pages(page_size, 0)

    def _pages(self, page_size: int, start: int) -> int:
        end = start + self.tokens
        filled = end // page_size - start // page_size
        unfinished = 1 if end % page_size and self._ends_here else 0
        return filled + unfinished + sum(part._pages(page_size, end) for part in self._going_on)

    def empty_slots(self, page_size: int) -> int:
        """Slots of the last page of every sequence that hold no token yet.

        >>> Tokens(100, (Tokens(20), Tokens(20))).empty_slots(16)
        16
        """
        _check(page_size)
        return self._empty(page_size, 0)

    def _empty(self, page_size: int, start: int) -> int:
        end = start + self.tokens
        here = -end % page_size if self._ends_here else 0
        return here + sum(part._empty(page_size, end) for part in self._going_on)

    def copied_tokens(self, page_size: int) -> int:
        """Tokens that are there more than once, in pages copied where paths part.

        >>> Tokens(100, (Tokens(20), Tokens(20))).copied_tokens(16)
        4
        """
        slots = self.pages(page_size) * page_size
        return slots - self.distinct - self.empty_slots(page_size)

    def alone(self, page_size: int) -> int:
        """Pages that the sequences need if they share none."""
        _check(page_size)
        return sum(-(-length // page_size) for length in self.sequences())

    @property
    def _ends_here(self) -> bool:
        """Whether a sequence ends with this node."""
        return not self.then or any(part.is_end for part in self.then)

    @property
    def is_end(self) -> bool:
        """Whether a sequence ends where this begins."""
        return self.tokens == 0 and (not self.then or any(part.is_end for part in self.then))

    @property
    def _going_on(self) -> list[Tokens]:
        """Continuations with tokens; those that only pass on their own are looked through."""
        going: list[Tokens] = []
        for part in self.then:
            if part.tokens:
                going.append(part)
            else:
                going += part._going_on
        return going


def _check(page_size: int) -> None:
    whole_between("page_size", page_size, 1, MOST_TOKENS)
