"""Bulk copies: what TMA loads write and stores read, and when that is known to be over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fa4kernel.emulator.checks.accesses import Actor
from fa4kernel.emulator.checks.actors import Warps, warps_of
from fa4kernel.emulator.checks.clocks import OPEN, Index, Ints
from fa4kernel.emulator.checks.records import Event
from fa4kernel.emulator.machine.bulk import Load, Store
from fa4kernel.emulator.machine.convoy import Convoy

if TYPE_CHECKING:
    from fa4kernel.emulator.checks.state import State


@dataclass(slots=True)
class Started:
    """Loads that were issued together.

    Attributes:
        event: their issue.
        passing, control: components of control, and what the issuers knew of them.
        records: numbers of what they write.
        phase: of the barrier, when they were issued.
    """

    event: Event
    passing: Index
    control: Ints
    records: Ints
    phase: Ints


class CopyChecks:
    """The copies under way, as the checks see them.

    Attributes:
        open: records of each thread's stores that belong to no group yet.
        groups: and of those in its groups, oldest first.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self.machine = state.machine
        self.open: dict[int, list[int]] = defaultdict(list)
        self.groups: dict[int, list[list[int]]] = defaultdict(list)

    def loads_issued(self, convoy: Convoy, loads: Sequence[Load]) -> None:
        """Loads write shared memory from now until the phase they land in is known complete."""
        state, barriers = self.state, self.state.barriers
        slots = np.array([x.issuer // 32 for x in loads])
        part = self._part(convoy, slots)
        event = state.event(loads[0].instruction, slots, "TMA copy")
        index = np.array([x.barrier for x in loads])
        self.machine.barriers.check(index, loads[0].instruction)
        rows = barriers.row[index]
        phase = self.machine.barriers.phase[index]
        component = barriers.phase[rows]
        known = state.clocks.known[part, slots, component]
        barriers.early(rows, known, phase, event)
        barriers.check_init(rows, slots, part, event, True)
        # bytes of a phase are seen by who knows, through the barrier, that it is complete
        records = state.records.add(event, component - 1, phase + 1)
        passing = state.clocks.passing
        control = state.clocks.known[part, slots][:, passing]
        started = Started(event, passing, control, records, phase)
        for i, load in enumerate(loads):
            load.note = started, i
        groups: dict[tuple[int, int], list[int]] = defaultdict(list)
        for i, load in enumerate(loads):
            groups[load.offset, load.extent].append(i)
        for (offset, size), which in groups.items():
            _, barrier = self.machine.barriers.place(loads[which[0]].barrier)
            state.accesses.regions.loaded(offset, size, barrier)
            at = np.array(which)
            ctas = np.array([loads[i].cta for i in which])
            some = Event(event.instruction, event.tick, slots[at], event.agent)
            actor = Actor(some, part if not isinstance(part, np.ndarray) else part[at], records[at],
                          proxied=True)  # fmt: skip
            some.strong = loads[which[0]].reduce is not None
            region = state.shared.span(ctas, offset // 4, -(-(offset + size) // 4))
            state.accesses.write(state.shared, region, actor)
            state.live(ctas, np.full(len(ctas), offset), size, some)
        for i, load in enumerate(loads):
            if load.origin is not None:
                self._reads(load, i, started, part)

    def _reads(self, load: Load, which: int, started: Started, part: Any) -> None:
        """A copy between shared memories reads its source until it has landed."""
        assert load.origin is not None
        state, one = self.state, slice(which, which + 1)
        event = started.event
        some = Event(event.instruction, event.tick, event.slots[one], event.agent)
        records = state.records.add(
            some, state.records.component[started.records[one]], started.phase[one] + 1
        )
        actor = Actor(
            some, part if not isinstance(part, np.ndarray) else part[one], records, proxied=True
        )
        cta, start = load.origin
        region = state.shared.span(np.array([cta]), start // 4, (start + load.bytes) // 4)
        state.accesses.read(state.shared, region, actor)

    def _part(self, convoy: Convoy, slots: Any) -> Any:
        warps = warps_of(self.machine, convoy)
        if not isinstance(warps.part, np.ndarray):
            return warps.part
        return warps.part[np.searchsorted(warps.slots, slots)]

    def loads_done(self, loads: Sequence[Load]) -> None:
        """Loads land: their barriers hand on their bytes and the order they are part of."""
        barriers = self.state.barriers
        groups: dict[int, list[Load]] = defaultdict(list)
        for load in loads:
            groups[id(load.note[0])].append(load)
        for group in groups.values():
            started: Started = group[0].note[0]
            at = np.array([load.note[1] for load in group])
            index = np.array([load.barrier for load in group])
            phase = self.machine.barriers.phase[index]
            moved = phase != started.phase[at]
            if moved.any():
                barriers.early(barriers.row[index], started.phase[at], phase, started.event, at)
                self.state.records.time[started.records[at]] = phase + 1
            self.state.acting = started.event, int(at[0])
            barriers.signal(index, started.control[at], started.passing)

    # --- stores ----------------------------------------------------------------------------

    def store_issued(self, convoy: Convoy, store: Store) -> None:
        """A store reads shared memory until its thread waits for its group."""
        state = self.state
        slots = np.array([store.issuer // 32])
        part = self._part(convoy, slots)
        event = state.event(store.instruction, slots, "bulk store")
        # a whole warp that comes issues one store, by one of its lanes
        records = state.records.add(event, state.clocks.lone[slots], OPEN)
        actor = Actor(event, part, records, proxied=True)
        end = -(-(store.offset + store.extent) // 4)
        region = state.shared.span(np.array([store.cta]), store.offset // 4, end)
        state.accesses.read(state.shared, region, actor)
        self.open[int(slots[0])].append(int(records[0]))

    def committed(self, convoy: Convoy) -> None:
        """``commit_group``: the open stores of each thread become a group."""
        for slot in convoy.warps()[0]:
            self.groups[int(slot)].append(self.open.pop(int(slot), []))

    def waited(self, convoy: Convoy, most: int) -> None:
        """``wait_group``: all groups but the newest ``most`` have read their sources."""
        for slot in convoy.warps()[0]:
            groups = self.groups.get(int(slot), [])
            while len(groups) > most:
                for record in groups.pop(0):
                    self._close(record, int(slot))

    def _close(self, record: int, slot: int) -> None:
        self.state.records.close(np.array([record], np.int32), self.state.clocks.time[slot])

    def unfinished(self, warps: Warps) -> list[tuple[int, int]]:
        """Stores of these warps that nobody waited for: ``(slot, record)``."""
        found = []
        for slot in map(int, warps.slots):
            for group in [*self.groups.get(slot, []), self.open.get(slot, [])]:
                found += [(slot, record) for record in group]
        return found
