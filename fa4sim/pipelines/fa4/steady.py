"""Fast-forward through a proved steady state.

Each time the MMA warp begins a step, the whole state of the cluster is written down relative to
that step: where every warp stands in its program, what every barrier lacks, what every slot and
TMEM region holds, how long every unit is still busy, and every event that is still to come. If the
same state was seen before, the future repeats the past, shifted; so the stretch between the two
moments can be repeated without simulating it, as long as no warp would reach something that is
different (another kind of masking, the end of the tile). The same is done for whole tiles of a
persistent CTA.

Nothing is approximated: a test runs with and without and finds identical cycles.

Invariant: states are compared in full; a hash collision cannot fake a repeat.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import GeneratorType
from typing import Any

from fa4sim.engine.barrier import Barrier
from fa4sim.engine.buffers import tag
from fa4sim.engine.core import Wake
from fa4sim.pipelines.fa4.cluster import Cluster
from fa4sim.pipelines.fa4.role import Role
from fa4sim.pipelines.fa4.tiles import WorkTile
from fa4sim.trace import Repeat

State = tuple[object, ...]


@dataclass
class Moment:
    """A state and what is needed to repeat the stretch from it."""

    now: int
    tile: int
    step: int
    tallies: list[list[int]]
    barriers: list[tuple[int, list[int], list[int]]]
    stores: list[int]
    units: list[int]
    moved: list[int]
    tensor_busy: int
    sizes: dict[str, int]
    events: int


@dataclass
class Proof:
    """A repeat that was found in a tile: every ``period`` steps take ``cycles``.

    It was seen when the MMA warp stood at ``step`` and the foremost warp at ``lead``; ``times``
    periods were skipped. ``units``, ``moved`` and ``tensor`` are what one period adds.
    """

    tile: int
    step: int
    lead: int
    period: int
    cycles: int
    times: int
    units: list[int]
    moved: list[int]
    tensor: int


@dataclass
class SteadyState:
    """Watches one cluster and skips what repeats. ``jumps`` and ``skipped_steps`` count."""

    cluster: Cluster
    steps_of_state: dict[State, Moment] = field(default_factory=dict)
    tiles_of_state: dict[State, Moment] = field(default_factory=dict)
    run_of_kind: tuple[int, int] = (0, 0)
    jumps: int = 0
    skipped_steps: int = 0
    proofs: list[Proof] = field(default_factory=list)

    def watch(self) -> None:
        """Start watching: the MMA warp calls back at every tile and step."""
        self.cluster.at_tile = self.at_tile
        self.cluster.at_step = self.at_step

    # -- one tile: steps that repeat -----------------------------------------------------------

    def at_step(self, mma: Role, tile: WorkTile) -> None:
        """The MMA warp begins the loop body for the step in hand."""
        low, high = self._kind_run(tile, mma.step + 1)
        if (low, high) != self.run_of_kind:
            self.run_of_kind = (low, high)
            self.steps_of_state.clear()
        agents = self.cluster.agents
        moving = [agent for agent in agents if isinstance(agent, Role) and self._moves(agent)]
        if any(agent.tile != mma.tile for agent in moving):
            return
        steps = [agent.step for agent in moving]
        if min(steps) < low or max(steps) >= high:
            return
        state = self._state(mma)
        before = self.steps_of_state.get(state)
        here = self._moment(mma)
        if before is None:
            self.steps_of_state[state] = here
            return
        period = here.step - before.step
        lead = max(steps)
        # The MMA warp is in the body of its loop, which ends one step earlier than the others'.
        times = min(high - 1 - lead, high - 2 - mma.step) // period
        self.steps_of_state.clear()
        self.proofs.append(
            Proof(
                mma.tile, mma.step, lead, period, here.now - before.now, max(0, times),
                [b - a for a, b in zip(before.units, here.units, strict=True)],
                [b - a for a, b in zip(before.moved, here.moved, strict=True)],
                here.tensor_busy - before.tensor_busy,
            )
        )  # fmt: skip
        if times > 0:
            self._repeat(before, here, times)
            self.skipped_steps += times * period

    def _moves(self, agent: Role) -> bool:
        """Whether this warp takes part in the loop over steps."""
        return agent.role not in ("epilogue", "scheduler", "idle") and not _is_peer(agent)

    def _kind_run(self, tile: WorkTile, step: int) -> tuple[int, int]:
        """The steps around ``step`` that are masked alike, as ``[low, high)``."""
        kinds = tile.steps
        kind = kinds[step].kind
        low = step
        while low > 0 and kinds[low - 1].kind == kind:
            low -= 1
        high = step + 1
        while high < len(kinds) and kinds[high].kind == kind:
            high += 1
        blind = max(
            max(self.cluster.votes.blind_steps(tile, stage, cta.rank))
            for stage in range(self.cluster.design.q_stages)
            for cta in self.cluster.ctas
        )
        if blind < high:
            low = max(low, blind + 1)
        elif blind < 1 << 20 or self.cluster.data is not None:
            high = low
        if low < tile.hbm_steps < high:
            low, high = (low, tile.hbm_steps) if step < tile.hbm_steps else (tile.hbm_steps, high)
        if self.cluster.design.rescale_threshold == 0:
            high = low  # votes are drawn per step: no two steps need be alike
        return low, high

    # -- a persistent CTA: tiles that repeat ---------------------------------------------------

    def at_tile(self, mma: Role) -> None:
        """The MMA warp begins a tile."""
        self.run_of_kind = (0, 0)
        self.steps_of_state.clear()
        tiles = self.cluster.tiles
        shape = self.cluster.tile_class
        here_shape = shape(tiles[mma.tile])
        if mma.tile == 0 or shape(tiles[mma.tile - 1]) != here_shape:
            self.tiles_of_state.clear()
        state = self._state(mma)
        before = self.tiles_of_state.get(state)
        here = self._moment(mma)
        if before is None:
            self.tiles_of_state[state] = here
            return
        period = here.tile - before.tile
        last = mma.tile
        while last + 1 < len(tiles) and shape(tiles[last + 1]) == here_shape:
            last += 1
        lead = max(
            (agent.tile for agent in self.cluster.agents if isinstance(agent, Role)), default=0
        )
        times = (last - 1 - max(lead, mma.tile)) // period
        self.tiles_of_state.clear()
        if times > 0 and all(shape(tile) == here_shape for tile in tiles[before.tile : last + 1]):
            self._repeat(before, here, times)
            self.skipped_steps += times * period * tiles[mma.tile].blocks

    # -- states --------------------------------------------------------------------------------

    def _state(self, mma: Role) -> State:
        """The cluster relative to the MMA warp's tile and step, in full."""
        cluster = self.cluster
        core = cluster.core
        now = int(core.env.now)
        base, tile = tag(mma.tile, mma.step), tag(mma.tile, 0)
        keys: dict[int, object] = {}
        agents = []
        for agent in cluster.agents:
            assert isinstance(agent, Role)
            keys[id(agent.process)] = agent.key
            waits = None
            if agent.waiting is not None:
                barrier, phase, _ = agent.waiting
                waits = (barrier.name, barrier.stage, barrier.cta, phase - barrier.completions)
            agents.append(
                (0 if _is_peer(agent) else agent.tile - mma.tile,
                 agent.step - mma.step if self._moves(agent) else 0,
                 agent.counters(), waits, _position(agent.steps))
            )  # fmt: skip
        wraps = 2 if cluster.design.uneven_kv_ring else 1
        parts: list[object] = [mma.ring % (wraps * cluster.design.kv_stages), tuple(agents)]
        for cta in cluster.ctas:
            parts.append(
                tuple(barrier.state() for stages in cta.barriers.values() for barrier in stages)
            )
            parts.append(tuple(buffer.state(base) for buffer in cta.ring))
            parts.append(tuple(buffer.state(tile) for buffer in (*cta.sq, *cta.so)))
            parts.append(tuple(region.state(base, tile) for region in cta.tmem))
            parts.append(cta.tma.state(now, mma.tile, mma.step))
            parts.append(cta.tma_store.state())
            parts.append(
                tuple(max(0, unit.free - now) for smsp in cta.smsps for unit in smsp.units())
            )
        parts.append(cluster.tensor.state(now, mma.tile, mma.step))
        coming = []
        for time, priority, _, event in sorted(core.env._queue):
            who: list[object] = []
            if isinstance(event, Wake):
                who.append(event.tag)
            for callback in event.callbacks or ():
                owner = getattr(callback, "__self__", None)
                who.append(keys.get(id(owner), type(owner).__name__))
            coming.append((int(time) - now, int(priority), tuple(who)))
        parts.append(tuple(coming))
        return tuple(parts)

    def _moment(self, mma: Role) -> Moment:
        cluster = self.cluster
        barriers = []
        for barrier in self._barriers():
            barriers.append(
                (barrier.completions, list(barrier.arrived_by.values()),
                 list(barrier.observed.values()))
            )  # fmt: skip
        return Moment(
            now=int(cluster.core.env.now),
            tile=mma.tile,
            step=mma.step,
            tallies=[agent.tally() for agent in self._roles()],
            barriers=barriers,
            stores=[n for cta in cluster.ctas for n in (cta.tma_store.issued, cta.tma_store.read)],
            units=[unit.busy for unit in self._units()],
            moved=[share.moved for cta in cluster.ctas for share in (cta.l2, cta.hbm)],
            tensor_busy=cluster.tensor.busy,
            sizes=cluster.core.trace.sizes(),
            events=cluster.core.events,
        )

    def _roles(self) -> list[Role]:
        return [agent for agent in self.cluster.agents if isinstance(agent, Role)]

    def _barriers(self) -> list[Barrier]:
        return [
            barrier
            for cta in self.cluster.ctas
            for stages in cta.barriers.values()
            for barrier in stages
        ]

    def _units(self) -> list[Any]:
        return [
            unit
            for cta in self.cluster.ctas
            for unit in (*(u for smsp in cta.smsps for u in smsp.units()), cta.smem_port)
        ]

    # -- the jump ------------------------------------------------------------------------------

    def _repeat(self, before: Moment, here: Moment, times: int) -> None:
        """Move everything that counts ``times`` periods on, and time with it."""
        cluster = self.cluster
        core = cluster.core
        tiles, steps = here.tile - before.tile, here.step - before.step
        phases = {}
        for barrier, old, new in zip(self._barriers(), before.barriers, here.barriers, strict=True):
            grown = new[0] - old[0]
            phases[barrier.code, barrier.stage] = grown
            barrier.completions += times * grown
            barrier.waiters = [(need + times * grown, wake) for need, wake in barrier.waiters]
            for role, had, made in zip(barrier.arrived_by, old[1], new[1], strict=True):
                barrier.arrived_by[role] += times * (made - had)
            for key, saw, seen in zip(barrier.observed, old[2], new[2], strict=True):
                barrier.observed[key] += times * (seen - saw)
        for agent in self._roles():
            if agent.waiting is not None:
                barrier, phase, since = agent.waiting
                grown = phases[barrier.code, barrier.stage]
                agent.waiting = (barrier, phase + times * grown, since)
        for agent, was, tally in zip(self._roles(), before.tallies, here.tallies, strict=True):
            agent.advance([times * (b - a) for a, b in zip(was, tally, strict=True)])
        stores = iter(zip(before.stores, here.stores, strict=True))
        for cta in cluster.ctas:
            (a, b), (c, d) = next(stores), next(stores)
            cta.tma_store.issued += times * (b - a)
            cta.tma_store.read += times * (d - c)
            cta.tma_store.waiters = [
                (target + times * (d - c), wake) for target, wake in cta.tma_store.waiters
            ]
            for buffer in cta.ring:
                buffer.shift(times * tiles, times * steps)
            for buffer in (*cta.sq, *cta.so):
                buffer.shift(times * tiles, 0)
            for region in cta.tmem:
                region.shift(tag(times * tiles, times * steps), tag(times * tiles, 0))
            for load in cta.tma.loads():
                load.shift(times * tiles, times * steps)
        for mma in cluster.tensor.mmas():
            mma.shift(times * tiles, times * steps)
        for unit, old_busy, new_busy in zip(self._units(), before.units, here.units, strict=True):
            unit.busy += times * (new_busy - old_busy)
        shares = [share for cta in cluster.ctas for share in (cta.l2, cta.hbm)]
        for share, was_moved, moved in zip(shares, before.moved, here.moved, strict=True):
            share.moved += times * (moved - was_moved)
        cluster.tensor.busy += times * (here.tensor_busy - before.tensor_busy)
        cycles = here.now - before.now
        core.skipped += times * cycles
        core.trace.repeats.append(
            Repeat(before.sizes, here.sizes, times, cycles, -steps, tiles, phases)
        )
        self.jumps += 1


def _is_peer(agent: Role) -> bool:
    """The MMA warp of a pair's second CTA, which only waits for the end."""
    return agent.role == "mma" and agent.home.rank != 0


def _position(steps: Any) -> tuple[int, ...]:
    """Where a chain of generators stands, as instruction offsets from the outermost in."""
    place = []
    while isinstance(steps, GeneratorType):
        frame = steps.gi_frame
        place.append(-1 if frame is None else frame.f_lasti)
        steps = steps.gi_yieldfrom
    return tuple(place)
