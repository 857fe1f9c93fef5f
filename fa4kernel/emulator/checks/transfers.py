"""Tensor memory: loads and stores of warps, allocation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fa4kernel.emulator.checks.accesses import Actor
from fa4kernel.emulator.checks.clocks import OPEN, WHOLE, Index, Ints
from fa4kernel.emulator.checks.footprints import (
    COLUMNS,
    GROUPS,
    TENSOR_BLOCK,
    TransferFootprint,
)
from fa4kernel.emulator.checks.records import BLANK, FREED
from fa4kernel.emulator.checks.shadow import Blocks, Region
from fa4kernel.emulator.ptx.module import Instruction

if TYPE_CHECKING:
    from fa4kernel.emulator.checks.state import State
    from fa4kernel.emulator.machine.tmem_access import Transfer


class TransferChecks:
    """What warps do with tensor memory."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.machine = state.machine
        self.clocks = state.clocks
        self._loads: dict[int, Ints] = {}
        self._stores: list[tuple[Index, Ints]] = []
        self._allocations: dict[int, int] = {}
        self._patterns: dict[int, TransferFootprint] = {}

    # --- loads and stores of warps ---------------------------------------------------------

    def transfer(
        self, slots: Index, ctas: Index, lane: Index, column: Index, transfer: Transfer,
        write: bool,
    ) -> None:  # fmt: skip
        """``tcgen05.ld`` and ``.st``: under way until waited for, loads until their first use."""
        state = self.state
        event = state.event(transfer.instruction, slots)
        if not write:
            number = state.first_use.number_of(transfer.instruction)
            self.close_loads([number], slots)
        records = state.records.add(event, self.clocks.whole[slots], OPEN)
        footprint = self._patterns.get(id(transfer))
        if footprint is None:
            footprint = self._patterns[id(transfer)] = TransferFootprint(transfer)
        region = footprint.of(ctas, lane, column, state.tensor_memory)
        actor = Actor(event, WHOLE, records)
        if write:
            state.accesses.write(state.tensor_memory, region, actor)
            self._stores.append((slots, records))
            return
        state.accesses.read(state.tensor_memory, region, actor)
        pending = self._loads.get(number)
        if pending is None:
            pending = self._loads[number] = np.zeros(self.clocks.known.shape[1], np.int32)
        pending[slots] = records

    def close_loads(self, numbers: Sequence[int], slots: Index, mark: int = 0) -> None:
        """Loads of these warps are complete: their registers are used, or they were waited for."""
        for number in numbers:
            pending = self._loads.get(number)
            if pending is None:
                continue
            records = pending[slots]
            under_way = records != 0
            if np.count_nonzero(under_way):
                mine = slots[under_way]
                self.state.records.close(records[under_way], self.clocks.time[mine], mark)
                pending[mine] = 0

    def waited_loads(self, slots: Index) -> None:
        """``tcgen05.wait::ld``."""
        self.close_loads(tuple(self._loads), slots)

    def waited_stores(self, slots: Index) -> None:
        """``tcgen05.wait::st``."""
        left = []
        for owners, records in self._stores:
            if np.array_equal(owners, slots):  # quicker
                self.state.records.close(records, self.clocks.time[slots])
                continue
            done = np.isin(owners, slots)
            self.state.records.close(records[done], self.clocks.time[owners[done]])
            if not done.all():
                left.append((owners[~done], records[~done]))
        self._stores = left

    # --- allocation ------------------------------------------------------------------------

    def allocated(
        self, slot: int, cta: int, start: int, columns: int, pair: bool, instruction: Instruction
    ) -> None:
        """Columns are there, with nothing in them; a pair allocates together."""
        clocks, state = self.clocks, self.state
        slots = np.array([slot])
        rank = self.machine.rank_of(cta)
        key = int(rank) >> 1 if pair else -1 - int(rank)
        if key not in self._allocations:
            self._allocations[key] = clocks.components((False,))
        component = self._allocations[key]
        event = state.event(instruction, slots)
        record = state.records.add(event, component, 1, mark=BLANK)[0]
        clocks.known[:, slot, component] = 1
        clusters = self.machine.shape.clusters
        ctas = [cta]
        if pair:
            ctas = [int(r) * clusters + cta % clusters for r in (rank & ~1, rank | 1)]
        memory = state.tensor_memory
        marks = state.records.mark
        for each in ctas:
            region = self._columns(each, start, columns)
            there = region.get(memory.writer)
            fresh = (there == 0) | (marks[there] == FREED)
            region.put(memory.writer, np.where(fresh, record, there))

    def _columns(self, cta: int, start: int, columns: int) -> Region:
        """All lanes of some columns (whole blocks of them)."""
        blocks = np.arange(start // TENSOR_BLOCK, (start + columns) // TENSOR_BLOCK)
        across = np.arange(GROUPS)[:, None] * (COLUMNS // TENSOR_BLOCK) + blocks
        first = cta * GROUPS * COLUMNS // TENSOR_BLOCK
        return Blocks(first + across.reshape(1, -1))

    def freed(
        self, slot: int, cta: int, start: int, columns: int, instruction: Instruction
    ) -> None:
        """Columns are gone: all that was done with them must be known."""
        state = self.state
        slots = np.array([slot])
        event = state.event(instruction, slots)
        records = state.records.add(
            event, self.clocks.whole[slots], self.clocks.time[slots], mark=FREED
        )
        actor = Actor(event, WHOLE, records)
        region = self._columns(cta, start, columns)
        state.accesses.write(state.tensor_memory, region, actor)
