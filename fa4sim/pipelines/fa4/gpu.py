"""The whole GPU: which cluster runs which tiles when, from detailed runs of each kind of work.

Thousands of CTAs do the same few things. Tiles are put into classes (number of blocks, masking,
votes, what comes from HBM); one cluster per class, or per sequence of classes, is simulated in
detail, and the results are placed on the SMs by the tile scheduler. Tiles that differ only in how
long their steady stretch is share one detailed run, because that stretch has been proved to
repeat. An exact mode simulates every cluster instead.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from fa4sim.engine.core import Core
from fa4sim.engine.errors import Hazard
from fa4sim.engine.memory import Share
from fa4sim.numerics.masks import NO_MASK
from fa4sim.pipelines.choice import build_cluster
from fa4sim.pipelines.common.cluster import BaseCluster, Surroundings
from fa4sim.pipelines.fa4.detail import Detail, Totals, simulate_cluster, totals_of, waits_of
from fa4sim.pipelines.fa4.diagnosis import check_end
from fa4sim.pipelines.fa4.lookup import lookup_cycles
from fa4sim.pipelines.fa4.page_phases import PagePhases
from fa4sim.pipelines.fa4.tiles import (
    WorkTile,
    grid_heads,
    kv_head_of,
    m_blocks,
    mask_runs,
    middle_tile,
    packed_rows,
    work_tile,
)
from fa4sim.pipelines.fa4.votes import RescaleVotes
from fa4sim.schedulers import (
    heads_in_l2,
    lpt_section,
    padding_clusters,
    split_order,
    splits_by_sequence,
)
from fa4sim.specs import AnyDesign, Design, Machine, Problem
from fa4sim.specs.design import PARTIAL_BYTES
from fa4sim.specs.limits import DYNAMIC_SCHEDULERS, VARLEN_SCHEDULERS

PERSISTENT = ("static_persistent", *DYNAMIC_SCHEDULERS)

#: Up to this many K/V blocks in all, the mixed lists of persistent clusters aren't put together
#: from pairs of tiles but simulated whole.
FEW_BLOCKS = 600

#: Where no tile has more blocks than this, filling and emptying the chip is all there is, and how
#: SMs then stand in each other's way at L2 and HBM decides the time: fair shares are up to a fifth
#: off. If it is at most so many blocks in all (counted for each CTA), every CTA is simulated.
SHORT_TILE, FEW_SHORT_BLOCKS = 3, 300


@dataclass(frozen=True)
class Plan:
    """The tiles in the order of the scheduler, and how many clusters share them.

    ``splits`` says per sequence into how many parts its keys are cut. ``lists`` is set for a static
    persistent grid: tile numbers per cluster. ``padding`` counts clusters that are launched and
    find no tile, which takes them ``fruitless_cycles``.
    """

    tiles: list[WorkTile]
    clusters: int
    lists: list[list[int]] | None
    padding: int
    splits: tuple[int, ...] = ()
    fruitless_cycles: int = 0


@dataclass
class Placement:
    """When and where a cluster ran: its SMs from ``sm`` on, its tiles, start and end cycle."""

    cluster: int
    sm: int
    tiles: list[int]
    start: int
    end: int


@dataclass
class GpuResult:
    """The whole GPU: ``cycles`` from the first CTA's start to the last one's end.

    ``typical`` is the detailed run of the tile in the middle, in the first wave and by itself, if
    there was one.
    """

    cycles: int
    placements: list[Placement]
    totals: Totals
    events: int
    detail: Detail | None
    plan: Plan
    hazards: list[Hazard] = field(default_factory=list)
    detailed_runs: int = 0
    typical: Detail | None = None


def make_plan(problem: Problem, design: AnyDesign, machine: Machine) -> Plan:
    """Tiles in scheduler order, with where their K/V comes from."""
    heads = grid_heads(problem, design)
    blocks = [m_blocks(problem, design, b) for b in range(problem.batch)]
    per_key = (problem.head_dim + problem.dim_v) * problem.element_bytes
    masked = problem.causal or problem.is_local
    sections: list[int] = []
    if design.scheduler in VARLEN_SCHEDULERS:
        for count in blocks:
            keys = count * design.work_rows * design.cta_group
            keys //= problem.group if design.pack_gqa else 1
            sections.append(heads_in_l2(keys // design.tile_n, design.tile_n * per_key, heads))
    seqlen_k = problem.seqlen_k or 0
    splits = sequence_splits(problem, design, machine)
    order = split_order(
        design.scheduler, blocks, heads, splits,
        section=lpt_section(seqlen_k, per_key) if design.scheduler == "lpt" else 1,
        reverse=masked, heads_per_section=sections,
    )  # fmt: skip
    tiles = [
        work_tile(problem, design, i, m, h, b, s, splits[b]) for i, (m, h, b, s) in enumerate(order)
    ]
    clusters = machine.sms // design.cta_group
    lists = None
    if design.scheduler == "static_persistent":
        grid = min(clusters, len(tiles))
        lists = [list(range(i, len(tiles), grid)) for i in range(grid)]
    padding = 0
    if design.scheduler == "single_tile_varlen":
        rows = sum(packed_rows(problem, design, b) for b in range(problem.batch))
        most = max(splits)
        padding = padding_clusters(rows, design.work_rows, problem.batch, heads * most, len(tiles))
    _assign_sources(problem, design, machine, tiles, clusters, splits)
    active = min(clusters, len(tiles) + padding)
    phases = PagePhases(problem, design, machine)
    lookups = [lookup_cycles(problem, design, machine, b) for b in range(problem.batch)]
    for i, tile in enumerate(tiles):
        together = active
        if lists is not None:  # wave by wave; the last one may leave SMs idle
            together = min(active, len(tiles) - i // active * active)
        tiles[i] = tile.at(
            active_sms=together * design.cta_group,
            page_phase=phases.of(tile),
            lookup_cycles=lookups[tile.batch],
        )
    if design.num_splits > 1 and partial_bytes(problem, splits) <= machine.l2_bytes:
        tiles = [tile.at(o_to_l2=True) for tile in tiles]
    fruitless = lookup_cycles(problem, design, machine, problem.batch)
    return Plan(tiles, clusters, lists, padding, tuple(splits), fruitless)


def sequence_splits(problem: Problem, design: AnyDesign, machine: Machine) -> list[int]:
    """Splits of each sequence: all alike, unless the prepare kernel decides by their lengths."""
    if design.num_splits == 1 or design.scheduler != "dynamic_varlen":
        return [design.num_splits] * problem.batch
    lengths = [problem.lengths(b) for b in range(problem.batch)]
    ratio = problem.group if design.pack_gqa else 1
    return splits_by_sequence(
        [-(-q * ratio // design.tile_m) for q, _ in lengths],
        [-(-k // design.tile_n) for _, k in lengths],
        grid_heads(problem, design), machine.sms, design.num_splits,
    )  # fmt: skip


def partial_bytes(problem: Problem, splits: Sequence[int]) -> int:
    """Bytes of all partial results: O in float32, and its log-sum-exp."""
    rows = sum(problem.lengths(b)[0] * count for b, count in enumerate(splits))
    return rows * problem.heads * (problem.dim_v + 1) * PARTIAL_BYTES


def _assign_sources(
    problem: Problem, design: AnyDesign, machine: Machine, tiles: list[WorkTile], clusters: int,
    plan_splits: Sequence[int],
) -> None:  # fmt: skip
    """Say of every tile how many of its first steps find K/V in HBM rather than L2.

    The tiles of one K/V head that start together touch its blocks from different ends down: a
    block comes from HBM for whoever reaches it first, and for those in step with it. Tiles that
    start later find everything in L2, unless what runs at a time exceeds it. A tile that sees no
    key loads what lies before the first one: zeros, from nowhere.
    """
    first_seen: dict[tuple[int, ...], int] = {}
    cohorts: dict[tuple[int, ...], list[int]] = {}
    late: list[int] = []
    for i, tile in enumerate(tiles):
        if tile.first_block < 0:
            continue
        group = (tile.batch, kv_head_of(problem, design, tile.head), tile.split)
        first = first_seen.setdefault(group, i)
        if i - first < clusters:
            cohorts.setdefault(group, []).append(i)
        else:
            late.append(i)
    per_key = (problem.head_dim + problem.dim_v) * problem.element_bytes
    for members in cohorts.values():
        by_top: dict[int, list[int]] = {}
        for i in members:
            by_top.setdefault(tiles[i].first_block, []).append(i)
        below: int | None = None
        for top in sorted(by_top):
            together = by_top[top]
            new = [
                tiles[i].blocks if below is None else min(top - below, tiles[i].blocks)
                for i in together
            ]
            # Each block comes once, whoever of those that begin together looks at it.
            sharers = sum(new) / max(1, *new)
            for i, steps in zip(together, new, strict=True):
                tiles[i] = tiles[i].at(hbm_steps=steps, kv_sharers=sharers)
            below = top
    for start in range(0, len(late), clusters):
        wave = late[start : start + clusters]
        groups = {
            (tiles[i].batch, kv_head_of(problem, design, tiles[i].head), tiles[i].split)
            for i in wave
        }
        working_set = sum(
            problem.lengths(batch)[1] * per_key // plan_splits[batch] for batch, _, _ in groups
        )
        if working_set <= machine.l2_bytes:
            continue
        for i in wave:
            tiles[i] = tiles[i].at(
                hbm_steps=tiles[i].blocks, kv_sharers=max(1.0, len(wave) / len(groups))
            )


class ClassRuns:
    """Detailed runs by class, shared by tiles that differ only in their steady stretch."""

    def __init__(
        self, problem: Problem, design: AnyDesign, machine: Machine, seed: int = 0
    ) -> None:
        self.problem = problem
        self.design = design
        self.machine = machine
        self.seed = seed
        #: Hopper kernels rescale in every step: there is nothing to vote on.
        self.votes = RescaleVotes(problem, design, seed) if isinstance(design, Design) else None
        self.known: dict[object, tuple[int, Totals]] = {}
        self.families: dict[object, list[tuple[int, Detail]]] = {}
        self.alone: dict[object, Detail] = {}
        self.events = 0
        self.runs = 0
        self.hazards: list[Hazard] = []
        self.first: Detail | None = None
        self.data: Any = None

    def tile_class(self, tile: WorkTile) -> tuple[object, ...]:
        """What decides how a tile runs."""
        if self.votes is None:
            return (tile.shape, ())
        blind = tuple(
            self.votes.blind_steps(tile, stage, rank)
            for stage in range(self.design.q_stages)
            for rank in range(self.design.cta_group)
        )
        return (tile.shape, blind)

    def run(self, tiles: Sequence[WorkTile], first_wave: bool) -> tuple[int, Totals]:
        """Cycles and totals of one cluster over ``tiles``."""
        key = (first_wave, tuple(self.tile_class(tile) for tile in tiles))
        found = self.known.get(key)
        if found is None and len(tiles) == 1:
            found = self._derive(tiles[0], first_wave)
        if found is None:
            detail = self.simulate(tiles, first_wave)
            found = (detail.cycles, detail.totals)
            if len(tiles) == 1:
                family, count = self._family(tiles[0], first_wave)
                self.families.setdefault(family, []).append((count, detail))
                self.alone[key] = detail
        self.known[key] = found
        return found

    def typical(self, tiles: Sequence[WorkTile]) -> Detail | None:
        """The run of the middle one of ``tiles`` by itself, in the first wave; None without one."""
        return self.alone.get((True, (self.tile_class(middle_tile(tiles)),)))

    def simulate(self, tiles: Sequence[WorkTile], first_wave: bool) -> Detail:
        """A detailed run, counted."""
        detail = simulate_cluster(
            self.problem, self.design, self.machine, tiles,
            Surroundings(first_wave, self.design.scheduler == "static_persistent"), seed=self.seed,
            data=self.data,
        )  # fmt: skip
        self.runs += 1
        self.events += detail.events
        self.hazards += detail.hazards
        if self.first is None:
            self.first = detail
        return detail

    def _family(self, tile: WorkTile, first_wave: bool) -> tuple[object, int]:
        """The class of a tile without the length of its longest unmasked stretch."""
        runs = list(mask_runs(tile.steps)) or [(NO_MASK, 0)]
        longest = max(range(len(runs)), key=lambda i: runs[i][1])
        count = runs[longest][1]
        runs[longest] = (runs[longest][0], -1)
        hbm = min(tile.hbm_steps, tile.blocks)
        hbm = -1 if hbm == tile.blocks else hbm
        _, blind = self.tile_class(tile)
        ends = (tile.rows, tile.o_to_l2, tile.lookup_cycles, tile.active_sms, tile.page_phase)
        return (first_wave, tuple(runs), longest, hbm, tile.kv_sharers, blind, ends), count

    def _derive(self, tile: WorkTile, first_wave: bool) -> tuple[int, Totals] | None:
        """The result of a longer or shorter relative whose steady stretch repeats."""
        family, count = self._family(tile, first_wave)
        for other, detail in self.families.get(family, ()):
            if detail.per_period is None:
                continue
            (proof,) = detail.proofs
            fewer = proof.times + (count - other) // proof.period
            if (count - other) % proof.period or fewer < 0:
                continue
            periods = (count - other) // proof.period
            totals = Totals()
            totals.add(detail.totals)
            totals.add(detail.per_period, periods)
            return detail.cycles + periods * proof.cycles, totals
        return None


class DataRuns(ClassRuns):
    """Detailed runs on real values: each cluster is simulated, none stands for another."""

    def __init__(
        self, problem: Problem, design: AnyDesign, machine: Machine, data: Any, seed: int
    ) -> None:
        super().__init__(problem, design, machine, seed)
        self.data = data

    def run(self, tiles: Sequence[WorkTile], first_wave: bool) -> tuple[int, Totals]:
        """Cycles and totals of one cluster over ``tiles``; its outputs are in the data."""
        detail = self.simulate(tiles, first_wave)
        return detail.cycles, detail.totals


def simulate_gpu(
    problem: Problem, design: AnyDesign, machine: Machine, *, seed: int = 0, exact: bool = False
) -> GpuResult:
    """Run the whole problem on the whole GPU. Raises Deadlock; hazards are in the result."""
    plan = make_plan(problem, design, machine)
    if not plan.tiles:
        return GpuResult(0, [], Totals(), 0, None, plan)
    blocks = sum(tile.blocks for tile in plan.tiles)
    short = (
        max(tile.blocks for tile in plan.tiles) <= SHORT_TILE
        and blocks * design.cta_group <= FEW_SHORT_BLOCKS
        and not plan.padding
        and not design.faults
    )
    if exact or short or (blocks <= FEW_BLOCKS and design.is_dynamic):
        return _exact(problem, design, machine, plan, seed)
    classes = ClassRuns(problem, design, machine, seed)
    if plan.lists is not None:
        placements = _static(plan, classes, design)
    elif design.is_dynamic:
        placements = _dynamic(plan, classes, design, machine)
    else:
        placements = _one_tile_each(plan, classes, design, machine)
    return _result(placements, classes, plan)


def simulate_with_data(
    problem: Problem, design: AnyDesign, machine: Machine, data: Any, *, seed: int = 0
) -> GpuResult:
    """Every tile in detail, once, on the values of ``data``; placed on the SMs as ever.

    The tiles of a dynamic scheduler are dealt out in strides, as if all took equally long.
    """
    plan = make_plan(problem, design, machine)
    if not plan.tiles:
        return GpuResult(0, [], Totals(), 0, None, plan)
    classes = DataRuns(problem, design, machine, data, seed)
    lists = plan.lists
    if lists is None and design.is_dynamic:
        grid = min(plan.clusters, len(plan.tiles))
        lists = [list(range(i, len(plan.tiles), grid)) for i in range(grid)]
    if lists is None:
        placed = _one_tile_each(plan, classes, design, machine)
    else:
        placed = []
        for number, indices in enumerate(lists):
            cycles, totals = classes.run([plan.tiles[i] for i in indices], first_wave=True)
            placed.append(
                (Placement(number, number * design.cta_group, indices, 0, cycles), totals)
            )
    return _result(placed, classes, plan)


def _result(placed: Placed, classes: ClassRuns, plan: Plan) -> GpuResult:
    totals = Totals()
    for _, part in placed:
        totals.add(part)
    placements = [placement for placement, _ in placed]
    return GpuResult(
        max(p.end for p in placements), placements, totals, classes.events, classes.first, plan,
        classes.hazards, classes.runs, classes.typical(plan.tiles),
    )  # fmt: skip


Placed = list[tuple[Placement, Totals]]


def _static(plan: Plan, classes: ClassRuns, design: AnyDesign) -> Placed:
    """Every cluster starts at once and works through its list."""
    assert plan.lists is not None
    placed: Placed = []
    different = {
        tuple(classes.tile_class(plan.tiles[i]) for i in indices): indices for indices in plan.lists
    }
    blocks = sum(plan.tiles[i].blocks for indices in different.values() for i in indices)
    for number, indices in enumerate(plan.lists):
        tiles = [plan.tiles[i] for i in indices]
        if blocks <= FEW_BLOCKS:
            cycles, totals = classes.run(tiles, first_wave=True)
        else:
            cycles, totals = _sequence(classes, tiles)
        sm = number * design.cta_group
        placed.append((Placement(number, sm, indices, 0, cycles), totals))
    return placed


def _sequence(classes: ClassRuns, tiles: list[WorkTile]) -> tuple[int, Totals]:
    """A persistent cluster's list: whole if its tiles come in few runs, else tile by tile.

    Mixed lists are composed of what each tile adds behind one like its predecessor.
    """
    kinds = [classes.tile_class(tile) for tile in tiles]
    changes = sum(a != b for a, b in pairwise(kinds))
    if changes <= 2:
        return classes.run(tiles, first_wave=True)
    cycles, first = classes.run(tiles[:1], first_wave=True)
    totals = Totals()
    totals.add(first)
    for before, tile in pairwise(tiles):
        added, more = _added(classes, before, tile)
        cycles += added
        totals.add(more)
    return cycles, totals


def _added(
    classes: ClassRuns, before: WorkTile, tile: WorkTile, first_wave: bool = True
) -> tuple[int, Totals]:
    """What ``tile`` adds to a cluster that has just worked on ``before``."""
    short, without = classes.run([before, before], first_wave)
    long, whole = classes.run([before, before, tile], first_wave)
    totals = Totals()
    totals.add(whole)
    totals.add(without, -1)
    return long - short, totals


def _one_tile_each(plan: Plan, classes: ClassRuns, design: AnyDesign, machine: Machine) -> Placed:
    """The hardware starts clusters in grid order wherever SMs come free."""
    free = [(0, i) for i in range(min(plan.clusters, len(plan.tiles) + plan.padding))]
    heapq.heapify(free)
    placed: Placed = []
    turnover = machine.cta_turnover_cycles
    if design.cta_group == 2:
        turnover += machine.cta_turnover_pair_cycles
    for number, tile in enumerate(plan.tiles):
        at, slot = heapq.heappop(free)
        first_wave = number < plan.clusters
        start = 0 if first_wave else at + turnover
        cycles, totals = classes.run([tile], first_wave=first_wave)
        end = start + cycles
        heapq.heappush(free, (end, slot))
        placed.append((Placement(number, slot * design.cta_group, [number], start, end), totals))
    empty = machine.cta_prologue_cycles + machine.setmaxnreg_cycles + plan.fruitless_cycles
    for number in range(len(plan.tiles), len(plan.tiles) + plan.padding):
        at, slot = heapq.heappop(free)
        start = 0 if number < plan.clusters else at + turnover
        heapq.heappush(free, (start + empty, slot))
        sm = slot * design.cta_group
        totals = Totals(sm_cycles=float(empty * design.cta_group))
        placed.append((Placement(number, sm, [], start, start + empty), totals))
    return placed


def _dynamic(plan: Plan, classes: ClassRuns, design: AnyDesign, machine: Machine) -> Placed:
    """Resident clusters that ask for their next tile as they begin one.

    A tile's time behind another is taken as what it adds behind one of its own kind.
    """
    grid = min(plan.clusters, len(plan.tiles))
    placed = [Placement(n, n * design.cta_group, [n], 0, 0) for n in range(grid)]
    sums = [Totals() for _ in range(grid)]
    begins = [(0, number) for number in range(grid)]
    following = grid
    while begins:
        begin, number = heapq.heappop(begins)
        mine = placed[number]
        tile = plan.tiles[mine.tiles[-1]]
        if len(mine.tiles) == 1:
            cycles, totals = classes.run([tile], first_wave=True)
        else:
            cycles, totals = _added(classes, tile, tile, first_wave=False)
        sums[number].add(totals)
        mine.end = begin + cycles
        if following < len(plan.tiles):
            mine.tiles.append(following)
            following += 1
            heapq.heappush(begins, (mine.end, number))
    return list(zip(placed, sums, strict=True))


def _exact(
    problem: Problem, design: AnyDesign, machine: Machine, plan: Plan, seed: int
) -> GpuResult:
    """Every cluster in detail, all in one environment; L2 and HBM are shared by who is there."""
    core = Core()
    totals = Totals()
    placements: list[Placement] = []
    waiting = list(range(len(plan.tiles) - 1, -1, -1))
    running: list[BaseCluster] = []
    grid = len(plan.lists) if plan.lists is not None else min(plan.clusters, len(plan.tiles))
    turnover = machine.cta_turnover_cycles
    if design.cta_group == 2:
        turnover += machine.cta_turnover_pair_cycles
    first: list[BaseCluster] = []
    l2, hbm = Share(machine.l2_bytes_per_cycle), Share(machine.hbm_rate(design.kv_load))

    def fetch() -> WorkTile | None:
        return plan.tiles[waiting.pop()] if waiting else None

    def slot(number: int):  # type: ignore[no-untyped-def]
        wave = 0
        while True:
            if plan.lists is not None:
                if wave:
                    return
                tiles = [plan.tiles[i] for i in plan.lists[number]]
            else:
                tile = fetch()
                if tile is None:
                    return
                tiles = [tile]
            if wave:
                yield core.env.timeout(turnover)
            sm = number * design.cta_group
            start = core.now
            cluster = build_cluster(
                core, problem, design, machine, tiles,
                Surroundings(shared=(l2, hbm)),
                first_sm=sm, first_cta=2 * len(placements), seed=seed, fetch=fetch,
            )  # fmt: skip
            if not first:
                first.append(cluster)
            for agent in cluster.agents:
                agent.born = start
            placement = Placement(len(placements), sm, [t.index for t in tiles], start, start)
            placements.append(placement)
            running.append(cluster)
            yield core.env.all_of([agent.process for agent in cluster.agents])
            check_end(cluster)
            for cta in cluster.ctas:
                cta.record_busy()
            running.remove(cluster)
            placement.tiles = [t.index for t in cluster.handed]
            placement.end = max(agent.died for agent in cluster.agents)
            part = totals_of(cluster, placement.end - start)
            part.waits, part.l2_bytes, part.hbm_bytes = {}, 0.0, 0.0
            totals.add(part)
            wave += 1

    for number in range(grid):
        core.env.process(slot(number))
    core.run()
    for cluster in running:
        check_end(cluster)
    totals.l2_bytes, totals.hbm_bytes = float(l2.moved), float(hbm.moved)
    pair = design.cta_group == 2
    totals.waits = waits_of(core.trace, core.trace.weights("wait"), pair)
    cycles = max(p.end for p in placements)
    detail = Detail(first[0], core.trace, cycles, core.events, core.hazards, totals, [])
    return GpuResult(
        cycles, placements, totals, core.events, detail, plan, core.hazards, len(placements)
    )
