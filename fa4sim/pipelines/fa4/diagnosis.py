"""After a run: did it end, did every role do what it should, and if not, whose fault is it?"""

from __future__ import annotations

from collections import Counter

from fa4sim.engine.agent import Agent
from fa4sim.engine.barrier import Barrier
from fa4sim.engine.errors import Deadlock, Hazard, Waiting
from fa4sim.pipelines.common.cluster import BaseCluster as Cluster
from fa4sim.pipelines.common.role import Role
from fa4sim.pipelines.fa4.steady import is_peer


def check_end(cluster: Cluster) -> None:
    """Raise :class:`Deadlock` if roles still wait; report phases that nobody ever looked at."""
    stuck = [agent for agent in cluster.agents if agent.waiting is not None]
    if stuck or any(agent.process.is_alive for agent in cluster.agents):
        raise explain(cluster, stuck)
    core = cluster.core
    for barrier in all_barriers(cluster):
        # The last release of an empty half needs no taker; a full half is there to be waited for.
        spare = 1 if cluster.table[barrier.name].starts_free else 0
        for key, seen in barrier.observed.items():
            if barrier.completions - seen > spare:
                core.report(
                    Hazard(
                        "unobserved_phase", barrier.name, barrier.stage, barrier.cta,
                        barrier.last_by, key, -1, -1, core.now,
                        f"{_who(key)} never waited for phase {seen + 1} of {barrier.completions}: "
                        f"nothing kept it from using {_guarded(cluster, barrier)} too early",
                    )
                )  # fmt: skip


def _who(key: str) -> str:
    """An agent's key in words.

    >>> _who("correction.8@0"), _who("tensor@0")
    ('correction (warp 8)', 'tensor')
    """
    role, _, warp = key.partition("@")[0].partition(".")
    return f"{role} (warp {warp})" if warp else role


def _guarded(cluster: Cluster, barrier: Barrier) -> str:
    """What a barrier guards: the subject of its words in the table, with its own stage."""
    subject = cluster.table[barrier.name].guards.split(":")[0]
    return subject.replace("[s]", f"[{barrier.stage}]")


def all_barriers(cluster: Cluster) -> list[Barrier]:
    """Every barrier of the cluster."""
    return [
        barrier for cta in cluster.ctas for stages in cta.barriers.values() for barrier in stages
    ]


def explain(cluster: Cluster, stuck: list[Agent]) -> Deadlock:
    """Who waits for what, in which ring, and which barrier does not add up."""
    core = cluster.core
    waiting = []
    for agent in stuck:
        assert agent.waiting is not None
        barrier, phase, since = agent.waiting
        agent.wait_for_ever(barrier, phase, since)
        waiting.append(
            Waiting(
                agent.role, agent.warp, agent.cta, barrier.name, barrier.stage, phase,
                max(0, barrier.expected - barrier.pending), barrier.expected, barrier.missing(),
                barrier.tx_pending, since + core.skipped,
            )
        )  # fmt: skip
    why: list[str] = []
    suspects: list[str] = []

    def suspect(name: str, text: str) -> None:
        if name not in suspects:
            suspects.append(name)
        if len(why) < 12 and text not in why:
            why.append(text)

    due = expected_arrivals(cluster)
    for barrier in all_barriers(cluster):
        waited = any(a.waiting is not None and a.waiting[0] is barrier for a in stuck)
        for role in barrier.parties:
            owed = due.get((barrier.cta, barrier.name, barrier.stage, role), 0)
            made = barrier.arrived_by.get(role, 0)
            if made < owed:
                suspect(
                    barrier.name,
                    f"{role} should have made {owed} arrival{'s' if owed != 1 else ''} on "
                    f"{barrier.name}[{barrier.stage}] of CTA {barrier.cta} before the place where "
                    f"it stands, and made {made}",
                )
        if waited and barrier.pending > 0 and not barrier.missing():
            suspect(
                barrier.name,
                f"all arrivers of {barrier.name}[{barrier.stage}] have arrived, and it still lacks "
                f"{barrier.pending}: its count is {barrier.expected}, its arrivers make "
                f"{sum(barrier.parties.values())}",
            )
        if waited and barrier.pending <= 0 and barrier.tx_pending:
            suspect(
                barrier.name,
                f"{barrier.name}[{barrier.stage}] has its arrivals but still expects "
                f"{barrier.tx_pending} transaction bytes",
            )
    for barrier, role, times in waits_left_out(cluster):
        suspect(
            barrier.name,
            f"{role} never waited for {barrier.name}[{barrier.stage}] of CTA {barrier.cta}, which "
            f"it should have done {times} times before the place where it stands",
        )
    for hazard in core.hazards:
        if hazard.barrier not in suspects:
            suspects.append(hazard.barrier)
    return Deadlock(core.now, waiting, ring_of(stuck), suspects, core.hazards, why, core.trace)


def expected_arrivals(cluster: Cluster) -> Counter[tuple[int, str, int, str]]:
    """Arrivals that should have been made, by (owner CTA, barrier, stage, role).

    Each warp's program is followed up to the wait at which it stands, counted by how many waits it
    has completed.
    """
    due: Counter[tuple[int, str, int, str]] = Counter()
    counts = cluster.arrivals()
    for agent in cluster.agents:
        assert isinstance(agent, Role)
        left = agent.waits_done
        for what, name, stage in cluster.program(agent):
            if what in ("arrive", "sync"):
                owner = cluster.barrier(name, stage, agent.home)
                everyone = name in ("clc_empty", "work_info_empty")
                role = agent.party if everyone else agent.role
                if name == "tmem_dealloc":
                    (peer,) = (cta for cta in cluster.ctas if cta is not agent.home)
                    owner, role = peer.barriers[name][0], "peer_mma"
                due[owner.cta, name, stage, role] += counts.get(name, 32)
            elif what in ("commit", "request"):
                by = "tensor" if what == "commit" else "clc"
                for cta in cluster.ctas:
                    due[cta.number, name, stage, by] += 1
            if what in ("wait", "sync"):
                if left == 0:
                    break
                left -= 1
    return due


def waits_left_out(cluster: Cluster) -> list[tuple[Barrier, str, int]]:
    """Barriers that a role has never waited for and should have, with how often, by its program.

    A warp that leaves out waits is further on than the number of its waits tells. The phase it
    waits for where it stands says how far: it is there for that many times.
    """
    found: list[tuple[Barrier, str, int]] = []
    for agent in cluster.agents:
        assert isinstance(agent, Role)
        here: Barrier | None = None  # a warp that is done is at the end of its program
        times_here = 0
        if agent.waiting is not None:
            here, phase, _ = agent.waiting
            times_here = _times(cluster, agent, here, phase)
        elif agent.process.is_alive:
            continue
        due: Counter[Barrier] = Counter()
        for what, name, stage in cluster.program(agent):
            if what not in ("wait", "sync"):
                continue
            barrier = cluster.barrier(name, stage, agent.home)
            due[barrier] += 1
            if here is not None and due[here] >= times_here:
                break
        for barrier, times in due.items():
            # The first wait for an empty half passes at once and shows nothing.
            passes = 1 if cluster.table[barrier.name].starts_free else 0
            left_out = barrier is not here and barrier.observed.get(agent.key) == 0
            if left_out and times > passes:
                found.append((barrier, agent.role, times))
    return found


def _times(cluster: Cluster, agent: Role, barrier: Barrier, phase: int) -> int:
    """How often a warp's program has waited for a barrier when it waits for this phase."""
    times = phase + (1 if cluster.table[barrier.name].starts_free else 0)
    if barrier.name == "load_KV_empty" and barrier.stage == 1 and cluster.slots_differ:
        # On even wraps also before K comes to slot 0; that is where it stands if slot 1 isn't next.
        times += phase // 2 + 1 - (agent.ring % cluster.design.kv_stages != 1)
    return times


def ring_of(stuck: list[Agent]) -> list[str]:
    """Roles that wait for each other in a circle, as ``role --barrier--> role``."""
    edges: dict[str, list[tuple[str, str]]] = {}
    for agent in stuck:
        assert agent.waiting is not None
        barrier, _, _ = agent.waiting
        # The second MMA warp of a pair issues nothing: nobody who waits for MMAs waits for it.
        waiter = "peer_mma" if is_peer(agent) else agent.role
        for missing in barrier.missing():
            role = missing.split(" ")[0]
            role = "mma" if role == "tensor" else role
            edges.setdefault(waiter, []).append((f"{barrier.name}[{barrier.stage}]", role))
    for start in edges:
        path: list[str] = []
        seen: dict[str, int] = {}
        role = start
        while role in edges and role not in seen:
            seen[role] = len(path)
            barrier_name, following = edges[role][0]
            path.append(f"{role} ({barrier_name})")
            role = following
        if role in seen:
            return [*path[seen[role] :], role]
    return []
