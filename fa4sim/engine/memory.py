"""What stands behind an SM's loads and stores: the TMA engine, cp.async, L2 and HBM.

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
    gets that divided by their number, and may be ``burst`` bytes ahead once it has rested.
    """

    __slots__ = ("burst", "bytes_per_cycle", "moved", "sharers", "used_until")

    #: Fine time: a chunk of one SM takes a few cycles of the whole chip's bandwidth.
    FINE = 1024

    def __init__(self, bytes_per_cycle: float, burst: int = 0, rested: bool = True) -> None:
        self.bytes_per_cycle = bytes_per_cycle
        self.sharers = 1
        self.burst = burst
        self.moved = 0
        #: Fine engine time up to which what was taken is paid for; long ago, for a rested SM.
        self.used_until = -(1 << 50) if rested else 0

    def _fine(self, size: int) -> int:
        """Fine time that this SM's share needs for ``size`` bytes."""
        return round(size * self.sharers * self.FINE / self.bytes_per_cycle)

    def take(self, now: int, size: int) -> int:
        """Take ``size`` bytes; returns the earliest time at which the last of them is due."""
        earliest = now * self.FINE - self._fine(self.burst)
        if self.used_until < earliest:
            self.used_until = earliest
        self.used_until += self._fine(size)
        self.moved += size
        return -(-self.used_until // self.FINE)

    def state(self, now: int) -> int:
        """How far ahead of its share the SM is, in fine time."""
        return max(self.used_until - now * self.FINE, -self._fine(self.burst))


@dataclass(slots=True)
class Load:
    """One tile on its way to shared memory: ``size`` bytes for step ``step`` of tile ``tile``.

    ``first_byte`` is when its data can start to arrive, ``hbm_size`` how much of it HBM has to
    give for this SM, ``l2_size`` how much L2 (all, if not given; rows past the end are zeros that
    nobody sends); ``done`` is called when it is all there.
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
    l2_size: int | None = None

    @property
    def sent(self) -> int:
        """Bytes that come from L2."""
        return self.size if self.l2_size is None else self.l2_size

    def shift(self, tiles: int, steps: int, ids: int) -> None:
        """Stand for the same load later; ``ids`` is what the tile's number grows by."""
        self.tile += tiles
        self.tile_id += ids
        self.step += steps
        if self.block != NONE:
            self.block -= steps


class TmaLoad:
    """The TMA engine's receiving side of one SM: tiles land one after the other.

    By another ``name`` it is the path of cp.async, on which pieces of tiles land in the order in
    which the warps have asked for them.
    """

    def __init__(
        self, core: Core, sm: int, cta: int, port: Unit, width: int, rate: float, l2: Share,
        hbm: Share, name: str = "tma",
    ) -> None:  # fmt: skip
        self.core = core
        self.env = core.env
        self.sm = sm
        self.cta = cta
        self.port = port
        self.width = width
        self.rate = rate
        self.l2 = l2
        self.hbm = hbm
        self.queue: deque[Load] = deque()
        self.idle: Wake | None = None
        self.free = 0
        self.left = 0
        self.in_flight = 0
        self.since = 0
        self.current: Load | None = None
        self.key = f"{name}@{cta}"
        code = core.trace.code
        self._role = code(name)
        self._unit = code(name)
        self._ops: dict[str, int] = {}
        self._counter = code("bytes_in_flight" if name == "tma" else f"{name}_bytes_in_flight")

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
            (self.sm, self.cta, self._counter, self.env.cycle + self.core.skipped,
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
            now = env.cycle
            if load.first_byte > now:
                yield env.timeout(load.first_byte - now)
            start = now = self.since = env.cycle
            if self.free < now:
                self.free = now
            self.left = load.size
            while self.left:
                size = CHUNK_BYTES if self.left > CHUNK_BYTES else self.left
                sent = load.sent * size // load.size
                arrived = max(self.free + round(sent / self.rate), self.l2.take(now, sent))
                if load.hbm_size:
                    part = load.hbm_size * size // load.size
                    arrived = max(arrived, self.hbm.take(now, part))
                self.free = arrived
                # The data passes the shared-memory port as it arrives.
                written = self.port.reserve(now, -(-size // self.width))
                end = max(arrived, written)
                yield env.timeout(end - now)
                now = env.cycle
                self.left -= size
            self._count(-load.size)
            op = self._ops.get(load.tensor)
            if op is None:
                op = self._ops[load.tensor] = self.core.trace.code(f"load {load.tensor}")
            skipped = self.core.skipped
            self.core.trace.append["span"](
                (self.sm, self.cta, self._role, NONE, self._unit, op, start + skipped,
                 now + skipped, load.tile_id, load.block, load.stage, NONE,
                 round(load.sent / self.rate))
            )  # fmt: skip
            self.current = None
            load.done(load)

    def loads(self) -> list[Load]:
        """The tile in hand, if any, and those queued behind it."""
        return ([self.current] if self.current else []) + list(self.queue)

    def state(
        self, now: int, tile: int, step: int, place: Callable[[object], object]
    ) -> tuple[object, ...]:
        """The engine relative to ``now`` and to the step in hand; ``place`` as for the pipe."""
        waiting = tuple(
            (load.tensor, load.stage if load.tensor == "Q" else place(load.stage),
             load.tile - tile, load.step - step, max(0, load.first_byte - now), load.hbm_size,
             load.l2_size)
            for load in self.loads()
        )  # fmt: skip
        shares = (self.l2.state(now), self.hbm.state(now))
        age = now - self.since if self.current else 0
        return (waiting, self.left, age, max(0, self.free - now), shares, self.in_flight)


@dataclass(slots=True)
class Store:
    """One bulk group on its way out of shared memory; ``done`` runs when it has been read.

    Of its ``size`` bytes ``l2_size`` are written to L2 and ``hbm_size`` on to HBM.
    """

    size: int
    tile_id: int
    stage: int
    done: Callable[[], None]
    l2_size: int
    hbm_size: int


class TmaStore:
    """The TMA engine's sending side of one SM: bulk groups are read out in order."""

    def __init__(
        self, core: Core, sm: int, cta: int, port: Unit, width: int, rate: float, latency: int,
        l2: Share, hbm: Share,
    ) -> None:  # fmt: skip
        self.core = core
        self.env = core.env
        self.sm = sm
        self.cta = cta
        self.port = port
        self.width = width
        self.rate = rate
        self.latency = latency
        self.l2 = l2
        self.hbm = hbm
        self.queue: deque[Store] = deque()
        self.current: Store | None = None
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

    def push(
        self, size: int, tile: int, stage: int, done: Callable[[], None],
        l2_size: int | None = None, hbm_size: int | None = None,
    ) -> None:  # fmt: skip
        """Queue one bulk group of ``size`` bytes; ``done`` runs when it has been read.

        All of it is written to L2 and to HBM unless told otherwise.
        """
        l2_size = size if l2_size is None else l2_size
        hbm_size = size if hbm_size is None else hbm_size
        self.queue.append(Store(size, tile, stage, done, l2_size, hbm_size))
        self.issued += 1
        if self.idle is not None:
            self.idle.fire()
            self.idle = None

    def stores(self) -> list[Store]:
        """The group in hand, if any, and those queued behind it."""
        return ([self.current] if self.current else []) + list(self.queue)

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
            store = self.current = self.queue.popleft()
            start = env.cycle
            yield env.timeout(self.latency)
            now = env.cycle
            self.left = store.size
            while self.left:
                chunk = CHUNK_BYTES if self.left > CHUNK_BYTES else self.left
                end = now + round(chunk * store.l2_size / store.size / self.rate)
                end = max(end, self.port.reserve(now, -(-chunk // self.width)))
                if store.l2_size:
                    end = max(end, self.l2.take(now, chunk * store.l2_size // store.size))
                if store.hbm_size:
                    end = max(end, self.hbm.take(now, chunk * store.hbm_size // store.size))
                yield env.timeout(end - now)
                now = env.cycle
                self.left -= chunk
            skipped = self.core.skipped
            self.core.trace.append["span"](
                (self.sm, self.cta, self._role, NONE, self._unit, self._op, start + skipped,
                 now + skipped, store.tile_id, NONE, store.stage, NONE,
                 round(store.l2_size / self.rate))
            )  # fmt: skip
            self.read += 1
            self.current = None
            store.done()
            ready = [wake for target, wake in self.waiters if target <= self.read]
            self.waiters = [item for item in self.waiters if item[0] > self.read]
            for wake in ready:
                wake.fire()

    def state(self) -> tuple[object, ...]:
        """What matters for comparing two moments."""
        return (len(self.stores()), self.left, self.issued - self.read, len(self.waiters))
