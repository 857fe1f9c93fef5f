"""What must be over when a CTA ends, and what nobody may touch after that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fa4kernel.emulator.checks.accesses import COPY
from fa4kernel.emulator.checks.clocks import OPEN, Index, Ints
from fa4kernel.emulator.checks.hazard import KINDS, Party, Place
from fa4kernel.emulator.checks.records import FREED, Event
from fa4kernel.emulator.checks.reports import cta_number, party
from fa4kernel.emulator.checks.shadow import MIXED, Shadow, runs
from fa4kernel.emulator.machine.convoy import Convoy

if TYPE_CHECKING:
    from fa4kernel.emulator.checks.state import State


class LifetimeChecks:
    """The ends of CTAs.

    Attributes:
        ended: bool, by CTA.
        arrivals: for each row of barriers the last arrivals from outside the CTA: the time of each
            warp of the cluster acting whole, acting by a lone lane, and its count of commits.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self.machine = state.machine
        self.ended = np.zeros(self.machine.shape.ctas, np.bool_)
        self.arrivals = np.zeros((1, 3 * state.clocks.units), np.int32)

    def arrived(self, rows: Index, columns: Index, times: Ints | Index) -> None:
        """Arrivals from outside, that the CTA must see before it ends."""
        if int(rows.max()) >= len(self.arrivals):
            more = int(rows.max()) + 64 - len(self.arrivals)
            self.arrivals = np.pad(self.arrivals, ((0, more), (0, 0)))
        self.arrivals[rows, columns] = times

    def threads_ended(self, convoy: Convoy) -> None:
        """Threads have ended; look at the CTAs of which none is left."""
        shape, clocks = self.machine.shape, self.state.clocks
        ctas = np.unique(self.machine.ctas_of(convoy.warps()[0]))
        alive = self.machine.alive.reshape(shape.warps, shape.ctas, 32)[:, ctas].any(axis=(0, 2))
        for cta in ctas[~alive]:
            slots = np.arange(shape.warps) * shape.ctas + cta
            known = clocks.known[:, slots].max(axis=(0, 1))
            self._end(int(cta), known, convoy)

    def _end(self, cta: int, known: Ints, convoy: Convoy) -> None:
        state, machine = self.state, self.machine
        code = machine.program.context.function.instructions
        slots, _ = convoy.warps()
        last = slots[machine.ctas_of(slots) == cta][-1:]
        event = state.event(code[min(convoy.pc, len(code) - 1)], last)
        here = party(machine, event, 0)
        number = cta_number(machine, cta)
        if machine.tmem.owner[cta].any():
            (columns,) = np.nonzero(machine.tmem.owner[cta])
            where = Place("tensor", number, int(columns[0]), int(columns[-1]))
            state.reports.add("tmem-leak", KINDS["tmem-leak"][1], None, here, where)
        self._memory(state.shared, cta, known, event)
        self._barriers(cta, known, event)
        self.ended[cta] = True
        record = state.records.add(event, 0, OPEN, mark=FREED)[0]
        state.shared.writer.blocks[cta] = record
        state.shared.reader.blocks[cta] = 0

    def _memory(self, shadow: Shadow, cta: int, known: Ints, event: Event) -> None:
        state, records = self.state, self.state.records
        for layer in (shadow.writer, shadow.reader):
            mixed = np.flatnonzero(layer.blocks[cta] == MIXED)
            blocks = np.repeat(layer.blocks[cta], layer.size).reshape(-1, layer.size)
            blocks[mixed] = layer.pieces[cta].reshape(-1, layer.size)[mixed]
            _, heads, at = runs(blocks.reshape(1, -1))
            while heads.any():
                late = known[records.component[heads]] < records.time[heads]
                for i in np.flatnonzero(late):
                    origin, which = records.origin(int(heads[i]))
                    assert origin is not None
                    if origin.agent == COPY:  # a thread does not end before its own copies
                        continue
                    first = party(self.machine, origin, which)
                    piece = int(at[i])
                    name = state.accesses.regions.name("shared", 4 * piece, 4 * piece + 3)
                    number = cta_number(self.machine, cta)
                    place = Place("shared", number, 4 * piece, 4 * piece + 3, name)
                    state.reports.add(
                        "unfinished-at-exit", KINDS["unfinished-at-exit"][1], first,
                        party(self.machine, event, 0), place,
                    )  # fmt: skip
                heads = records.parent[heads]

    def _barriers(self, cta: int, known: Ints, event: Event) -> None:
        state, slots = self.state, self.machine.barriers.slots
        rows = state.barriers.row[cta * slots : (cta + 1) * slots]
        units = state.clocks.units
        columns = np.zeros(3 * units, np.intp)
        columns[: 2 * units] = np.arange(2 * units)
        columns[2 * units :] = state.tensor.of_unit + 1
        for offset in np.flatnonzero(rows):
            row = int(rows[offset])
            if row >= len(self.arrivals):
                continue
            late = self.arrivals[row] > known[columns]
            for column in np.flatnonzero(late):
                kind = "a commit of" if column >= 2 * units else ""
                shape = self.machine.shape
                unit = int(column) % units
                owner = unit // shape.warps * shape.clusters + cta % shape.clusters
                who = f"{kind} warp {unit % shape.warps} of CTA {cta_number(self.machine, owner)}"
                state.reports.add(
                    "unfinished-at-exit", "a CTA ends while an arrival on its barrier is under way",
                    Party(who.strip(), None, 0), party(self.machine, event, 0),
                    state.barriers.place(row),
                )  # fmt: skip
