"""Requests drawn from a distribution, what they cost by page size, and how many a GPU holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from fa4sim.kvcache.lengths import Lengths
from fa4sim.kvcache.model import TABLE_ENTRY_BYTES, CacheModel
from fa4sim.kvcache.tokens import Tokens
from fa4sim.specs.checks import quoted, whole_between

MOST_REQUESTS = 100_000
MOST_BYTES = 2**63 - 1


@dataclass(frozen=True)
class Workload:
    """What requests look like.

    Args:
        own: tokens of a request of its own: its prompt and what it has been answered so far.
        prefix: tokens that ``sharers`` requests begin with, all the same (a system prompt).
        sharers: requests that share a prefix.
        branches: sequences that a request parts into behind its own tokens: parallel samples, or
            the drafts of speculation.
        branch: tokens of each of them.

    Raises ``ValueError`` for a count below 1, lengths that are none, or branches without tokens.
    """

    own: Lengths = field(default_factory=lambda: Lengths.of("lognormal:1000:0.8:32768"))
    prefix: int = 0
    sharers: int = 1
    branches: int = 1
    branch: Lengths = field(default_factory=lambda: Lengths.of(0))

    def __post_init__(self) -> None:
        for name in ("own", "branch"):
            if not isinstance(getattr(self, name), Lengths):
                raise ValueError(
                    f"{name}={quoted(getattr(self, name))} must be Lengths, as "
                    "Lengths.of('uniform:1:8')"
                )
        whole_between("prefix", self.prefix, 0, 10**8)
        whole_between("sharers", self.sharers, 1, MOST_REQUESTS)
        whole_between("branches", self.branches, 1, 1000)
        if self.branches > 1 and self.branch.most == 0:
            raise ValueError(
                f"branches={self.branches} differ by nothing: say how many tokens each has of its "
                "own, as branch=Lengths.of('uniform:1:8')"
            )

    @property
    def longest(self) -> int:
        """The longest sequence that can come."""
        return self.prefix + self.own.most + self.branch.most

    def draw(self, requests: int, seed: int = 0) -> list[Tokens]:
        """``requests`` requests, by shared prefix; the last prefix may have fewer of them.

        >>> Workload(Lengths.of(10), prefix=5, sharers=2).draw(3)
        [Tokens(tokens=5, then=(Tokens(tokens=10, then=()), Tokens(tokens=10, then=()))), \
Tokens(tokens=5, then=(Tokens(tokens=10, then=()),))]
        """
        whole_between("requests", requests, 1, MOST_REQUESTS)
        whole_between("seed", seed, 0, MOST_BYTES)
        rng = np.random.default_rng(seed)
        own = self.own.draw(requests, rng).tolist()
        more = self.branch.draw(requests * self.branches, rng).reshape(requests, -1).tolist()
        drawn = [
            Tokens(length, tuple(map(Tokens, parts)))
            if self.branches > 1
            else Tokens(length + parts[0])
            for length, parts in zip(own, more, strict=True)
        ]
        groups = (drawn[i : i + self.sharers] for i in range(0, requests, self.sharers))
        return [Tokens(self.prefix, tuple(group)) for group in groups]


@dataclass(frozen=True)
class PageRow:
    """What requests cost with pages of ``page_size`` tokens; bytes are of all layers.

    ``pages`` with sharing, ``pages_alone`` without. Of the slots of the shared pages ``distinct``
    tokens fill their own, ``copied`` are there again because a page was copied where requests
    part, ``empty`` are not filled yet. ``table_bytes`` are on top of the pages' bytes. ``users``
    is how many requests fit into the memory, ``users_alone`` without sharing.
    """

    page_size: int
    requests: int
    sequences: int
    distinct: int
    copied: int
    empty: int
    pages: int
    pages_alone: int
    page_bytes: int
    table_bytes: int
    users: int
    users_alone: int

    @property
    def total_bytes(self) -> int:
        """Of the pages with sharing, and the table."""
        return self.pages * self.page_bytes + self.table_bytes

    @property
    def total_bytes_alone(self) -> int:
        """Of the pages without sharing, and the table."""
        return self.pages_alone * self.page_bytes + self.table_bytes

    @property
    def fragmentation(self) -> float:
        """The part of the pages that holds no token."""
        return self.empty / (self.pages * self.page_size) if self.pages else 0.0

    @property
    def saved(self) -> float:
        """The part of the pages that sharing saves."""
        return 1 - self.pages / self.pages_alone if self.pages_alone else 0.0


def compare_page_sizes(
    model: CacheModel, workload: Workload, page_sizes: Sequence[int], memory_bytes: int, *,
    requests: int = 1000, seed: int = 0,
) -> list[PageRow]:  # fmt: skip
    """Count pages and bytes of drawn requests, and the users that fit, for each page size.

    Args:
        model: bytes of a token.
        workload: what requests look like.
        page_sizes: tokens of a page.
        memory_bytes: of the GPU, for the cache and its page table.
        requests: how many to draw; more make the means steadier.
        seed: of the draw.

    Raises:
        ValueError: no page size, one below 1, requests without a token, or memory that holds no
            page.
    """
    if not len(page_sizes):
        raise ValueError("page_sizes is empty; give at least one, as [1, 16, 128]")
    drawn = workload.draw(requests, seed)
    lengths = [length for tree in drawn for length in tree.sequences()]
    distinct = sum(tree.distinct for tree in drawn)
    if not distinct:
        raise ValueError(
            f"lengths {workload.own.text!r}: none of the {requests} requests has a token, so any "
            "number of them fits; give longer ones, or a prefix"
        )
    rows = []
    for size in page_sizes:
        pages = sum(tree.pages(size) for tree in drawn)
        empty = sum(tree.empty_slots(size) for tree in drawn)
        rows.append(
            PageRow(
                size, requests, len(lengths), distinct, pages * size - distinct - empty, empty,
                pages, sum(tree.alone(size) for tree in drawn), model.page_bytes(size),
                model.table_bytes(len(lengths), max(lengths, default=0), size),
                users(model, drawn, size, memory_bytes),
                users(model, drawn, size, memory_bytes, share=False),
            )
        )  # fmt: skip
    return rows


def users(
    model: CacheModel, drawn: Sequence[Tokens], page_size: int, memory_bytes: int, *,
    share: bool = True,
) -> int:  # fmt: skip
    """How many requests fit, taken in order and from the beginning again if there are too few.

    A request counts when the pages of its prefix, its own and its part of the page table fit. The
    table has a row for every sequence, as long as the longest of ``drawn``.

    Raises ``ValueError`` for memory that holds no page.

    >>> users(CacheModel(layers=1, kv_heads=1, head_dim=1), [Tokens(10)], 4, 200)
    3
    """
    memory_bytes = whole_between("memory_bytes", memory_bytes, 0, MOST_BYTES)
    page_bytes = model.page_bytes(page_size)
    if memory_bytes < page_bytes:
        raise ValueError(
            f"memory_bytes={memory_bytes:,} holds no page: one of {page_size} tokens takes "
            f"{page_bytes:,} bytes; give more memory or a smaller page_size"
        )
    longest = max((length for tree in drawn for length in tree.sequences()), default=0)
    row_bytes = TABLE_ENTRY_BYTES * -(-longest // page_size)
    costs = [
        (cost * page_bytes + sequences * row_bytes)
        for cost, sequences in _costs(drawn, page_size, share)
    ]
    whole, left = divmod(memory_bytes, max(1, sum(costs)))
    count = whole * len(costs)
    for cost in costs:
        if cost > left:
            break
        left -= cost
        count += 1
    return count


def users_without_pages(model: CacheModel, workload: Workload, memory_bytes: int) -> int:
    """How many requests fit if every sequence reserves room for the longest that can come.

    >>> users_without_pages(CacheModel(), Workload(Lengths.of("uniform:1:4096")), 40 * 2**30)
    32
    """
    memory_bytes = whole_between("memory_bytes", memory_bytes, 0, MOST_BYTES)
    reserved = workload.branches * workload.longest * model.token_bytes
    return memory_bytes // max(1, reserved)


def _costs(drawn: Sequence[Tokens], page_size: int, share: bool) -> Iterator[tuple[int, int]]:
    """Pages and sequences that each request adds to those before it."""
    for tree in drawn:
        filled = tree.tokens // page_size
        unfinished = 1 if tree.tokens % page_size else 0
        seen_end = False
        for number, request in enumerate(tree.then or (Tokens(0),)):
            mine = Tokens(tree.tokens, (request,))
            sequences = sum(1 for _ in mine.sequences())
            if not share:
                yield mine.alone(page_size), sequences
                continue
            pages = mine.pages(page_size) - (filled if number else 0)
            if request.is_end:  # requests that end with the prefix have its last page in common
                pages -= unfinished if seen_end else 0
                seen_end = True
            yield pages, sequences
