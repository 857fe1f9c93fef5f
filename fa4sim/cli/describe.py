"""Problems, designs, machines and reports, in words for people and as plain data for JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from textwrap import indent
from typing import Any

from fa4sim.analysis.meanings import UNITS, barrier_means
from fa4sim.cli.options import Setup
from fa4sim.cli.output import table
from fa4sim.report import Report, Wait
from fa4sim.specs import AnyDesign, Design, HopperDesign, Machine, Problem

MOST_WAITS_SHOWN = 10
LEAST_SHARE_SHOWN = 0.01
_BAR = 30
#: Columns of the table of waits that hold words.
_WORDS = ("role", "waits for", "until")

#: Named barriers of which every softmax warp has one of its own.
PER_WARP = "SoftmaxStatsW"


def problem_words(problem: Problem) -> str:
    """The problem in one line."""
    lengths = f"{problem.seqlen_q:,} × {problem.seqlen_k:,}"
    if problem.varlen:
        lengths = f"lengths up to {lengths}"
    parts = [f"batch {problem.batch}", _heads(problem), lengths, _dims(problem), problem.dtype]
    if problem.causal:
        parts.append("causal")
    if problem.window is not None:
        left, right = ("∞" if side is None else str(side) for side in problem.window)
        parts.append(f"window {left},{right}")
    if problem.sink:
        parts.append("sink")
    if problem.softcap:
        parts.append(f"softcap {problem.softcap:g}")
    if problem.page_size is not None:
        parts.append(f"pages of {problem.page_size}")
    if problem.softmax_scale is not None:
        parts.append(f"softmax scale {problem.softmax_scale:g}")
    if problem.num_splits != 1:
        count = problem.num_splits
        parts.append(f"{count} splits" if count else "splits by heuristic")
    return ", ".join(parts)


def _heads(problem: Problem) -> str:
    text = f"{problem.heads} head{'s' if problem.heads != 1 else ''}"
    return text if problem.group == 1 else f"{text} on {problem.kv_heads} K/V"


def _dims(problem: Problem) -> str:
    if problem.head_dim == problem.dim_v:
        return f"head dim {problem.head_dim}"
    return f"head dims {problem.head_dim} and {problem.dim_v}"


def design_words(design: AnyDesign) -> str:
    """The design in one line."""
    parts = _hopper_parts(design) if isinstance(design, HopperDesign) else _parts(design)
    parts += [f"BROKEN: {fault_words(design)}"] if design.faults else []
    return ", ".join(parts)


def _hopper_parts(design: HopperDesign) -> list[str]:
    tiles = f"{design.consumers} consumer{'s' if design.consumers > 1 else ''}"
    parts = [
        f"{tiles} of {design.tile_m} rows",
        f"K and V blocks of {design.tile_n} in {design.kv_stages} slots each",
        f"{design.scheduler} scheduler",
    ]
    if not design.specialised:
        return [*parts, "no load warp"]
    parts.append("products overlap softmax" if design.overlap else "products are waited for")
    parts.append("consumers take turns" if design.ping_pong else "consumers take no turns")
    return parts


def _parts(design: Design) -> list[str]:
    parts = [
        f"{design.q_stages} Q tile{'s' if design.q_stages > 1 else ''} of {design.tile_m} rows",
        f"K/V blocks of {design.tile_n} in {design.kv_stages} slots",
        "CTA pairs" if design.cta_group == 2 else "single CTAs",
        f"{design.scheduler} scheduler",
        f"{100 * design.emulated_share:.3g}% of exponentials by polynomial",
        f"rescale threshold {design.rescale_threshold:g}",
        f"P in {'two parts' if design.p_first_columns < design.tile_n else 'one part'}",
        f"{design.epilogue} epilogue",
    ]
    if design.num_splits > 1:
        parts.append(f"keys in {design.num_splits} splits")
    if design.pack_gqa:
        parts.append("packed heads")
    if design.kv_load == "cp_async":
        parts.append(f"K and V by cp.async with {design.page_pointers} pointers")
    return parts


def fault_words(design: AnyDesign) -> str:
    """The faults of a design in words; nothing if there are none."""
    return "; ".join(
        f"{fault.kind} at {fault.barrier}"
        + ("" if fault.stage is None else f"[{fault.stage}]")
        + ("" if fault.role is None else f" of {fault.role}")
        for fault in design.faults
    )


def report_words(report: Report, machine: Machine, problem: Problem) -> str:
    """The figures of a run, over several lines."""
    units = sorted(report.units.items(), key=lambda item: -item[1])
    unit_rows = [
        [name, f"{busy:.1%}", "█" * round(busy * _BAR), UNITS.get(name, "")] for name, busy in units
    ]
    shares = together(report.waits)
    shown = [wait for wait in shares if wait[2] >= LEAST_SHARE_SHOWN][:MOST_WAITS_SHOWN]
    wait_rows = [
        [role, barrier, f"{share:.1%}", barrier_means(barrier)] for role, barrier, share in shown
    ]
    left = len(shares) - len(shown)
    lines = [
        f"time        {report.time_us:,.1f} µs, of which launch {report.launch_us:.1f} µs",
        f"throughput  {report.tflops:,.0f} TFLOP/s",
        *_convention(report, problem),
        f"kernel      {report.cycles:,} cycles at {machine.clock_hz / 1e9:.2f} GHz, "
        f"{report.ctas} CTAs on {report.sms} SMs",
        *_kernels(report, machine),
        *_padding(report),
        "",
        "units, busy (mean over SMs and span)",
        indent(table(["unit", "busy", "", "does"], unit_rows, ["unit", "", "does"]), "  "),
        "",
        "longest waits, as part of the role's life",
        indent(table(["role", "waits for", "share", "until"], wait_rows, _WORDS), "  "),
    ]
    if left > 0:
        lines.append(f"  and {left} shorter; --json lists them all")
    lines += [
        "",
        f"bottleneck: {report.bottleneck}",
        *(f"  {line}" for line in report.evidence),
        "",
        f"simulated in {report.wall_s:.2f} s: {report.events:,} events, "
        f"{report.detailed_runs} detailed run{'s' if report.detailed_runs != 1 else ''}",
    ]
    return "\n".join(lines)


def _kernels(report: Report, machine: Machine) -> list[str]:
    """What the call's kernels take, if they are several."""
    if len(report.kernels) < 2:
        return []
    return [
        f"{'kernels' if i == 0 else '':<12}{kernel.name} {kernel.cycles:,} cycles "
        f"({machine.seconds(kernel.cycles) * 1e6:.1f} µs) from cycle {kernel.start:,} on, "
        f"{kernel.ctas} CTA{'s' if kernel.ctas != 1 else ''}"
        for i, kernel in enumerate(report.kernels)
    ]


def _padding(report: Report) -> list[str]:
    """How many of the rows that are multiplied are padding, if it is many."""
    if report.useful_rows > 0.95:
        return []
    return [f"rows        {report.useful_rows:.1%} of the rows multiplied are the problem's"]


def _convention(report: Report, problem: Problem) -> list[str]:
    """What a causal throughput counts, where that is far from what is computed."""
    if not problem.half_is_a_convention or report.tflops_visible is None:
        return []
    return [
        "            causal counts half of queries x keys, as published figures do, and here the",
        "            mask lets through something else: by that it is "
        f"{report.tflops_visible:,.0f} TFLOP/s",
    ]


def together(waits: Iterable[Wait]) -> list[tuple[str, str, float]]:
    """``(role, barrier, share)``, longest first; the eight SoftmaxStatsW, one per warp, as two.

    >>> together([Wait("correction", f"SoftmaxStatsW{i}", 10.0, 0.125) for i in range(5)])
    [('correction', 'SoftmaxStatsW0 to 3', 0.5), ('correction', 'SoftmaxStatsW4 to 7', 0.125)]
    """
    shares: dict[tuple[str, str], float] = {}
    for wait in waits:
        barrier = wait.barrier
        if barrier.startswith(PER_WARP):
            stage = int(barrier.removeprefix(PER_WARP)) // 4
            barrier = f"{PER_WARP}{4 * stage} to {4 * stage + 3}"
        shares[wait.role, barrier] = shares.get((wait.role, barrier), 0.0) + wait.share
    rows = [(role, barrier, share) for (role, barrier), share in shares.items()]
    return sorted(rows, key=lambda row: -row[2])


def report_facts(report: Report) -> dict[str, Any]:
    """A report as plain data."""
    facts = dataclasses.asdict(report)
    facts["waits"] = [dataclasses.asdict(wait) for wait in report.waits]
    return facts


def setup_facts(setup: Setup) -> dict[str, Any]:
    """``problem``, ``design`` and ``machine`` as plain data, enough to repeat a run."""
    machine = {
        spec.name: getattr(setup.machine, spec.name)
        for spec in dataclasses.fields(setup.machine)
        if spec.name != "origins"
    }
    return {
        "problem": dataclasses.asdict(setup.problem),
        "design": dataclasses.asdict(setup.design),
        "machine": machine,
    }
