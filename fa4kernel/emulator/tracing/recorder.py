"""Looks on while machines run, and remembers what the chosen CTAs do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.machine.cluster import ClusterPassed
from fa4kernel.emulator.machine.collectives import Together
from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.machine.named_barriers import Passed
from fa4kernel.emulator.machine.patience import Pause
from fa4kernel.emulator.machine.phase_waits import PhaseDone
from fa4kernel.emulator.machine.program import Condition
from fa4kernel.emulator.ptx.module import Instruction
from fa4kernel.emulator.tracing.events import (
    WARPS,
    ArrivalEvent,
    Step,
    WaitEvent,
)
from fa4kernel.emulator.tracing.memory import MemoryLog

Slots = NDArray[np.intp]


class Recorder(MemoryLog):
    """Remembers steps, waits, arrivals and the work of asynchronous units."""

    # --- threads ---------------------------------------------------------------------------------

    def begin(self, pc: int, convoy: Convoy) -> None:
        """A convoy executes the item at ``pc``."""
        slots, _ = convoy.warps()
        if self.selection.ctas is not None:
            slots = slots[self._chosen[slots]]
        if len(slots) and self._room(len(slots)):
            self.steps.append(Step(self.now, pc, self._keys[slots]))

    def blocked(self, convoy: Convoy, condition: Condition) -> None:
        """A convoy waits."""
        if isinstance(condition, Together):
            return
        instruction = self.machine.program.context.function.instructions[convoy.pc]
        slots, leaders = convoy.warps()
        for slot, lane in zip(slots.tolist(), leaders.tolist(), strict=True):
            key = int(self._keys[slot])
            if not self._chosen[slot] or key in self._waiting or not self._room():
                continue
            wait = self._wait(key, slot, lane, condition, instruction)
            before = self._waited.get(key)
            if before is not None and wait.continues(before):  # it polls
                before.end = -1
                wait = before
            else:
                self.waits.append(wait)
            self._waiting[key] = self._waited[key] = wait

    def _wait(
        self, key: int, slot: int, lane: int, condition: Condition, instruction: Instruction
    ) -> WaitEvent:
        machine, start = self.machine, self.now + 1
        cta = key // WARPS
        if isinstance(condition, Pause) and condition.polled is not None:
            condition = condition.polled
        if isinstance(condition, PhaseDone):
            at = int(np.searchsorted(condition.lanes, lane))
            index, wanted = int(condition.index[at]), int(condition.parity[at])
            owner, offset = machine.barriers.place(index)
            done = wanted if condition.token else int(machine.barriers.phase[index])
            return WaitEvent(
                key, instruction, "mbarrier", self._cta(owner), offset, done + 1, start
            )
        if isinstance(condition, Passed):
            at = int(np.searchsorted(condition.slots, slot))
            number, generation = int(condition.numbers[at]), int(condition.generations[at])
            return WaitEvent(key, instruction, "named", cta, number, generation + 1, start)
        if isinstance(condition, ClusterPassed):
            phase = int(machine.cluster_barriers.waits_for[lane])
            first = cta // machine.shape.size * machine.shape.size
            return WaitEvent(key, instruction, "cluster", first, 0, phase, start)
        return WaitEvent(key, instruction, waited_for(instruction), cta, -1, -1, start)

    def woken(self, convoy: Convoy) -> None:
        """A convoy goes on."""
        for slot in convoy.warps()[0].tolist():
            wait = self._waiting.pop(int(self._keys[slot]), None)
            if wait is not None:
                wait.end = self.now + 1

    # --- barriers --------------------------------------------------------------------------------

    def arrived(
        self, index: Slots, instruction: Instruction, arrivals: Any, expect: Any, complete: Any,
        lanes: Any,
    ) -> None:  # fmt: skip
        """Arrivals or bytes come to mbarriers, as :meth:`MBarriers.apply` has them."""
        barriers = self.machine.barriers
        size = len(index)
        given = (np.broadcast_to(np.asarray(x, np.int64), size) for x in (arrivals, expect))
        counts, sizes = given
        landed = not counts.any() and not sizes.any()
        slots = np.full(size, -1) if lanes is None else np.asarray(lanes) // 32
        unit = arriving_unit(instruction, landed)
        pairs, at = np.unique(np.stack([index, slots]), axis=1, return_inverse=True)
        at = at.reshape(-1)
        count = np.bincount(at, counts, pairs.shape[1]).astype(np.int64)
        sums = np.bincount(at, sizes, pairs.shape[1]).astype(np.int64)
        for i, (barrier, slot) in enumerate(pairs.T.tolist()):
            cta, offset = barriers.place(barrier)
            owner = self._cta(cta)
            if owner in self.selection and self._room():
                key = int(self._keys[slot]) if slot >= 0 else -1
                self.arrivals.append(
                    ArrivalEvent(
                        self.now, "mbarrier", owner, offset, int(barriers.phase[barrier]),
                        int(count[i]), int(sums[i]), unit, key,
                    )
                )  # fmt: skip

    def named_arrive(
        self, slots: Slots, numbers: Sequence[int], generations: Sequence[int], _: Instruction
    ) -> None:
        """Warps arrive on named barriers."""
        for slot, number, generation in zip(slots, numbers, generations, strict=True):
            key = int(self._keys[slot])
            if self._chosen[slot] and self._room():
                self.arrivals.append(
                    ArrivalEvent(self.now, "named", key // WARPS, int(number), int(generation),
                                 1, 0, "", key)
                )  # fmt: skip

    def cluster_arrive(self, convoy: Convoy, _: Instruction) -> None:
        """Threads arrive on the barrier of their cluster."""
        size, barriers = self.machine.shape.size, self.machine.cluster_barriers
        slots, leaders = convoy.warps()
        clusters = barriers.cluster_of(leaders, self.machine)
        counts = convoy.lanes_per_warp()
        for slot, cluster, count in zip(slots, clusters, counts, strict=True):
            key = int(self._keys[slot])
            if self._chosen[slot] and self._room():
                first = key // WARPS // size * size
                phase = int(barriers.generation[cluster])
                self.arrivals.append(
                    ArrivalEvent(self.now, "cluster", first, 0, phase, int(count), 0, "", key)
                )


def arriving_unit(instruction: Instruction, landed: bool) -> str:
    """The unit whose arrival it is; "" if a warp's own."""
    if instruction.opcode == "tcgen05":
        return "tensor"
    if instruction.opcode == "cp":
        return "tma" if instruction.has("bulk") else "cp_async"
    return "tma" if landed and instruction.opcode != "mbarrier" else ""


def waited_for(instruction: Instruction) -> str:
    """What an instruction waits for that is no barrier."""
    if instruction.has("wait_group") or instruction.has("wait_all"):
        return "bulk groups" if instruction.has("bulk") else "cp.async groups"
    if instruction.opcode == "setmaxnreg":
        return "registers"
    return " ".join((instruction.opcode, *instruction.qualifiers[:1]))
