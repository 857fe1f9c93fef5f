"""The tensor cores: MMAs in the order they were issued, and the commits behind them.

Each CTA has a queue of what its threads issued. MMAs complete in the order of issue; a commit
signals its barriers when everything before it is complete. In lock step, queues that hold the same
work are executed together, and successive MMAs into one accumulator as one product with a longer
inner dimension.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.machine.products import Operation, multiply
from fa4kernel.emulator.ptx.module import Instruction

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine
    from fa4kernel.emulator.machine.schedule import Schedule


@dataclass(slots=True)
class Mma:
    """One MMA: what is multiplied, and who issued it."""

    operation: Operation
    accumulate: bool
    issuer: int
    instruction: Instruction
    note: Any = None


@dataclass(slots=True)
class Commit:
    """Arrivals on barriers when all earlier work of the queue is complete."""

    barriers: NDArray[np.intp]
    issuer: int
    instruction: Instruction
    note: Any = None


@dataclass(slots=True)
class Move:
    """``tcgen05.cp`` or ``tcgen05.shift``: a change of tensor memory that a function makes."""

    act: Any
    issuer: int
    instruction: Instruction
    note: Any = None


Work = Mma | Commit | Move


class TensorCores:
    """Queues by CTA.

    A run is a row of MMAs into one accumulator. It is executed as one product and only when other
    work stands behind it, so that its rounding does not depend on the schedule.

    Attributes:
        ending: no more work will come, so runs at the end of a queue are whole.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.queues: dict[int, deque[Work]] = defaultdict(deque)
        self.ending = False

    @property
    def busy(self) -> bool:
        """Whether a queue holds work."""
        return any(self.queues.values())

    def issue(self, cta: int, work: Work) -> None:
        """Put work at the end of a CTA's queue."""
        self.queues[cta].append(work)

    def advance(self, schedule: Schedule) -> bool:
        """Complete the work at the head of all queues, or of some; True if there was any."""
        heads = {cta: self._head(cta) for cta, queue in self.queues.items() if queue}
        ctas = [cta for cta, head in heads.items() if head is not None]
        if not ctas:
            return False
        chosen = schedule.completes(len(ctas))
        if chosen is None:
            self._heads(ctas)
        else:
            for cta, yes in zip(ctas, chosen, strict=True):
                if yes:
                    self._run(heads[cta] or (), [cta])
        return True

    def _finish(self, work: Work) -> None:
        machine = self.machine
        if isinstance(work, Commit):
            self._land([work])
            return
        if isinstance(work, Move):
            work.act()
        if machine.monitor is not None:
            machine.monitor.tensor_done(work)

    def _land(self, commits: list[Commit]) -> None:
        """Commits of one instruction arrive on their barriers."""
        machine = self.machine
        if machine.monitor is not None:
            machine.monitor.commits_landed(commits)
        index = np.concatenate([work.barriers for work in commits])
        lanes = np.repeat([w.issuer for w in commits], [len(w.barriers) for w in commits])
        machine.barriers.apply(index, commits[0].instruction, 1, lanes=lanes)

    def _heads(self, ctas: list[int]) -> None:
        """Everything that is queued, like work of several CTAs together."""
        waiting = set(ctas)
        while waiting:
            runs: dict[Any, list[int]] = defaultdict(list)
            for cta in sorted(waiting):
                head = self._head(cta)
                if head is None:
                    waiting.discard(cta)
                else:
                    runs[head].append(cta)
            for head, group in runs.items():
                self._run(head, group)
            waiting = {cta for cta in waiting if self.queues[cta]}

    def _head(self, cta: int) -> tuple[Any, ...] | None:
        """The run at the head of a queue, () for other work, None for a run that may go on.

        A run is whether its first MMA accumulates, and the operations.
        """
        found: list[Any] = []
        first: Mma | None = None
        for work in self.queues[cta]:
            if not isinstance(work, Mma):
                break
            if first is None:
                first = work
                found.append(work.accumulate)
            elif not (work.accumulate and work.operation.continues(first.operation)):
                break
            found.append(work.operation)
        else:
            return tuple(found) if self.ending else None
        return tuple(found)

    def _run(self, run: tuple[Any, ...], ctas: list[int]) -> None:
        if not run:
            works = [self.queues[cta].popleft() for cta in ctas]
            commits = [work for work in works if isinstance(work, Commit)]
            if commits and all(work.instruction is works[0].instruction for work in works):
                self._land(commits)
                return
            for work in works:
                self._finish(work)
            return
        accumulate, *operations = run
        head = self.queues[ctas[0]][0]
        multiply(self.machine, ctas, operations, accumulate, head.instruction)
        for cta in ctas:
            for _ in operations:
                work = self.queues[cta].popleft()
                if self.machine.monitor is not None:
                    self.machine.monitor.tensor_done(work)
