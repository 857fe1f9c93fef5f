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
from fa4sim.engine.errors import Hazard, HazardError
from fa4sim.numerics.formats import round_to
from fa4sim.pipelines.fa4.cluster import Surroundings
from fa4sim.pipelines.fa4.data import Data
from fa4sim.pipelines.fa4.detail import Totals, simulate_cluster
from fa4sim.pipelines.fa4.gpu import GpuResult, make_plan, simulate_gpu
from fa4sim.report import Report, make_report, typical_path
from fa4sim.specs import B200, FP8, Design, Machine, Problem
from fa4sim.trace import Trace

Scope = Literal["gpu", "cta"]


@dataclass
class Run:
    """The outcome of :func:`simulate`: what was run, its trace, its report and its outputs."""

    problem: Problem
    design: Design
    machine: Machine
    report: Report
    trace: Trace
    outputs: Outputs | None = None
    hazards: tuple[Hazard, ...] = ()
    gpu: GpuResult | None = field(default=None, repr=False)

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
    design: Design | None = None,
    machine: Machine = B200,
    *,
    arrays: Sequence[ArrayLike] | None = None,
    sink: ArrayLike | None = None,
    scope: Scope = "gpu",
    seed: int = 0,
    exact: bool = False,
    tile: int | None = None,
    on_hazard: Literal["raise", "record"] = "raise",
) -> Run:
    """Simulate FlashAttention-4's forward pass on ``problem``.

    Args:
        problem: what to compute.
        design: how; the kernel's own choice for this problem and machine if not given.
        machine: on what.
        arrays: ``(q, k, v)`` of shapes (batch, seqlen, heads, head_dim): then the tiles carry
            values, everything is simulated tile by tile and ``Run.outputs`` holds the result.
            Values are rounded to the problem's dtype.
        sink: logits of shape (heads,), needed with arrays when ``problem.sink`` is set.
        scope: ``"gpu"`` places every tile on every SM; ``"cta"`` simulates one CTA (or pair) in
            detail, by default the first and its first tile.
        seed: of everything that is drawn (rescale votes without arrays).
        exact: simulate every CTA instead of one per class of work.
        tile: which work tile to take at scope ``"cta"``, in scheduler order.
        on_hazard: ``"raise"`` or keep them in ``Run.hazards``.

    Returns:
        Run: trace, report, outputs.

    Raises:
        ValueError: the problem, design or arrays cannot be used; the message quotes what is wrong.
        fa4sim.Deadlock: the design hangs; the error names who waits for what.
        fa4sim.HazardError: the design finished but broke a rule on the way.
    """
    started = time.perf_counter()
    design = Design.for_problem(problem, machine) if design is None else design
    design.check(problem, machine)
    if scope not in ("gpu", "cta"):
        raise ValueError(f"scope={scope!r} must be 'gpu' or 'cta'")
    if arrays is not None:
        run = _with_arrays(problem, design, machine, arrays, sink, seed, started)
    elif scope == "cta":
        run = _one_cluster(problem, design, machine, seed, tile, not exact, started)
    else:
        run = _whole_gpu(problem, design, machine, seed, exact, started)
    if run.hazards and on_hazard == "raise":
        raise HazardError(run.hazards)
    return run


def _whole_gpu(
    problem: Problem, design: Design, machine: Machine, seed: int, exact: bool, started: float
) -> Run:
    if _no_work(problem):
        return _empty_run(problem, design, machine, started)
    result = simulate_gpu(problem, design, machine, seed=seed, exact=exact)
    trace = result.detail.trace if result.detail is not None else Trace()
    _describe(trace, problem, design, machine)
    path = typical_path(problem, design, machine, result.plan, seed)
    busy = sum(bool(placement.tiles) for placement in result.placements)
    report = make_report(
        problem, design, machine, result.cycles, result.totals, result.events,
        busy * design.cta_group, result.detailed_runs, time.perf_counter() - started, path=path,
    )  # fmt: skip
    return Run(problem, design, machine, report, trace, None, tuple(result.hazards), result)


def _one_cluster(
    problem: Problem, design: Design, machine: Machine, seed: int, tile: int | None,
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
    )  # fmt: skip
    return Run(problem, design, machine, report, trace, None, tuple(detail.hazards))


def tile_flops(problem: Problem, design: Design, blocks: int) -> int:
    """FLOPs the tensor pipes do for one work tile of ``blocks`` K/V blocks, masked or not."""
    rows = design.work_rows * design.cta_group
    return 2 * rows * blocks * design.tile_n * (problem.head_dim + problem.dim_v)


def _with_arrays(
    problem: Problem, design: Design, machine: Machine, arrays: Sequence[ArrayLike],
    sink: ArrayLike | None, seed: int, started: float,
) -> Run:  # fmt: skip
    q, k, v = check_arrays(problem, arrays)
    logits = check_sink(problem, sink)
    if problem.dtype in FP8:
        raise ValueError(
            f"dtype={problem.dtype!r}: the numerics of FP8 are not covered yet, only its timing; "
            "leave the arrays out, or use bf16 or fp16"
        )
    data = Data(problem, design, q, k, v, logits)
    hazards: list[Hazard] = []
    totals = Totals()
    trace: Trace | None = None
    cycles = events = clusters = 0
    if not _no_work(problem):
        plan = make_plan(problem, design, machine)
        lists = plan.lists or [[i] for i in range(len(plan.tiles))]
        if design.scheduler == "dynamic":
            grid = min(plan.clusters, len(plan.tiles))
            lists = [list(range(i, len(plan.tiles), grid)) for i in range(grid)]
        clusters = len(lists)
        for number, indices in enumerate(lists):
            detail = simulate_cluster(
                problem, design, machine, [plan.tiles[i] for i in indices],
                Surroundings(number < plan.clusters, plan.lists is not None), seed=seed, data=data,
            )  # fmt: skip
            trace = detail.trace if trace is None else trace
            cycles = max(cycles, detail.cycles)
            events += detail.events
            hazards += detail.hazards
            totals.add(detail.totals)
    data.finish(logits)
    trace = Trace() if trace is None else trace
    _describe(trace, problem, design, machine)
    report = make_report(
        problem, design, machine, cycles, totals, events, clusters * design.cta_group, clusters,
        time.perf_counter() - started, sms=max(1, min(machine.sms, clusters * design.cta_group)),
        active_sms=max(1, min(machine.sms, clusters * design.cta_group)),
        path=critical_path(trace).totals(),
    )  # fmt: skip
    outputs = Outputs(data.out, data.lse, data.rescales, data.votes)
    return Run(problem, design, machine, report, trace, outputs, tuple(hazards))


def _no_work(problem: Problem) -> bool:
    """The kernel returns at once when there are no queries or no keys at all."""
    pairs = [problem.lengths(b) for b in range(problem.batch)]
    return all(q == 0 for q, _ in pairs) or all(k == 0 for _, k in pairs)


def _empty_run(problem: Problem, design: Design, machine: Machine, started: float) -> Run:
    report = make_report(
        problem, design, machine, 0, Totals(), 0, 0, 0, time.perf_counter() - started
    )
    trace = Trace()
    _describe(trace, problem, design, machine)
    return Run(problem, design, machine, report, trace)


def check_arrays(
    problem: Problem, arrays: Sequence[ArrayLike]
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """``(q, k, v)`` as float32 values of the problem's dtype. Raises ValueError quoting shapes."""
    if len(arrays) != 3:
        raise ValueError(f"arrays must be (q, k, v), not {len(arrays)} of them")
    seqlen_k = problem.seqlen_k or 0
    kv_heads = problem.kv_heads or 0
    wanted = {
        "q": (problem.batch, problem.seqlen_q, problem.heads, problem.head_dim),
        "k": (problem.batch, seqlen_k, kv_heads, problem.head_dim),
        "v": (problem.batch, seqlen_k, kv_heads, problem.dim_v),
    }
    out = []
    for array, (name, shape) in zip(arrays, wanted.items(), strict=True):
        given = np.asarray(array)
        if given.shape != shape:
            raise ValueError(
                f"{name} has shape {given.shape}; this problem needs {shape} "
                "(batch, seqlen, heads, head_dim)"
            )
        if given.dtype.kind not in "fiu":
            raise ValueError(f"{name} has dtype {given.dtype}; give real numbers")
        dtype = problem.dtype if problem.dtype not in FP8 else "bf16"
        out.append(round_to(given.astype(np.float32), dtype))
    return out[0], out[1], out[2]


def check_sink(problem: Problem, sink: ArrayLike | None) -> NDArray[np.float32] | None:
    """The sink logits as float32 (heads,), or None. Raises ValueError if they do not fit."""
    if sink is None:
        if problem.sink:
            raise ValueError(
                f"this problem has a learnable sink; give sink= with shape ({problem.heads},)"
            )
        return None
    logits = np.asarray(sink, dtype=np.float32)
    if not problem.sink:
        raise ValueError("sink logits are given but the problem has sink=False; set sink=True")
    if logits.shape != (problem.heads,):
        raise ValueError(f"sink has shape {logits.shape}; this problem needs ({problem.heads},)")
    return logits


def _describe(trace: Trace, problem: Problem, design: Design, machine: Machine) -> None:
    """Write into the trace what it is a trace of."""
    trace.meta.update(
        machine=machine.name,
        clock_hz=machine.clock_hz,
        problem={k: v for k, v in dataclasses.asdict(problem).items() if v is not None},
        design={k: v for k, v in dataclasses.asdict(design).items() if k != "faults"},
        tmem={name: list(place) for name, place in design.tmem_map().items()},
        smem={name: size for name, size in design.smem_bytes(problem).items()},
        ring_slots=[list(even) for even, _ in design.ring_slots(problem)],
    )
