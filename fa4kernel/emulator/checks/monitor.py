"""What copies, MMAs and tensor memory do, as the machine tells the checks; and all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fa4kernel.emulator.checks.accesses import COPY, Actor
from fa4kernel.emulator.checks.clocks import Index
from fa4kernel.emulator.checks.dependence import memory_of
from fa4kernel.emulator.checks.shadow import Pieces
from fa4kernel.emulator.checks.thread_events import ThreadEvents
from fa4kernel.emulator.machine.bulk import Load, Store
from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.machine.copies import Arrival, Copy
from fa4kernel.emulator.machine.tensor_core import Commit, Mma, Work
from fa4kernel.emulator.machine.warpgroup_mma import Product
from fa4kernel.emulator.ptx.module import Instruction

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.tmem_access import Transfer


class Monitor(ThreadEvents):
    """Watches a machine and reports what only luck keeps from going wrong."""

    # --- copies ----------------------------------------------------------------------------

    def loads_issued(self, convoy: Convoy, loads: Sequence[Load]) -> None:
        """Bulk copies into shared memory start."""
        self.tensor.flush()
        self.copies.loads_issued(convoy, loads)
        for load in loads:
            self.global_memory.loaded(load)
            self.dependence.copied(load.issuer, memory_of(load), load.instruction, "TMA copy")

    def loads_done(self, loads: Sequence[Load]) -> None:
        """They have written, and are about to signal."""
        self.tensor.flush()
        self.copies.loads_done(loads)

    def store_issued(self, convoy: Convoy, store: Store) -> None:
        """A bulk copy out of shared memory starts."""
        self.tensor.flush()
        self.copies.store_issued(convoy, store)
        self.global_memory.stored(store)
        memory = store.block if store.tensor_map is None else store.tensor_map.memory
        self.dependence.copied(store.issuer, memory, store.instruction, "bulk store")

    def store_read(self, store: Store) -> None:
        """It has read its source; its thread does not know that yet."""

    def groups_committed(self, convoy: Convoy) -> None:
        """``cp.async.bulk.commit_group``."""
        self.copies.committed(convoy)

    def groups_waited(self, convoy: Convoy, most: int, reading: bool) -> None:
        """``cp.async.bulk.wait_group`` is over."""
        self.tensor.flush()
        self.copies.waited(convoy, most)

    def copy_issued(self, convoy: Convoy, copy: Copy) -> None:
        """``cp.async`` copies start."""
        self.tensor.flush()
        self.cp_async.issued(convoy, copy)
        self.global_memory.copied(copy)
        some = copy.taken > 0
        self.dependence.accessed(
            copy.lanes[some], copy.sources[some], copy.size, copy.instruction, COPY
        )

    def copy_done(self, copy: Copy) -> None:
        """They have written; nobody knows that yet."""

    def copies_waited(self, convoy: Convoy, most: int | None, instruction: Instruction) -> None:
        """``cp.async.wait_group`` or ``wait_all`` is over."""
        self.tensor.flush()
        self.cp_async.waited(convoy, most)

    def copies_arrive(self, convoy: Convoy, arrival: Arrival) -> None:
        """``cp.async.mbarrier.arrive``."""
        self.tensor.flush()
        self.cp_async.arrive(convoy, arrival)

    def copies_arrived(self, arrival: Arrival) -> None:
        """The copies before it are complete: it arrives."""
        self.tensor.flush()
        self.cp_async.arrived(arrival)

    # --- wgmma -----------------------------------------------------------------------------

    def wgmma_issued(self, convoy: Convoy, product: Product) -> None:
        """``wgmma.mma_async`` of a warpgroup."""
        self.tensor.flush()
        self.wgmma.issued(product)

    def wgmma_done(self, product: Product) -> None:
        """It is complete; nobody knows that yet."""

    def wgmma_waited(self, convoy: Convoy, most: int, instruction: Instruction) -> None:
        """``wgmma.wait_group`` is over."""
        self.tensor.flush()
        self.wgmma.waited(convoy, most)

    def wgmma_fence(self, convoy: Convoy, instruction: Instruction) -> None:
        """``wgmma.fence``."""

    def wgmma_unwaited(self, convoy: Convoy, instruction: Instruction) -> None:
        """A register of a product under way is used."""
        self.wgmma.unwaited(convoy, instruction)

    # --- tensor cores and tensor memory ----------------------------------------------------

    def mmas_issued(self, convoy: Convoy, ctas: Sequence[int], works: Sequence[Mma]) -> None:
        """MMAs are issued."""
        self.tensor_fences.uses(convoy.warps()[0], works[0].instruction, True)
        self.tensor.issued_mmas(convoy, ctas, works)

    def move_issued(
        self, convoy: Convoy, lane: int, ctas: Sequence[int], chunks: Index | None,
        into: tuple[Index, Index], instruction: Instruction,
    ) -> None:  # fmt: skip
        """``tcgen05.cp`` from chunks of shared memory, or ``tcgen05.shift`` (None)."""
        self.tensor.flush()
        self.tensor_fences.uses(np.array([lane // 32]), instruction, True)
        self.tensor.moved(convoy, lane, ctas, chunks, into, instruction)

    def commits_issued(self, convoy: Convoy, works: Sequence[Commit]) -> None:
        """Commits are issued."""
        self.tensor.flush()
        self.tensor.issued_commits(convoy, works)

    def commits_landed(self, works: Sequence[Commit]) -> None:
        """Commits are about to arrive."""
        self.tensor.flush()
        self.tensor.landed(works)

    def tensor_done(self, work: Work) -> None:
        """An MMA is complete; who knows that, depends on commits."""

    def tmem_access(
        self, convoy: Convoy, slots: Index, ctas: Index, lane: Index, column: Index,
        transfer: Transfer, write: bool,
    ) -> None:  # fmt: skip
        """``tcgen05.ld`` and ``tcgen05.st``."""
        self.tensor.flush()
        self.tensor_fences.uses(slots, transfer.instruction, False)
        self.transfers.transfer(slots, ctas, lane, column, transfer, write)

    def tcgen05_wait(self, convoy: Convoy, instruction: Instruction) -> None:
        """``tcgen05.wait``."""
        self.tensor.flush()
        slots = convoy.warps()[0]
        if "wait::ld" in instruction.qualifiers:
            self.transfers.waited_loads(slots)
        else:
            self.transfers.waited_stores(slots)

    def tcgen05_fence(self, convoy: Convoy, instruction: Instruction) -> None:
        """``tcgen05.fence``."""
        self.tensor_fences.fence(convoy.warps()[0], instruction)

    def allocated(
        self, slot: int, cta: int, start: int, columns: int, offset: int, instruction: Instruction
    ) -> None:
        """``tcgen05.alloc``: columns, and their address in shared memory at ``offset``."""
        self.tensor.flush()
        pair = "cta_group::2" in instruction.qualifiers
        self.transfers.allocated(slot, cta, start, columns, pair, instruction)
        slots = np.array([slot])
        event = self.event(instruction, slots)
        component = self.clocks.whole[slots]
        records = self.records.add(
            event, component, self.clocks.time[slots], component + self.clocks.through
        )
        region = Pieces(np.array([[cta * self.shared.size + offset // 4]]))
        self.accesses.write(self.shared, region, Actor(event, 0, records))

    def freed(
        self, slot: int, cta: int, start: int, columns: int, instruction: Instruction
    ) -> None:
        """``tcgen05.dealloc``."""
        self.tensor.flush()
        self.transfers.freed(slot, cta, start, columns, instruction)
