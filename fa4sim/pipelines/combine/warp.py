"""One warp of the combine kernel, and what its CTA and its SM share."""

from __future__ import annotations

from collections.abc import Callable

from fa4sim.engine.agent import Agent, Steps
from fa4sim.engine.barrier import Barrier
from fa4sim.engine.core import Core
from fa4sim.engine.memory import Share
from fa4sim.engine.units import Group, Pressure, SubPartition
from fa4sim.pipelines.combine.shape import FLOAT, STAGES, THREADS, CombineCta, CombineShape
from fa4sim.specs import Machine

LANES = 32

#: Dependent instructions of the beginning: which rows these are, their heads, pointers.
START_INSTRUCTIONS = 60

#: Issue slots of one turn of the loop over splits: copy, commit, wait, loads, multiply-adds.
TURN_SLOTS = 18


class Sm:
    """What CTAs on one SM share: sub-partitions, the way to L2, shares of L2 and HBM."""

    def __init__(self, core: Core, machine: Machine, number: int, sharers: int) -> None:
        self.core = core
        self.machine = machine
        self.number = number
        pressure = Pressure()  # nothing multiplies here
        self.smsps = [SubPartition(i, pressure) for i in range(4)]
        self.l2 = Share(machine.l2_bytes_per_cycle, machine.share_burst_bytes)
        self.hbm = Share(machine.hbm_bytes_per_cycle, machine.share_burst_bytes)
        self.l2.sharers = self.hbm.sharers = sharers
        self.free = 0.0

    def move(self, now: int, size: int, from_hbm: bool, latency: int) -> int:
        """Move ``size`` bytes between a warp and L2; returns when the last has arrived."""
        self.free = max(self.free, float(now)) + size / self.machine.cp_async_bytes_per_cycle
        arrived = max(round(self.free), self.l2.take(now, size))
        if from_hbm:
            arrived = max(arrived, self.hbm.take(now, size))
            latency += self.machine.tma_hbm_extra_cycles
        return arrived + latency


class Cta:
    """One CTA on an SM: its work, and the barrier of all its warps."""

    def __init__(
        self, sm: Sm, shape: CombineShape, work: CombineCta, number: int, in_l2: bool,
        output_bytes: int, started: bool, done: Callable[[], None],
    ) -> None:  # fmt: skip
        self.sm = sm
        self.shape = shape
        self.work = work
        self.number = number
        self.in_l2 = in_l2
        self.output_bytes = output_bytes
        self.started = started
        self.done = done
        self.running = 0
        machine = sm.machine
        self.sync = Barrier(
            sm.core, "Cta", 0, number, sm.number, THREADS, {"combine": THREADS},
            machine.named_barrier_cycles + THREADS // LANES - 2, 0,
        )  # fmt: skip


class CombineWarp(Agent):
    """Weights from log-sum-exps, then the weighted sum of the partial outputs."""

    def __init__(self, core: Core, cta: Cta, warp: int) -> None:
        sm = cta.sm
        super().__init__(core, sm.number, cta.number, "combine", warp, sm.smsps[warp % 4])
        self.home = cta
        self.machine = sm.machine
        self.arrivals: list[int] = []
        self.in_flight = 0
        rows = cta.shape.rows_per_warp
        self.rows = max(0, min(rows, cta.work.rows - warp * rows))
        cta.sync.watch(self.key)
        cta.running += 1

    def run(self) -> Steps:
        """Lengths, log-sum-exps, weights; then split after split; at last O."""
        home, machine = self.home, self.machine
        step = machine.dependent_issue_cycles
        if not home.started:
            yield from self.spend("start", "issue", START_INSTRUCTIONS * step)
        lse = self.copy(home.shape.tile_m * home.work.splits * FLOAT // (THREADS // LANES))
        for _ in range(min(STAGES - 1, home.work.splits)):
            self.ask()
        yield from self.arrive_at(lse, "LSE")
        yield from self.meet(1)
        yield from self.weigh()
        yield from self.meet(2)
        self.step = 0
        while self.step < home.work.splits:
            yield from self.add()
            self.step += 1
        yield from self.write()
        self.died = self.env.cycle
        home.running -= 1
        if not home.running:
            home.done()

    # -- pieces --------------------------------------------------------------------------------

    def copy(self, size: int) -> int:
        """Issue an asynchronous copy of ``size`` bytes; returns when it will have arrived."""
        self.smsp.slots(self.env.cycle, 4)
        sm = self.home.sm
        latency = self.machine.cp_async_latency_cycles
        return sm.move(self.env.cycle, size, not self.home.in_l2, latency)

    def ask(self) -> None:
        """Issue the copies of the next split's rows."""
        self.arrivals.append(self.copy(self.rows * self.home.shape.tile_k * FLOAT))

    def arrive_at(self, time: int, what: str) -> Steps:
        """Stand until a copy has arrived."""
        start = self.since = self.env.cycle
        if time > start:
            yield self.env.timeout(time - start)
            code = self.core.trace.code("cp_async")
            self._wait_row(code, "unit", -1, -1, what, start)

    def meet(self, phase: int) -> Steps:
        """All warps of the CTA meet."""
        sync = self.home.sync
        sync.arrive("combine", self.warp, self.cta, LANES)
        yield from self.wait(sync, phase, "all warps")

    def weigh(self) -> Steps:
        """Maximum, weights and their sum over the splits, 32 (or 16) lanes for a row."""
        machine, shape = self.machine, self.home.shape
        rounds = shape.max_splits * shape.tile_m // THREADS
        lanes = THREADS // shape.tile_m
        shuffles = 3 * (lanes.bit_length() - 1)
        group = Group(
            12 * rounds + 2 * shuffles,
            mufu=round((rounds + 2) * machine.mufu_cycles_per_warp),
            fma=round(3 * rounds * machine.fma_cycles_per_warp),
            alu=round((2 * rounds + shuffles) * machine.alu_cycles_per_warp),
        )
        latency = shuffles * (machine.shuffle_cycles + machine.dependent_issue_cycles)
        latency += 3 * machine.mufu_latency_cycles + 2 * machine.smem_latency_cycles
        yield from self.work("weights", "alu", group, latency)

    def add(self) -> Steps:
        """One split's rows times their weights, added up; the next copy but two is issued first."""
        machine, home = self.machine, self.home
        if self.step + STAGES - 1 < home.work.splits:
            self.ask()
        yield from self.arrive_at(self.arrivals.pop(0), "partial O")
        rows = max(1, self.rows)
        group = Group(TURN_SLOTS, fma=round(4 * rows * machine.fma_cycles_per_warp))
        latency = machine.smem_latency_cycles + machine.dependent_issue_cycles
        yield from self.work("add split", "fma", group, latency)

    def write(self) -> Steps:
        """Round O and write it; the first CTA of a row's columns writes its log-sum-exp too."""
        machine, home = self.machine, self.home
        start = self.since = self.env.cycle
        size = self.rows * home.shape.tile_k * home.output_bytes
        end = home.sm.move(start, size, True, 0) if size else start
        end = max(end, start + 4 * machine.dependent_issue_cycles)
        self.smsp.slots(start, 8)
        yield self.env.timeout(end - start)
        self.span("l2", "write O", start, end - start)
