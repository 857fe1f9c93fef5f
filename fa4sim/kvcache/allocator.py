"""A page allocator with reference counts: pages are shared until somebody writes into one.

Invariant: a page's count is the number of sequences whose table holds it; pages with a count of 0
are free; only the last page of a sequence may have empty slots.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fa4sim.kvcache.tokens import Tokens
from fa4sim.specs.checks import quoted, whole_between


class OutOfPages(RuntimeError):
    """More pages are needed than there are; the message says how many."""


@dataclass
class _Sequence:
    length: int = 0
    table: list[int] = field(default_factory=list)


class PageAllocator:
    """Keeps the tables of sequences that grow, fork and end.

    ``pages`` is how many there are (None: as many as it takes). ``used`` are in use now, ``peak``
    at the most so far; ``copies`` counts pages that were copied because a shared one was written.

    Raises ``ValueError`` for a page size or number below 1.

    >>> cache = PageAllocator(page_size=4)
    >>> prompt = cache.start(6)
    >>> sample = cache.fork(prompt)
    >>> cache.append(sample, 1)
    >>> cache.table(prompt), cache.table(sample), cache.copies
    ([0, 1], [0, 2], 1)
    """

    def __init__(self, page_size: int, pages: int | None = None) -> None:
        self.page_size = whole_between("page_size", page_size, 1, 2**31 - 1)
        self.pages = None if pages is None else whole_between("pages", pages, 1, 2**31 - 1)
        self.counts: list[int] = []
        self.used = self.peak = self.copies = 0
        self._free: list[int] = []
        self._sequences: dict[int, _Sequence] = {}
        self._next = 0

    # -- sequences -----------------------------------------------------------------------------

    def start(self, tokens: int = 0) -> int:
        """A new sequence of so many tokens; returns its number. Raises :class:`OutOfPages`."""
        number = self._new(_Sequence())
        try:
            self.append(number, tokens)
        except OutOfPages:
            del self._sequences[number]
            raise
        return number

    def fork(self, sequence: int) -> int:
        """Another sequence that begins with all tokens of this one; it takes no page."""
        old = self._known(sequence)
        for page in old.table:
            self.counts[page] += 1
        return self._new(_Sequence(old.length, list(old.table)))

    def append(self, sequence: int, tokens: int) -> None:
        """Let a sequence grow. Raises :class:`OutOfPages`, and then changes nothing."""
        mine = self._known(sequence)
        tokens = whole_between("tokens", tokens, 0, 2**31 - 1)
        if not tokens:
            return
        unfinished = mine.length % self.page_size != 0
        shared = unfinished and self.counts[mine.table[-1]] > 1
        more = -(-(mine.length + tokens) // self.page_size) - len(mine.table)
        self._check_room(more + shared)
        if shared:  # copy on write
            self.counts[mine.table[-1]] -= 1
            mine.table[-1] = self._take()
            self.copies += 1
        mine.table += [self._take() for _ in range(more)]
        mine.length += tokens

    def free(self, sequence: int) -> None:
        """End a sequence; pages that nobody else has become free."""
        for page in self._known(sequence).table:
            self.counts[page] -= 1
            if self.counts[page] == 0:
                self._free.append(page)
                self.used -= 1
        del self._sequences[sequence]

    def table(self, sequence: int) -> list[int]:
        """The pages of a sequence, in order."""
        return list(self._known(sequence).table)

    def length(self, sequence: int) -> int:
        """Tokens of a sequence."""
        return self._known(sequence).length

    def hold(self, tree: Tokens) -> list[int]:
        """Allocate a tree of requests; returns the numbers of its sequences.

        Raises :class:`OutOfPages`, and then what it took stays taken.
        """
        return self._hold(self.start(), tree)

    def _hold(self, sequence: int, tree: Tokens) -> list[int]:
        self.append(sequence, tree.tokens)
        if not tree.then:
            return [sequence]
        branches = [self.fork(sequence) for _ in tree.then]
        self.free(sequence)
        return [
            number
            for branch, part in zip(branches, tree.then, strict=True)
            for number in self._hold(branch, part)
        ]

    # -- pages ---------------------------------------------------------------------------------

    def _check_room(self, needed: int) -> None:
        if self.pages is not None and self.used + needed > self.pages:
            raise OutOfPages(
                f"{needed} more pages of {self.page_size} tokens are needed and "
                f"{self.pages - self.used} of {self.pages} are free; free a sequence, or have more"
            )

    def _take(self) -> int:
        if self._free:
            page = self._free.pop()
        else:
            page = len(self.counts)
            self.counts.append(0)
        self.counts[page] = 1
        self.used += 1
        self.peak = max(self.peak, self.used)
        return page

    def _new(self, sequence: _Sequence) -> int:
        self._sequences[self._next] = sequence
        self._next += 1
        return self._next - 1

    def _known(self, sequence: int) -> _Sequence:
        try:
            return self._sequences[sequence]
        except (KeyError, TypeError):
            raise ValueError(
                f"there is no sequence {quoted(sequence)}: it was never started, or has ended"
            ) from None
