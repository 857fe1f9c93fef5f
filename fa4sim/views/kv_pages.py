"""Pages of a KV cache: what they cost by size, and which sequence has which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from matplotlib.axes import Axes

from fa4sim.kvcache import PageAllocator, PageRow
from fa4sim.views.figure import Picture
from fa4sim.views.layout import (
    Bar,
    Entry,
    Page,
    draw_bars,
    label_room,
    lane_labels,
    plain,
    split_legends,
    write_in_bars,
)
from fa4sim.views.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    NORMAL,
    ORANGE,
    SMALL,
    VERMILLION,
    WIDTH,
    Look,
)

TOKENS = Entry("tokens, each once", Look(BLUE))
COPIED = Entry("tokens copied where requests part", Look(ORANGE, "//"))
EMPTY = Entry("empty slots", Look(VERMILLION, "..", pale=True))
TABLE = Entry("page table", Look(GREY, "xx"))
ALONE = Entry("without sharing", Look(GREEN, "///", pale=True))
SHARED = Entry("with shared pages", Look(GREEN))
COMMON = Entry("page of several sequences", Look(BLUE))
OWN = Entry("page of one", Look(GREEN))
LANE = 0.3
MIB = 2**20


def page_sizes(
    rows: Sequence[PageRow], *, width: float = WIDTH, title: str | None = None
) -> Picture:
    """Draw memory per request and users of a GPU by page size.

    Args:
        rows: as :func:`fa4sim.kvcache.compare_page_sizes` gives them, one page size each.
        width: in inches.
        title: instead of the default one.

    Raises:
        ValueError: no rows.
    """
    if not rows:
        raise ValueError("there are no rows to draw; compare at least one page size")
    heading = title or "What page size does to a KV cache"
    story = _sizes_story(rows)
    labels = [f"{row.page_size:,}" for row in rows]
    height = max(0.8, LANE * len(rows))
    legends = split_legends(
        width, ("Memory", [TOKENS, COPIED, EMPTY, TABLE]), ("Users", [ALONE, SHARED])
    )
    page = Page(
        width, [height, height], label_room(labels) + 0.3, heading,
        f"The mean of {rows[0].requests:,} requests, and how many of them fit into the memory",
        legends, between=0.75,
    )  # fmt: skip
    memory, users = page.axes
    bars, most = [], 0.0
    for lane, row in enumerate(rows):
        at = 0.0
        slot = row.page_bytes / row.page_size
        for amount, entry in (
            (row.distinct * slot, TOKENS), (row.copied * slot, COPIED), (row.empty * slot, EMPTY),
            (row.table_bytes, TABLE),
        ):  # fmt: skip
            more = amount / row.requests / MIB
            bars.append(Bar(at, at + more, lane - 0.38, lane + 0.38, entry.look))
            at += more
        most = max(most, at)
    _lanes(memory, labels, bars, most, "MiB per request")
    bars = []
    for lane, row in enumerate(rows):
        for low, high, number, entry in (
            (-0.38, 0, row.users_alone, ALONE), (0, 0.38, row.users, SHARED)
        ):  # fmt: skip
            bars.append(Bar(0, number, lane + low, lane + high, entry.look))
    _lanes(users, labels, bars, max(row.users for row in rows), "users that fit")
    page.figure.describe(heading, f"{heading}: {story}")
    return page.figure


def _lanes(axes: Axes, labels: list[str], bars: list[Bar], most: float, what: str) -> None:
    lane_labels(axes, labels)
    axes.set_xlim(0, 1.03 * most if most else 1.0)
    axes.set_xlabel(what, size=NORMAL, color=INK)
    axes.set_ylabel("tokens of a page", size=SMALL, color=INK)
    axes.tick_params(axis="x", labelsize=SMALL, color="#777777", labelcolor=INK)
    plain(axes)
    draw_bars(axes, bars)


def _sizes_story(rows: Sequence[PageRow]) -> str:
    parts = [
        f"pages of {row.page_size:,}: {row.total_bytes / row.requests / MIB:,.1f} MiB per request, "
        f"{row.fragmentation:.1%} of the slots empty, {row.users:,} users "
        f"({row.users_alone:,} without sharing)"
        for row in rows
    ]
    return f"{rows[0].requests:,} requests; " + "; ".join(parts) + "."


def page_map(
    cache: PageAllocator,
    sequences: Sequence[int],
    names: Sequence[str] = (),
    *,
    width: float = WIDTH,
    title: str | None = None,
) -> Picture:
    """Draw which pages hold which sequence, in order, and how full they are.

    Args:
        cache: the allocator.
        sequences: numbers of the sequences to draw, one lane each.
        names: of the lanes; by default the sequences' numbers.
        width: in inches.
        title: instead of the default one.

    Raises:
        ValueError: no sequences, one that the cache does not have, or another number of names.

    >>> from fa4sim.views import alt_text
    >>> cache = PageAllocator(page_size=4)
    >>> print(alt_text(page_map(cache, [cache.start(6)])))
    Pages of 4 tokens: sequence 0 has 6 tokens in pages 0, 1. 2 pages in use, 0 of them shared; \
2 slots are empty.
    """
    if not len(sequences):
        raise ValueError("there are no sequences to draw")
    names = list(names) or [f"sequence {number}" for number in sequences]
    if len(names) != len(sequences):
        raise ValueError(f"{len(names)} names for {len(sequences)} sequences; give as many")
    tables = [cache.table(number) for number in sequences]
    size = cache.page_size
    holders = Counter(page for table in tables for page in table)
    bars, empty = [], {}
    for lane, (number, table) in enumerate(zip(sequences, tables, strict=True)):
        for place, page in enumerate(table):
            filled = min(size, cache.length(number) - place * size)
            entry = COMMON if holders[page] > 1 else OWN
            start, low, high = place * size, lane - 0.4, lane + 0.4
            bars.append(Bar(start, start + filled, low, high, entry.look, (str(page),)))
            if filled < size:
                bars.append(Bar(start + filled, start + size, low, high, EMPTY.look))
            empty[page] = size - filled
    heading = title or f"Pages of {size} token{'s' if size > 1 else ''}"
    shared = sum(1 for count in holders.values() if count > 1)
    story = (
        "; ".join(
            f"{name} has {cache.length(number)} tokens in pages {', '.join(map(str, table))}"
            for name, number, table in zip(names, sequences, tables, strict=True)
        )
        + f". {len(holders)} pages in use, {shared} of them shared; {sum(empty.values())} slots "
        "are empty."
    )
    page_of = Page(
        width, [max(0.7, LANE * len(tables) * 1.3)], label_room(names), heading, story,
        split_legends(width, ("Pages, by number", [COMMON, OWN, EMPTY])),
    )  # fmt: skip
    (axes,) = page_of.axes
    lane_labels(axes, names)
    longest = max(len(table) for table in tables) * size
    axes.set_xlim(0, max(1, longest))
    axes.set_xlabel("tokens of a sequence, in order", size=NORMAL, color=INK)
    axes.tick_params(axis="x", labelsize=SMALL, color="#777777", labelcolor=INK)
    plain(axes)
    draw_bars(axes, bars, outline=0.5)
    write_in_bars(axes, bars, page_of.width)
    page_of.figure.describe(heading, f"{heading}: {story}")
    return page_of.figure
