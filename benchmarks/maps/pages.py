"""The size of a page against the bandwidth at which K and V are read."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.maps.pictures import lines
from benchmarks.maps.section import Section, table
from benchmarks.maps.stored import Row, left_out, one, values
from fa4sim import B200

KV_HEADS, HEAD_DIM, BYTES = 4, 128, 2
#: Microseconds by page size for batch 32 and 65,536 keys, before the addresses were transposed.
#: Source: flash-attention pull request 2104.
PUBLISHED_US = {1: 1851.0, 8: 1101.0, 32: 982.0, 128: 816.0}
LARGE = {"batch": 32, "seqlen_k": 65536}


def terabytes(row: Row) -> float:
    """TB/s at which K and V are read, the launch included."""
    return kv_bytes(row["batch"], row["seqlen_k"]) / row["time_us"] / 1e6


def kv_bytes(batch: int, keys: int) -> int:
    """Bytes of K and V of all sequences."""
    return 2 * batch * KV_HEADS * keys * HEAD_DIM * BYTES


def section(rows: Sequence[Row]) -> Section:
    """Lines over page sizes, and the table behind them."""
    sizes = [size for size in values(rows, "page_size") if size is not None]
    shapes = [(b, n) for b in values(rows, "batch") for n in values(rows, "seqlen_k")]
    series: dict[str, dict[int, float]] = {}
    body = []
    for batch, keys in shapes:
        for pointers in values(rows, "page_pointers"):
            shape = {"batch": batch, "seqlen_k": keys, "page_pointers": pointers}
            found = {size: one(rows, page_size=size, **shape) for size in sizes}
            rates = {size: terabytes(row) for size, row in found.items() if row is not None}
            if shape == {**shape, **LARGE} or (batch, keys) == shapes[1]:
                series[f"{pointers}, batch {batch}, {keys // 1024}k keys"] = rates
            whole = one(rows, page_size=None, **shape)
            assert whole is not None
            body.append((
                f"batch {batch}, {keys:,} keys, {pointers}",
                *(f"{rates[size]:.2f}" if size in rates else "–" for size in sizes),
                f"{terabytes(whole):.2f}",
            ))  # fmt: skip
    large = kv_bytes(**{"batch": LARGE["batch"], "keys": LARGE["seqlen_k"]})
    series["published, naive, batch 32, 64k keys"] = {
        size: large / micros / 1e6 for size, micros in PUBLISHED_US.items()
    }
    naive, transposed = (
        one(rows, page_size=1, page_pointers=p, **LARGE) for p in ("naive", "transposed")
    )
    assert naive is not None and transposed is not None
    return Section(
        "The size of a page, and the bandwidth that is left",
        "A decode step: one new token for each sequence, 32 query heads on 4 K/V heads of d = 128, "
        "bf16. K and V lie in pages of a KV cache. A page of 128 tokens is a tile, and TMA copies "
        "it as one. With any other size four warps copy row by row (`cp.async`) and must look up "
        "where each row lies. *naive*: every thread of a row finds its address by itself. "
        "*transposed*: each thread finds that of other rows and passes it on by shuffles.",
        lines(series, "How fast K and V are read from pages", "tokens of a page", "TB/s",
              {"what HBM gives to TMA, in the model": B200.hbm_bytes_per_second / 1e12}),
        "TB/s by page size, naive and transposed",
        f"With pages of one token transposing makes the step "
        f"{naive['time_us'] / transposed['time_us']:.2f} times as fast (published: up to 2.40, on "
        "a shape that isn't given; Modal, 2026-06-11). Here both ways have one Q tile and four "
        "load warps. The steps of pull request 2104 may have had two tiles and two warps before: "
        "[beside the simulator](validation/inference.md#pages-of-any-size). HBM gives less to rows "
        "by cp.async than to TMA; how much less was measured on an H200. By page size, and "
        "without pages, in TB/s:\n\n"
        + table(("", *(f"{size}" for size in sizes), "in one piece"), body)
        + "".join(f"\n\nLeft out: {text}." for text in left_out(rows)),
    )  # fmt: skip
