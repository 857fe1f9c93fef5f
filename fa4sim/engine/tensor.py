"""The tensor pipe: MMAs run in the order they were issued, and commits follow them.

One pipe drives one SM, or both SMs of a CTA pair in lock step. It reads its operands through the
SMs' shared-memory ports, where TMA writes and the epilogue compete with it.

Invariant: nothing overtakes. A commit arrives on its barriers ``mma_commit_cycles`` after
everything queued before it has finished.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from fa4sim.engine.agent import Steps
from fa4sim.engine.barrier import Barrier
from fa4sim.engine.core import Core, Wake
from fa4sim.engine.units import Pressure, Unit
from fa4sim.trace import NONE

#: K-steps per piece of tensor work: fine enough for shared-memory contention to act.
STEPS_PER_PIECE = 2


@dataclass(slots=True)
class Mma:
    """A run of k-steps of one GEMM, for step ``step`` of tile ``tile`` and one Q stage.

    ``steps`` k-steps from ``first_step`` on, each ``step_cycles`` of tensor time and
    ``step_smem_cycles`` of each SM's shared-memory port. ``slot`` is the ring slot of its K or V.
    ``begin`` and ``finish`` are called when it starts and ends: they check hazards and move data.
    """

    op: str
    stage: int
    slot: int
    tile_id: int
    block: int
    tile: int
    step: int
    ready: int
    first_step: int
    steps: int
    step_cycles: int
    step_smem_cycles: int
    from_tmem: bool
    begin: Callable[[Mma], None]
    finish: Callable[[Mma], None]

    def shift(self, tiles: int, steps: int, ids: int) -> None:
        """Stand for the same MMAs later; ``ids`` is what the tile's number grows by."""
        self.tile += tiles
        self.tile_id += ids
        self.step += steps
        self.block -= steps


class Work(Protocol):
    """A product in a queue, as the fast-forward sees it: where its operand lies, and of what."""

    slot: int

    def shift(self, tiles: int, steps: int, ids: int) -> None:
        """Stand for the same product later."""


class TensorQueue(Protocol):
    """What the fast-forward asks of an SM's tensor cores, whoever drives them."""

    busy: int

    def mmas(self) -> Sequence[Work]:
        """The products in hand and queued."""

    def state(
        self, now: int, tile: int, step: int, place: Callable[[object], object]
    ) -> tuple[object, ...]:
        """The queue relative to ``now`` and to the step in hand."""

    def tally(self) -> list[int]:
        """What it has counted so far."""

    def advance(self, by: list[int]) -> None:
        """Add to what :meth:`tally` gives."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Arrive (through ``land``) once everything issued before is done."""

    land: Callable[[], None]
    barrier: Barrier


class TensorPipe:
    """The tensor cores of one SM or of a pair, as one in-order queue."""

    role = "tensor"

    def __init__(
        self, core: Core, sms: list[int], cta: int, ports: list[Unit], pressures: list[Pressure],
        start: int, start_tmem: int, commit: int,
    ) -> None:  # fmt: skip
        self.core = core
        self.env = core.env
        self.sms = sms
        self.cta = cta
        self.ports = ports
        self.pressures = pressures
        self.start_cycles = start
        self.start_tmem_cycles = start_tmem
        self.commit_cycles = commit
        self.queue: deque[Mma | Commit] = deque()
        self.idle: Wake | None = None
        self.busy = 0
        self.key = f"tensor@{cta}"
        self.done_steps = 0
        self.since = 0
        self.current: Mma | None = None
        code = core.trace.code
        self._role = code(self.role)
        self._unit = code("tensor")
        self._ops: dict[str, int] = {}

    def push(self, item: Mma | Commit) -> None:
        """Queue an MMA run or a commit."""
        self.queue.append(item)
        if self.idle is not None:
            self.idle.fire()
            self.idle = None

    def run(self) -> Steps:
        """Execute the queue, for ever."""
        env = self.env
        ports = self.ports
        while True:
            if not self.queue:
                self.idle = Wake(env, (self.key, "idle"))
                yield self.idle
                continue
            item = self.queue.popleft()
            if isinstance(item, Commit):
                self.core.later(self.commit_cycles, item.land, ("commit", item.barrier))
                continue
            now = env.cycle
            self.current = item
            # The start-up latency runs from the issue on, behind whatever still executes.
            starts = self.start_tmem_cycles if item.from_tmem else self.start_cycles
            begin = item.ready + starts
            if begin > now:
                yield env.timeout(begin - now)
            start = now = self.since = env.cycle
            item.begin(item)
            for pressure in self.pressures:
                pressure.running = True
            self.done_steps = 0
            while self.done_steps < item.steps:
                piece = min(STEPS_PER_PIECE, item.steps - self.done_steps)
                end = now + piece * item.step_cycles
                for port in ports:
                    done = port.reserve(now, piece * item.step_smem_cycles)
                    if done > end:
                        end = done
                yield env.timeout(end - now)
                now = env.cycle
                self.done_steps += piece
            self.current = None
            for pressure in self.pressures:
                pressure.running = False
            item.finish(item)
            busy = item.steps * item.step_cycles
            self.busy += busy
            self._record(item, start, now, busy)

    def _record(self, item: Mma, start: int, end: int, busy: int) -> None:
        op = self._ops.get(item.op)
        if op is None:
            op = self._ops[item.op] = self.core.trace.code(item.op)
        skipped = self.core.skipped
        add = self.core.trace.append["span"]
        for rank, sm in enumerate(self.sms):
            add(
                (sm, self.cta + rank, self._role, NONE, self._unit, op, start + skipped,
                 end + skipped, item.tile_id, item.block, item.stage, NONE, busy)
            )  # fmt: skip

    def mmas(self) -> list[Mma]:
        """The MMAs in hand and queued."""
        queued = [item for item in self.queue if isinstance(item, Mma)]
        return ([self.current] if self.current else []) + queued

    def tally(self) -> list[int]:
        """Nothing: those who wait for a commit count phases of its barrier."""
        return []

    def advance(self, by: list[int]) -> None:
        """Nothing to add to."""

    def state(
        self, now: int, tile: int, step: int, place: Callable[[object], object]
    ) -> tuple[object, ...]:
        """The pipe relative to ``now`` and to the step in hand.

        ``place`` says where a barrier or ring slot stands relative to the ring's position.
        """
        in_hand = [self.current] if self.current else []
        waiting = tuple(
            (item.op, item.stage, place(item.slot), item.tile - tile, item.step - step,
             max(0, item.ready + self.start_cycles - now))
            if isinstance(item, Mma)
            else place(item.barrier)
            for item in (*in_hand, *self.queue)
        )  # fmt: skip
        ports = tuple(max(0, port.free - now) for port in self.ports)
        return (waiting, self.done_steps, now - self.since if self.current else 0, ports)
