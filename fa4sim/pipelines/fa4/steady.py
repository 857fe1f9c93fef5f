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

from fa4sim.engine.agent import Agent
from fa4sim.engine.barrier import Barrier
from fa4sim.engine.buffers import tag
from fa4sim.engine.core import Wake
from fa4sim.pipelines.common.cluster import BaseCluster as Cluster
from fa4sim.pipelines.common.cluster import BaseCta as Cta
from fa4sim.pipelines.common.role import Role
from fa4sim.pipelines.fa4.tiles import WorkTile
from fa4sim.trace import Repeat, Ring

State = tuple[object, ...]


@dataclass
class Moment:
    """A state and what is needed to repeat the stretch from it.

    ``now`` is engine time; ``total`` counts what was skipped before, too.
    """

    now: int
    total: int
    tile: int
    step: int
    tallies: list[list[int]]
    ring: int
    barriers: list[int]
    stores: list[int]
    units: list[dict[str, int]]
    counted: list[int]
    moved: list[int]
    tensor_busy: int
    tensor: list[int]
    times: list[int]
    sizes: dict[str, int]
    events: int


@dataclass
class Proof:
    """A repeat that was found in a tile: every ``period`` steps take ``cycles``.

    It was seen when the MMA warp stood at ``step`` and the foremost warp at ``lead``; ``times``
    periods were skipped. ``units``, ``moved`` and ``tensor`` are what one period adds;
    ``standing`` are the (role, barrier) of warps that wait all through it.
    """

    tile: int
    step: int
    lead: int
    period: int
    cycles: int
    times: int
    units: list[dict[str, int]]
    moved: list[int]
    tensor: int
    standing: list[tuple[str, str]]


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
        lead, apart = max(steps), self.cluster.step_period
        kept = next(iter(self.steps_of_state.values()), None)
        if lead + apart >= high and (kept is None or kept.step + apart > mma.step):
            return  # nothing like it was before, and nothing will be
        state = self._state(mma, between_tiles=False)
        before = self.steps_of_state.get(state)
        here = self._moment(mma)
        if before is None:
            self.steps_of_state[state] = here
            return
        period = here.step - before.step
        # The MMA warp is in the body of its loop, which ends one step earlier than the others'.
        times = min(high - 1 - lead, high - 2 - mma.step) // period
        self.steps_of_state.clear()
        self.proofs.append(
            Proof(
                mma.tile, mma.step, lead, period, here.now - before.now, max(0, times),
                _grown(before.units, here.units),
                [b - a for a, b in zip(before.moved, here.moved, strict=True)],
                here.tensor_busy - before.tensor_busy,
                self._standing(before),
            )
        )  # fmt: skip
        if times > 0:
            self._repeat(before, here, times)
            self.skipped_steps += times * period

    def _standing(self, before: Moment) -> list[tuple[str, str]]:
        """Who has been waiting since before that moment, and at which barrier."""
        skipped = self.cluster.core.skipped
        return [
            (agent.role, agent.waiting[0].name)
            for agent in self._roles()
            if agent.waiting is not None
            and agent.waiting[2] + skipped < before.total
            and not is_peer(agent)
        ]

    def _moves(self, agent: Role) -> bool:
        """Whether this warp takes part in the loop over steps."""
        idle = agent.role in ("epilogue", "scheduler", "idle") or not agent.in_steps
        return not idle and not is_peer(agent)

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
        low, high = self.cluster.alike(tile, low, high)
        if low < tile.hbm_steps < high:
            low, high = (low, tile.hbm_steps) if step < tile.hbm_steps else (tile.hbm_steps, high)
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
        state = self._state(mma, between_tiles=True)
        before = self.tiles_of_state.get(state)
        here = self._moment(mma)
        if before is None:
            self.tiles_of_state[state] = here
            return
        period = here.tile - before.tile
        last = mma.tile
        while last + 1 < len(tiles) and shape(tiles[last + 1]) == here_shape:
            last += 1
        lead = max(agent.tile for agent in self._roles() if not is_peer(agent))
        times = (last - 1 - lead) // period
        self.tiles_of_state.clear()
        if times > 0 and all(shape(tile) == here_shape for tile in tiles[before.tile : last + 1]):
            self._repeat(before, here, times)
            self.skipped_steps += times * period * tiles[mma.tile].blocks

    # -- states --------------------------------------------------------------------------------

    def _state(self, mma: Role, between_tiles: bool) -> State:
        """The cluster relative to the MMA warp's tile and step, in full.

        Ages belong to it, because they go into the trace; between steps those of things that live
        as long as a tile do not, because they only grow.
        """
        cluster = self.cluster
        core = cluster.core
        now = core.env.cycle
        base, tile = tag(mma.tile, mma.step), tag(mma.tile, 0)
        slots = cluster.design.kv_stages
        # Slots of the ring are alike, so they are counted from where the MMA warp stands; only
        # the uneven ring's are not.
        origin = 0 if cluster.slots_differ else mma.ring % slots

        def place(what: object) -> object:
            if isinstance(what, Barrier):
                ring = what.name in cluster.ring_barriers
                stage = (what.stage - origin) % slots if ring else what.stage
                return (what.name, stage, what.cta)
            assert isinstance(what, int)
            return (what - origin) % slots

        keys: dict[int, object] = {}
        agents = []
        for agent in cluster.agents:
            assert isinstance(agent, Role)
            keys[id(agent.process)] = agent.key
            waits = None
            if agent.waiting is not None:
                barrier, phase, _ = agent.waiting
                waits = (place(barrier), phase - barrier.completions)
            since = now - agent.since if between_tiles or self._moves(agent) else 0
            if is_peer(agent):
                since = 0
            agents.append(
                (0 if is_peer(agent) else agent.tile - mma.tile,
                 agent.step - mma.step if self._moves(agent) else 0,
                 agent.counters(), waits, since, _position(agent.steps))
            )  # fmt: skip
        wrap = mma.ring % (2 * slots) if cluster.slots_differ else 0
        parts: list[object] = [wrap, tuple(agents)]
        for cta in cluster.ctas:
            parts.append(
                tuple(
                    barrier.state()
                    for name, stages in cta.barriers.items()
                    for barrier in (
                        _rotated(stages, origin) if name in cluster.ring_barriers else stages
                    )
                )
            )
            for slots_in_turn in cta.rings:
                ring = _rotated(slots_in_turn, origin)
                parts.append(tuple(buffer.state(base, now) for buffer in ring))
            age = now if between_tiles else None
            parts.append(tuple(buffer.state(tile, age) for buffer in (*cta.sq, *cta.so)))
            if between_tiles:
                parts.append(tuple(now - region.o_birth for region in cta.regions))
            parts.append(tuple(region.state(base, tile, now) for region in cta.regions))
            for receiver in cta.receivers:
                parts.append(receiver.state(now, mma.tile, mma.step, place))
            parts.append(cta.tma_store.state())
            parts.append(tuple(smsp.state(now) for smsp in cta.smsps))
            parts.append(cta.pressure.running)
        parts.append(cluster.tensor.state(now, mma.tile, mma.step, place))
        coming = []
        for time, priority, _, event in sorted(core.env._queue):
            who: list[object] = []
            if isinstance(event, Wake):
                who += [place(part) if isinstance(part, Barrier) else part for part in event.tag]
            for callback in event.callbacks or ():
                owner = getattr(callback, "__self__", None)
                who.append(keys.get(id(owner), type(owner).__name__))
            coming.append((int(time) - now, int(priority), tuple(who)))
        parts.append(tuple(coming))
        return tuple(parts)

    def _moment(self, mma: Role) -> Moment:
        cluster = self.cluster
        return Moment(
            now=cluster.core.env.cycle,
            total=cluster.core.now,
            tile=mma.tile,
            step=mma.step,
            tallies=[agent.tally() for agent in self._roles()],
            ring=mma.ring,
            barriers=[barrier.completions for barrier in self._barriers()],
            stores=[n for cta in cluster.ctas for n in (cta.tma_store.issued, cta.tma_store.read)],
            units=self._busy(),
            counted=[busy for cta in cluster.ctas for busy in cta.busy()],
            moved=[share.moved for cta in cluster.ctas for share in (cta.l2, cta.hbm)],
            tensor_busy=cluster.tensor.busy,
            tensor=cluster.tensor.tally(),
            times=[getattr(owner, name) for owner, name in self._times()],
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

    def _busy(self) -> list[dict[str, int]]:
        """What every unit has worked: per CTA its sub-partitions, then its shared-memory port."""
        busy = []
        for cta in self.cluster.ctas:
            busy += [smsp.busy() for smsp in cta.smsps]
            busy.append({"smem": cta.smem_port.busy})
        return busy

    def _times(self) -> list[tuple[Any, str]]:
        """The moments remembered of what lives as long as a tile, as (owner, attribute)."""
        places: list[tuple[Any, str]] = []
        for cta in self.cluster.ctas:
            for buffer in (*cta.sq, *cta.so):
                places += [(buffer, name) for name in ("birth", "first_use", "last_use")]
            places += [(region, "o_birth") for region in cta.regions]
        return places

    # -- the jump ------------------------------------------------------------------------------

    def _repeat(self, before: Moment, here: Moment, times: int) -> None:
        """Move everything that counts ``times`` periods on, and time with it."""
        cluster = self.cluster
        core = cluster.core
        tiles, steps = here.tile - before.tile, here.step - before.step
        ids = cluster.tiles[here.tile].index - cluster.tiles[before.tile].index
        slots = cluster.design.kv_stages
        turn = here.ring - before.ring
        phases = {}
        more: dict[int, int] = {}
        for barrier, old, new in zip(self._barriers(), before.barriers, here.barriers, strict=True):
            if barrier.name in cluster.ring_barriers:
                grown = (barrier.stage + times * turn) // slots
            else:
                phases[barrier.cta, barrier.code, barrier.stage] = new - old
                grown = times * (new - old)
            more[id(barrier)] = grown
            barrier.completions += grown
            barrier.waiters = [(need + grown, wake) for need, wake in barrier.waiters]
            for role, per_phase in barrier.parties.items():
                barrier.arrived_by[role] += grown * per_phase
            for key in barrier.observed:
                barrier.observed[key] += grown
        for agent in self._roles():
            if agent.waiting is not None:
                barrier, phase, since = agent.waiting
                if since + core.skipped < before.total:  # it stood there all the while
                    since -= times * (here.total - before.total)
                agent.waiting = (barrier, phase + more[id(barrier)], since)
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
            for buffer in (buffer for ring in cta.rings for buffer in ring):
                buffer.shift(times * tiles, times * steps, times * ids)
                buffer.wrap += (buffer.stage + times * turn) // slots
            self._turn(cta, times * turn)
            for buffer in (*cta.sq, *cta.so):
                buffer.shift(times * tiles, 0, times * ids)
            for region in cta.regions:
                region.shift(tag(times * tiles, times * steps), tag(times * tiles, 0))
            for store in cta.tma_store.stores():
                store.tile_id += times * ids
            for load in (load for receiver in cta.receivers for load in receiver.loads()):
                load.shift(times * tiles, times * steps, times * ids)
                if load.tensor != "Q":
                    load.stage = (load.stage + times * turn) % slots
        for mma in cluster.tensor.mmas():
            mma.shift(times * tiles, times * steps, times * ids)
            mma.slot = (mma.slot + times * turn) % slots
        more_busy = iter(_grown(before.units, here.units))
        for cta in cluster.ctas:
            for smsp in cta.smsps:
                smsp.add_busy({name: times * busy for name, busy in next(more_busy).items()})
            cta.smem_port.busy += times * next(more_busy)["smem"]
        shares = [share for cta in cluster.ctas for share in (cta.l2, cta.hbm)]
        for share, was_moved, moved in zip(shares, before.moved, here.moved, strict=True):
            share.moved += times * (moved - was_moved)
        cluster.tensor.advance(
            [times * (b - a) for a, b in zip(before.tensor, here.tensor, strict=True)]
        )
        cluster.tensor.busy += times * (here.tensor_busy - before.tensor_busy)
        keys = [(cta.number, code) for cta in cluster.ctas for code in cta.busy_codes]
        cycles = here.total - before.total
        for (owner, name), then, at in zip(self._times(), before.times, here.times, strict=True):
            if at == then and at >= 0:  # born before the period and still there: it stays there
                setattr(owner, name, at - times * cycles)
        core.skipped += times * cycles
        core.trace.repeats.append(
            Repeat(
                before.sizes, here.sizes, times, cycles, -steps, ids, phases, self._ring(turn),
                {key: b - a for key, a, b in zip(keys, before.counted, here.counted, strict=True)},
            )
        )  # fmt: skip
        self.jumps += 1

    def _turn(self, cta: Cta, by: int) -> None:
        """Let every slot of the ring, and its barriers, stand ``by`` places further on."""
        slots = self.cluster.design.kv_stages
        for name in self.cluster.ring_barriers:
            stages = cta.barriers[name]
            stages[:] = _rotated(stages, -by % slots)
            for stage, barrier in enumerate(stages):
                barrier.stage = stage
        for ring in cta.rings:
            ring[:] = _rotated(ring, -by % slots)
            for stage, buffer in enumerate(ring):
                buffer.move(stage)

    def _ring(self, turn: int) -> Ring:
        """How the trace's copies of a period move through the ring."""
        code = self.cluster.core.trace.code
        names = ("issue K", "issue V", "load K", "load V", "K", "V", *self.cluster.ring_barriers)
        rings = self.cluster.ctas[0].rings
        return Ring(
            self.cluster.design.kv_stages, turn, frozenset(code(name) for name in names),
            tuple(code(buffer.slot) for ring in rings for buffer in ring),
        )  # fmt: skip


def _grown(before: list[dict[str, int]], here: list[dict[str, int]]) -> list[dict[str, int]]:
    """What each counter has grown by between two moments."""
    return [
        {name: new[name] - old[name] for name in new} for old, new in zip(before, here, strict=True)
    ]


def _rotated(items: list[Any], origin: int) -> list[Any]:
    """``items`` from number ``origin`` on, and round."""
    return items[origin:] + items[:origin]


def is_peer(agent: Agent) -> bool:
    """The MMA warp of a pair's second CTA, which only waits for the end."""
    return isinstance(agent, Role) and agent.role == "mma" and agent.home.rank != 0


def _position(steps: Any) -> tuple[int, ...]:
    """Where a chain of generators stands, as instruction offsets from the outermost in."""
    place = []
    while isinstance(steps, GeneratorType):
        frame = steps.gi_frame
        place.append(-1 if frame is None else frame.f_lasti)
        steps = steps.gi_yieldfrom
    return tuple(place)
