"""Hopper's tensor cores: every warpgroup issues its own products, and all queue for one unit.

A product is a run of k-steps. Its four warps issue them one after the other; so many of a warpgroup
may wait for the tensor cores, the next one's issue stands until one of them is done. The tensor
cores take k-steps in the order in which they were issued, whoever issued them; but of k-steps that
come at about the same time, the product that was issued first has more than its share, see `TURNS`:
so warpgroups that issue at the same moment drift apart.

Multiplications and fused ones of ordinary instructions take tensor time away, since accumulators
lie in the register file: on an H200 each costs the tensor cores of its sub-partition one cycle.

Operands in shared memory are read through the SM's port, and go first: on an H200 a TMA load beside
wgmma leaves its rate as it is (4087 to 4090 FLOP per cycle) and gets slower itself.

Invariant: products of one warpgroup finish in the order they were issued, and no earlier than their
k-steps take. ``issued`` and ``completed`` count products per warpgroup.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from fa4sim.engine.agent import Steps
from fa4sim.engine.core import Core, Wake
from fa4sim.engine.units import Pressure, Unit
from fa4sim.trace import NONE

WARPS = 4

#: Whose k-step is next where warpgroups issue theirs at the same time: 0 that of the product issued
#: first, 1 the second, 2 the third. An H200's own order is not documented; with this one, of two
#: warpgroups that issue eight k-steps m64n128k16 at the same moment the first is done after 834
#: cycles and the second after 1090, measured 891 and 1160; of three after 834, 1410 and 1602,
#: measured 1027, 1360 and 1693 (docs/benchmarks_h200.md).
TURNS = (0, 0, 1, 0, 2, 0, 0, 1, 0, 1)


@dataclass(slots=True)
class Product:
    """One product of warpgroup ``group``, for step ``step`` of tile ``tile``.

    ``steps`` k-steps, each ``step_cycles`` of tensor time and ``step_smem_cycles`` of the
    shared-memory port. ``slot`` is the ring slot of its K or V, ``start_cycles`` what passes
    between a k-step's issue and its first multiply. ``begin`` and ``finish`` are called when it
    starts and ends: they check hazards and move data.
    """

    op: str
    group: int
    slot: int
    tile_id: int
    block: int
    tile: int
    step: int
    steps: int
    step_cycles: int
    step_smem_cycles: int
    start_cycles: int
    begin: Callable[[Product], None]
    finish: Callable[[Product], None]
    issued_at: int = 0
    done_steps: int = 0
    began_at: int = 0

    def shift(self, tiles: int, steps: int, ids: int) -> None:
        """Stand for the same product later; ``ids`` is what the tile's number grows by."""
        self.tile += tiles
        self.tile_id += ids
        self.step += steps
        self.block -= steps


class WgmmaPipe:
    """The tensor cores of one SM, and what each warpgroup has waiting for them."""

    role = "tensor"

    def __init__(
        self, core: Core, sm: int, cta: int, groups: int, port: Unit, pressure: Pressure,
        issue_cycles: int, depth: int, commit_cycles: int,
    ) -> None:  # fmt: skip
        self.core = core
        self.env = core.env
        self.sm = sm
        self.cta = cta
        self.port = port
        self.pressure = pressure
        self.issue_cycles = issue_cycles
        self.depth = depth
        self.commit_cycles = commit_cycles
        self.queues: list[deque[Product]] = [deque() for _ in range(groups)]
        #: When the last ``depth`` k-steps of each warpgroup were done.
        self.ends: list[deque[int]] = [deque([0] * depth, depth) for _ in range(groups)]
        self.waiting_steps = [0] * groups
        self.issued_by = [[0] * WARPS for _ in range(groups)]
        self.issued = [0] * groups
        self.completed = [0] * groups
        self.for_room: list[list[Wake]] = [[] for _ in range(groups)]
        self.for_done: list[list[tuple[int, Wake]]] = [[] for _ in range(groups)]
        self.idle: Wake | None = None
        self.turn = 0
        self.busy = 0
        self.since = 0
        self.key = f"tensor@{cta}"
        code = core.trace.code
        self._role = code(self.role)
        self._unit = code("tensor")
        self._ops: dict[str, int] = {}

    # -- what warps do -------------------------------------------------------------------------

    def issue(self, lane: int, product: Product) -> None:
        """Warp ``lane`` of the warpgroup issues ``product``; it starts with the fourth of them."""
        group = product.group
        by = self.issued_by[group]
        by[lane] += 1
        if min(by) == self.issued[group]:
            return
        self.issued[group] += 1
        product.issued_at = self.env.cycle
        self.queues[group].append(product)
        self.waiting_steps[group] += product.steps
        if self.idle is not None:
            self.idle.fire()
            self.idle = None

    def room(self, group: int) -> Wake | None:
        """An event for "every k-step issued has left the warps", None if that holds."""
        if self.waiting_steps[group] <= self.depth:
            return None
        wake = Wake(self.env, (self.key, "room", group))
        self.for_room[group].append(wake)
        return wake

    def done(self, group: int, count: int) -> Wake | None:
        """An event for "``count`` products are complete and seen to be", None if they are."""
        if self.completed[group] >= count:
            return None
        wake = Wake(self.env, (self.key, "done", group, count - self.completed[group]))
        self.for_done[group].append((count, wake))
        return wake

    # -- what the tensor cores do --------------------------------------------------------------

    def run(self) -> Steps:
        """Execute k-step after k-step, for ever."""
        env = self.env
        while True:
            product = self._next()
            if product is None:
                self.pressure.running = False
                self.idle = Wake(env, (self.key, "idle"))
                yield self.idle
                continue
            ready = self._issue_time(product) + product.start_cycles
            if ready > env.cycle:
                self.pressure.running = False
                yield env.timeout(ready - env.cycle)
            self.pressure.running = True
            now = self.since = env.cycle
            if product.done_steps == 0:
                product.began_at = now
                product.begin(product)
            self.port.reserve(now, product.step_smem_cycles)
            yield env.timeout(product.step_cycles)
            while late := self.pressure.make_up():
                yield env.timeout(late)
            self.busy += product.step_cycles
            self._step_done(product)

    def _issue_time(self, product: Product) -> int:
        """When the next k-step of a product left its warps."""
        place = product.issued_at + product.done_steps * self.issue_cycles
        return max(place, self.ends[product.group][0])

    def _next(self) -> Product | None:
        """The product whose k-step is next: of those that are there, by turns as `TURNS` has it."""
        heads = [queue[0] for queue in self.queues if queue]
        if not heads:
            return None
        times = [self._issue_time(each) for each in heads]
        first = min(times)
        oldest = heads[times.index(first)]
        issued = oldest.issued_at + (oldest.steps - 1) * self.issue_cycles  # all of its k-steps
        together = min(max(first, issued), self.env.cycle)
        there = [each for each, time in zip(heads, times, strict=True) if time <= together]
        if len(there) < 2:
            return oldest
        there.sort(key=lambda product: (product.issued_at, product.group))
        rank = TURNS[self.turn]
        self.turn = (self.turn + 1) % len(TURNS)
        return there[min(rank, len(there) - 1)]

    def _step_done(self, product: Product) -> None:
        group = product.group
        product.done_steps += 1
        self.ends[group].append(self.env.cycle)
        self.waiting_steps[group] -= 1
        if self.waiting_steps[group] <= self.depth and self.for_room[group]:
            for wake in self.for_room[group]:
                wake.fire()
            self.for_room[group] = []
        if product.done_steps < product.steps:
            return
        self.queues[group].popleft()
        product.finish(product)
        self._record(product)
        self.core.later(
            self.commit_cycles, lambda: self._complete(group), (self.key, "complete", group)
        )

    def _complete(self, group: int) -> None:
        self.completed[group] += 1
        waiting, self.for_done[group] = self.for_done[group], []
        for count, wake in waiting:
            if count <= self.completed[group]:
                wake.fire()
            else:
                self.for_done[group].append((count, wake))

    def _record(self, product: Product) -> None:
        op = self._ops.get(product.op)
        if op is None:
            op = self._ops[product.op] = self.core.trace.code(product.op)
        skipped = self.core.skipped
        self.core.trace.append["span"](
            (self.sm, self.cta, self._role, NONE, self._unit, op, product.began_at + skipped,
             self.env.cycle + skipped, product.tile_id, product.block, product.group, NONE,
             product.steps * product.step_cycles)
        )  # fmt: skip

    # -- fast-forward --------------------------------------------------------------------------

    def mmas(self) -> list[Product]:
        """The products in hand and queued."""
        return [product for queue in self.queues for product in queue]

    def tally(self) -> list[int]:
        """Products issued and completed, by warpgroup."""
        return [*self.issued, *self.completed]

    def advance(self, by: list[int]) -> None:
        """Add to what :meth:`tally` gives, and to what is waited for."""
        groups = len(self.queues)
        for group in range(groups):
            more = by[group]
            self.issued[group] += more
            self.completed[group] += by[groups + group]
            self.issued_by[group] = [count + more for count in self.issued_by[group]]
            self.for_done[group] = [(count + more, wake) for count, wake in self.for_done[group]]

    def state(
        self, now: int, tile: int, step: int, place: Callable[[object], object]
    ) -> tuple[object, ...]:
        """The tensor cores relative to ``now`` and to the step in hand."""
        parts: list[object] = []
        for group, queue in enumerate(self.queues):
            parts.append(
                tuple(
                    (product.op, place(product.slot), product.tile - tile, product.step - step,
                     product.issued_at - now, product.done_steps,
                     product.began_at - now if product.done_steps else 0)
                    for product in queue
                )
            )  # fmt: skip
            parts.append(tuple(end - now for end in self.ends[group]) if queue else ())
            parts.append(tuple(by - self.issued[group] for by in self.issued_by[group]))
            parts.append(self.issued[group] - self.completed[group])
            parts.append(tuple(count - self.issued[group] for count, _ in self.for_done[group]))
            parts.append(len(self.for_room[group]))
        late = tuple(self.pressure.stolen)
        return (*parts, now - self.since, max(0, self.port.free - now), self.turn, late)
