"""``fa4sim kvcache``: what page size does to the memory of a KV cache."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from fa4sim.cli import kvcache_page, options
from fa4sim.cli.errors import refusals
from fa4sim.cli.output import check_target, print_json, say, table
from fa4sim.cli.trace_files import load_views
from fa4sim.kvcache import (
    CacheModel,
    Lengths,
    PageRow,
    Workload,
    compare_page_sizes,
    users_without_pages,
)
from fa4sim.kvcache.lengths import KINDS

PAGE_SIZES = (1, 8, 16, 32, 64, 128, 256)
PICTURES = (".png", ".svg", ".pdf")
GIB = 2**30


@click.command(
    epilog=options.examples(
        "fa4sim kvcache",
        "fa4sim kvcache --lengths uniform:100:8000 --page-size 1 --page-size 128",
        "fa4sim kvcache --prefix 2000 --sharers 100 --lengths lognormal:300:1",
        "fa4sim kvcache --branches 8 --branch-tokens uniform:1:16 --json",
        "fa4sim kvcache --layers 32 --memory 100 -o pages.png",
    )
)
@click.option("--layers", type=int, default=80, show_default=True, metavar="N", help="Layers.")
@click.option(
    "--kv-heads", type=int, default=8, show_default=True, metavar="N",
    help="K/V heads that this GPU keeps.",
)  # fmt: skip
@click.option(
    "--head-dim", type=int, default=128, show_default=True, metavar="N", help="Of K and V."
)
@click.option("--head-dim-v", type=int, metavar="N", help="Of V. [default: as --head-dim]")
@click.option(
    "--dtype", default="bf16", show_default=True, metavar="NAME", help="bf16, fp16, e4m3 or e5m2."
)
@click.option(
    "--memory", type=float, default=40.0, show_default=True, metavar="GIB",
    help="Memory for the cache and its page table.",
)  # fmt: skip
@click.option(
    "--lengths", default="lognormal:1000:0.8:32768", show_default=True, metavar="LENGTHS",
    help=f"Tokens of a request of its own: {KINDS}.",
)  # fmt: skip
@click.option(
    "--prefix", type=int, default=0, show_default=True, metavar="N",
    help="Tokens that requests begin with in common.",
)  # fmt: skip
@click.option(
    "--sharers", type=int, default=1, show_default=True, metavar="N",
    help="Requests that share a prefix.",
)  # fmt: skip
@click.option(
    "--branches", type=int, default=1, show_default=True, metavar="N",
    help="Sequences that a request parts into: parallel samples, drafts of speculation.",
)  # fmt: skip
@click.option(
    "--branch-tokens", default="0", metavar="LENGTHS",
    help="Tokens of each branch, as --lengths. [default: none]",
)  # fmt: skip
@click.option(
    "--page-size", "page_sizes", type=int, multiple=True, metavar="N",
    help=f"Tokens of a page. Repeat for more. [default: {', '.join(map(str, PAGE_SIZES))}]",
)  # fmt: skip
@click.option(
    "--requests", type=int, default=2000, show_default=True, metavar="N",
    help="How many to draw.",
)  # fmt: skip
@click.option("-o", "--out", metavar="FILE", help="Draw it too: .png, .svg or .pdf.")
@click.option(
    "--write", is_flag=True,
    help=f"Instead, write four workloads' tables into {kvcache_page.PAGE} of this repository.",
)  # fmt: skip
@options.seed_option()
@options.json_option()
def kvcache(as_json: bool, seed: int, out: str | None, write: bool, **given: Any) -> None:
    """Fragmentation, shared prefixes and users by page size.

    Requests are drawn with --seed. A page holds K and V of all layers for so many tokens. Requests
    with a common prefix, and branches of a request, share the pages that they fill together; where
    they part inside a page, each has a copy. Without --layers and so on it is a model of 80 layers
    with 8 K/V heads of 128.
    """
    if write:
        options.refuse_beside(
            "--write", "layers", "kv_heads", "head_dim", "head_dim_v", "dtype", "memory", "seed",
            instead="takes its own workloads and page sizes",
        )  # fmt: skip
    target = None if out is None else check_target(out, PICTURES)
    with refusals():
        model = CacheModel(
            given["layers"], given["kv_heads"], given["head_dim"], given["head_dim_v"],
            given["dtype"],
        )  # fmt: skip
        memory = memory_bytes(given["memory"])
        if write:
            page = kvcache_page.write(model, memory, seed, load_views())
            say(f"wrote {page} and {kvcache_page.PICTURE}")
            return
        workload = Workload(
            Lengths.of(given["lengths"]), given["prefix"], given["sharers"], given["branches"],
            Lengths.of(given["branch_tokens"]),
        )  # fmt: skip
        rows = compare_page_sizes(
            model, workload, given["page_sizes"] or PAGE_SIZES, memory,
            requests=given["requests"], seed=seed,
        )  # fmt: skip
        reserved = users_without_pages(model, workload, memory)
    if target:
        _draw(rows, target)
    if as_json:
        print_json({
            "model": dataclasses.asdict(model), "token_bytes": model.token_bytes,
            "memory_bytes": memory, "seed": seed, "users_without_pages": reserved,
            "rows": [_facts(row) for row in rows],
        })  # fmt: skip
        return
    say(words(model, workload, rows, reserved))
    if target:
        say(f"\nwrote {target}")


def memory_bytes(gib: float) -> int:
    """GiB in bytes. Raises ``ValueError`` for none, or more than any GPU has.

    >>> memory_bytes(0.5)
    536870912
    """
    if not 0 < gib <= 10_000:
        raise ValueError(f"--memory {gib:g} must be more than 0 and at most 10000 GiB")
    return round(gib * GIB)


def words(model: CacheModel, workload: Workload, rows: list[PageRow], reserved: int) -> str:
    """The comparison as text."""
    tokens = rows[0].distinct / rows[0].requests
    head = [
        f"{model.layers} layers, {model.kv_heads} K/V heads of {model.head_dim}, {model.dtype}: "
        f"{model.token_bytes / 1024:,.4g} KiB per token",
        f"{rows[0].requests:,} requests drawn ({_workload_words(workload)}): "
        f"{rows[0].sequences:,} sequences, {tokens:,.0f} distinct tokens per request",
    ]
    body = [kvcache_page.cells(row, table_digits=2) for row in rows]
    columns = ["page size", "MiB a request", "empty", "copied", "sharing saves", "table MiB",
               "users alone", "users"]  # fmt: skip
    return "\n".join([
        *head,
        "",
        table(columns, body),
        "",
        "empty: slots without a token, of all; copied: tokens kept again where requests part, of "
        "the distinct ones;",
        "sharing saves: pages, of those without sharing; MiB a request: copies and table included;",
        "table: of all that were drawn; users: drawn requests that fit into the memory, in their "
        "order; alone: without sharing.",
        f"Without pages, where every sequence reserves room for {workload.longest:,} tokens, "
        f"{reserved:,} fit.",
    ])  # fmt: skip


def _workload_words(workload: Workload) -> str:
    parts = [f"lengths {workload.own.text}"]
    if workload.prefix:
        parts.append(f"prefix {workload.prefix:,} shared by {workload.sharers}")
    if workload.branches > 1:
        parts.append(f"{workload.branches} branches of {workload.branch.text}")
    return ", ".join(parts)


def _facts(row: PageRow) -> dict[str, Any]:
    return {
        **dataclasses.asdict(row), "total_bytes": row.total_bytes,
        "total_bytes_alone": row.total_bytes_alone,
        "fragmentation": row.fragmentation, "saved": row.saved,
    }  # fmt: skip


def _draw(rows: list[PageRow], target: Any) -> None:
    views = load_views()
    with refusals():
        views.save(views.page_sizes(rows), target)
