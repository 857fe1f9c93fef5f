"""MMAs, copies into tensor memory, and commits: work in the order of its issue."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fa4kernel.emulator.checks.accesses import MMA, Actor
from fa4kernel.emulator.checks.actors import part_of, warps_of
from fa4kernel.emulator.checks.batches import Batch, Pending, Product
from fa4kernel.emulator.checks.clocks import Index, Ints, Table
from fa4kernel.emulator.checks.footprints import (
    SHARED_BLOCK,
    TENSOR_BLOCK,
    Footprint,
    chunk_pieces,
    lanes_and_columns,
)
from fa4kernel.emulator.checks.records import Event
from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.machine.products import Operation
from fa4kernel.emulator.machine.tensor_core import Commit, Mma
from fa4kernel.emulator.ptx.module import Instruction

if TYPE_CHECKING:
    from fa4kernel.emulator.checks.state import State


#: Commits that are remembered for each barrier; who waits is hardly ever further behind.
LANDED = 16


class TensorChecks:
    """What the tensor cores do, as the checks see it."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.machine = state.machine
        self.clocks = state.clocks
        slots = self.clocks.known.shape[1]
        #: Component of the MMAs of each warp of a cluster; 0 for none yet.
        self.of_unit: Index = np.zeros(self.clocks.units, np.intp)
        #: MMAs and commits that each warp has issued.
        self.issued = np.zeros(slots, np.int32)
        self.commits = np.zeros(slots, np.int32)
        #: What each warp knew when it last issued an MMA; a commit hands it on.
        self.since = Table(self.clocks, slots)
        #: For each warp that commits, phases of barriers that its own commits alone completed.
        self._sole: dict[int, Ints] = {}
        #: By row of barriers: who completed phases so, its count of commits then, and the phases.
        self._landed: dict[int, deque[tuple[int, int, int]]] = {}
        self._products: dict[Any, Product] = {}
        self._batch: Batch | None = None

    def component(self, slots: Index) -> Index:
        """The components of the MMAs that warps issued; the next is that of commits (control)."""
        units = self.clocks.unit[slots]
        for unit in np.unique(units[self.of_unit[units] == 0]):
            self.of_unit[unit] = self.clocks.components((False, True))
        found: Index = self.of_unit[units]
        return found

    # --- MMAs ------------------------------------------------------------------------------

    def issued_mmas(self, convoy: Convoy, ctas: Sequence[int], works: Sequence[Mma]) -> None:
        """MMAs, one from each lane; those that continue the last are looked at with them."""
        batch = self._batch
        if batch is None or not batch.takes(works):
            self.flush()
            slots = np.array([w.issuer // 32 for w in works])
            part = part_of(warps_of(self.machine, convoy), slots)
            batch = self._batch = Batch(self.machine.steps, slots, part, np.array(ctas))
        batch.works.append(works)

    def flush(self) -> None:
        """Look at the MMAs that were put off: they read two operands and write an accumulator."""
        batch = self._batch
        if batch is None:
            return
        self._batch = None
        state, slots, part = self.state, batch.slots, batch.part
        event = Event(batch.works[0][0].instruction, batch.tick, slots, MMA)
        own = self.component(slots)
        np.add.at(self.issued, slots, len(batch.works))
        records = state.records.add(event, own, self.issued[slots])
        self.since.rows[slots] = self.clocks.known[part, slots]
        groups = batch.groups()
        for operations, accumulate, at in groups:
            actor = Actor(event, part, records, own)
            if len(groups) > 1:
                some = Event(event.instruction, event.tick, slots[at], MMA)
                actor = Actor(
                    some,
                    part if not isinstance(part, np.ndarray) else part[at],
                    records[at],
                    own[at],
                )
            actor.event.into = operations[0].d, operations[0].shape
            self._mma(batch.ctas[at], self._product(operations), accumulate, actor)

    def _product(self, operations: tuple[Operation, ...]) -> Product:
        key = tuple(map(id, operations))
        found = self._products.get(key)
        if found is None:
            found = self._products[key] = Product(operations)
            self.state.accesses.regions.multiplied(operations)
        return found

    def _mma(self, leaders: Index, product: Product, accumulate: bool, actor: Actor) -> None:
        state, accesses = self.state, self.state.accesses
        shared, memory = state.shared, state.tensor_memory
        members = [leaders]
        if product.group == 2:
            clusters = self.machine.shape.clusters
            ranks, at = leaders // clusters, leaders % clusters
            members = [(ranks & ~1) * clusters + at, (ranks | 1) * clusters + at]
        for ctas in members:
            actor.proxied = True
            if product.a is not None:
                accesses.read(shared, product.a.of(ctas, shared), actor)
            accesses.read(shared, product.b.of(ctas, shared), actor)
            actor.proxied = False
            if product.packed is not None:
                accesses.read(memory, product.packed.of(ctas, memory), actor)
            accesses.write(memory, product.d.of(ctas, memory), actor, accumulate)

    def moved(
        self, convoy: Convoy, lane: int, ctas: Sequence[int], chunks: Index | None,
        into: tuple[Index, Index], instruction: Instruction,
    ) -> None:  # fmt: skip
        """``tcgen05.cp`` reads chunks of shared memory; it and ``.shift`` write tensor memory."""
        state, slots = self.state, np.array([lane // 32])
        part = part_of(warps_of(self.machine, convoy), slots)
        event = state.event(instruction, slots, "copy to tensor memory")
        own = self.component(slots)
        self.issued[slots] += 1
        records = state.records.add(event, own, self.issued[slots])
        self.since.rows[slots] = self.clocks.known[part, slots]
        for cta in map(int, ctas):
            actor = Actor(event, part, records, own, proxied=True)
            where = np.array([cta])
            if chunks is not None:
                source = Footprint(chunk_pieces([chunks]), SHARED_BLOCK)
                state.accesses.read(state.shared, source.of(where, state.shared), actor)
            actor.proxied = False
            target = Footprint(lanes_and_columns(*into), TENSOR_BLOCK)
            region = target.of(where, state.tensor_memory)
            state.accesses.write(state.tensor_memory, region, actor, chunks is None)

    def issued_commits(self, convoy: Convoy, works: Sequence[Commit]) -> None:
        """Commits: their arrivals hand on what was known when the MMAs before were issued."""
        state, barriers = self.state, self.state.barriers
        slots = np.array([w.issuer // 32 for w in works])
        part = part_of(warps_of(self.machine, convoy), slots)
        event = state.event(works[0].instruction, slots, "commit")
        component = self.component(slots)
        np.add.at(self.commits, slots, 1)
        given = self.since.rows[slots]
        at = np.arange(len(slots))
        given[at, component], given[at, component + 1] = self.issued[slots], self.commits[slots]
        which = np.repeat(at, [len(w.barriers) for w in works])
        rows = barriers.row[np.concatenate([w.barriers for w in works])]
        many, parts = slots[which], part if not isinstance(part, np.ndarray) else part[which]
        known = self.clocks.known[parts, many, barriers.phase[rows]]
        barriers.check_init(rows, many, parts, event, True, which)
        columns = 2 * self.clocks.units + self.clocks.unit[many]
        state.lifetime.arrived(rows, columns, self.commits[many])
        bounds = np.searchsorted(which, np.arange(len(works) + 1))
        for i, work in enumerate(works):
            work.note = Pending(event, i, given[i], known[bounds[i] : bounds[i + 1]])

    def landed(self, works: Sequence[Commit]) -> None:
        """Commits arrive on their barriers."""
        barriers = self.state.barriers
        notes: list[Pending] = [w.note for w in works]
        index = np.concatenate([w.barriers for w in works])
        counts = [len(w.barriers) for w in works]
        rows, phase = barriers.row[index], self.machine.barriers.phase[index]
        slots = np.repeat([w.issuer // 32 for w in works], counts)
        known = np.maximum(np.concatenate([n.known for n in notes]), self._own_phases(slots, rows))
        if (known < phase).any():
            for note, work in zip(notes, works, strict=True):
                mine = np.isin(index, work.barriers)
                party_of = np.full(np.count_nonzero(mine), note.row)
                barriers.early(rows[mine], known[mine], phase[mine], note.event, party_of)
        self.state.acting = notes[0].event, notes[0].row
        given = np.stack([n.given for n in notes])
        if len(index) > len(works):
            given = np.repeat(given, counts, axis=0)
        barriers.signal(index, given)
        sole = self.machine.barriers.expected[index] == 1
        for i in np.flatnonzero(sole).tolist():
            slot, row, now = int(slots[i]), int(rows[i]), int(phase[i]) + 1
            self._sole[slot][row] = now
            serial = int(given[i, self.of_unit[self.clocks.unit[slot]] + 1])
            self._landed.setdefault(row, deque(maxlen=LANDED)).append((slot, serial, now))

    def told(self, slot: int, part: int, row: int) -> int:
        """Phases of a barrier that a warp knows to be complete by the commits it knows of."""
        best = 0
        for owner, serial, phases in self._landed.get(int(row), ()):
            column = self.of_unit[self.clocks.unit[owner]] + 1
            if self.clocks.known[part, slot, column] >= serial:
                best = max(best, phases)
        return best

    def _own_phases(self, slots: Index, rows: Index) -> Ints:
        """Phases that warps know complete: they alone arrive, and their commits land in order."""
        found = np.zeros(len(rows), np.int32)
        most = len(self.state.barriers.phase)
        for i, (slot, row) in enumerate(zip(slots.tolist(), rows.tolist(), strict=True)):
            mine = self._sole.get(slot)
            if mine is None or len(mine) < most:
                old = np.zeros(0, np.int32) if mine is None else mine
                mine = self._sole[slot] = np.pad(old, (0, most - len(old)))
            found[i] = mine[row]
        return found
