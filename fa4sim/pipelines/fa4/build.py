"""Puts the warps of a cluster together: which warp has which role, and who watches what."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fa4sim.engine.agent import Agent
from fa4sim.engine.core import Core
from fa4sim.pipelines.fa4.barriers import load_warp_ids, spare_warp, waiters_of
from fa4sim.pipelines.fa4.cluster import Cluster, Surroundings
from fa4sim.pipelines.fa4.correction import CorrectionRole
from fa4sim.pipelines.fa4.data import Data
from fa4sim.pipelines.fa4.epilogue import EpilogueRole
from fa4sim.pipelines.fa4.load import LoadRole
from fa4sim.pipelines.fa4.mma import MmaRole, PeerMmaRole
from fa4sim.pipelines.fa4.paged_load import PagedLoadRole, RowLoadRole
from fa4sim.pipelines.fa4.scheduler import IdleRole, SchedulerRole
from fa4sim.pipelines.fa4.softmax import SoftmaxRole
from fa4sim.pipelines.fa4.tiles import WorkTile
from fa4sim.specs import Design, Machine, Problem

MMA_WARP, EPILOGUE_WARP = 12, 13


def load_role(problem: Problem, design: Design) -> type[LoadRole]:
    """How load warps find K and V."""
    if design.kv_load == "cp_async":
        return RowLoadRole
    return LoadRole if problem.page_size is None else PagedLoadRole


def build_cluster(
    core: Core,
    problem: Problem,
    design: Design,
    machine: Machine,
    tiles: Sequence[WorkTile],
    around: Surroundings,
    *,
    first_sm: int = 0,
    first_cta: int = 0,
    seed: int = 0,
    data: Data | None = None,
    fetch: Callable[[], WorkTile | None] = lambda: None,
) -> Cluster:
    """A cluster with all its warps started, ready for ``core.run()``."""
    cluster = Cluster(
        core, problem, design, machine, tiles, around, first_sm, first_cta, seed, data
    )
    dynamic = design.is_dynamic
    for cta in cluster.ctas:
        agents: list[Agent] = []
        for stage in range(design.q_stages):
            agents += [SoftmaxRole(cluster, cta, stage, warp) for warp in range(4)]
        agents += [CorrectionRole(cluster, cta, warp) for warp in range(4)]
        mma = MmaRole if cta.rank == 0 else PeerMmaRole
        agents.append(mma(cluster, cta, MMA_WARP))
        if design.epilogue == "tma":
            agents.append(EpilogueRole(cluster, cta, EPILOGUE_WARP))
        load = load_role(problem, design)
        agents += [
            load(cluster, cta, warp, rank) for rank, warp in enumerate(load_warp_ids(design))
        ]
        if dynamic:
            agents.append(SchedulerRole(cluster, cta, spare_warp(design), fetch))
            taken = {agent.warp for agent in agents}
            agents += [IdleRole(cluster, cta, warp) for warp in range(16) if warp not in taken]
        for spec in cluster.table.values():
            if not spec.used:
                continue
            for barrier in cta.barriers[spec.name]:
                roles = waiters_of(spec, barrier.stage)
                for agent in agents:
                    mine = spec.owner == "each" or cta.rank == 0
                    if spec.name.startswith("SoftmaxStatsW"):
                        mine = agent.warp % 4 == (spec.number - 3) % 4
                    elif spec.name == "TmemPtr":
                        # At the end the others only arrive: nobody but the MMA warp waits.
                        mine = agent.role == "mma"
                    elif isinstance(agent, LoadRole) and spec.name == "load_Q_empty":
                        mine = agent.loads_q
                    elif isinstance(agent, LoadRole) and spec.name == "load_KV_empty":
                        mine = agent.loads_kv
                    if agent.role in roles and mine:
                        barrier.watch(agent.key)
        cluster.agents += agents
        for receiver in cta.receivers:
            core.env.process(receiver.run())
        core.env.process(cta.tma_store.run())
    core.env.process(cluster.tensor.run())
    for agent in cluster.agents:
        agent.begin()
    return cluster
