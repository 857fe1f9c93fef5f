"""How often each warp executes each instruction of a kernel, counted while the emulator runs it.

The count is of issue, as far as a PTX text tells: a warp whose lanes go different ways is counted
once for an instruction that several of its lanes execute, however the emulator groups them, because
the count of a warp is the largest among its lanes. A wait that does not succeed at once is counted
when it does: how often a warp polls depends on the order of events, and is no property of the code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.emulate import decode
from fa4kernel.emulator.launch import Launch
from fa4kernel.emulator.machine.cluster_launch import PendingClusters
from fa4kernel.emulator.machine.convoy import Convoy, Mask
from fa4kernel.emulator.machine.machine import Machine
from fa4kernel.emulator.machine.memory import Memory
from fa4kernel.emulator.machine.program import Branch, Exit, Program, Run, Special, Wait
from fa4kernel.emulator.machine.schedule import Schedule
from fa4kernel.emulator.ptx.module import Module

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.bulk import Load, Store
    from fa4kernel.emulator.machine.copies import Copy
    from fa4kernel.emulator.machine.tensor_core import Mma

Counts = NDArray[np.int64]
WARP = 32


@dataclass(frozen=True)
class Work:
    """What the asynchronous units were given by the CTAs of a launch, in all.

    Attributes:
        mmas: MMA instructions; ``flops`` of them, two for each multiplication.
        loads: TMA loads; ``loaded`` their bytes.
        stores: TMA stores; ``stored`` their bytes.
        copied: bytes that threads copy (``cp.async``) from global to shared memory.
    """

    mmas: int = 0
    flops: int = 0
    loads: int = 0
    loaded: int = 0
    stores: int = 0
    stored: int = 0
    copied: int = 0

    def minus(self, other: Work) -> Work:
        """What this work has more than another."""
        mine, theirs = vars(self), vars(other)
        return Work(**{name: mine[name] - theirs[name] for name in mine})


@dataclass(frozen=True)
class Execution:
    """What a launch executed.

    Attributes:
        counts: (instructions, warps): how often each warp of the first CTA issued each.
        work: of all CTAs.
    """

    counts: Counts
    work: Work


def execute(ptx: str | Module | Program, launch: Launch) -> Execution:
    """Run a launch in lock step, all its CTAs at the same time, and count.

    Args:
        ptx: the kernel, as :func:`fa4kernel.emulator.emulate` takes it.
        launch: its outputs are written as by any run.

    Raises:
        EmulationError: as by any run.
    """
    program = ptx if isinstance(ptx, Program) else decode(ptx, launch)
    memory = Memory(program.context.module, program.context.function, launch)
    pending = PendingClusters(launch)
    wave = pending.take(launch.ctas // launch.cluster_size)
    machine = CountingMachine(program, launch, memory, wave, Schedule(), False, pending)
    machine.count()
    machine.run()
    return Execution(machine.issued(), Work(**vars(machine.work)))


class CountingMachine(Machine):
    """A machine that counts what every lane executes."""

    executions: Counts
    work: _WorkLog

    def count(self) -> None:
        """Count from now on."""
        self.executions = np.zeros((self.program.length + 1, self.shape.lanes), np.int64)
        self._special_item: Special | None = None
        self._together: Mask | None = None
        self.work = _WorkLog()
        self.watch(self.work)

    def issued(self) -> Counts:
        """(instructions, warps) of the first CTA: the most that a lane of the warp executed."""
        per_item = self.executions.reshape(self.program.length + 1, -1, self.shape.ctas, WARP)
        first = per_item[:, :, 0].max(axis=2)
        found = np.zeros((self.program.length, first.shape[1]), np.int64)
        for item in self.program.item_at:
            if item is not None:
                found[item.start : item.end] = first[item.start]
        return found

    def _note(self, start: int, convoy: Convoy, lanes: Mask | None, by: int = 1) -> None:
        row = self.executions[start, convoy.lo : convoy.hi]
        if lanes is None:
            row += by
        else:
            row[lanes] += by

    def _run(self, item: Run, convoy: Convoy) -> None:
        self._note(item.start, convoy, convoy.mask)
        super()._run(item, convoy)

    def _branch(self, item: Branch, convoy: Convoy) -> bool:
        self._note(item.start, convoy, convoy.mask)
        return super()._branch(item, convoy)

    def _exit(self, item: Exit, convoy: Convoy) -> Convoy | None:
        self._note(item.start, convoy, convoy.mask)
        return super()._exit(item, convoy)

    def _special(self, item: Special, convoy: Convoy) -> bool:
        chosen = self._guard(item, convoy)
        if chosen is not None:  # an instruction takes its slot also where its guard is false
            self._note(item.start, convoy, ~chosen & convoy.full_mask())
        return super()._special(item, convoy)

    def _act(self, item: Special, convoy: Convoy) -> bool:
        self._note(item.start, convoy, convoy.mask)
        self._special_item, self._together = item, convoy.full_mask()
        goes_on = super()._act(item, convoy)
        self._special_item = None
        return goes_on

    def _block(self, convoy: Convoy, wait: Wait) -> None:
        if self._special_item is not None and wait.again:
            self._note(self._special_item.start, convoy, convoy.full_mask(), -1)
        super()._block(convoy, wait)


class _WorkLog:
    """Stands where the checks stand, and adds up what copies and MMAs are issued."""

    def __init__(self) -> None:
        self.mmas = self.flops = self.loads = self.loaded = self.stores = self.stored = 0
        self.copied = 0

    def mmas_issued(self, convoy: Convoy, ctas: Sequence[int], works: Sequence[Mma]) -> None:
        """MMAs are queued."""
        for work in works:
            shape = work.operation.shape
            self.mmas += 1
            self.flops += 2 * shape.m * shape.n * work.operation.k

    def loads_issued(self, convoy: Convoy, loads: Sequence[Load]) -> None:
        """Copies into shared memory are under way; a multicast is one for each destination."""
        self.loads += len(loads)
        self.loaded += sum(load.bytes for load in loads)

    def copy_issued(self, convoy: Convoy, copy: Copy) -> None:
        """Threads copy; what they set to zero instead does not count."""
        self.copied += int(copy.taken.sum())

    def store_issued(self, convoy: Convoy, store: Store) -> None:
        """A copy out of shared memory is under way."""
        self.stores += 1
        self.stored += store.bytes

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None
