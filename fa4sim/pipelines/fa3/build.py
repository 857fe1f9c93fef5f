"""Puts the warps of a CTA together: which warp has which role, and who watches what."""

from __future__ import annotations

from collections.abc import Sequence

from fa4sim.engine.agent import Agent
from fa4sim.engine.core import Core
from fa4sim.pipelines.common.cluster import Surroundings
from fa4sim.pipelines.fa3.cluster import Cluster
from fa4sim.pipelines.fa3.consumer import ConsumerRole
from fa4sim.pipelines.fa3.data import Data
from fa4sim.pipelines.fa3.load import LoadRole
from fa4sim.pipelines.fa3.plain import PlainRole
from fa4sim.pipelines.fa4.tiles import WorkTile
from fa4sim.specs import HopperDesign, Machine, Problem

WARPS = 4


def build_cluster(
    core: Core,
    problem: Problem,
    design: HopperDesign,
    machine: Machine,
    tiles: Sequence[WorkTile],
    around: Surroundings,
    *,
    first_sm: int = 0,
    first_cta: int = 0,
    data: Data | None = None,
) -> Cluster:
    """A CTA with all its warps started, ready for ``core.run()``."""
    cluster = Cluster(core, problem, design, machine, tiles, around, first_sm, first_cta, data)
    cta = cluster.cta
    agents: list[Agent] = []
    kind = ConsumerRole if design.specialised else PlainRole
    first = WARPS if design.specialised else 0  # behind the load warp's warpgroup
    for number in range(design.consumers):
        agents += [
            kind(cluster, cta, number, first + WARPS * number + lane) for lane in range(WARPS)
        ]
    if design.specialised:
        agents.append(LoadRole(cluster, cta))
    for spec in cluster.table.values():
        for barrier in cta.barriers[spec.name]:
            for agent in agents:
                if agent.role in spec.waiters:
                    barrier.watch(agent.key)
    cluster.agents += agents
    core.env.process(cta.tma.run())
    core.env.process(cta.tma_store.run())
    core.env.process(cluster.tensor.run())
    for agent in cluster.agents:
        agent.begin()
    return cluster
