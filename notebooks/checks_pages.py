"""Checks of the exercises about pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from checks import UNANSWERED, Answer, _not_offered, _raised, _wrong

from fa4sim.kvcache import CacheModel, Lengths, PageRow, Workload, compare_page_sizes

ROWS = 128
#: (threads, threads that copy a row together): two load warps and four, head dims 128 and 96.
LAYOUTS = ((64, 8), (128, 8), (64, 4), (128, 2))

MODEL = CacheModel(layers=80, kv_heads=8, head_dim=128)
MEMORY_BYTES = 40 * 2**30
PAGE_SIZES = (1, 8, 16, 32, 64, 128, 256)
#: How much more memory than with pages of one token is allowed.
ALLOWED = 0.10
#: Five drafts of each answer, behind a prompt that fifty requests have in common.
MANY_SAMPLES = Workload(
    Lengths.of("lognormal:600:0.6:8192"), prefix=500, sharers=50, branches=5,
    branch=Lengths.of("uniform:30:200"),
)  # fmt: skip


def check_row(row_of: Callable[[int, int, int, int], Any]) -> Answer:
    """Exercise 1: every row once, computed by a thread of the group that copies it."""
    for threads, per_row in LAYOUTS:
        groups = threads // per_row
        seen: dict[int, tuple[int, int]] = {}
        for i in range(ROWS // threads):
            for thread in range(threads):
                try:
                    row = row_of(i, thread, threads, per_row)
                except Exception as error:
                    return _raised(error)
                if row is None:
                    return UNANSWERED
                where = f"With {threads} threads, {per_row} for a row: turn {i}, thread {thread}"
                if not isinstance(row, int) or not 0 <= row < ROWS:
                    return _wrong(f"{where} gets {row!r}, which is no row from 0 to {ROWS - 1}.")
                if row in seen:
                    other = "turn {}, thread {}".format(*seen[row])
                    return _wrong(f"{where} computes row {row}, and so does {other}.")
                if row % groups != thread // per_row:
                    return _wrong(
                        f"{where} computes row {row}, which group {row % groups} copies; the "
                        f"thread is in group {thread // per_row}, and a shuffle does not reach "
                        "that far."
                    )
                seen[row] = (i, thread)
    return Answer(True, "Each row once, and within reach of those who copy it.")


def check_page_size(size: int | None) -> Answer:
    """Exercise 2: the largest page that costs at most a tenth more than pages of one token."""
    if size is None:
        return UNANSWERED
    if wrong := _not_offered(size, PAGE_SIZES):
        return wrong
    rows = {row.page_size: row for row in compare()}
    more = {page: row.total_bytes / rows[1].total_bytes - 1 for page, row in rows.items()}
    best = max(page for page, extra in more.items() if extra <= ALLOWED)
    slots = rows[size].pages * size
    need = f"Pages of {size} need {more[size]:.1%} more memory than pages of one token"
    spent = (
        f"{rows[size].empty / slots:.1%} of their slots are empty, {rows[size].copied / slots:.1%} "
        "hold copies of tokens that drafts have in common"
    )
    if more[size] > ALLOWED:
        return _wrong(f"{need}: {spent}.")
    if size < best:
        return _wrong(f"{need}, so there is room for larger ones.")
    return Answer(True, f"{need}: {spent}. The next size doubles both.")


def compare() -> list[PageRow]:
    """What the workload costs with each page size to choose from."""
    return compare_page_sizes(MODEL, MANY_SAMPLES, PAGE_SIZES, MEMORY_BYTES)
