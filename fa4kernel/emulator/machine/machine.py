"""The emulated GPU: all threads of a wave of clusters, their memory, and what runs beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.errors import EmulationError, place
from fa4kernel.emulator.launch import Launch
from fa4kernel.emulator.machine.agents import Agents
from fa4kernel.emulator.machine.binding import Step
from fa4kernel.emulator.machine.cluster import ClusterBarriers
from fa4kernel.emulator.machine.cluster_launch import PendingClusters
from fa4kernel.emulator.machine.collectives import Together
from fa4kernel.emulator.machine.control import RegisterPool
from fa4kernel.emulator.machine.convoy import Convoy, Mask
from fa4kernel.emulator.machine.group_binding import bind_group
from fa4kernel.emulator.machine.mbarriers import MBarriers
from fa4kernel.emulator.machine.memory import Memory
from fa4kernel.emulator.machine.named_barriers import NamedBarriers
from fa4kernel.emulator.machine.patience import MOST_TURNS, Patience, Pause
from fa4kernel.emulator.machine.program import (
    Branch,
    Condition,
    Exit,
    Program,
    Run,
    Special,
    Wait,
)
from fa4kernel.emulator.machine.registers import Registers, Shape
from fa4kernel.emulator.machine.schedule import Schedule
from fa4kernel.emulator.machine.specials import special_registers
from fa4kernel.emulator.machine.tmem import TensorMemory

if TYPE_CHECKING:
    from fa4kernel.emulator.names import Names


class Blocked:
    """A convoy that waits, for what, and what it does afterwards.

    ``version`` is the condition's when it was looked at last.
    """

    __slots__ = ("again", "condition", "convoy", "version")

    def __init__(
        self, convoy: Convoy, condition: Condition, again: bool, version: int | None = None
    ) -> None:
        self.convoy = convoy
        self.condition = condition
        self.again = again
        self.version = version


class Machine:
    """A wave: clusters that run at the same time.

    Args:
        program: the decoded kernel.
        launch: grid, block, cluster.
        memory: global memory and the parameter block.
        clusters: numbers of the wave's clusters in the grid.
        schedule: who goes next.
        faithful: whether MMAs round as hardware does, bit for bit.
        pending: the launch's clusters that have not started.

    Attributes:
        ready: convoys that can go on, by instruction; those that meet are joined.
        blocked: those that wait.
        alive: bool, the lanes that have not ended.
        cta_of_lane: the CTA of each lane.
        executed: warp instructions so far.
        begun: indices of the pieces of the program that a warp has come to.
        most_steps: where the run is given up, at the next branch; None for never.
        slept: ticks that warps have slept, see ``nanosleep``.
        local: each lane's local memory.
    """

    def __init__(
        self,
        program: Program,
        launch: Launch,
        memory: Memory,
        clusters: NDArray[np.intp],
        schedule: Schedule,
        faithful: bool = False,
        pending: PendingClusters | None = None,
    ) -> None:
        self.program = program
        self.launch = launch
        self.memory = memory
        self.schedule = schedule
        self.clusters = clusters
        self.shape = Shape(-(-launch.threads // 32), launch.cluster_size, len(clusters))
        context = program.context
        fixed = special_registers(launch, self.shape, clusters, context.address_of.shared_bytes)
        self.registers = Registers(context.cells, context.rows, self.shape, fixed)
        self.registers.now = lambda: self.executed + self.slept
        ctas = self.shape.ctas
        self.shared: NDArray[np.uint8] = np.zeros((ctas, context.address_of.shared_bytes), np.uint8)
        self.local: NDArray[np.uint8] = np.zeros(
            (self.shape.lanes, context.address_of.local_bytes), np.uint8
        )
        self.barriers = MBarriers(ctas, context.address_of.shared_bytes, lambda: self.steps)
        self.named = NamedBarriers(self.shape, launch.threads, lambda: self.steps)
        self.tmem = TensorMemory(ctas)
        self.cluster_barriers = ClusterBarriers(self.shape.lanes, self.shape.clusters)
        self.register_pool = RegisterPool(
            self.shape.warps, ctas, launch.threads, launch.registers_per_thread
        )
        self.faithful = faithful
        self.pending = PendingClusters(launch, 0) if pending is None else pending
        self.agents = Agents(self)
        self.ready: dict[int, Convoy] = {}
        self.blocked: list[Blocked] = []
        self.alive = np.zeros(self.shape.lanes, np.bool_)
        self.cta_of_lane = np.arange(self.shape.lanes) // 32 % ctas
        self.bound: dict[Any, list[Step]] = {}
        self._masks: dict[tuple[int, int], Mask] = {}
        self.monitor: Any = None
        self.tracer: Any = None
        self.patience = Patience()
        self._turns = 0
        self.executed = 0
        self.begun: set[int] = set()
        self.slept = 0
        self.steps = 0
        self.most_steps: int | None = None
        self._start()

    def watch(self, monitor: Any) -> None:
        """Let checks see what happens; before the run."""
        self.monitor = self.barriers.monitor = monitor

    def _start(self) -> None:
        threads = self.launch.threads
        lanes = np.arange(self.shape.lanes)
        thread = lanes // 32 // self.shape.ctas * 32 + lanes % 32
        self.alive[:] = thread < threads
        convoy = Convoy.of(0, 0, self.alive)
        assert convoy is not None
        self.ready[0] = convoy

    # --- threads ---------------------------------------------------------------------------

    def ctas_of(self, slots: NDArray[np.intp]) -> NDArray[np.intp]:
        """CTAs of warp slots."""
        return slots % self.shape.ctas

    def warps_of(self, slots: NDArray[np.intp]) -> NDArray[np.intp]:
        """Numbers of warps within their CTA."""
        return slots // self.shape.ctas

    def cta_at(self, cta: Any, rank: Any) -> Any:
        """The CTA of the given rank in the cluster of ``cta``."""
        return rank * self.shape.clusters + cta % self.shape.clusters

    def rank_of(self, cta: Any) -> Any:
        """A CTA's rank in its cluster."""
        return cta // self.shape.clusters

    def mask_buffer(self, lo: int, hi: int) -> Mask:
        """The buffer from which bound calls of this range read their mask."""
        found = self._masks.get((lo, hi))
        if found is None:
            found = self._masks[lo, hi] = np.zeros(hi - lo, np.bool_)
        return found

    # --- running ---------------------------------------------------------------------------

    def run(self) -> None:
        """Run until every thread has ended.

        Raises:
            DeadlockError: nothing can go on.
            EmulationError: an instruction did something undefined.
        """
        with np.errstate(all="ignore"):
            while True:
                if self.ready:
                    self.execute(self.schedule.next(self))
                elif self.wake() or self.agents.advance(self.schedule) or self._time_out():
                    continue
                elif self.blocked:
                    from fa4kernel.emulator.machine.diagnosis import deadlock

                    raise deadlock(self)
                else:
                    break
            self.agents.finish()

    def close(self) -> None:
        """Let go of everything, so that the memory of a wave is free when the next one begins.

        The parts refer to the machine and it to them; left alone, Python would notice late.
        """
        self.__dict__.clear()

    def put(self, convoy: Convoy) -> None:
        """Make a convoy ready; it joins the one that stands at the same instruction."""
        other = self.ready.get(convoy.pc)
        self.ready[convoy.pc] = convoy if other is None else other.join(convoy)

    def execute(self, convoy: Convoy) -> None:
        """Run a convoy until it waits, ends, splits, or another is to go first."""
        items, schedule = self.program.item_at, self.schedule
        while True:
            item = items[convoy.pc]
            self.steps += 1
            self.begun.add(convoy.pc)
            if self.monitor is not None:
                self.monitor.begin(convoy.pc, convoy)
            if isinstance(item, Run):
                self._run(item, convoy)
                convoy.pc = item.end
            elif isinstance(item, Special):
                if not self._special(item, convoy):
                    return
            elif isinstance(item, Branch):
                if not self._branch(item, convoy):
                    return
            elif isinstance(item, Exit):
                rest = self._exit(item, convoy)
                if rest is None:
                    return
                convoy = rest
            else:  # past the end: as ret
                self._end(convoy)
                return
            if self.ready and schedule.give_way(self, convoy):
                self.put(convoy)
                return

    def _run(self, item: Run, convoy: Convoy) -> None:
        lo, hi = convoy.lo, convoy.hi
        key = (item.start, lo, hi, convoy.mask is None)
        steps = self.bound.get(key)
        if steps is None:
            mask = None if convoy.mask is None else self.mask_buffer(lo, hi)
            steps = []
            for group in item.groups:
                steps.extend(bind_group(group, self.registers, lo, hi, mask))
            self.bound[key] = steps
        if convoy.mask is not None:
            self.mask_buffer(lo, hi)[:] = convoy.mask
        for step in steps:
            step()
        self.executed += len(item.parts) * convoy.warp_count

    def _guard(self, item: Any, convoy: Convoy) -> Mask | None:
        """Lanes for which the instruction's guard holds; None without a guard."""
        guard = item.instruction.guard
        if guard is None:
            return None
        view = self.registers.predicate(guard.register, convoy.lo, convoy.hi)
        return ~view if guard.negated else view.copy()

    def _branch(self, item: Branch, convoy: Convoy) -> bool:
        self.executed += convoy.warp_count
        if self.most_steps is not None and self.steps > self.most_steps:
            raise EmulationError(
                f"not done after {self.most_steps:,} steps", item.instruction, "step-limit"
            )
        taken = self._guard(item, convoy)
        if taken is not None:
            if convoy.mask is not None:
                taken &= convoy.mask
            count = np.count_nonzero(taken)
            if count == 0:
                convoy.pc = item.end
                return True
            if count != convoy.count:
                jumping = Convoy.of(item.goal, convoy.lo, taken)
                staying = convoy.part(~taken, item.end)
                assert jumping is not None and staying is not None
                if not self._stands_aside(item, jumping):
                    self.put(jumping)
                self.put(staying)
                return False
        convoy.pc = item.goal
        return not self._stands_aside(item, convoy)

    def _stands_aside(self, item: Branch, convoy: Convoy) -> bool:
        """After many jumps backwards: block a convoy that may spin; see ``patience``."""
        if item.goal > item.start:
            return False
        self._turns += 1
        if self._turns < MOST_TURNS:
            return False
        self._turns = 0
        why = f"nothing: it goes round a loop ({place(item.instruction)})"
        self._block(convoy, Wait(convoy.full_mask(), Pause(why), again=True))
        return True

    def _special(self, item: Special, convoy: Convoy) -> bool:
        """Execute; True if the whole convoy goes on."""
        self.executed += convoy.warp_count
        chosen = self._guard(item, convoy)
        if chosen is not None:
            if convoy.mask is not None:
                chosen &= convoy.mask
            count = np.count_nonzero(chosen)
            if count == 0:
                convoy.pc = item.end
                return True
            if count != convoy.count:
                acting = Convoy.of(convoy.pc, convoy.lo, chosen)
                idle = convoy.part(~chosen, item.end)
                assert acting is not None and idle is not None
                self.put(idle)
                if self._act(item, acting):
                    self.put(acting)
                return False
        return self._act(item, convoy)

    def _act(self, item: Special, convoy: Convoy) -> bool:
        outcome = item.handler(self, convoy)
        if outcome is None:
            convoy.pc = item.end
            return True
        going = convoy.part(~outcome.lanes, item.start if outcome.others_again else item.end)
        waiting = convoy.part(outcome.lanes)
        assert waiting is not None
        self._block(waiting, outcome)
        if going is not None:
            self.put(going)
        return False

    def _block(self, convoy: Convoy, wait: Wait) -> None:
        if self.tracer is not None:
            self.tracer.blocked(convoy, wait.condition)
        if isinstance(wait.condition, Together):
            for i, each in enumerate(self.blocked):
                if isinstance(each.condition, Together) and each.convoy.pc == convoy.pc:
                    convoy = convoy.join(self.blocked.pop(i).convoy)
                    break
        self.blocked.append(Blocked(convoy, wait.condition, wait.again))

    def _exit(self, item: Exit, convoy: Convoy) -> Convoy | None:
        chosen = self._guard(item, convoy)
        if chosen is None:
            self._end(convoy)
            return None
        ending, rest = convoy.part(chosen), convoy.part(~chosen, item.end)
        if ending is not None:
            self._end(ending)
        return rest

    def _end(self, convoy: Convoy) -> None:
        self.alive[convoy.lo : convoy.hi] &= ~convoy.full_mask()
        slots, _ = convoy.warps()
        over = ~self.alive.reshape(-1, 32)[slots].any(axis=1)
        self.named.ended(slots[over].tolist())
        if self.monitor is not None:
            self.monitor.ended(convoy)

    def wake(self) -> bool:
        """Let blocked convoys go on whose condition holds; True if there was one."""
        woken = False
        kept: list[Blocked] = []
        for each in self.blocked:
            version = each.condition.version(self)
            if version is not None and version == each.version:
                kept.append(each)
                continue
            each.version = version
            convoy = each.convoy
            ready = each.condition.ready(self, convoy)
            going = convoy.part(ready, convoy.pc if each.again else convoy.pc + 1)
            if going is None:
                kept.append(each)
                continue
            woken = True
            each.condition.woken(self, going)
            if self.tracer is not None:
                self.tracer.woken(going)
            self.put(going)
            staying = convoy.part(~ready)
            if staying is not None:
                kept.append(Blocked(staying, each.condition, each.again, version))
        self.blocked = kept
        return woken

    def _time_out(self) -> bool:
        """Let waits time out that may, if that leads anywhere; True if one did."""
        if not self.blocked or self.patience.ends(self):
            return False
        waiting, self.blocked = self.blocked, []
        for each in waiting:
            convoy = each.convoy
            if each.condition.expire(self, convoy):
                if self.tracer is not None:
                    self.tracer.woken(convoy)
                convoy.pc += 0 if each.again and isinstance(each.condition, Pause) else 1
                self.put(convoy)
            else:
                self.blocked.append(each)
        return bool(self.ready)

    @property
    def names(self) -> Names:
        """What its barriers and roles are called."""
        context, labels = self.program.context, self.launch.labels
        if context.names is None or context.names.labels != labels:
            from fa4kernel.emulator.names import Names

            context.names = Names(context.function, context.address_of, self.launch.block, labels)
        return context.names

    def cta_number(self, cta: int) -> int:
        """The number in the grid of a CTA of this wave, clusters one after the other."""
        clusters = self.shape.clusters
        return int(self.clusters[cta % clusters]) * self.shape.size + cta // clusters

    def barrier_name(self, index: int) -> str:
        """What an mbarrier is called."""
        return self.names.mbarrier(self.barriers.place(index)[1])
