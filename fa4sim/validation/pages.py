"""Pages of any size beside what is published of them: decode steps before and after #2104.

No constant was fitted to these rows. What they need beside the forward validation's constants is
listed in :data:`NEW` and varied over its range.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from fa4sim.pipelines.fa4.barriers import load_warp_ids
from fa4sim.simulate import simulate
from fa4sim.specs import B200, Design, Problem

#: Constants of the machine that only pages need.
NEW = (
    *("cp_async_latency_cycles", "cp_async_bytes_per_cycle", "cp_async_turn_cycles"),
    *("load_l1_latency_cycles", "load_l2_latency_cycles", "load_hbm_extra_cycles"),
    *("cp_async_hbm_share", "hbm_fetch_bytes"),
)

#: What they are tried at, beside the range of their origin: B200's L2 may be further away than an
#: H200's, by what its other die adds; page numbers may be in L2 already; a turn is as short and as
#: long as a tenth of those on the H200; HBM gives rows as much as TMA.
TRIED: Mapping[str, tuple[float, ...]] = {
    "cp_async_turn_cycles": (46, 67),
    "cp_async_hbm_share": (1.0,),
    "load_l2_latency_cycles": (638,),
    "load_hbm_extra_cycles": (0,),
}

#: A prefill of this shape, and how its K and V lie: page size and changes to the design.
PREFILL: dict[str, Any] = {"batch": 4, "heads": 16, "seqlen_q": 8192}
LAYOUTS: dict[str, tuple[int | None, dict[str, Any]]] = {
    "in one piece, the kernel's own choice": (None, {}),
    "in one piece, single CTAs": (None, {"cta_group": 1}),
    "pages of 16": (16, {}),
    "pages of 1": (1, {}),
    "pages of 1, naive pointers": (1, {"page_pointers": "naive"}),
}

#: Steps with pages of one token that are simulated with a constant changed, by report.
VARIED = {
    "looped": "when pages of any size came", "naive": "before pointers were transposed",
    "transposed": "after",
}  # fmt: skip

#: One sequence per CTA is enough to see what a load warp does.
BLOCKS = 32

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Row:
    """One decode step with pages: ``published_us`` as reported, None where it was not."""

    report: str
    source: str
    kernel: str
    problem: Problem
    design: Mapping[str, Any]
    published_us: float | None

    @property
    def shape(self) -> str:
        """Sequences, keys and K/V heads, for a table."""
        return f"{self.problem.batch} × {self.problem.seqlen_k:,}, {self.problem.kv_heads}"

    @property
    def kv_bytes(self) -> int:
        """Bytes of K and V that the step reads."""
        problem = self.problem
        tokens = problem.batch * (problem.seqlen_k or 0) * (problem.kv_heads or 0)
        return tokens * (problem.head_dim + problem.dim_v) * problem.element_bytes


@dataclass(frozen=True)
class Outcome:
    """Time in µs, launch included; ``load`` are cycles of the first load warp per block, by op."""

    time_us: float
    bottleneck: str
    load: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Pages:
    """Rows with what was simulated, and three of them with one constant changed each.

    ``prefill`` is TFLOP/s by layout and whether masked.
    """

    rows: tuple[tuple[Row, Outcome], ...]
    varied: dict[tuple[str, float], dict[str, float]]
    prefill: dict[tuple[str, bool], float]

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "rows": [
                {
                    "source": row.source,
                    "page_size": row.problem.page_size,
                    "design": dict(row.design),
                    "published_us": row.published_us,
                    "simulated_us": outcome.time_us,
                    "load_warp_cycles_per_block": dict(outcome.load),
                }
                for row, outcome in self.rows
            ],
            "varied": [
                {
                    "constant": name, "value": value,
                    **{f"{pointers}_us": time for pointers, time in times.items()},
                }
                for (name, value), times in self.varied.items()
            ],
            "prefill_tflops": [
                {"layout": layout, "causal": causal, "tflops": tflops}
                for (layout, causal), tflops in self.prefill.items()
            ],
        }  # fmt: skip


@cache
def published() -> dict[str, Any]:
    """The published figures."""
    text = files("fa4sim.validation").joinpath("data/pages.json").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


def published_rows() -> tuple[Row, ...]:
    """Every published decode step, and the same steps as the kernel is now.

    >>> [row.problem.page_size for row in published_rows()[:3]]
    [1, 32, 128]
    """
    found = []
    for report in published()["reports"]:
        for page, time_us in report["rows"]:
            problem = Problem(**report["problem"], page_size=page)
            own = dict(report["design"])
            if page == 128:  # a block: no row is looked for
                own.pop("page_pointers", None)
            found.append(
                Row(report["name"], report["source"], report["kernel"], problem, own, time_us)
            )
    return tuple(found)


def run_pages(progress: Progress | None = None) -> Pages:
    """Simulate every row, and three with the new constants at both ends of their ranges."""
    rows = published_rows()
    steps = {
        pointers: next(r for r in rows if r.report == name and r.problem.page_size == 1)
        for pointers, name in VARIED.items()
    }
    changes = list(variations())
    total = len(rows) + len(changes) + 2 * len(LAYOUTS)
    count = 0

    def step() -> None:
        nonlocal count
        count += 1
        if progress is not None:
            progress(count, total)

    done = []
    for row in rows:
        done.append((row, run_row(row)))
        step()
    varied = {}
    for name, value in changes:
        varied[name, value] = {p: time_of(row, {name: value}) for p, row in steps.items()}
        step()
    prefill = {}
    for layout, (page, changed) in LAYOUTS.items():
        for causal in (False, True):
            problem = Problem(**PREFILL, page_size=page, causal=causal)
            design = Design.for_problem(problem, B200, **changed)
            prefill[layout, causal] = simulate(problem, design).report.tflops
            step()
    return Pages(tuple(done), varied, prefill)


def variations() -> list[tuple[str, float]]:
    """``(constant, value)`` to try, other than the value itself."""
    found = []
    for name in NEW:
        origin = B200.origins[name]
        for value in (origin.low, origin.high, *TRIED.get(name, ())):
            if value is not None and value != getattr(B200, name):
                found.append((name, float(value)))
    return found


def time_of(row: Row, constants: Mapping[str, float]) -> float:
    """µs of a row with constants changed."""
    machine = B200.with_constants(**constants)
    design = Design.for_problem(row.problem, machine, **row.design)
    return simulate(row.problem, design, machine).report.time_us


def run_row(row: Row) -> Outcome:
    """Simulate one row; and of a short sequence, what its first load warp does."""
    design = Design.for_problem(row.problem, B200, **row.design)
    report = simulate(row.problem, design).report
    return Outcome(report.time_us, report.bottleneck, load_warp(row))


def load_warp(row: Row) -> dict[str, float]:
    """Cycles per block of the first load warp of a CTA, by what it does or waits for."""
    fields = {name: getattr(row.problem, name) for name in ("batch", "heads", "kv_heads")}
    short = Problem(
        **fields, seqlen_q=1, seqlen_k=128 * BLOCKS, page_size=row.problem.page_size
    )  # fmt: skip
    design = Design.for_problem(short, B200, **row.design)
    trace = simulate(short, design, scope="cta").trace
    warp = load_warp_ids(design)[0]
    spent: dict[str, float] = {}
    for table, column in ((trace.span, "op"), (trace.wait, "on")):
        mine = table.where(role="load", warp=warp)
        for what, start, end in zip(mine.text(column), mine["start"], mine["end"], strict=True):
            spent[str(what)] = spent.get(str(what), 0.0) + int(end - start) / BLOCKS
    return spent
