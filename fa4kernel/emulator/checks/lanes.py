"""Lanes that read what another lane of their warp has written, with nothing to order the two.

The clocks take a warp as one (see :mod:`clocks`), so this is looked at beside them: each piece of
shared memory remembers which lane wrote it last, and when its warp had last synchronised. Of an
access of less than 4 bytes nobody knows which part of a piece it is, of an atomic or volatile one
there is nothing to say, and pieces that several lanes write at the same time hold what each of them
wrote, if they are not wrong already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fa4kernel.emulator.checks.clocks import Index
from fa4kernel.emulator.checks.hazard import Place
from fa4kernel.emulator.checks.records import Event
from fa4kernel.emulator.checks.reports import cta_number, party
from fa4kernel.emulator.checks.shadow import Ids, Pieces

if TYPE_CHECKING:
    from fa4kernel.emulator.checks.state import State

#: In place of a lane, which are counted from 1: not one lane alone.
NOBODY = 0


class LaneChecks:
    """Loads held against the last stores of single lanes.

    Attributes:
        lane: by piece of shared memory, which lane of the machine wrote it last, counted from 1.
        record: the number of that write; where memory remembers another, it is not the last.
        epoch: how often the lane's warp had synchronised.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        pieces = state.shared.writer.pieces.size
        self.lane = np.zeros(pieces, np.int32)
        self.record = np.zeros(pieces, np.int32)
        self.epoch = np.zeros(pieces, np.int32)

    def wrote(self, lanes: Index, index: Index) -> None:
        """Lanes have stored to these pieces.

        Args:
            lanes: numbers in the machine.
            index: pieces, a row for each lane.
        """
        self.lane[index] = lanes[:, None] + 1
        self.lane[index[self.lane[index] != lanes[:, None] + 1]] = NOBODY
        self.record[index] = Pieces(index).get(self.state.shared.writer)
        self.epoch[index] = self.state.clocks.epoch[lanes // 32][:, None]

    def reads(self, lanes: Index, index: Index, event: Event) -> None:
        """Lanes load from these pieces; ``event`` has one row for each warp or lane, in order."""
        writers = self.lane[index] - 1
        others = (writers != lanes[:, None]) & (writers // 32 == (lanes // 32)[:, None])
        if not others.any():
            return
        others &= self.epoch[index] == self.state.clocks.epoch[lanes // 32][:, None]
        others &= self.record[index] == Pieces(index).get(self.state.shared.writer)
        rows, columns = np.nonzero(others)
        if len(rows):
            self._tell(lanes, index, event, self.record[index[rows, columns]], rows, columns)

    def _tell(
        self, lanes: Index, index: Index, event: Event, records: Ids, rows: Index, columns: Index
    ) -> None:
        """Once for each instruction that wrote."""
        state = self.state
        _, first, counts = np.unique(
            state.records.events(records), return_index=True, return_counts=True
        )
        for i, count in zip(first, counts, strict=True):
            row, piece = int(rows[i]), int(index[rows[i], columns[i]])
            written, which = state.records.origin(int(records[i]))
            assert written is not None
            cta, at = divmod(piece, state.shared.size)
            name = state.accesses.regions.name("shared", 4 * at, 4 * at + 3)
            place = Place("shared", cta_number(state.machine, cta), 4 * at, 4 * at + 3, name)
            one, other = int(lanes[row]) % 32, int(self.lane[piece] - 1) % 32
            warp = int(np.flatnonzero(event.slots == lanes[row] // 32)[0])
            state.reports.add(
                "lane-race",
                f"lane {one} reads what lane {other} wrote, with no bar.warp.sync between",
                party(state.machine, written, which), party(state.machine, event, warp), place,
                int(count),
            )  # fmt: skip
