"""mbarriers: arrivals, transaction bytes and phases (PTX ISA 9.7.13.15).

The state of all barriers is columnar, indexed by ``cta * slots + offset // 8``. A phase completes
when no arrival is pending and the transaction bytes balance; then the next one begins with the
expected number of arrivals. The bytes may balance below zero for a while, since a copy may land
before somebody says that it is expected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

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
        changes: how often a phase completed, or a barrier began or ended: without another, nobody
            who waits for a phase can go on.
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
        self.changes = 0
        self.monitor: Any = None
        self.arrivals = LastArrivals(count, ctas, now)
        self.tracer: Any = None

    def at(self, cta: Any, offset: Any, instruction: Instruction) -> Indices:
        """Indices of barriers by CTA and offset in its shared memory.

        Raises:
            EmulationError: an address is no multiple of 8 or outside.
        """
        offset = np.asarray(offset)
        if np.count_nonzero(offset & 7):
            bad = int(offset[(offset & 7) != 0][0])
            raise EmulationError(
                f"mbarrier at shared address {bad:#x}: it must be a multiple of 8",
                instruction, "misaligned",
            )  # fmt: skip
        if np.count_nonzero((offset < 0) | (offset >= 8 * self.slots)):
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
        self.changes += 1
        self.phase[index] = 0
        self.expected[index] = count
        self.pending[index] = count
        self.bytes[index] = 0

    def invalidate(self, index: Indices) -> None:
        """What ``mbarrier.inval`` does: the memory is free for other use."""
        self.changes += 1
        self.phase[index] = -1

    def check(self, index: Indices, instruction: Instruction) -> None:
        """Raise if one of them is not initialised."""
        bad = self.phase[index] < 0
        if np.count_nonzero(bad):
            cta, offset = self.place(int(np.atleast_1d(index)[np.atleast_1d(bad)][0]))
            raise EmulationError(
                f"CTA {cta} has no mbarrier at shared offset {offset:#x}: it was never initialised"
                " (or was invalidated)", instruction, "uninitialised-barrier", offset,
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
        plain = isinstance(arrivals, int) and isinstance(expect, int)
        landed = plain and not arrivals and not expect
        one = len(index) == 1 or not np.count_nonzero(index != index[0])
        if one:
            self.arrivals.record_one(int(index[0]), instruction, lanes, landed)
            if self._same(index, arrivals, expect, complete):
                return
        elif plain and isinstance(complete, int) and lanes is not None and _by_warps(index, lanes):
            last = slice(31, None, 32)
            self.arrivals.record(index[last], instruction, lanes[last], landed)
            if self._add(index[last], 32 * arrivals, 32 * expect, 32 * complete, instruction):
                return
        else:
            self.arrivals.record(index, instruction, lanes, landed)
        if not self._add(index, arrivals, expect, complete, instruction):
            self._one_by_one(index, arrivals, expect, complete, instruction)

    def _add(
        self, index: Indices, arrivals: Any, expect: Any, complete: Any, instruction: Instruction
    ) -> bool:
        """All entries at once; False, and nothing done, if there are too many for one phase."""
        shape = index.shape
        arrivals = np.broadcast_to(np.asarray(arrivals, np.int32), shape)
        change = np.broadcast_to(np.asarray(expect, np.int64) - complete, shape).astype(np.int32)
        once = np.unique(index)
        np.subtract.at(self.pending, index, arrivals)
        if np.count_nonzero(self.pending[once] < 0):
            np.add.at(self.pending, index, arrivals)
            return False
        if np.count_nonzero(change):
            np.add.at(self.bytes, index, change)
            if np.count_nonzero(abs(self.bytes[once]) > LARGEST_COUNT):
                self._overflow(once, instruction)
        done = once[(self.pending[once] == 0) & (self.bytes[once] == 0)]
        if len(done):
            self._complete(done)
        return True

    def _same(self, index: Indices, arrivals: Any, expect: Any, complete: Any) -> bool:
        """One barrier, and no phase in between: without arrays; False if it is not so."""
        first, count = int(index[0]), len(index)
        brought, expected, landed = (
            x * count if isinstance(x, int) else int(np.broadcast_to(x, count).sum())
            for x in (arrivals, expect, complete)
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
        self.changes += 1
        if self.monitor is not None:
            self.monitor.phase_completed(index)

    def _one_by_one(
        self, index: Indices, arrivals: Any, expect: Any, complete: Any, instruction: Instruction
    ) -> None:
        """The same where one call completes a phase and arrives in the next."""
        shape = index.shape
        arrivals = np.broadcast_to(np.asarray(arrivals, np.int32), shape)
        change = np.broadcast_to(np.asarray(expect, np.int64) - complete, shape).astype(np.int32)
        for i, count, moved in zip(index, arrivals, change, strict=True):
            if count > self.pending[i]:
                self._underflow(int(i), int(count), instruction)
            self.pending[i] -= count
            self.bytes[i] += moved
            if self.pending[i] == 0 and self.bytes[i] == 0:
                self._complete(np.array([i]))

    def _underflow(self, index: int, count: int, instruction: Instruction) -> NoReturn:
        cta, offset = self.place(index)
        pending, expected, owed = (
            int(each[index]) for each in (self.pending, self.expected, self.bytes)
        )
        why = f"{pending} of {expected} are missing in this phase"
        if not pending:
            landed = "landed that nobody announced" if owed < 0 else "announced have not landed"
            why += (
                f". It is not over, as {abs(owed):,} bytes {landed}; an arrival for the next phase "
                "must wait for the end of this one: is a wait missing before it, or does one wait "
                "for the wrong parity?"
            )
        raise EmulationError(
            f"too many arrivals on the mbarrier at shared offset {offset:#x} of CTA {cta}:"
            f" {count} more, where {why}",
            instruction, "arrival-underflow", offset,
        )  # fmt: skip

    def _overflow(self, index: Indices, instruction: Instruction) -> None:
        bad = index[abs(self.bytes[index]) > LARGEST_COUNT][0]
        cta, offset = self.place(int(bad))
        raise EmulationError(
            f"the mbarrier at shared offset {offset:#x} of CTA {cta} counts {self.bytes[bad]}"
            f" bytes; at most {LARGEST_COUNT} either way are allowed",
            instruction, "transaction-overflow", offset,
        )  # fmt: skip


def _by_warps(index: Indices, lanes: Indices) -> bool:
    """Whether the entries are those of whole warps whose lanes mean the same barrier."""
    if len(index) % 32:
        return False
    table, lanes = index.reshape(-1, 32), lanes.reshape(-1, 32)
    return not np.count_nonzero(lanes[:, 31] - lanes[:, 0] != 31) and not np.count_nonzero(
        table != table[:, :1]
    )
