"""Perfetto traces read back: what the tests compare with the trace that was written."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fa4sim.trace import NONE
from fa4sim.views.perfetto import COUNTER, INSTANT, SLICE_BEGIN, SLICE_END, UNIT_BYTES


@dataclass(frozen=True)
class PerfettoSlice:
    """A slice as read: its track's path from the top, name, category, times in ns, arguments."""

    track: tuple[str, ...]
    name: str
    category: str
    start: int
    end: int
    args: Mapping[str, int | str]
    depth: int = 0


@dataclass
class PerfettoTrace:
    """What :func:`read_perfetto` found.

    ``tracks`` are paths of names from the top; ``flows`` pairs of numbers of ``slices``, source
    and target; ``counters`` maps a track's path to its (time in ns, value) pairs; ``units`` to
    what it counts; ``about`` is what the trace says of itself.
    """

    tracks: list[tuple[str, ...]] = field(default_factory=list)
    slices: list[PerfettoSlice] = field(default_factory=list)
    flows: list[tuple[int, int]] = field(default_factory=list)
    counters: dict[tuple[str, ...], list[tuple[int, int]]] = field(default_factory=dict)
    units: dict[tuple[str, ...], str] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)


def read_perfetto(path: str | os.PathLike[str]) -> PerfettoTrace:
    """Read a trace that :func:`write_perfetto` wrote, with Perfetto's own message classes.

    Raises ``ValueError`` if the file is no such trace (slices that end without having begun or
    never end, unknown tracks or strings), ``ImportError`` naming the extra to install without
    the ``perfetto`` package.
    """
    try:
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos
    except ImportError as error:
        raise ImportError("reading needs perfetto: pip install 'fa4sim[viz]'") from error
    message = protos.Trace()
    try:
        message.ParseFromString(Path(path).read_bytes())
    except DecodeError as error:
        raise ValueError(f"{os.fspath(path)!r} is not a Perfetto trace: {error}") from None
    try:
        return _Reader(message).read()
    except (KeyError, IndexError) as error:
        raise ValueError(f"{os.fspath(path)!r} is not a trace of fa4sim: {error}") from None


class _Reader:
    """Follows the packets of a trace in their order."""

    def __init__(self, message: Any) -> None:
        self.message = message
        self.found = PerfettoTrace()
        self.paths: dict[int, tuple[str, ...]] = {}
        self.strings: dict[str, dict[int, str]] = {}
        self.open: dict[int, list[int]] = defaultdict(list)
        self.begun: dict[int, int] = {}
        self.ended: dict[int, int] = {}

    def read(self) -> PerfettoTrace:
        found = self.found
        for packet in self.message.packet:
            if packet.HasField("interned_data"):
                self.intern(packet.interned_data)
            if packet.HasField("track_descriptor"):
                self.track(packet.track_descriptor)
            if packet.HasField("track_event"):
                self.event(int(packet.timestamp), packet.track_event)
        for track, rows in self.open.items():
            if rows:
                names = [found.slices[row].name for row in rows]
                raise KeyError(f"{names} on {self.paths[track]} never end")
        if set(self.begun) != set(self.ended):
            raise KeyError("a flow has only one end")
        found.flows = sorted((self.begun[flow], self.ended[flow]) for flow in self.begun)
        return found

    def intern(self, data: Any) -> None:
        for kind in ("event_categories", "event_names", "debug_annotation_names"):
            self.strings[kind] = {entry.iid: entry.name for entry in getattr(data, kind)}
        self.strings["values"] = {
            entry.iid: entry.str.decode() for entry in data.debug_annotation_string_values
        }

    def track(self, track: Any) -> None:
        above = self.paths[track.parent_uuid] if track.parent_uuid else ()
        path = self.paths[track.uuid] = (*above, track.name)
        self.found.tracks.append(path)
        if track.HasField("counter"):
            self.found.counters[path] = []
            self.found.units[path] = track.counter.unit_name or (
                "bytes" if track.counter.unit == UNIT_BYTES else ""
            )

    def event(self, time: int, event: Any) -> None:
        found, path = self.found, self.paths[event.track_uuid]
        if event.type == COUNTER:
            found.counters[path].append((time, int(event.counter_value)))
        elif event.type == INSTANT:
            found.about.update({key: str(value) for key, value in self.args(event).items()})
        elif event.type == SLICE_BEGIN:
            depth = len(self.open[event.track_uuid])
            self.open[event.track_uuid].append(len(found.slices))
            for flow in event.flow_ids:
                self.begun[flow] = len(found.slices)
            for flow in event.terminating_flow_ids:
                self.ended[flow] = len(found.slices)
            name = self.strings["event_names"][event.name_iid]
            category = self.strings["event_categories"][event.category_iids[0]]
            found.slices.append(
                PerfettoSlice(path, name, category, time, NONE, self.args(event), depth)
            )
        elif event.type == SLICE_END:
            row = self.open[event.track_uuid].pop()
            found.slices[row] = replace(found.slices[row], end=time)

    def args(self, event: Any) -> dict[str, int | str]:
        args: dict[str, int | str] = {}
        for note in event.debug_annotations:
            key = self.strings["debug_annotation_names"][note.name_iid]
            if note.HasField("int_value"):
                args[key] = int(note.int_value)
            elif note.HasField("string_value"):
                args[key] = str(note.string_value)
            else:
                args[key] = self.strings["values"][note.string_value_iid]
        return args
