"""One cluster simulated in detail, and what remains of it when only totals are needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fa4sim.engine.core import Core
from fa4sim.engine.errors import Hazard
from fa4sim.pipelines.choice import build_cluster
from fa4sim.pipelines.common.cluster import UNITS, Surroundings
from fa4sim.pipelines.common.cluster import BaseCluster as Cluster
from fa4sim.pipelines.fa4.diagnosis import check_end
from fa4sim.pipelines.fa4.steady import Proof, SteadyState, is_peer
from fa4sim.pipelines.fa4.tiles import WorkTile
from fa4sim.specs import AnyDesign, Machine, Problem
from fa4sim.trace import Trace


@dataclass
class Totals:
    """Sums over one or many clusters: what a report is made of.

    ``units`` is busy cycles per unit, summed over SMs (a sub-partition's unit counts a quarter);
    ``waits`` cycles by (role, barrier or unit); ``life`` cycles that a role's warps lived;
    ``l2_bytes`` and ``hbm_bytes`` what was moved; ``sm_cycles`` SMs times cycles.
    """

    sm_cycles: float = 0.0
    units: dict[str, float] = field(default_factory=dict)
    waits: dict[tuple[str, str], float] = field(default_factory=dict)
    life: dict[str, float] = field(default_factory=dict)
    l2_bytes: float = 0.0
    hbm_bytes: float = 0.0

    def add(self, other: Totals, times: float = 1.0) -> None:
        """Add ``times`` copies of ``other``."""
        self.sm_cycles += times * other.sm_cycles
        self.l2_bytes += times * other.l2_bytes
        self.hbm_bytes += times * other.hbm_bytes
        for name, value in other.units.items():
            self.units[name] = self.units.get(name, 0.0) + times * value
        for key, value in other.waits.items():
            self.waits[key] = self.waits.get(key, 0.0) + times * value
        for role, value in other.life.items():
            self.life[role] = self.life.get(role, 0.0) + times * value


@dataclass
class Detail:
    """A detailed run of one cluster over its tiles: ``cycles`` from its start to its end."""

    cluster: Cluster
    trace: Trace
    cycles: int
    events: int
    hazards: list[Hazard]
    totals: Totals
    proofs: list[Proof]
    per_period: Totals | None = None


def simulate_cluster(
    problem: Problem,
    design: AnyDesign,
    machine: Machine,
    tiles: Sequence[WorkTile],
    around: Surroundings,
    *,
    seed: int = 0,
    data: Any = None,
    reuse: bool = True,
) -> Detail:
    """Simulate one cluster over ``tiles`` and check how it ended.

    Steady stretches are fast-forwarded if ``reuse`` is set and no arrays and no faults are
    attached. Raises :class:`fa4sim.engine.errors.Deadlock`.
    """
    core = Core()
    fetched = list(tiles)
    first = fetched[:1] if design.is_dynamic else fetched
    rest = iter(fetched[1:])
    cluster = build_cluster(
        core, problem, design, machine, first, around, seed=seed, data=data,
        fetch=lambda: next(rest, None),
    )  # fmt: skip
    if data is not None:
        data.attach(cluster.ctas, fetched)
    steady = SteadyState(cluster)
    if reuse and data is None and not design.faults and not design.is_dynamic:
        steady.watch()
    core.run()
    check_end(cluster)
    for cta in cluster.ctas:
        cta.record_busy()
    cycles = max((agent.died for agent in cluster.agents), default=0)
    detail = Detail(
        cluster, core.trace, cycles, core.events, core.hazards,
        totals_of(cluster, cycles), steady.proofs,
    )  # fmt: skip
    if len(fetched) == 1 and len(steady.proofs) == 1 and steady.proofs[0].times > 0:
        detail.per_period = _per_period(cluster, steady.proofs[0])
    return detail


def totals_of(cluster: Cluster, cycles: int) -> Totals:
    """The totals of a finished cluster."""
    totals = Totals(sm_cycles=float(cycles * len(cluster.ctas)))
    units = dict.fromkeys(("tensor", *UNITS), 0.0)
    for cta in cluster.ctas:
        units["tensor"] += cluster.tensor.busy
        for (name, copies), busy in zip(UNITS.items(), cta.busy(), strict=True):
            units[name] += busy / copies
        totals.l2_bytes += cta.l2.moved
        totals.hbm_bytes += cta.hbm.moved
    totals.units = units
    trace = cluster.core.trace
    totals.waits = waits_of(trace, trace.weights("wait"), len(cluster.ctas) == 2)
    for agent in cluster.agents:
        if is_peer(agent):
            continue
        totals.life[agent.role] = totals.life.get(agent.role, 0.0) + agent.died - agent.born
    return totals


def waits_of(trace: Trace, weights: np.ndarray, pair: bool) -> dict[tuple[str, str], float]:
    """Waiting cycles by (role, barrier or unit), each row counted ``weights`` times.

    The MMA warp of a pair's second CTA does nothing but wait for the end; it is left out.
    """
    wait = trace.wait
    if not len(wait):
        return {}
    if pair:
        mma = trace.code("mma")
        weights = np.where((wait["role"] == mma) & (wait["cta"] % 2 == 1), 0, weights)
    width = len(trace.strings)
    key = wait["role"] * width + wait["on"]
    sums = np.bincount(key, weights=(wait["end"] - wait["start"]) * weights)
    (found,) = np.nonzero(sums)
    return {
        (trace.strings[int(k) // width], trace.strings[int(k) % width]): float(sums[k])
        for k in found
    }


def _per_period(cluster: Cluster, proof: Proof) -> Totals:
    """What one more period of the steady state adds to the totals."""
    ctas = len(cluster.ctas)
    totals = Totals(sm_cycles=float(proof.cycles * ctas))
    units = dict.fromkeys(("tensor", *UNITS), 0.0)
    for smsp in proof.units:
        for name, busy in smsp.items():
            units[name] += busy / UNITS[name]
    units["tensor"] += proof.tensor * ctas
    totals.units = units
    totals.l2_bytes = float(sum(proof.moved[0::2]))
    totals.hbm_bytes = float(sum(proof.moved[1::2]))
    trace = cluster.core.trace
    inside = np.zeros(trace.size("wait"), dtype=np.int64)
    (repeat,) = trace.repeats
    inside[repeat.first["wait"] : repeat.last["wait"]] = 1
    totals.waits = waits_of(trace, inside, ctas == 2)
    for key in proof.standing:
        totals.waits[key] = totals.waits.get(key, 0.0) + proof.cycles
    for agent in cluster.agents:
        if not is_peer(agent):
            totals.life[agent.role] = totals.life.get(agent.role, 0.0) + proof.cycles
    return totals
