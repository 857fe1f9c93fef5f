"""What stands behind an SM's loads and stores: the TMA engine, L2 and HBM.

Every SM has its own path of limited rate. L2 and HBM are shared: an SM may use its fair share of
them (capacity divided by the SMs at work) and run ahead of that share by ``share_burst_bytes``.
A fair share instead of one common queue keeps an SM's time a function of what is at work, not of
the accident of who asked first; the reasons are in docs/decisions.

Invariant: requests of one SM are served in the order they were issued, and no SM's long-run rate
exceeds its path or its share.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from fa4sim.engine.agent import Steps
from fa4sim.engine.core import Core, Wake
from fa4sim.engine.units import Unit
from fa4sim.trace import NONE

#: Loads and stores move through shared memory in pieces of this size.
CHUNK_BYTES = 8192


class Share:
    """One SM's fair share of a shared resource, as the time up to which it is used.

    ``bytes_per_cycle`` is what the whole chip's resource gives; with ``sharers`` SMs at work each
    gets that divided by their number, and may be ``burst`` bytes ahead.
    """

    __slots__ = ("burst", "bytes_per_cycle", "moved", "sharers", "used_until")

    def __init__(self, bytes_per_cycle: float, sharers: int, burst: int, rested: bool) -> None:
        self.bytes_per_cycle = bytes_per_cycle
        self.sharers = max(1, sharers)
        self.burst = burst
        self.moved = 0
        #: Time at which what was taken so far is paid for; a rested SM starts with its credit.
        self.used_until = -self.slack if rested else 0

    @property
    def slack(self) -> int:
        """How far ahead of its share the SM may be, in cycles."""
        return round(self.burst * self.sharers / self.bytes_per_cycle)

    def take(self, now: int, size: int) -> int:
        """Take ``size`` bytes; returns the earliest time at which the last of them is due."""
        slack = self.slack
        if self.used_until < now - slack:
            self.used_until = now - slack
        self.used_until += round(size * self.sharers / self.bytes_per_cycle)
        self.moved += size
        return self.used_until


@dataclass(slots=True)
class Load:
    """One tile on its way to shared memory: ``size`` bytes for step ``step`` of tile ``tile``.

    ``first_byte`` is when its data can start to arrive, ``hbm_size`` how much of it HBM has to
    give for this SM; ``done`` is called when it is all there.
    """

    tensor: str
    stage: int
    tile_id: int
    block: int
    tile: int
    step: int
    size: int
    first_byte: int
    hbm_size: int
    done: Callable[[Load], None]

    def shift(self, tiles: int, steps: int) -> None:
        """Stand for the same load this many tiles and steps later."""
        self.tile += tiles
        self.tile_id += tiles
        self.step += steps
        if self.block != NONE:
            self.block -= steps


class TmaLoad:
    """The TMA engine's receiving side of one SM: tiles land one after the other."""

    def __init__(
        self, core: Core, sm: int, cta: int, port: Unit, rate: float, l2: Share, hbm: Share
    ) -> None:
        self.core = core
        self.env = core.env
        self.sm = sm
        self.cta = cta
        self.port = port
        self.rate = rate
        self.l2 = l2
        self.hbm = hbm
        self.queue: deque[Load] = deque()
        self.idle: Wake | None = None
        self.free = 0
        self.left = 0
        self.in_flight = 0
        self.current: Load | None = None
        self.key = f"tma@{cta}"
        code = core.trace.code
        self._role = code("tma")
        self._unit = code("tma")
        self._ops: dict[str, int] = {}
        self._counter = code("bytes_in_flight")

    def push(self, load: Load) -> None:
        """Queue one tile; ``load.first_byte`` is when its data can start to arrive."""
        self.queue.append(load)
        self._count(load.size)
        if self.idle is not None:
            self.idle.fire()
            self.idle = None

    def _count(self, change: int) -> None:
        self.in_flight += change
        self.core.trace.append["counter"](
            (self.sm, self.cta, self._counter, int(self.env.now) + self.core.skipped,
             self.in_flight)
        )  # fmt: skip

    def run(self) -> Steps:
        """Receive tile after tile, for ever."""
        env = self.env
        while True:
            if not self.queue:
                self.idle = Wake(env, (self.key, "idle"))
                yield self.idle
                continue
            load = self.current = self.queue.popleft()
            now = int(env.now)
            if load.first_byte > now:
                yield env.timeout(load.first_byte - now)
            start = now = int(env.now)
            if self.free < now:
                self.free = now
            self.left = load.size
            while self.left:
                size = CHUNK_BYTES if self.left > CHUNK_BYTES else self.left
                arrived = self.free + round(size / self.rate)
                arrived = max(arrived, self.l2.take(now, size))
                if load.hbm_size:
                    part = load.hbm_size * size // load.size
                    arrived = max(arrived, self.hbm.take(now, part))
                self.free = arrived
                # The data passes the shared-memory port as it arrives.
                written = self.port.reserve(now, -(-size // 128))
                end = max(arrived, written)
                yield env.timeout(end - now)
                now = int(env.now)
                self.left -= size
            self._count(-load.size)
            op = self._ops.get(load.tensor)
            if op is None:
                op = self._ops[load.tensor] = self.core.trace.code(f"load {load.tensor}")
            skipped = self.core.skipped
            self.core.trace.append["span"](
                (self.sm, self.cta, self._role, NONE, self._unit, op, start + skipped,
                 now + skipped, load.tile_id, load.block, load.stage, NONE,
                 round(load.size / self.rate))
            )  # fmt: skip
            self.current = None
            load.done(load)

    def loads(self) -> list[Load]:
        """The tile in hand, if any, and those queued behind it."""
        return ([self.current] if self.current else []) + list(self.queue)

    def state(self, now: int, tile: int, step: int) -> tuple[object, ...]:
        """The engine relative to ``now`` and to the step in hand."""
        waiting = tuple(
            (load.tensor, load.stage, load.tile - tile, load.step - step,
             max(0, load.first_byte - now), load.hbm_size)
            for load in self.loads()
        )  # fmt: skip
        shares = tuple(max(share.used_until - now, -share.slack) for share in (self.l2, self.hbm))
        return (waiting, self.left, max(0, self.free - now), shares, self.in_flight)


class TmaStore:
    """The TMA engine's sending side of one SM: bulk groups are read out in order."""

    def __init__(self, core: Core, sm: int, cta: int, port: Unit, rate: float, latency: int,
                 l2: Share) -> None:  # fmt: skip
        self.core = core
        self.env = core.env
        self.sm = sm
        self.cta = cta
        self.port = port
        self.rate = rate
        self.latency = latency
        self.l2 = l2
        self.queue: deque[tuple[int, int, int, Callable[[], None]]] = deque()
        self.idle: Wake | None = None
        self.issued = 0
        self.read = 0
        self.left = 0
        self.waiters: list[tuple[int, Wake]] = []
        self.key = f"tma_store@{cta}"
        code = core.trace.code
        self._role = code("tma_store")
        self._unit = code("tma_store")
        self._op = code("store O")

    def push(self, size: int, tile: int, stage: int, done: Callable[[], None]) -> None:
        """Queue one bulk group of ``size`` bytes; ``done`` runs when it has been read."""
        self.queue.append((size, tile, stage, done))
        self.issued += 1
        if self.idle is not None:
            self.idle.fire()
            self.idle = None

    def pending_above(self, allowed: int) -> Wake | None:
        """An event for "at most ``allowed`` groups still to be read", None if that holds."""
        target = self.issued - allowed
        if self.read >= target:
            return None
        wake = Wake(self.env, (self.key, target - self.read))
        self.waiters.append((target, wake))
        return wake

    def run(self) -> Steps:
        """Read out group after group, for ever."""
        env = self.env
        while True:
            if not self.queue:
                self.idle = Wake(env, (self.key, "idle"))
                yield self.idle
                continue
            size, tile, stage, done = self.queue.popleft()
            start = int(env.now)
            yield env.timeout(self.latency)
            now = int(env.now)
            self.left = size
            while self.left:
                chunk = CHUNK_BYTES if self.left > CHUNK_BYTES else self.left
                end = now + round(chunk / self.rate)
                end = max(end, self.port.reserve(now, -(-chunk // 128)), self.l2.take(now, chunk))
                yield env.timeout(end - now)
                now = int(env.now)
                self.left -= chunk
            skipped = self.core.skipped
            self.core.trace.append["span"](
                (self.sm, self.cta, self._role, NONE, self._unit, self._op, start + skipped,
                 now + skipped, tile, NONE, stage, NONE, round(size / self.rate))
            )  # fmt: skip
            self.read += 1
            done()
            ready = [wake for target, wake in self.waiters if target <= self.read]
            self.waiters = [item for item in self.waiters if item[0] > self.read]
            for wake in ready:
                wake.fire()

    def state(self) -> tuple[object, ...]:
        """What matters for comparing two moments."""
        return (len(self.queue), self.left, self.issued - self.read, len(self.waiters))
