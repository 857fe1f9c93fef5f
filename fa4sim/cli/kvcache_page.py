"""The section of ``docs/inference.md`` that ``fa4sim kvcache --write`` writes, and its picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fa4sim
from fa4sim.files import put_section, write_whole
from fa4sim.kvcache import (
    CacheModel,
    Lengths,
    PageRow,
    Workload,
    compare_page_sizes,
    users_without_pages,
)
from fa4sim.validation import markdown

PAGE, PICTURE = Path("docs/inference.md"), Path("docs/kvcache.png")
BEGIN, END = "<!-- fa4sim kvcache: begin -->", "<!-- fa4sim kvcache: end -->"

#: What the section shows: requests as they are often described.
WORKLOADS: dict[str, Workload] = {
    "chats, nothing in common": Workload(Lengths.of("lognormal:1000:0.8:32768")),
    "2,000 tokens of instructions before each of 100 chats": Workload(
        Lengths.of("lognormal:300:1:16384"), prefix=2000, sharers=100
    ),
    "eight samples of each answer, instructions shared by 50": Workload(
        Lengths.of("lognormal:300:0.8:16384"), prefix=1000, sharers=50, branches=8,
        branch=Lengths.of("uniform:20:400"),
    ),
    "speculation: 16 drafts of up to 8 tokens each": Workload(
        Lengths.of("lognormal:1000:0.8:32768"), branches=16, branch=Lengths.of("uniform:1:8")
    ),
}  # fmt: skip
#: What the columns mean.
READING = (
    "*MiB per request* is a mean over all that were drawn, page table and copies included; *page "
    "table* is that of all of them, with a row for every sequence as long as the longest. "
    "*Users* are requests that fit, in the order of the draw, with their rows of the table: "
    "chance moves a hundred of them by some percent. A request with several samples or drafts "
    "is one user with as many sequences."
)
SHOWN = "eight samples of each answer, instructions shared by 50"
SIZES = (1, 16, 32, 64, 128, 256)


def write(model: CacheModel, memory_bytes: int, seed: int, views: Any) -> Path:
    """Write the section and the picture into this repository.

    Returns the page's path. Raises ``ValueError`` if this is no copy of the repository.
    """
    root = Path(fa4sim.__file__).resolve().parents[1]
    if not (root / PAGE).is_file():
        raise ValueError(
            f"{root} holds no {PAGE}: run this from a clone of the fa4sim repository, or leave "
            "--write out"
        )
    compared = {
        name: compare_page_sizes(model, workload, SIZES, memory_bytes, requests=5000, seed=seed)
        for name, workload in WORKLOADS.items()
    }
    picture = views.page_sizes(compared[SHOWN], title=f"Page sizes: {SHOWN}")
    write_whole(root / PICTURE, lambda path: views.save(picture, path))
    text = section(model, memory_bytes, compared, views.alt_text)
    put_section(root / PAGE, f"{BEGIN}\n\n{text}\n\n{END}\n", BEGIN, END, "# Inference\n")
    return PAGE


def section(
    model: CacheModel,
    memory_bytes: int,
    compared: dict[str, list[PageRow]],
    alt_text: Callable[[Any], str] | None = None,
) -> str:
    """The section, without its markers."""
    parts = [
        f"Written by `fa4sim kvcache --write` on {datetime.now(UTC):%Y-%m-%d} (fa4sim "
        f"{fa4sim.__version__}). {model.layers} layers, {model.kv_heads} K/V heads of "
        f"{model.head_dim}, {model.dtype}: {model.token_bytes / 1024:,.0f} KiB per token; "
        f"{memory_bytes / 2**30:,.0f} GiB for the cache and its page table; 5,000 requests drawn.",
        READING,
    ]
    for name, rows in compared.items():
        workload = WORKLOADS[name]
        reserved = users_without_pages(model, workload, memory_bytes)
        parts.append(
            f"**{name[0].upper()}{name[1:]}** ({_words(workload)}; "
            f"{rows[0].distinct / rows[0].requests:,.0f} distinct tokens per request). Reserving "
            f"room for the longest, {workload.longest:,} tokens for each sequence, {reserved:,} "
            "requests would fit."
        )
        parts.append(_table(rows))
    parts.append(f"![Memory per request and users by page size: {SHOWN}]({PICTURE.name})")
    return "\n\n".join(parts)


def cells(row: PageRow, *, table_digits: int) -> list[str]:
    """A row of the comparison in words: page size, memory, shares, page table, users."""
    return [
        str(row.page_size), f"{row.total_bytes / row.requests / 2**20:,.1f}",
        f"{row.fragmentation:.2%}", f"{row.copied / max(1, row.distinct):.2%}",
        f"{row.saved:.1%}", f"{row.table_bytes / 2**20:,.{table_digits}f}",
        f"{row.users_alone:,}", f"{row.users:,}",
    ]  # fmt: skip


def _words(workload: Workload) -> str:
    words = [f"`--lengths {workload.own.text}`"]
    if workload.prefix:
        words.append(f"`--prefix {workload.prefix} --sharers {workload.sharers}`")
    if workload.branches > 1:
        words.append(f"`--branches {workload.branches} --branch-tokens {workload.branch.text}`")
    return " ".join(words)


def _table(rows: Sequence[PageRow]) -> str:
    heads = ("page", "MiB per request", "empty slots", "copied tokens", "sharing saves",
             "page table, MiB", "users, nothing shared", "users")  # fmt: skip
    return markdown.table(heads, [cells(row, table_digits=1) for row in rows], ())
