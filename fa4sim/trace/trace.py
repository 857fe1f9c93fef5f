"""The trace: six tables, a shared string list, and the repeats that keep it small.

A steady pipeline does the same thing over and over. A run that has proved that its whole state
repeats records one period and a :class:`Repeat` instead of all of them; :meth:`Trace.expand`
writes them out. Reading a compact trace's tables directly shows the recorded period only, which
is why everything that looks at time goes through ``expand`` or :meth:`Trace.weights`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fa4sim.trace.table import NONE, Ints, Table

SCHEMA = 1

#: ``cycles`` for the simulator, ``ticks`` for the emulator (order, not time), ``ns`` for a GPU.
CLOCKS = ("cycles", "ticks", "ns")

#: Units whose spans say when a tile has landed: the TMA engine, and the path of cp.async.
RECEIVERS = ("tma", "cp_async")

#: Columns of every table. Times are integers of ``Trace.clock``; ``end`` is exclusive.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    # What ran, from start to end. ``busy`` is how many of those units of time the unit worked
    # for this span; the rest of the span was queueing for that unit.
    "span": (
        *("sm", "cta", "role", "warp", "unit", "op", "start", "end"),
        *("tile", "block", "stage", "parent", "busy"),
    ),
    # Why something stood still. ``on`` names the barrier or unit; ``kind`` says which it is.
    # ``phase`` is how many phases of the barrier must have completed: 0 passes at once.
    "wait": (
        *("sm", "cta", "role", "warp", "on", "kind", "stage", "phase", "reason"),
        *("start", "end", "tile", "block", "span"),
    ),
    # An arrival on a barrier: ``count`` arrivals and ``tx_bytes`` transaction bytes. ``phase`` is
    # how many phases have completed before it, so the last one of phase 0 ends waits for 1.
    # ``cta`` owns the barrier; the arrival comes from ``from_cta``, perhaps the other of a pair.
    "arrive": (
        *("sm", "cta", "barrier", "stage", "phase", "count", "tx_bytes"),
        *("by", "from_cta", "warp", "time"),
    ),
    # Where a tile lived: a slot of a ring, a range of TMEM columns, registers, global memory.
    "life": (
        *("sm", "cta", "tensor", "tile", "block", "stage", "space", "slot"),
        *("birth", "first_use", "last_use", "death"),
    ),
    # Producer to consumer, by span number.
    "flow": ("source", "target", "what"),
    # A value from ``time`` on. ``busy:mufu``, ``busy:fma``, … count the cycles that a CTA's unit
    # has worked so far; of units that each sub-partition has, all four together.
    "counter": ("sm", "cta", "name", "time", "value"),
}

#: Which columns hold text (as codes of the shared string list).
TEXT_COLUMNS: Mapping[str, frozenset[str]] = {
    "span": frozenset({"role", "unit", "op"}),
    "wait": frozenset({"role", "on", "kind", "reason"}),
    "arrive": frozenset({"barrier", "by"}),
    "life": frozenset({"tensor", "space", "slot"}),
    "flow": frozenset({"what"}),
    "counter": frozenset({"name"}),
}

_TIMES = {
    "span": ("start", "end"),
    "wait": ("start", "end"),
    "arrive": ("time",),
    "life": ("birth", "first_use", "last_use", "death"),
    "flow": (),
    "counter": ("time",),
}
#: The column that says whether a row's stage is a slot of the ring.
_RINGS = {"span": "op", "wait": "on", "arrive": "barrier", "life": "tensor"}
_REFERENCES = {"span": ("parent",), "wait": ("span",), "flow": ("source", "target")}
_PHASES = {
    "wait": ("cta", "on", "stage", "phase"),
    "arrive": ("cta", "barrier", "stage", "phase"),
}


@dataclass(frozen=True)
class Ring:
    """A ring of slots through which a steady pipeline moves: ``step`` slots per period.

    ``codes`` are the ops, barriers and tensors whose stage is a slot; ``names`` the codes of the
    slots' own names. If several rings of as many slots turn together, their names follow each
    other.
    """

    slots: int
    step: int
    codes: frozenset[int]
    names: tuple[int, ...]


@dataclass(frozen=True)
class Repeat:
    """``times`` further copies of the rows recorded in ``[first, last)`` of each table.

    Copy ``i`` (1 … times) is shifted by ``i * cycles`` in time, ``i * blocks`` in the block
    column and ``i * tiles`` in the tile column; everything recorded after ``last`` is already
    in shifted time. ``phases`` maps (CTA, barrier code, stage) to how many phases a period adds.
    ``ring`` says what moves on through a ring of slots instead of coming back to the same one.
    ``grows`` maps (CTA, counter code) to what a period adds to counters that only ever grow.
    """

    first: Mapping[str, int]
    last: Mapping[str, int]
    times: int
    cycles: int
    blocks: int = 0
    tiles: int = 0
    phases: Mapping[tuple[int, int, int], int] = field(default_factory=dict)
    ring: Ring | None = None
    grows: Mapping[tuple[int, int], int] = field(default_factory=dict)


class Trace:
    """What happened in a run: spans, waits, arrivals, lives, flows and counters.

    ``clock`` is one of :data:`CLOCKS`; ``meta`` holds strings and numbers that describe the run.
    Hot code appends whole tuples with ``trace.append[table](row)`` in the order of
    :data:`COLUMNS`, text columns as codes from :meth:`code`; everyone else uses :meth:`add`.

    A trace of a long or a whole-GPU run is folded: stretches that repeat are recorded once, and
    ``len(trace.span)`` counts them once. ``trace.expand()`` has every row; ``weights`` says how
    often each recorded one happened.

    Raises ``ValueError`` for an unknown clock.
    """

    def __init__(self, clock: str = "cycles", meta: Mapping[str, object] | None = None) -> None:
        if clock not in CLOCKS:
            raise ValueError(f"clock {clock!r} is not known; use one of {', '.join(CLOCKS)}")
        self.clock = clock
        self.meta: dict[str, object] = dict(meta or {})
        self.strings: list[str] = []
        self._codes: dict[str, int] = {}
        self._data = {table: array("q") for table in COLUMNS}
        #: ``append["span"]((sm, cta, role_code, …))``: adds one row, all columns, as integers.
        self.append = {table: data.extend for table, data in self._data.items()}
        self.repeats: list[Repeat] = []

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {size:,}" for name, size in self.sizes().items() if size)
        folded = ""
        if self.repeats:
            folded = f"; folded ({len(self.repeats)} repeats), expand() writes every row out"
        return f"<Trace in {self.clock}: {sizes or 'empty'}{folded}>"

    # -- writing -------------------------------------------------------------------------------

    def code(self, text: str) -> int:
        """The integer that stands for ``text`` in this trace's text columns."""
        code = self._codes.get(text)
        if code is None:
            code = self._codes[text] = len(self.strings)
            self.strings.append(text)
        return code

    def add(self, table: str, **values: int | str) -> int:
        """Append one row by column name and return its row number; the rest is ``NONE``."""
        if table not in COLUMNS:
            raise KeyError(f"a trace has no table {table!r}; it has {', '.join(COLUMNS)}")
        unknown = set(values) - set(COLUMNS[table])
        if unknown:
            raise KeyError(f"table {table!r} has no column {sorted(unknown)[0]!r}")
        row = []
        for column in COLUMNS[table]:
            value = values.get(column, NONE)
            row.append(self.code(value) if isinstance(value, str) else int(value))
        self.append[table](row)
        return self.size(table) - 1

    def size(self, table: str) -> int:
        """How many rows ``table`` holds, repeats not counted."""
        return len(self._data[table]) // len(COLUMNS[table])

    def sizes(self) -> dict[str, int]:
        """:meth:`size` of every table."""
        return {table: self.size(table) for table in COLUMNS}

    # -- reading -------------------------------------------------------------------------------

    def table(self, name: str) -> Table:
        """The recorded rows of one table (of a compact trace: without the repeated copies)."""
        width = len(COLUMNS[name])
        rows = np.array(self._data[name], dtype=np.int64).reshape(-1, width)
        return Table(
            name, COLUMNS[name], TEXT_COLUMNS[name], rows, self.strings, folded=bool(self.repeats)
        )

    @property
    def span(self) -> Table:
        """What ran."""
        return self.table("span")

    @property
    def wait(self) -> Table:
        """What stood still, and why."""
        return self.table("wait")

    @property
    def arrive(self) -> Table:
        """Arrivals on barriers."""
        return self.table("arrive")

    @property
    def life(self) -> Table:
        """Where tiles lived."""
        return self.table("life")

    @property
    def flow(self) -> Table:
        """Producer to consumer."""
        return self.table("flow")

    @property
    def counter(self) -> Table:
        """Values over time."""
        return self.table("counter")

    @property
    def end(self) -> int:
        """The last moment anything is recorded at; 0 for an empty trace."""
        ends = [0]
        for table, columns in _TIMES.items():
            if columns and self.size(table):
                ends.append(int(self.table(table)[columns[-1]].max()))
        return max(ends)

    def weights(self, table: str) -> Ints:
        """How often each recorded row happened: 1, or 1 + the copies of the repeats it is in.

        Shape ``(size(table),)``. Sums over a compact trace weighted by this equal sums over the
        expanded one.
        """
        weight = np.ones(self.size(table), dtype=np.int64)
        for repeat in self.repeats:
            weight[repeat.first[table] : repeat.last[table]] *= 1 + repeat.times
        return weight

    def expand(self) -> Trace:
        """The same trace with every repeat written out; itself if there are none."""
        if not self.repeats:
            return self
        whole = Trace(self.clock, self.meta)
        whole.strings = list(self.strings)
        whole._codes = dict(self._codes)
        rows = {name: self.table(name).array.copy() for name in COLUMNS}
        # In the order of recording: a repeat of whole tiles comes after those inside the tiles.
        grown: dict[str, list[tuple[int, int]]] = {name: [] for name in COLUMNS}
        for repeat in self.repeats:
            rows = _write_out(rows, repeat, grown)
        for name, data in rows.items():
            whole._data[name].frombytes(np.ascontiguousarray(data).tobytes())
        return whole

    def window(self, start: int | None = None, end: int | None = None) -> Trace:
        """The expanded rows that touch ``[start, end)``, as a trace of its own.

        Spans keep their meaning but not their numbers: references are renumbered, and a flow is
        kept only when both of its spans are.
        """
        whole = self.expand()
        low = 0 if start is None else start
        high = whole.end + 1 if end is None else end
        if high <= low:
            raise ValueError(f"the window from {low} to {high} is empty; give --from below --to")

        def touches(name: str, table: Table) -> NDArray[np.bool_]:
            times = _TIMES[name]
            return (table[times[0]] < high) & (table[times[-1]] >= low)

        return whole._part(touches)

    def of_sms(self, sms: int) -> Trace:
        """The expanded rows of the first ``sms`` SMs, as a trace of its own; see :meth:`window`.

        Raises ``ValueError`` for less than one.
        """
        if sms < 1:
            raise ValueError(f"sms={sms!r} must be at least 1: a trace of no SM is empty")
        whole = self.expand()
        there = np.unique(np.concatenate([whole.span["sm"], whole.wait["sm"]]))[:sms]
        return whole._part(lambda _name, table: np.isin(table["sm"], there))

    def _part(self, keep_of: Callable[[str, Table], NDArray[np.bool_]]) -> Trace:
        """The rows that ``keep_of`` picks by table, with references renumbered."""
        whole = self
        part = Trace(self.clock, self.meta)
        part.strings = list(whole.strings)
        part._codes = dict(whole._codes)
        number = np.full(whole.size("span") + 1, NONE, dtype=np.int64)
        for name in ("span", "wait", "arrive", "life", "counter", "flow"):
            table = whole.table(name)
            rows = table.array
            if name == "flow":
                keep = (number[table["source"]] != NONE) & (number[table["target"]] != NONE)
            else:
                keep = keep_of(name, table)
                if name == "span":
                    number[:-1][keep] = np.arange(int(keep.sum()))
            rows = rows[keep].copy()
            for column in _REFERENCES.get(name, ()):
                at = COLUMNS[name].index(column)
                rows[:, at] = number[rows[:, at]]
            part._data[name].frombytes(np.ascontiguousarray(rows).tobytes())
        return part


def _write_out(
    rows: dict[str, Ints], repeat: Repeat, grown: dict[str, list[tuple[int, int]]]
) -> dict[str, Ints]:
    """Insert the copies of one repeat behind its recorded period, in every table.

    ``grown`` lists what was inserted so far, as (recorded row number, rows inserted there).
    """

    def place(name: str, row: int) -> int:
        return row + sum(count for at, count in grown[name] if at <= row)

    per_period = place("span", repeat.last["span"]) - place("span", repeat.first["span"])
    out = {}
    for name, data in rows.items():
        first, last = place(name, repeat.first[name]), place(name, repeat.last[name])
        head = data[:last]
        body = data[first:last]
        tail = data[last:].copy()
        index = {column: i for i, column in enumerate(COLUMNS[name])}
        copy = np.repeat(np.arange(1, repeat.times + 1, dtype=np.int64), len(body))
        copies = np.tile(body, (repeat.times, 1))
        for column in _TIMES[name]:
            _shift(copies, index[column], copy * repeat.cycles)
        for column, step in (("block", repeat.blocks), ("tile", repeat.tiles)):
            if step and column in index:
                _shift(copies, index[column], copy * step)
        for column in _REFERENCES.get(name, ()):
            # What was recorded before the period keeps its number; what lies in the period and is
            # still meant behind it is that of the last copy.
            least = place("span", repeat.first["span"])
            for rows_behind, copies_before in ((copies, copy), (tail, repeat.times)):
                inside = rows_behind[:, index[column]] >= least
                moved = rows_behind[:, index[column]] + copies_before * per_period
                rows_behind[:, index[column]] = np.where(
                    inside, moved, rows_behind[:, index[column]]
                )
        if repeat.ring is not None and name in _RINGS:
            _rotate(copies, copy, repeat.ring, name, index)
        if name in _PHASES and repeat.phases:
            *where, phase = (index[column] for column in _PHASES[name])
            per_row = np.array(
                [repeat.phases.get((c, b, s), 0) for c, b, s in body[:, where].tolist()],
                dtype=np.int64,
            )
            _shift(copies, phase, copy * np.tile(per_row, repeat.times))
        if name == "counter" and repeat.grows:
            growth = [repeat.grows.get((c, n), 0) for c, n in body[:, 1:3].tolist()]
            per_copy = np.tile(np.array(growth, dtype=np.int64), repeat.times)
            _shift(copies, index["value"], copy * per_copy)
        out[name] = np.concatenate((head, copies, tail))
    for name, copied in out.items():
        grown[name].append((repeat.last[name], len(copied) - len(rows[name])))
    return out


def _rotate(copies: Ints, copy: Ints, ring: Ring, name: str, index: Mapping[str, int]) -> None:
    """Move slots on in place; where a slot comes round again its phase grows."""
    stage = index["stage"]
    moving = np.isin(copies[:, index[_RINGS[name]]], list(ring.codes)) & (copies[:, stage] != NONE)
    moved = copies[moving, stage] + copy[moving] * ring.step
    copies[moving, stage] = moved % ring.slots
    if "phase" in index:
        copies[moving, index["phase"]] += moved // ring.slots
    if "slot" in index:
        names = np.array(ring.names, dtype=np.int64)
        which = (copies[moving, index["slot"], None] == names).argmax(axis=1) // ring.slots
        copies[moving, index["slot"]] = names[which * ring.slots + moved % ring.slots]


def _shift(rows: Ints, column: int, by: NDArray[np.int64] | np.int64) -> None:
    """Add ``by`` to a column in place, leaving ``NONE`` alone."""
    values = rows[:, column]
    rows[:, column] = np.where(values == NONE, NONE, values + by)
