"""Run one attention call through the simulated pipeline.

>>> from fa4sim import Problem, simulate
>>> run = simulate(Problem(batch=1, heads=2, seqlen_q=1024, causal=True))
>>> run.report.cycles > 0 and 0 < run.report.units["tensor"] < 1
True
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fa4sim.analysis import critical_path
from fa4sim.arguments import (
    check_arguments,
    check_arrays,
    check_descales,
    check_pages,
    check_sink,
)
from fa4sim.engine.errors import Deadlock, Hazard, HazardError
from fa4sim.pipelines.call import CallResult, simulate_call
from fa4sim.pipelines.choice import data_of
from fa4sim.pipelines.combine import CombineResult
from fa4sim.pipelines.common.cluster import Surroundings
from fa4sim.pipelines.fa4.data import Descales
from fa4sim.pipelines.fa4.detail import Totals, simulate_cluster
from fa4sim.pipelines.fa4.gpu import GpuResult, make_plan
from fa4sim.pipelines.fa4.tiles import useful_rows
from fa4sim.report import Report, make_report, typical_path
from fa4sim.specs import B200, AnyDesign, Design, Machine, Problem, design_for
from fa4sim.trace import Trace

Scope = Literal["gpu", "cta"]


@dataclass
class Run:
    """The outcome of :func:`simulate`: what was run, its trace, its report and its outputs.

    ``trace`` is the attention kernel's; with split keys ``combine`` holds the other kernel's.
    """

    problem: Problem
    design: AnyDesign
    machine: Machine
    report: Report
    trace: Trace
    outputs: Outputs | None = None
    hazards: tuple[Hazard, ...] = ()
    gpu: GpuResult | None = field(default=None, repr=False)
    combine: CombineResult | None = field(default=None, repr=False)

    @property
    def occupancy(self) -> list[tuple[int, int, int, list[int]]]:
        """``(first SM, start, end, tiles)`` of every cluster, in cycles; empty at scope "cta"."""
        if self.gpu is None:
            return []
        return [(p.sm, p.start, p.end, list(p.tiles)) for p in self.gpu.placements]


@dataclass(frozen=True)
class Outputs:
    """What came out of the pipeline.

    ``out`` float32 (batch, seqlen_q, heads, head_dim_v), ``lse`` float32 (batch, heads, seqlen_q)
    in natural log; ``rescales`` of ``votes`` correction steps rescaled O.
    """

    out: NDArray[np.float32]
    lse: NDArray[np.float32]
    rescales: int
    votes: int


def simulate(
    problem: Problem,
    design: AnyDesign | None = None,
    machine: Machine = B200,
    *,
    arrays: Sequence[ArrayLike] | None = None,
    sink: ArrayLike | None = None,
    page_table: ArrayLike | None = None,
    descales: Sequence[ArrayLike | None] | None = None,
    scope: Scope = "gpu",
    seed: int = 0,
    exact: bool = False,
    tile: int | None = None,
    on_hazard: Literal["raise", "record"] = "raise",
) -> Run:
    """Simulate a forward pass of attention on ``problem``: FlashAttention-4's, or on a Hopper
    machine that of FlashAttention-3.

    Args:
        problem: what to compute.
        design: how; the kernel's own choice for this problem and machine if not given. A
            :class:`~fa4sim.HopperDesign` on a Hopper machine.
        machine: on what.
        arrays: ``(q, k, v)`` of shapes (batch, seqlen, heads, head_dim): then the tiles carry
            values, everything is simulated tile by tile and ``Run.outputs`` holds the result.
            Values are rounded to the problem's dtype. Of a problem with pages k and v are
            (pages, page_size, kv_heads, head_dim).
        sink: logits of shape (heads,), needed with arrays when ``problem.sink`` is set.
        page_table: int32 (batch, pages of the longest sequence), needed with arrays when
            ``problem.page_size`` is set: which pages hold a sequence's tokens, in order.
        descales: of FP8 arrays, ``(q, k, v)`` of shape (batch, kv_heads) each, float32: what their
            values have to be multiplied with. None, or None for one of them: 1.
        scope: ``"gpu"`` places every tile on every SM; ``"cta"`` simulates one CTA (or pair) in
            detail, by default the first and its first tile.
        seed: of everything that is drawn (rescale votes without arrays).
        exact: simulate every CTA instead of one per class of work.
        tile: which work tile to take at scope ``"cta"``, in scheduler order.
        on_hazard: ``"raise"`` or keep them in ``Run.hazards``.

    Returns:
        Run: trace, report, outputs. At scope "gpu" the trace is that of one CTA (or pair) that
        stands for all like it, folded where it repeats (``run.trace.expand()`` has every row);
        with ``exact`` that of every CTA. Totals of the whole GPU are in the report.

    Raises:
        ValueError: the problem, design or arrays cannot be used; the message quotes what is wrong.
        fa4sim.Deadlock: the design hangs; the error names who waits for what.
        fa4sim.HazardError: the design finished but broke a rule on the way.
    """
    started = time.perf_counter()
    check_arguments(
        problem, design, machine, arrays, sink, page_table, descales, scope, seed, exact, tile,
        on_hazard,
    )  # fmt: skip
    design = design_for(problem, machine) if design is None else design
    design.check(problem, machine)
    try:
        if arrays is not None:
            run = _with_arrays(
                problem, design, machine, arrays, sink, page_table, descales, seed, started
            )
        elif scope == "cta":
            run = _one_cluster(problem, design, machine, seed, tile, not exact, started)
        else:
            run = _whole_gpu(problem, design, machine, seed, exact, started)
    except Deadlock as error:
        if error.trace is not None:
            _describe(error.trace, problem, design, machine)
        raise
    if run.hazards and on_hazard == "raise":
        raise HazardError(run.hazards)
    return run


def _whole_gpu(
    problem: Problem, design: AnyDesign, machine: Machine, seed: int, exact: bool, started: float
) -> Run:
    if _no_work(problem):
        return _empty_run(problem, design, machine, started)
    result = simulate_call(problem, design, machine, seed=seed, exact=exact)
    return _report_gpu(problem, design, machine, result, seed, started)


def _report_gpu(
    problem: Problem,
    design: AnyDesign,
    machine: Machine,
    call: CallResult,
    seed: int,
    started: float,
) -> Run:
    result = call.attention
    trace = result.detail.trace if result.detail is not None else Trace()
    _describe(trace, problem, design, machine)
    path = typical_path(problem, design, machine, result.plan, seed, result.typical)
    busy = sum(bool(placement.tiles) for placement in result.placements)
    report = make_report(
        problem, design, machine, call.cycles, call.totals, call.events, busy * design.cta_group,
        call.detailed_runs, time.perf_counter() - started, path=path, kernels=call.kernels,
        useful_rows=useful_rows(design, result.plan.tiles),
    )  # fmt: skip
    return Run(
        problem, design, machine, report, trace, None, tuple(result.hazards), result, call.combine
    )


def _one_cluster(
    problem: Problem, design: AnyDesign, machine: Machine, seed: int, tile: int | None,
    reuse: bool, started: float,
) -> Run:  # fmt: skip
    if _no_work(problem):
        return _empty_run(problem, design, machine, started)
    plan = make_plan(problem, design, machine)
    number = 0 if tile is None else tile
    if not 0 <= number < len(plan.tiles):
        raise ValueError(
            f"tile {number} is not one of this problem's {len(plan.tiles)} work tiles "
            f"(0 to {len(plan.tiles) - 1})"
        )
    detail = simulate_cluster(
        problem, design, machine, [plan.tiles[number]],
        Surroundings(number < plan.clusters, plan.lists is not None), seed=seed, reuse=reuse,
    )  # fmt: skip
    trace = detail.trace.expand()
    _describe(trace, problem, design, machine)
    report = make_report(
        problem, design, machine, detail.cycles, detail.totals, detail.events, design.cta_group,
        1, time.perf_counter() - started, sms=design.cta_group,
        flops=tile_flops(problem, design, plan.tiles[number].blocks),
        active_sms=plan.tiles[number].active_sms, path=critical_path(trace).totals(),
        useful_rows=useful_rows(design, [plan.tiles[number]]),
    )  # fmt: skip
    return Run(problem, design, machine, report, trace, None, tuple(detail.hazards))


def tile_flops(problem: Problem, design: AnyDesign, blocks: int) -> int:
    """FLOPs the tensor pipes do for one work tile of ``blocks`` K/V blocks, masked or not."""
    rows = design.work_rows * design.cta_group
    return 2 * rows * blocks * design.tile_n * (problem.head_dim + problem.dim_v)


def _with_arrays(
    problem: Problem, design: AnyDesign, machine: Machine, arrays: Sequence[ArrayLike],
    sink: ArrayLike | None, page_table: ArrayLike | None,
    descales: Sequence[ArrayLike | None] | None, seed: int, started: float,
) -> Run:  # fmt: skip
    q, k, v = check_arrays(problem, arrays)
    table = check_pages(problem, k, page_table)
    logits = check_sink(problem, sink)
    scales = Descales.of(problem, *check_descales(problem, descales))
    data = data_of(problem, design, q, k, v, logits, table, scales)
    if _no_work(problem):
        run = _empty_run(problem, design, machine, started)
    else:
        run = _report_gpu(
            problem, design, machine,
            simulate_call(problem, design, machine, seed=seed, data=data), seed, started,
        )  # fmt: skip
    data.finish(logits)
    run.outputs = Outputs(data.out, data.lse, data.rescales, data.votes)
    return run


def _no_work(problem: Problem) -> bool:
    """The kernel returns at once when there are no queries or no keys at all."""
    pairs = [problem.lengths(b) for b in range(problem.batch)]
    return all(q == 0 for q, _ in pairs) or all(k == 0 for _, k in pairs)


def _empty_run(problem: Problem, design: AnyDesign, machine: Machine, started: float) -> Run:
    report = make_report(
        problem, design, machine, 0, Totals(), 0, 0, 0, time.perf_counter() - started
    )
    trace = Trace()
    _describe(trace, problem, design, machine)
    return Run(problem, design, machine, report, trace)


def _describe(trace: Trace, problem: Problem, design: AnyDesign, machine: Machine) -> None:
    """Write into the trace what it is a trace of."""
    trace.meta.update(
        machine=machine.name,
        clock_hz=machine.clock_hz,
        problem={k: v for k, v in dataclasses.asdict(problem).items() if v is not None},
        design={k: v for k, v in dataclasses.asdict(design).items() if k != "faults"},
        smem={name: size for name, size in design.smem_bytes(problem).items()},
    )
    if not isinstance(design, Design):  # one Q tile of each consumer, whose place O takes
        described = dict(dataclasses.asdict(design), q_stages=design.q_stages, overlap_o_q=True)
        trace.meta["design"] = {k: v for k, v in described.items() if k != "faults"}
    else:
        columns = design.tmem_map(problem.element_bytes)
        trace.meta.update(
            tmem={name: list(place) for name, place in columns.items()},
            ring_slots=[list(even) for even, _ in design.ring_slots(problem)],
        )
