"""What a run says in numbers, and the sentence on what holds it back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fa4sim.analysis import Evidence, critical_path, verdict
from fa4sim.pipelines.call import Kernel
from fa4sim.pipelines.common.cluster import Surroundings
from fa4sim.pipelines.fa4.detail import Detail, Totals, simulate_cluster
from fa4sim.pipelines.fa4.gpu import PERSISTENT, Plan
from fa4sim.pipelines.fa4.tiles import middle_tile, without_most_of_its_steady_part
from fa4sim.specs import AnyDesign, Machine, Problem

#: Unmasked K/V blocks in a row that the tile of :func:`typical_path` keeps.
STEADY_BLOCKS = 20


@dataclass(frozen=True)
class Wait:
    """How long the warps of a role stood at one barrier or unit.

    ``share`` is the part of their lives, ``cycles`` that share of the time an SM had a CTA: the
    mean over SMs and the role's warps.
    """

    role: str
    barrier: str
    cycles: float
    share: float


@dataclass(frozen=True)
class Report:
    """What a run says in numbers.

    ``time_us`` includes ``launch_us``; ``cycles`` is the kernel's span. ``tflops`` counts work as
    published figures do, a causal mask as half of queries times keys whatever their numbers;
    ``tflops_visible`` counts the pairs that the mask lets through (None at scope "cta", where
    ``tflops`` is of whole blocks, masked or not). ``units`` is the busy
    fraction of each unit, 0 to 1, mean over the SMs and the span; ``hbm`` and ``l2`` are parts of
    what the chip can move in that time. ``bottleneck`` says in words what holds the run back and
    ``evidence`` gives its figures, one per line. ``ctas`` counts the CTAs that had a tile,
    ``detailed_runs`` those simulated event by event rather than placed from one like them.
    ``kernels`` are those of the call in their order: attention, and with split keys the one that
    combines (``cycles`` then is the span of all, launches between them included). Of the rows that
    the tensor pipe multiplies ``useful_rows`` is the fraction that the problem has, 0 to 1: with
    one query per sequence most rows of a tile are padding.
    """

    time_us: float
    launch_us: float
    tflops: float
    tflops_visible: float | None
    cycles: int
    bottleneck: str
    evidence: tuple[str, ...]
    units: dict[str, float]
    waits: tuple[Wait, ...]
    events: int
    wall_s: float
    sms: int
    ctas: int
    detailed_runs: int
    kernels: tuple[Kernel, ...] = ()
    useful_rows: float = 1.0


def make_report(
    problem: Problem,
    design: AnyDesign,
    machine: Machine,
    cycles: int,
    totals: Totals,
    events: int,
    ctas: int,
    detailed_runs: int,
    wall_s: float,
    *,
    sms: int | None = None,
    flops: int | None = None,
    active_sms: int | None = None,
    path: Mapping[tuple[str, str], float] | None = None,
    kernels: tuple[Kernel, ...] = (),
    useful_rows: float = 1.0,
) -> Report:
    """The report of a run from its totals.

    Args:
        cycles: the kernel's span.
        sms: how many SMs the totals are of; all of them, and the launch too, if not given.
        flops: work done, if not the whole problem.
        active_sms: SMs that share L2 and HBM at the time.
        path: cycles on the critical path by (role, op), for the verdict.
        kernels, useful_rows: see :class:`Report`.
    """
    whole_chip = sms is None
    sms = machine.sms if sms is None else sms
    launch = machine.launch_seconds if whole_chip else 0.0
    seconds = machine.seconds(cycles) + launch
    work = problem.flops if flops is None else flops
    visible = None
    if flops is None:
        visible = problem.flops_visible / seconds / 1e12 if seconds else 0.0
    span = max(1, cycles) * sms
    units = {name: busy / span for name, busy in totals.units.items()}
    # What the SMs looked at could have moved: all of it, or their share while others are at work.
    part = sms / max(sms, active_sms or machine.sms)
    units["l2"] = totals.l2_bytes / (machine.l2_bytes_per_cycle * part * max(1, cycles))
    units["hbm"] = totals.hbm_bytes / (machine.hbm_rate(design.kv_load) * part * max(1, cycles))
    waits = mean_waits(totals, sms)
    held = verdict(
        Evidence(
            units,
            {(wait.role, wait.barrier): wait.share for wait in waits},
            path or {},
            min(1.0, totals.sm_cycles / span),
            launch / seconds if seconds else 0.0,
        )
    )
    return Report(
        time_us=seconds * 1e6,
        launch_us=launch * 1e6,
        tflops=work / seconds / 1e12 if seconds else 0.0,
        tflops_visible=visible,
        cycles=cycles,
        bottleneck=held.text,
        evidence=held.evidence,
        units=units,
        waits=waits,
        events=events,
        wall_s=wall_s,
        sms=sms,
        ctas=ctas,
        detailed_runs=detailed_runs,
        kernels=kernels,
        useful_rows=useful_rows,
    )


def mean_waits(totals: Totals, sms: int) -> tuple[Wait, ...]:
    """Waits longest first, as shares of the waiting role's life."""
    occupied = totals.sm_cycles / sms
    waits = []
    for (role, on), cycles in totals.waits.items():
        life = totals.life.get(role, 0.0)
        if life > 0:
            waits.append(Wait(role, on, cycles / life * occupied, cycles / life))
    return tuple(sorted(waits, key=lambda wait: (-wait.share, wait.role, wait.barrier)))


def typical_path(
    problem: Problem, design: AnyDesign, machine: Machine, plan: Plan, seed: int = 0,
    known: Detail | None = None,
) -> dict[tuple[str, str], float]:  # fmt: skip
    """Cycles on the critical path of a typical CTA, by (role, op).

    The typical tile is the one in the middle when every tile counts for its number of blocks. A
    persistent CTA works through two of them. A long steady stretch is simulated in part and
    counted in full: it repeats. ``known`` is a detailed run of the typical tile alone, if there was
    one: where it is to be simulated whole and by itself, that has been done.
    """
    tile = middle_tile(plan.tiles)
    short, left_out = without_most_of_its_steady_part(tile, STEADY_BLOCKS)
    several = design.scheduler in PERSISTENT and len(plan.tiles) > plan.clusters
    tiles = [short, short] if several else [short]
    if known is None or left_out or several:
        known = simulate_cluster(
            problem, design, machine, tiles, Surroundings(True, plan.lists is not None), seed=seed
        )
    path = critical_path(known.trace)
    totals: dict[tuple[str, str], float] = dict(path.totals())
    if left_out and path.steady is not None:
        for key, cycles in path.per_block().items():
            totals[key] = totals.get(key, 0.0) + cycles * left_out * len(tiles)
    return totals
