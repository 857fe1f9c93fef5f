"""From what a recorder remembers to a `fa4sim.trace.Trace`, whose clock counts ticks.

A warp's time is cut at its waits. A span is what it did from one wait to the next; ``busy`` says
how many of those ticks were its own. Asynchronous units have tracks of their own: ``tma``,
``tma_store``, ``tensor`` and ``cp_async``, from issue to completion.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.errors import source_line
from fa4kernel.emulator.names import Names
from fa4kernel.emulator.tracing.events import WARPS, ArrivalEvent, UnitEvent, WaitEvent
from fa4kernel.emulator.tracing.lives import add_lives
from fa4kernel.emulator.tracing.recorder import Recorder

if TYPE_CHECKING:
    from fa4sim.trace import Trace

Ints = NDArray[np.int64]
#: By how much a function of the kernel's own outweighs others.
OWN = 100_000
#: Span, and the columns by which flows find it: start and end.
Row = tuple[int, int, int]


def build(
    recorder: Recorder, names: Names, lengths: Mapping[int, int], about: Mapping[str, object]
) -> Trace:
    """The trace of a run.

    Args:
        recorder: what it remembers.
        names: of barriers, roles and lines.
        lengths: instructions of each item of the program, by its start.
        about: goes into the trace's ``meta``.
    """
    return Builder(recorder, names, lengths, about).trace


class Builder:
    """Puts a trace together; see the module."""

    def __init__(
        self, recorder: Recorder, names: Names, lengths: Mapping[int, int],
        about: Mapping[str, object],
    ) -> None:  # fmt: skip
        from fa4sim.trace import Trace

        self.recorder = recorder
        self.names = names
        self.lengths = lengths
        self.trace = Trace("ticks", {"made_by": "fa4kernel.emulator", **about})
        if recorder.truncated is not None:
            self.trace.meta["truncated_at_tick"] = recorder.truncated
        self.end = max(
            [step.tick + 1 for step in recorder.steps[-1:]]
            + [wait.start for wait in recorder.waits] + [unit.end for unit in recorder.units] + [0]
        )  # fmt: skip
        for wait in recorder.waits:
            if wait.end == -1:
                wait.end = max(self.end, wait.start)
        self.spans: dict[int, list[Row]] = defaultdict(list)
        self.units: dict[tuple[int, str], list[Row]] = defaultdict(list)
        self._spans()
        self._waits()
        self._arrivals()
        add_lives(self.trace, recorder, names, self.end)

    # --- what ran ----------------------------------------------------------------------------

    def _spans(self) -> None:
        rows = [*self._warp_spans(), *self._unit_spans()]
        rows.sort(key=lambda row: (row[2], row[1]))
        issues: list[tuple[int, UnitEvent]] = []
        for key, op, start, end, busy, unit in rows:
            cta, warp = divmod(key, WARPS)
            alone = unit is not None
            number = self.trace.add(
                "span", sm=cta, cta=cta, role=unit.unit if unit else self.names.role(warp),
                warp=-1 if alone else warp, unit=unit.unit if unit else "issue", op=op,
                start=start, end=end, busy=busy,
            )  # fmt: skip
            if unit is None:
                self.spans[key].append((number, start, end))
            else:
                self.units[cta, unit.unit].append((number, start, end))
                issues.append((number, unit))
        for number, unit in issues:
            source = _at(self.spans.get(unit.key, []), unit.start)
            if source is not None:
                self.trace.add("flow", source=source, target=number, what="issue")

    def _warp_spans(self) -> list[tuple[int, str, int, int, int, UnitEvent | None]]:
        steps = self.recorder.steps
        if not steps:
            return []
        sizes = [len(step.keys) for step in steps]
        keys = np.concatenate([step.keys for step in steps])
        ticks = np.repeat(np.array([step.tick for step in steps]), sizes)
        pcs = np.repeat(np.array([step.pc for step in steps]), sizes)
        order = np.lexsort((ticks, keys))
        keys, ticks, pcs = keys[order], ticks[order], pcs[order]
        ops: dict[str, int] = {}
        places = np.unique(pcs)
        named = [self._op(int(pc)) for pc in places]
        op_of = np.array([ops.setdefault(op, len(ops)) for op, _ in named])
        weight_of = np.array(
            [
                self.lengths.get(int(pc), 1) * weight
                for pc, (_, weight) in zip(places, named, strict=True)
            ]
        )
        at = np.searchsorted(places, pcs)
        texts = list(ops)
        waits: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for wait in self.recorder.waits:
            waits[wait.key].append((wait.start, wait.end))
        rows: list[tuple[int, str, int, int, int, UnitEvent | None]] = []
        edges = np.flatnonzero(np.diff(keys)) + 1
        for mine in np.split(np.arange(len(keys)), edges):
            key = int(keys[mine[0]])
            starts, ends = np.array([(0, 0), *waits[key]], np.int64).T
            cuts = np.searchsorted(starts, ticks[mine], "right") - 1
            going = ticks[mine] >= ends[cuts]  # what polls goes on to wait
            mine, cuts = mine[going], cuts[going]
            if not len(mine):
                continue
            for part in np.split(mine, np.flatnonzero(np.diff(cuts)) + 1):
                share = np.bincount(op_of[at[part]], weight_of[at[part]])
                start, end = int(ticks[part[0]]), int(ticks[part[-1]]) + 1
                rows.append((key, texts[int(share.argmax())], start, end, len(part), None))
        return rows

    def _unit_spans(self) -> list[tuple[int, str, int, int, int, UnitEvent | None]]:
        rows: list[tuple[int, str, int, int, int, UnitEvent | None]] = []
        for unit in self.recorder.units:
            end = max(unit.start + 1, unit.end if unit.end != -1 else self.end)
            op = unit.op if unit.pieces == 1 else f"{unit.op} ×{unit.pieces}"
            rows.append((unit.key, op, unit.start, end, -1, unit))
        return rows

    def _op(self, pc: int) -> tuple[str, int]:
        """What an item is called, and how much that says.

        That is the source function it stands in, best one of the kernel's own file that is not the
        kernel itself, or else its line.
        """
        code = self.names.function.instructions
        if pc >= len(code):
            return "end", 1
        instruction = code[pc]
        place = self.names.location(instruction)
        found = self.names.function_of(instruction)
        if found and place is not None:
            home, kernel = self.names.home
            sure = place is instruction.location and place.file == home and found != kernel
            return found, OWN if sure else 1
        return source_line(place) if place is not None else f"PTX line {instruction.line}", 1

    # --- barriers ----------------------------------------------------------------------------

    def _barrier(self, event: WaitEvent | ArrivalEvent) -> tuple[str, int]:
        if event.what == "mbarrier":
            return self.names.mbarrier_parts(event.place)
        if event.what == "named":
            found = self.names.named_barriers.get(event.place)
            if event.place in self.names.labels.named:
                return self.names.labels.named[event.place], 0
            if found is None or found.stage is None:
                return self.names.named_barrier(event.place), 0
            return found.family, found.stage
        return ("cluster barrier", 0) if event.what == "cluster" else (event.what, -1)

    def _waits(self) -> None:
        completing: dict[tuple[str, int, int, int], ArrivalEvent] = {}
        for arrival in self.recorder.arrivals:
            completing[arrival.what, arrival.owner, arrival.place, arrival.phase] = arrival
        for wait in self.recorder.waits:
            cta, warp = divmod(wait.key, WARPS)
            name, stage = self._barrier(wait)
            place = self.names.location(wait.instruction)
            line = f"PTX line {wait.instruction.line}"
            row = self.trace.add(
                "wait", sm=cta, cta=cta, role=self.names.role(warp), warp=warp, on=name,
                kind="unit" if wait.place < 0 else "barrier", stage=stage, phase=wait.phase,
                reason=source_line(place) if place is not None else line,
                start=wait.start, end=wait.end, span=-1,
            )  # fmt: skip
            del row
            cause = completing.get((wait.what, wait.owner, wait.place, wait.phase - 1))
            if cause is not None and cause.tick < wait.end:
                self._flow(cause, wait, name)

    def _flow(self, cause: ArrivalEvent, wait: WaitEvent, name: str) -> None:
        """From what completed a phase to what the warp that waited for it did next."""
        target = _after(self.spans.get(wait.key, []), wait.end)
        if cause.unit:
            track = self.units.get((cause.key // WARPS, cause.unit), [])
            source = _before(track, cause.tick + 1)
        else:
            source = _at(self.spans.get(cause.key, []), cause.tick)
        if source is not None and target is not None and source != target:
            self.trace.add("flow", source=source, target=target, what=name)

    def _arrivals(self) -> None:
        for event in self.recorder.arrivals:
            name, stage = self._barrier(event)
            known = event.key >= 0
            cta, warp = divmod(event.key, WARPS) if known else (-1, -1)
            by = event.unit or (self.names.role(warp) if known else "")
            self.trace.add(
                "arrive", sm=event.owner, cta=event.owner, barrier=name, stage=stage,
                phase=event.phase, count=event.count, tx_bytes=event.bytes, by=by, from_cta=cta,
                warp=-1 if event.unit else warp, time=event.tick,
            )  # fmt: skip


def _at(rows: list[Row], tick: int) -> int | None:
    """The span of a track that holds a tick; of several, the last that began."""
    held = [number for number, start, end in _around(rows, tick) if start <= tick < end]
    return held[-1] if held else None


def _after(rows: list[Row], tick: int) -> int | None:
    """The first span of a track that begins at a tick or later."""
    starts = [start for _, start, _ in rows]
    at = int(np.searchsorted(starts, tick))
    return rows[at][0] if at < len(rows) else None


def _before(rows: list[Row], tick: int) -> int | None:
    """The last span of a track that has ended at a tick."""
    ended = [row for row in rows if row[2] <= tick]
    return max(ended, key=lambda row: (row[2], row[1]))[0] if ended else None


def _around(rows: list[Row], tick: int) -> list[Row]:
    """Spans of a warp, which follow one another, that may hold a tick."""
    at = int(np.searchsorted([start for _, start, _ in rows], tick, "right"))
    return rows[max(0, at - 1) : at]
