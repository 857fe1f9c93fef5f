"""Reads and writes held against what memory remembers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.checks.clocks import OPEN, Clocks, Index
from fa4kernel.emulator.checks.footprints import COLUMNS
from fa4kernel.emulator.checks.hazard import Place
from fa4kernel.emulator.checks.records import BLANK, FREED, UNWAITED, Event, Records
from fa4kernel.emulator.checks.regions import Regions
from fa4kernel.emulator.checks.reports import Reports, cta_number, party
from fa4kernel.emulator.checks.sentences import harmless, sentence
from fa4kernel.emulator.checks.shadow import Ids, Region, Shadow, runs

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

#: No readers.
NOBODY: Ids = np.zeros((1, 1), np.int32)
#: How an event of ``cp.async`` calls itself, and one of an MMA.
COPY, MMA = "cp.async copy", "MMA"
#: Kinds of reports about an earlier write.
WRITES_BEFORE = ("read-before-write", "overwrite-while-written")

Flags = NDArray[np.bool_]


@dataclass(slots=True)
class Actor:
    """Who accesses memory now, a row for each party.

    Attributes:
        event: instruction, tick, warps.
        part: whose clock counts, see :mod:`clocks`; one for all or one for each.
        records: numbers under which memory remembers the access.
        own: a component each party knows all about (MMAs that it issued before), if any.
        proxied: whether earlier generic writes must be known through a proxy fence.
    """

    event: Event
    part: Any
    records: Ids
    own: Any = None
    proxied: bool = False


class Accesses:
    """Checks reads and writes, and remembers them.

    Args:
        machine: for names.
        clocks, records, reports: what is known, remembered, told.
        strict: whether to tell of every read of something that nobody has written.
    """

    def __init__(
        self, machine: Machine, clocks: Clocks, records: Records, reports: Reports, strict: bool
    ) -> None:
        self.machine = machine
        self.clocks = clocks
        self.records = records
        self.reports = reports
        self.strict = strict
        self.regions = Regions(machine)

    def read(self, shadow: Shadow, region: Region, actor: Actor, initialised: bool = True) -> None:
        """A read: the last write must be known.

        Args:
            initialised: whether it is an error if nobody has written there.
        """
        records = self.records
        ids = region.get(shadow.writer)
        rows, heads, at = runs(ids)
        width = ids.shape[1]
        self._unwritten(shadow, region, actor, rows, heads, at, width, initialised)
        bad = self._unknown(actor, rows, heads, actor.proxied)
        if bad.any():
            self._tell("read-before-write", shadow, region, actor, rows, heads, at, width, bad)
        old = region.get(shadow.reader)
        rows, heads, at = runs(old)
        kept = heads.copy()
        while True:  # earlier readers that this one knows of need not be remembered
            over = (kept != 0) & ~self._unknown(actor, rows, kept, False)
            if not over.any():
                break
            kept[over] = records.parent[kept[over]]
        new = actor.records[rows]
        more = np.flatnonzero(kept)
        if not len(more):
            region.put(shadow.reader, actor.records[:, None])
            return
        before, mine = kept[more], new[more]
        time = records.time[mine]
        same = records.component[before] == records.component[mine]
        same &= (records.time[before] == time) & (time != OPEN)  # two under way are two
        new[more[same]] = before[same]
        more, mine = more[~same], mine[~same]
        if len(more):
            slots = actor.event.slots[rows[more]]
            event = Event(actor.event.instruction, actor.event.tick, slots, actor.event.agent,
                          actor.event.strong, actor.event.size)  # fmt: skip
            new[more] = records.chained(event, mine, kept[more])
        lengths = np.diff(np.append(at, old.size))
        region.put(shadow.reader, np.repeat(new, lengths).reshape(old.shape))

    def write(self, shadow: Shadow, region: Region, actor: Actor, reading: bool = False) -> None:
        """A write: the last write and all reads since must be known.

        Args:
            reading: whether it also reads what is there before.
        """
        ids = region.get(shadow.writer)
        rows, heads, at = runs(ids)
        width = ids.shape[1]
        self._unwritten(shadow, region, actor, rows, heads, at, width, reading)
        bad = self._unknown(actor, rows, heads, actor.proxied)
        if bad.any():
            kind = "overwrite-while-written"
            self._tell(kind, shadow, region, actor, rows, heads, at, width, bad)
        ids = region.get(shadow.reader)
        rows, heads, at = runs(ids)
        width = ids.shape[1]
        while heads.any():
            bad = self._unknown(actor, rows, heads, False)
            if bad.any():
                kind = "overwrite-while-read"
                self._tell(kind, shadow, region, actor, rows, heads, at, width, bad)
            if self.strict:
                unwaited = self.records.mark[heads] == UNWAITED
                if unwaited.any():
                    kind = "tmem-load-unwaited"
                    self._tell(kind, shadow, region, actor, rows, heads, at, width, unwaited)
            heads = self.records.parent[heads]
        region.put(shadow.writer, actor.records[:, None])
        region.put(shadow.reader, NOBODY)
        if len(actor.records) > 1:
            self._together(shadow, region, actor)

    def _together(self, shadow: Shadow, region: Region, actor: Actor) -> None:
        """Parties of one event that write the same, as warps in step may."""
        rows, heads, at = runs(ids := region.get(shadow.writer))
        bad = heads != actor.records[rows]
        if bad.any():
            kind, width = "overwrite-while-written", ids.shape[1]
            self._tell(kind, shadow, region, actor, rows, heads, at, width, bad)

    def _unknown(self, actor: Actor, rows: Index, ids: Ids, proxied: bool) -> Flags:
        records = self.records
        components = (records.seen if proxied else records.component)[ids]
        part = actor.part if not isinstance(actor.part, np.ndarray) else actor.part[rows]
        slots = actor.event.slots[rows]
        bad: Flags = self.clocks.known[part, slots, components] < records.time[ids]
        if actor.own is not None and not self.strict:
            bad &= records.component[ids] != actor.own[rows]
        return bad

    def _unwritten(
        self, shadow: Shadow, region: Region, actor: Actor, rows: Index, heads: Ids, at: Index,
        width: int, reading: bool,
    ) -> None:  # fmt: skip
        marks = self.records.mark[heads]
        if shadow.space == "tensor":
            bad = (heads == 0) | (marks == FREED)
            if bad.any():
                self._tell("tmem-unallocated", shadow, region, actor, rows, heads, at, width, bad)
        elif (marks == FREED).any():
            bad = marks == FREED
            self._tell("used-after-exit", shadow, region, actor, rows, heads, at, width, bad)
        if not reading:
            return
        unwritten = (heads == 0) if shadow.space == "shared" else (marks == BLANK)
        if unwritten.any():
            # kernels do read more than they need, and drop it: nothing at all is another matter
            some = np.zeros(len(actor.event.slots), np.bool_)
            some[rows[~unwritten]] = True
            bad = unwritten & ~some[rows]
            if shadow.space == "shared" and not actor.event.agent:
                bad[:] = False
            if bad.any():
                self._tell("uninitialised-read", shadow, region, actor, rows, heads, at, width, bad)
            bad = unwritten & ~bad
            if self.strict and bad.any():
                self._tell("uninitialised-load", shadow, region, actor, rows, heads, at, width, bad)

    def _tell(
        self, kind: str, shadow: Shadow, region: Region, actor: Actor, rows: Index, heads: Ids,
        at: Index, width: int, bad: Flags,
    ) -> None:  # fmt: skip
        ends = np.append(at, len(actor.event.slots) * width)[1:]
        chosen = np.flatnonzero(bad)
        _, first_of, counts = np.unique(
            self.records.events(heads[chosen]), return_index=True, return_counts=True
        )
        for i, count in zip(chosen[first_of], counts, strict=True):
            row, number = int(rows[i]), int(heads[i])
            event, which = self.records.origin(number)
            if event is not None and harmless(event, actor.event):
                continue
            what = kind
            if actor.own is not None and self.records.component[number] == actor.own[row]:
                assert event is not None
                if event.into == actor.event.into:  # the manual promises their order
                    continue
                what = "mma-order"
            if event is not None and actor.proxied and kind in WRITES_BEFORE:
                what = self._proxy(actor, row, number, kind, event)
            first = None if event is None else party(self.machine, event, which)
            second = party(self.machine, actor.event, row)
            place = self._place(shadow, region, row, int(at[i]), int(ends[i]), width)
            message = sentence(what, event, actor.event)
            self.reports.add(what, message, first, second, place, int(count))

    def _proxy(self, actor: Actor, row: int, number: int, kind: str, first: Event) -> str:
        """A write that is known, but not through a proxy fence, lacks only that."""
        if self._unknown(actor, np.array([row]), np.array([number]), False)[0]:
            return kind
        return "copy-proxy-fence" if first.agent == COPY else "missing-proxy-fence"

    def _place(
        self, shadow: Shadow, region: Region, row: int, start: int, end: int, width: int
    ) -> Place:
        first, last = start - row * width, min(end, (row + 1) * width) - 1 - row * width
        low, high = region.pieces(row, first, last, width, shadow.block)
        low, high = min(low, high), max(low, high)
        number = cta_number(self.machine, low // shadow.size)
        low, high = low % shadow.size, high % shadow.size
        if shadow.space == "shared":
            first, last = 4 * low, 4 * high + 3
        else:
            first, last = low % COLUMNS, high % COLUMNS
        name = self.regions.name(shadow.space, first, last)
        return Place(shadow.space, number, first, last, name)
