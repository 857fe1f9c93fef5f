"""mbarriers: arrivals, transaction bytes and phases (PTX ISA 9.7.13.15).

The state of all barriers is columnar, indexed by ``cta * slots + offset // 8``. A phase completes
when no arrival is pending and the transaction bytes balance; then the next one begins with the
expected number of arrivals. The bytes may balance below zero for a while, since a copy may land
before somebody says that it is expected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.errors import EmulationError
from fa4kernel.emulator.machine.arrivals import LastArrivals
from fa4kernel.emulator.ptx.module import Instruction

Indices = NDArray[np.intp]

#: Counts of arrivals and of bytes stay within 20 bits (PTX ISA 9.7.13.15.2).
LARGEST_COUNT = (1 << 20) - 1


class MBarriers:
    """All mbarriers of a wave.

    Attributes:
        phase: completed phases of each; -1 where there is no barrier.
        expected: arrivals of a phase.
        pending: arrivals still missing in this one.
        bytes: bytes expected and not yet seen; negative if more were seen.
        changed: set when a phase completes; whoever looks at waiting warps clears it.
        arrivals: who came last.
        tracer: is told of every arrival, if there is one.
    """

    def __init__(self, ctas: int, shared_bytes: int, now: Callable[[], int] = lambda: 0) -> None:
        self.slots = -(-shared_bytes // 8)
        count = ctas * self.slots
        self.phase = np.full(count, -1, np.int32)
        self.expected = np.zeros(count, np.int32)
        self.pending = np.zeros(count, np.int32)
        self.bytes = np.zeros(count, np.int32)
        self.changed = False
        self.completed: list[Indices] = []
        self.monitor: Any = None
        self.arrivals = LastArrivals(count, ctas, now)
        self.tracer: Any = None

    def at(self, cta: Any, offset: Any, instruction: Instruction) -> Indices:
        """Indices of barriers by CTA and offset in its shared memory.

        Raises:
            EmulationError: an address is no multiple of 8 or outside.
        """
        offset = np.asarray(offset)
        if (offset & 7).any():
            bad = int(offset[(offset & 7) != 0][0])
            raise EmulationError(
                f"mbarrier at shared address {bad:#x}: it must be a multiple of 8",
                instruction, "misaligned",
            )  # fmt: skip
        if ((offset < 0) | (offset >= 8 * self.slots)).any():
            raise EmulationError(
                f"mbarrier outside shared memory: offsets {offset.min():#x} to {offset.max():#x} of"
                f" {8 * self.slots:#x}", instruction, "out-of-bounds",
            )  # fmt: skip
        return cta * self.slots + (offset >> 3)  # type: ignore[no-any-return]

    def place(self, index: int) -> tuple[int, int]:
        """CTA and byte offset of a barrier."""
        return index // self.slots, index % self.slots * 8

    def init(self, index: Indices, count: NDArray[np.int64], instruction: Instruction) -> None:
        """Make barriers that expect ``count`` arrivals a phase."""
        bad = (count < 1) | (count > LARGEST_COUNT)
        if bad.any():
            raise EmulationError(
                f"mbarrier.init with a count of {int(count[bad][0])}"
                f": 1 to {LARGEST_COUNT} are allowed", instruction, "barrier-count",
            )  # fmt: skip
        self.phase[index] = 0
        self.expected[index] = count
        self.pending[index] = count
        self.bytes[index] = 0

    def invalidate(self, index: Indices) -> None:
        """What ``mbarrier.inval`` does: the memory is free for other use."""
        self.phase[index] = -1

    def check(self, index: Indices, instruction: Instruction) -> None:
        """Raise if one of them is not initialised."""
        bad = self.phase[index] < 0
        if bad.any():
            cta, offset = self.place(int(np.atleast_1d(index)[np.atleast_1d(bad)][0]))
            raise EmulationError(
                f"CTA {cta} has no mbarrier at shared offset {offset:#x}: it was never initialised"
                " (or was invalidated)", instruction, "uninitialised-barrier",
            )  # fmt: skip

    def apply(
        self,
        index: Indices,
        instruction: Instruction,
        arrivals: Any = 0,
        expect: Any = 0,
        complete: Any = 0,
        lanes: Any = None,
    ) -> None:
        """Arrivals and bytes on barriers, one entry each; an entry may come more than once.

        Args:
            index: barriers.
            arrivals: how many arrivals each entry brings.
            expect: bytes that are announced before the arrival.
            complete: bytes that have landed.
            lanes: who executed the instruction, for each entry.
        """
        self.check(index, instruction)
        if self.tracer is not None:
            self.tracer.arrived(index, instruction, arrivals, expect, complete, lanes)
        landed = np.ndim(arrivals) == 0 and arrivals == 0 and np.ndim(expect) == 0 and expect == 0
        self.arrivals.record(index, instruction, lanes, landed)
        if self._same(index, arrivals, expect, complete):
            return
        shape = index.shape
        arrivals = np.broadcast_to(np.asarray(arrivals, np.int32), shape)
        change = np.broadcast_to(np.asarray(expect, np.int64) - complete, shape).astype(np.int32)
        once = np.unique(index)
        np.subtract.at(self.pending, index, arrivals)
        if change.any():
            np.add.at(self.bytes, index, change)
        if (self.pending[once] < 0).any():
            np.add.at(self.pending, index, arrivals)
            np.subtract.at(self.bytes, index, change)
            self._one_by_one(index, arrivals, change, instruction)
            return
        if (abs(self.bytes[once]) > LARGEST_COUNT).any():
            self._overflow(once, instruction)
        done = once[(self.pending[once] == 0) & (self.bytes[once] == 0)]
        if len(done):
            self._complete(done)

    def _same(self, index: Indices, arrivals: Any, expect: Any, complete: Any) -> bool:
        """The common case, one barrier and no phase in between, without arrays; False if not so."""
        first, count = int(index[0]), len(index)
        if count > 1 and (index != first).any():
            return False
        given = (arrivals, expect, complete)
        brought, expected, landed = (
            int(x) * count if np.ndim(x) == 0 else int(np.sum(x)) for x in given
        )
        pending = int(self.pending[first]) - brought
        balance = int(self.bytes[first]) + expected - landed
        if pending < 0 or abs(balance) > LARGEST_COUNT:
            return False
        self.pending[first] = pending
        self.bytes[first] = balance
        if pending == 0 and balance == 0:
            self._complete(index[:1])
        return True

    def _complete(self, index: Indices) -> None:
        self.phase[index] += 1
        self.arrivals.phase_done(index)
        self.pending[index] = self.expected[index]
        self.changed = True
        self.completed.append(index)
        if self.monitor is not None:
            self.monitor.phase_completed(index)

    def _one_by_one(
        self,
        index: Indices,
        arrivals: NDArray[np.int32],
        change: NDArray[np.int32],
        instruction: Instruction,
    ) -> None:
        """The same where one call completes a phase and arrives in the next."""
        for i, count, moved in zip(index, arrivals, change, strict=True):
            if count > self.pending[i]:
                cta, offset = self.place(int(i))
                raise EmulationError(
                    f"{count} arrivals on the mbarrier at shared offset {offset:#x} of CTA {cta},"
                    f" which waits for {self.pending[i]} more in this phase (of"
                    f" {self.expected[i]}; {self.bytes[i]} bytes are outstanding)",
                    instruction, "arrival-underflow",
                )  # fmt: skip
            self.pending[i] -= count
            self.bytes[i] += moved
            if self.pending[i] == 0 and self.bytes[i] == 0:
                self._complete(np.array([i]))

    def _overflow(self, index: Indices, instruction: Instruction) -> None:
        bad = index[abs(self.bytes[index]) > LARGEST_COUNT][0]
        cta, offset = self.place(int(bad))
        raise EmulationError(
            f"the mbarrier at shared offset {offset:#x} of CTA {cta} counts {self.bytes[bad]}"
            f" bytes; at most {LARGEST_COUNT} either way are allowed",
            instruction, "transaction-overflow",
        )  # fmt: skip
