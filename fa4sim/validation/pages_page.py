"""Pages of any size, as a section of a page of Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import fa4sim
from fa4sim.files import put_section
from fa4sim.specs import B200
from fa4sim.specs.measured import h200_value
from fa4sim.validation.errors import relative_error
from fa4sim.validation.markdown import signed, table
from fa4sim.validation.pages import (
    LAYOUTS,
    NEW,
    PREFILL,
    VARIED,
    Outcome,
    Pages,
    published,
)

PAGE = Path("docs/validation/inference.md")

#: What pull request 2104's rows are called if its kernel had one Q tile per CTA.
ONE_TILE = "before, with one Q tile"
#: What counts as near to a published time.
NEAR = 0.1

#: What a load warp does, and what of its trace that is.
PARTS = {
    "page numbers": ("page numbers", "page number"),
    "addresses and copies": ("addresses", "issue K", "issue V"),
    "arrivals": ("arrive for K", "arrive for V"),
    "waits for a slot": ("load_KV_empty",),
}


#: Pages whose rows an H200 copies.
PAGES = (1, 8, 32, 128)

#: Where the section lies in the page, so that it can be renewed alone.
BEGIN, END = "<!-- pages of any size: begin -->", "<!-- pages of any size: end -->"


def between_markers(section: str) -> str:
    """A section with the markers around it."""
    return f"{BEGIN}\n\n{section}\n\n{END}\n"


def write_pages_section(result: Pages, root: Path | None = None) -> Path:
    """Renew this section alone in the page on inference; the rest of it stays.

    Returns the page's path. Raises ``ValueError`` if there is no such page, or no place in it.
    """
    root = Path(fa4sim.__file__).resolve().parents[1] if root is None else root
    page = root / PAGE
    if not page.is_file() or BEGIN not in page.read_text(encoding="utf-8"):
        raise ValueError(
            f"{page} does not hold {BEGIN!r}: run this from a clone of the fa4sim repository, and "
            "`fa4sim validate --inference --write` first"
        )
    put_section(page, between_markers(pages_section(result, renewed=True)), BEGIN, END, "")
    return PAGE


def pages_section(result: Pages, renewed: bool = False) -> str:
    """The section, with its heading; ``renewed`` alone, it says by what and when."""
    how = f"""

Renewed by `fa4sim validate --pages --write` on {datetime.now(UTC):%Y-%m-%d} (fa4sim \
{fa4sim.__version__})."""
    return "\n\n".join([
        f"## Pages of any size{how if renewed else ''}", _rows(result), _after(result),
        _load_warp(result), _prefill(result), _reading(result), _varied(result),
    ])  # fmt: skip


def _rows(result: Pages) -> str:
    lines = []
    for row, outcome in result.rows:
        if row.published_us is None:
            continue
        rates = [row.kv_bytes / time / 1e6 for time in (row.published_us, outcome.time_us)]
        lines.append([
            row.source, row.shape, row.kernel, str(row.problem.page_size),
            f"{row.published_us:,.0f}", f"{outcome.time_us:,.0f}", f"{rates[0]:.2f}",
            f"{rates[1]:.2f}", signed(relative_error(rates[1], rates[0])),
        ])  # fmt: skip
    heads = ["source", "sequences × keys, K/V heads", "simulated kernel", "page",
             "published, µs", "simulated", "TB/s published", "simulated", "error"]  # fmt: skip
    looped = h200_value("page_rows_looped_64_threads_page_32_cycles")
    known = next(
        row.published_us * 1e-6 * B200.clock_hz / ((row.problem.seqlen_k or 1) / 128)
        for row, _ in result.rows
        if row.report == VARIED["naive"] and row.problem.page_size == 32 and row.published_us
    )
    out = (
        "Loops are out of the question: with pages of 32" if looped > known else "With pages of 32"
    )
    loops = f"{out} they take an H200 {looped:,.0f} cycles a block and published are {known:,.0f} "
    return f"""One query per sequence, head dim 128, bf16, as published before pointers were \
transposed. The error is that of bandwidth: above 0 the simulator is the faster. Bandwidth counts \
K and V once. Pages of 128 are blocks and come by TMA, all others row by row.

{table(heads, lines, heads[:3])}

Pull request 1999's loops over rows and over the copies of a row say that they must not be \
unrolled. Compiled with the CuTe DSL that it asks for (4.3.0.dev0), page numbers are therefore in \
local memory, and each row is a chain from there to its copies, of which the next waits for the \
registers of the one before. Pull request 2156 (merged 2026-01-12) unrolled them. Which state pull \
request 2104 compares with isn't said; it was opened before that and merged after, and one Q tile \
was merged between (pull request 1993, 2026-01-08). The table has the three that can be. {loops}\
(at {B200.clock_hz / 1e9:.2f} GHz). Unrolled, one Q tile is what the repository had before the \
merge, with errors of {_span(result, ONE_TILE)}; the main branch never had two, with \
{_span(result, VARIED["naive"])}. Two are used below.

{_loops()}"""


def _span(result: Pages, report: str) -> str:
    """The errors of a report's rows, from the least to the largest."""
    errors = _errors(result, report).values()
    return f"{signed(min(errors))} to {signed(max(errors))}"


def _errors(result: Pages, report: str) -> dict[int, float]:
    """Errors of throughput of a report's published rows, by page size."""
    return {
        row.problem.page_size or 0: relative_error(row.published_us, outcome.time_us)
        for row, outcome in result.rows
        if row.report == report and row.published_us is not None
    }


def _loops() -> str:
    forms = {
        "loops, 64 threads": "looped_64", "unrolled, 64 threads": "unrolled_64",
        "unrolled, 128 threads": "unrolled_128",
    }  # fmt: skip
    lines = [
        [name, *(
            f"{h200_value(f'page_rows_{form}_threads_page_{page}_cycles'):,.0f}" for page in PAGES
        )]
        for name, form in forms.items()
    ]  # fmt: skip
    heads = ["copies of rows", *(f"pages of {page}" for page in PAGES)]
    return f"""The same forms of the same work on an H200, one CTA alone that does nothing but \
copy, in cycles per block ([benchmarks_h200.md](../benchmarks_h200.md)):

{table(heads, lines, heads[:1])}"""


def _after(result: Pages) -> str:
    data = published()["after"]
    before = {
        row.problem.page_size: outcome.time_us
        for row, outcome in result.rows
        if row.report == "before pointers were transposed"
    }
    lines, gains = [], []
    for row, outcome in result.rows:
        if row.published_us is not None:
            continue
        gain = before[row.problem.page_size] / outcome.time_us
        gains.append(gain)
        lines.append([
            str(row.problem.page_size), f"{outcome.time_us:,.0f}",
            f"{row.kv_bytes / outcome.time_us / 1e6:.2f}", f"{gain:.2f} ×",
        ])  # fmt: skip
    heads = ["page", "µs", "TB/s", "times as fast as before"]
    slow = _errors(result, VARIED["naive"])[1] < -NEAR
    why = ", as pages of one token come out too slow above" if slow else ""
    rows = B200.hbm_rate("cp_async") * B200.clock_hz
    of = [
        h200_value(f"page_{how}_4_heads_random_page_128_bytes_per_second") / 1e12
        for how in ("rows", "boxes")
    ]
    return f"""The same steps of pull request 2104 with the kernel as it is now ({row.kernel}). \
Published: {data["words"]}. Simulated, it is what HBM gives to rows, {rows / 1e12:.2f} TB/s \
({signed(relative_error(rows, data["bytes_per_second"]))}): on an H200 {of[0]:.2f} TB/s by \
cp.async where TMA brings the same keys at {of[1]:.2f}, measured but not explained, and taken over \
as a ratio. {data["gain_source"]}; here up to {max(gains):.2f} ×{why}.

{table(heads, lines, [])}"""


def _load_warp(result: Pages) -> str:
    lines = []
    for row, outcome in result.rows:
        if row.report not in VARIED.values():
            continue
        pointers = row.design.get("page_pointers", "transposed")
        lines.append([
            str(row.problem.page_size), "–" if row.problem.page_size == 128 else pointers,
            *(f"{_part(outcome, names):,.0f}" for names in PARTS.values()),
        ])  # fmt: skip
    heads = ["page", "pointers", *PARTS]
    return f"""What the first load warp spends on a block of keys, in cycles (sequences of 4,096 \
keys, whose K and V, and page table, come from HBM):

{table(heads, lines, heads[1:2])}"""


def _prefill(result: Pages) -> str:
    lines = [
        [layout, *(f"{result.prefill[layout, causal]:,.0f}" for causal in (False, True))]
        for layout in LAYOUTS
    ]
    return f"""Prefill, where the tensor pipe should be what counts: {PREFILL["batch"]} sequences, \
{PREFILL["heads"]} heads, {PREFILL["seqlen_q"]:,} queries and keys, TFLOP/s. Pull request 2104 \
reports {published()["after"]["prefill_words"]}.

{table(["K and V", "full", "causal"], lines, ["K and V"])}"""


def _reading(result: Pages) -> str:
    found = _errors(result, VARIED["looped"])
    errors = [signed(error) for error in found.values()]
    fast = all(error > 0 for error in found.values())
    slower = (
        " A slower clock, or code of the softmax that is slower by so much, would slow all three."
        if fast
        else ""
    )
    cached = (1 + _errors(result, VARIED["naive"])[1]) * (
        _chosen(result, "naive") / result.varied["load_hbm_extra_cycles", 0]["naive"]
    ) - 1
    return f"""What costs time with naive pointers is reading page numbers. The compiler keeps \
that as a loop of one turn for every row that a thread copies, and a turn stands until its number \
has come: from L1 if another row's number was in the same sector of 32 bytes, else from L2 or \
HBM. Large pages differ from pages of one token by that alone. Transposed pointers take one or \
two turns. With looped pointers rows cost as much again, whatever the page. Instruction counts are \
those of the compiled kernel (`flash-attn-4` 4.0.0b27; for naive pointers with `paged_kv.py` as it \
was before pull request 2104; for looped ones as it came).

The misses. Pull request 1999's rows are {", ".join(errors[:-1])} and {errors[-1]}\
{" too fast" if fast else ""}, the last of them by TMA, without any of this: what is left there is \
not the pages.{slower} In pull request 2104's, reading 64 \
bytes of the table from HBM for the first time is charged to every CTA that needs them, as the \
heads of a sequence keep in step; if they were in L2 already, pages of one token would come out \
{signed(cached)} with two Q tiles (`load_hbm_extra_cycles` at 0 below). No cost of virtual \
addresses is modelled: on an H200 HBM gives the same whether pages are in order or not."""


def _varied(result: Pages) -> str:
    chosen = {pointers: _chosen(result, pointers) for pointers in VARIED}
    lines = [
        [
            f"`{name}`", f"{getattr(B200, name):,.4g}", B200.origins[name].kind,
            B200.origins[name].source, f"{value:,.4g}",
            *(signed(chosen[pointers] / times[pointers] - 1) for pointers in VARIED),
        ]
        for (name, value), times in result.varied.items()
    ]  # fmt: skip
    tried = {name for name, _ in result.varied}
    lines += [
        [f"`{name}`", f"{getattr(B200, name):,.4g}", B200.origins[name].kind,
         B200.origins[name].source, "", *([""] * len(VARIED))]
        for name in NEW if name not in tried
    ]  # fmt: skip
    heads = ["constant", "value", "kind", "source", "tried at", *VARIED]
    return f"""Constants that only pages need, and what bandwidth becomes with one of them \
changed; with pages of one token, pull request 1999's step (looped) and pull request 2104's:

{table(heads, lines, ["constant", "kind", "source"])}"""


def _chosen(result: Pages, pointers: str) -> float:
    """Time in µs of the step with pages of one token, with every constant as it is."""
    name = VARIED[pointers]
    return next(o.time_us for r, o in result.rows if r.report == name and r.problem.page_size == 1)


def _part(outcome: Outcome, names: Sequence[str]) -> float:
    return sum(outcome.load.get(name, 0.0) for name in names)
