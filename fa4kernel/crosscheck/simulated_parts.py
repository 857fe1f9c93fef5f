"""Barriers and lives of a simulated cluster, taken from its trace."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fa4kernel.crosscheck.record import Arrival, BarrierUse, Label, Life, Record, Warp
from fa4sim.pipelines.fa4.cluster import Cluster
from fa4sim.pipelines.fa4.tiles import first_row, kv_head_of

if TYPE_CHECKING:
    from fa4kernel.crosscheck.hearing import Ear

#: A role of the simulator's arrivals, where a warp goes by another name.
ROLES = {"peer_mma": "mma"}


def barriers_of(cluster: Cluster, ear: Ear, record: Record) -> None:
    """Write the barriers of a finished cluster into the record."""
    for cta in cluster.ctas:
        for name, stages in cta.barriers.items():
            spec = cluster.table[name]
            for barrier in stages:
                use = BarrierUse(spec.kind, barrier.expected, barrier.completions)
                record.barriers[cta.number, name, barrier.stage] = use
    for agent in cluster.agents:
        record.roles[agent.warp] = agent.role
    _arrivals(cluster, ear, record)
    _waiters(cluster, record)
    _never_used(cluster, record)


def _never_used(cluster: Cluster, record: Record) -> None:
    """Set apart what nobody touched: the other CTA's copy in a pair, and what waits for no tile."""
    for cta in cluster.ctas:
        found = []
        for spec in cluster.table.values():
            for stage in range(spec.stages):
                place = (cta.number, spec.name, stage)
                use = record.barriers.get(place)
                if use is None:
                    idle = spec.kind == "mbarrier" and not spec.used and bool(spec.why)
                else:
                    idle = not use.arrivals and not use.waiters
                    if idle:
                        del record.barriers[place]
                if idle and spec.kind == "mbarrier":
                    found.append((spec.name, spec.count))
        record.never_used[cta.number] = found


def _arrivals(cluster: Cluster, ear: Ear, record: Record) -> None:
    seen: Counter[Any] = Counter()
    for row in cluster.core.trace.arrive.rows():
        owner, name, stage = int(row["cta"]), str(row["barrier"]), int(row["stage"])
        role, number = str(row["by"]), int(row["warp"])
        unit = role == "tensor"
        leader = cluster.leader.number
        origin = leader if unit else int(row["from_cta"])
        warp = Warp(origin, "mma" if unit else ROLES.get(role, role), number % 4)
        key = (warp, name, stage)
        # A commit arrives on the barriers of both CTAs of a pair.
        turn = seen[key, owner if unit else None]
        seen[key, owner if unit else None] += 1
        source = ear.arrived[key][turn]
        by = who(warp.role if not unit else "tensor", origin, owner)
        arrival = Arrival(
            int(row["phase"]), int(row["count"]), int(row["tx_bytes"]), by, source, int(row["time"])
        )
        record.barriers[owner, name, stage].arrivals.append(arrival)
    for owner, name, stage, arrival in ear.landed:
        record.barriers[owner, name, stage].arrivals.append(arrival)


def who(role: str, origin: int, owner: int) -> str:
    """An arriver as a barrier sees it."""
    return role if origin == owner or role == "tensor" else f"{role} of the peer CTA"


def _waiters(cluster: Cluster, record: Record) -> None:
    numbers = {cta.number: cta for cta in cluster.ctas}
    for warp, operations in record.warps.items():
        if warp.cta not in numbers:
            continue
        for operation in operations:
            if operation.what in ("wait", "sync"):
                name, stage = operation.on[:-1].rsplit("[", 1)
                owner = cluster.barrier(name, int(stage), numbers[warp.cta]).cta
                record.barriers[owner, name, int(stage)].waiters.add(warp.role)


def life_rows(cluster: Cluster, empty_block: int = -1) -> Iterator[Life]:
    """The lives in a cluster's trace, with the bytes that the design gives each slot."""
    trace, design, problem = cluster.core.trace, cluster.design, cluster.problem
    slots = design.ring_slots(problem)
    fills: dict[tuple[int, int], int] = defaultdict(int)
    rows = sorted(trace.life.rows(), key=lambda row: int(row["birth"]))
    tiles = {tile.index: tile for tile in cluster.tiles}
    for row in rows:
        tensor, space, stage, cta = (row[c] for c in ("tensor", "space", "stage", "cta"))
        tile = tiles[int(row["tile"])]
        rank, block = int(cta) % design.cta_group, int(row["block"])
        label: Label
        offset = size = -1
        if block < 0:
            block = empty_block
        if tensor in ("K", "V"):
            label = (tile.batch, kv_head_of(problem, design, tile.head), block)
            wrap = fills[int(cta), int(stage)]
            fills[int(cta), int(stage)] += 1
            offset = slots[int(stage)][wrap % 2][0]
            size = (design.k_tile_bytes if tensor == "K" else design.v_tile_bytes)(problem)
        else:
            label = (tile.batch, tile.head, first_row(design, tile, int(stage), rank))
            if tensor in ("S", "P"):
                label = (*label, block)
            elif space == "smem":
                size = (design.q_tile_bytes if tensor == "Q" else design.o_tile_bytes)(problem)
                offset = int(stage) * size
        birth, first, last, death = (
            int(row[name]) for name in ("birth", "first_use", "last_use", "death")
        )
        yield Life(
            str(tensor), int(cta), str(row["slot"]), label, birth, first, last, death, offset, size
        )
