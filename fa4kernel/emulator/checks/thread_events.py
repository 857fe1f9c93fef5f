"""What threads do, as the machine tells the checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.checks.accesses import Actor
from fa4kernel.emulator.checks.actors import entries, part_of, warps_of
from fa4kernel.emulator.checks.clocks import Index
from fa4kernel.emulator.checks.flags import is_strong
from fa4kernel.emulator.checks.records import UNWAITED
from fa4kernel.emulator.checks.shadow import Pieces
from fa4kernel.emulator.checks.state import State
from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.ptx.module import Instruction

if TYPE_CHECKING:
    pass


class ThreadEvents(State):
    """Loads, stores, fences and barriers of threads: one method for each thing that can happen."""

    # --- threads ---------------------------------------------------------------------------

    def begin(self, start: int, convoy: Convoy) -> None:
        """A convoy comes to the item that begins at this instruction."""
        numbers = self.first_use.at.get(start)
        if numbers is not None:
            self.transfers.close_loads(numbers, convoy.warps()[0], UNWAITED if self.strict else 0)

    def warp_sync(self, convoy: Convoy) -> None:
        """``bar.warp.sync``: the lanes of warps see what each of them did."""
        self.tensor.flush()
        self.clocks.merge(convoy.warps()[0])

    def warp_met(self, convoy: Convoy) -> None:
        """``elect.sync``: lanes wait for each other, which makes no memory visible."""
        self.tensor.flush()
        self.clocks.meet(convoy.warps()[0])

    def grid_waited(self, convoy: Convoy) -> None:
        """``griddepcontrol.wait`` is over."""
        self.tensor.flush()
        self.dependence.waited(convoy)

    def ended(self, convoy: Convoy) -> None:
        """Threads have ended; a lane that is left over is all of its warp from now on."""
        self.tensor.flush()
        slots = convoy.warps()[0]
        self.clocks.left_over(slots[self.machine.alive.reshape(-1, 32)[slots].sum(axis=1) == 1])
        self.lifetime.threads_ended(convoy)

    # --- shared memory ---------------------------------------------------------------------

    def shared_access(
        self, convoy: Convoy, lanes: Index, ctas: Index, offsets: NDArray[np.int64], size: int,
        write: bool, instruction: Instruction,
    ) -> None:  # fmt: skip
        """Loads and stores of threads: each accesses ``size`` bytes at its offset."""
        self.tensor.flush()
        start = ctas * self.shared.size + (offsets >> 2)
        index = by_lane = start[:, None] + np.arange(-(-size // 4))
        warps = warps_of(self.machine, convoy)
        slots, part = warps.slots, warps.part
        if convoy.mask is None and len(lanes) == 32 * len(slots):
            index = index.reshape(len(slots), -1)
        else:
            slots = lanes // 32
            part = part_of(warps, slots)
        event = self.event(instruction, slots)
        event.size, event.strong = size, is_strong(instruction)
        component = self.clocks.own(slots, part)
        records = self.records.add(
            event, component, self.clocks.time[slots], component + self.clocks.through
        )
        self.live(ctas, offsets, size, event, lanes // 32)
        actor, region = Actor(event, part, records), Pieces(index)
        alone = size >= 4 and not event.strong
        if write:
            self.accesses.write(self.shared, region, actor)
            if alone:
                self.lanes.wrote(lanes, by_lane)
        else:
            self.accesses.read(self.shared, region, actor)
            if alone:
                self.lanes.reads(lanes, by_lane, event)
        if event.strong:
            found = entries(self.machine, convoy, start)
            self.flags.access(found, start[found.lane], write, instruction)

    def global_access(
        self, lanes: Index, addresses: NDArray[np.int64], size: int, write: bool,
        instruction: Instruction,
    ) -> None:  # fmt: skip
        """Loads and atomics of threads in global memory."""
        self.dependence.accessed(lanes, addresses, size, instruction)
        self.global_memory.access(lanes, addresses, size, write, instruction)

    def global_store(
        self, lanes: Index, addresses: NDArray[np.int64], values: Sequence[NDArray[Any]],
        instruction: Instruction,
    ) -> None:  # fmt: skip
        """Threads are about to store these values, each behind the last one."""
        self.global_memory.storing(addresses, values, instruction)

    def global_stored(
        self, lanes: Index, addresses: NDArray[np.int64], values: Sequence[NDArray[Any]],
        instruction: Instruction,
    ) -> None:  # fmt: skip
        """They have."""
        size = values[0].dtype.itemsize * len(values)
        self.dependence.accessed(lanes, addresses, size, instruction)
        self.global_memory.stored_by_threads(lanes, addresses, values, instruction)

    # --- mbarriers -------------------------------------------------------------------------

    def barrier_init(
        self, convoy: Convoy, lanes: Index, index: Index, instruction: Instruction
    ) -> None:
        """``mbarrier.init``."""
        self.tensor.flush()
        self.barriers.init(convoy, lanes, index, instruction)

    def barrier_inval(self, convoy: Convoy, index: Index, instruction: Instruction) -> None:
        """``mbarrier.inval``."""
        self.tensor.flush()
        self.barriers.inval(index)

    def arrive(
        self, convoy: Convoy, lanes: Index, index: Index, count: Any, expect: Any,
        instruction: Instruction,
    ) -> None:  # fmt: skip
        """``mbarrier.arrive``, ``expect_tx`` and the like, before they count."""
        self.tensor.flush()
        self.machine.barriers.check(index, instruction)
        self.tensor_fences.gives(convoy.warps()[0], instruction)
        self.barriers.arrive(convoy, index, count, "relaxed" in instruction.qualifiers, instruction)

    def poll(
        self, convoy: Convoy, lanes: Index, index: Index, wanted: NDArray[np.int64],
        passed: NDArray[np.bool_], instruction: Instruction,
    ) -> None:  # fmt: skip
        """``mbarrier.try_wait`` and ``test_wait``, each time they look."""
        self.tensor.flush()
        if passed.all():
            self.tensor_fences.learns(convoy.warps()[0])
        qualifiers = instruction.qualifiers
        self.barriers.poll(
            convoy, index, wanted, passed, "parity" not in qualifiers, "relaxed" in qualifiers,
            instruction,
        )  # fmt: skip

    def phase_completed(self, index: Index) -> None:
        """Phases of mbarriers complete."""
        self.barriers.completed(index)

    def fence(self, convoy: Convoy, instruction: Instruction) -> None:
        """``fence`` and ``membar``."""
        self.tensor.flush()
        self.fences.fence(convoy, instruction)

    # --- barriers of warps -----------------------------------------------------------------

    def named_arrive(
        self, slots: Index, numbers: NDArray[np.int64], generations: NDArray[np.int64],
        instruction: Instruction,
    ) -> None:  # fmt: skip
        """``bar.sync`` and ``bar.arrive``."""
        self.tensor.flush()
        self.tensor_fences.gives(slots, instruction)
        self.rendezvous.arrive(slots, numbers, generations, instruction)

    def named_passed(
        self, slots: Index, numbers: NDArray[np.int64], generations: NDArray[np.int64]
    ) -> None:
        """Warps go on after ``bar.sync``."""
        self.tensor.flush()
        self.tensor_fences.learns(slots)
        self.rendezvous.passed(slots, numbers, generations)

    def cluster_arrive(self, convoy: Convoy, instruction: Instruction) -> None:
        """``barrier.cluster.arrive``."""
        self.tensor.flush()
        self.rendezvous.cluster_arrive(convoy, "relaxed" in instruction.qualifiers)

    def cluster_wait(self, convoy: Convoy, instruction: Instruction) -> None:
        """``barrier.cluster.wait`` is over."""
        self.tensor.flush()
        self.rendezvous.cluster_passed(convoy)
