"""Traces for the Perfetto viewer (https://ui.perfetto.dev).

Tracks form a tree: SM → CTA → role → warp; each asynchronous unit (tensor pipe, TMA, TMA store)
is a track of its own. What a warp did and what it waited for are slices on its track, with
arguments; flows run from producer to consumer; counters show bytes in flight, ring slots held and
TMEM columns in use.

Perfetto counts nanoseconds. Cycles are converted with the trace's clock and rounded, so every
slice also carries its exact start and length. Ticks, which are no time, are drawn as nanoseconds
and labelled as ticks.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fa4sim.trace import NONE, Trace
from fa4sim.views import wire
from fa4sim.views.counters import Counter, counters
from fa4sim.views.files import write_whole
from fa4sim.views.flows import flows
from fa4sim.views.scope import clock_hz
from fa4sim.views.timeline import ROLES

#: Field numbers of Perfetto's messages (protos/perfetto/trace/perfetto_trace.proto).
FIELDS: Mapping[str, Mapping[str, int]] = {
    "Trace": {"packet": 1},
    "TracePacket": {
        **{"timestamp": 8, "trusted_packet_sequence_id": 10, "track_event": 11},
        **{"interned_data": 12, "sequence_flags": 13, "track_descriptor": 60},
    },
    "TrackDescriptor": {
        **{"uuid": 1, "name": 2, "parent_uuid": 5, "counter": 8, "child_ordering": 11},
        **{"sibling_order_rank": 12, "description": 14},
    },
    "CounterDescriptor": {"unit": 3, "unit_name": 6},
    "TrackEvent": {
        **{"category_iids": 3, "debug_annotations": 4, "type": 9, "name_iid": 10},
        **{"track_uuid": 11, "counter_value": 30, "flow_ids": 47, "terminating_flow_ids": 48},
    },
    "DebugAnnotation": {"name_iid": 1, "int_value": 4, "string_value": 6, "string_value_iid": 17},
    "InternedData": {
        **{"event_categories": 1, "event_names": 2, "debug_annotation_names": 3},
        **{"debug_annotation_string_values": 29},
    },
    "EventName": {"iid": 1, "name": 2},
}
PACKET = FIELDS["TracePacket"]
TRACK = FIELDS["TrackDescriptor"]
EVENT = FIELDS["TrackEvent"]
ANNOTATION = FIELDS["DebugAnnotation"]
INTERNED = FIELDS["InternedData"]

SLICE_BEGIN, SLICE_END, INSTANT, COUNTER = 1, 2, 3, 4
STATE_CLEARED, NEEDS_STATE = 1, 2
EXPLICIT_ORDER = 3
UNIT_COUNT, UNIT_BYTES = 2, 3
CATEGORIES = ("work", "wait", "about")


def write_perfetto(trace: Trace, path: str | os.PathLike[str]) -> Path:
    """Write ``trace`` as a Perfetto protobuf trace and return the path.

    The file appears whole or not at all, and the same trace gives the same bytes. Raises
    ``ValueError`` for a trace without spans or with times before 0, ``OSError`` if the folder
    cannot be written.
    """
    return write_whole(path, encode(trace))


def encode(trace: Trace) -> bytes:
    """The bytes that :func:`write_perfetto` writes."""
    whole = trace.expand()
    if not whole.size("span"):
        raise ValueError("this trace is empty: it has no spans to write")
    return b"".join(_Writer(whole).packets())


class _Interned:
    """Strings that packets refer to by number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers) + 1)

    def entries(self, kind: int) -> bytes:
        return b"".join(
            wire.message(kind, wire.number(1, iid), wire.text(2, text))
            for text, iid in self.numbers.items()
        )


class _Writer:
    """Turns one expanded trace into packets: tracks first, then the slices of each track."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        hz = clock_hz(trace)
        self.ns = 1e9 / hz if hz else 1.0
        self.names = _Interned()
        self.keys = _Interned()
        self.values = _Interned()
        self.categories = _Interned()
        for category in CATEGORIES:
            self.categories(category)
        self.tracks: list[bytes] = []
        self.known: dict[tuple[object, ...], int] = {}
        self.children: dict[int, int] = defaultdict(int)
        self.events: list[bytes] = []
        self.encoded: dict[tuple[str, int | str], bytes] = {}

    def packets(self) -> Iterator[bytes]:
        """All packets in the order of the file."""
        self.about()
        self.slices()
        self.counters()
        interned = wire.message(
            PACKET["interned_data"],
            self.categories.entries(INTERNED["event_categories"]),
            self.names.entries(INTERNED["event_names"]),
            self.keys.entries(INTERNED["debug_annotation_names"]),
            self.values.entries(INTERNED["debug_annotation_string_values"]),
        )
        flags = STATE_CLEARED | NEEDS_STATE
        yield wire.message(
            1, wire.number(PACKET["trusted_packet_sequence_id"], 1),
            wire.number(PACKET["sequence_flags"], flags), interned,
        )  # fmt: skip
        yield from self.tracks
        yield from self.events

    # -- times ---------------------------------------------------------------------------------

    def nanoseconds(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Times of the trace as the viewer's nanoseconds."""
        if len(times) and int(times.min()) < 0:
            raise ValueError(f"a time of {int(times.min())} is before 0: Perfetto has no such time")
        return times if self.ns == 1.0 else np.rint(times * self.ns).astype(np.int64)

    @property
    def note(self) -> str:
        """How the viewer's time relates to the trace's."""
        clock, hz = self.trace.clock, clock_hz(self.trace)
        if clock == "ticks":
            return "1 tick is drawn as 1 ns: ticks are the order of events, not time"
        if clock == "ns":
            return "times are nanoseconds as measured"
        if hz is None:
            return "1 SM cycle is drawn as 1 ns: the trace does not say how long a cycle takes"
        return f"SM cycles at {hz / 1e9:g} GHz, rounded to ns; slices carry the exact cycles"

    # -- tracks --------------------------------------------------------------------------------

    def track(self, key: tuple[object, ...], name: str, parent: int, *parts: bytes) -> int:
        """The number of the track ``key``, described when it is first asked for."""
        if key not in self.known:
            number = self.known[key] = len(self.known) + 1
            rank = self.children[parent]
            self.children[parent] += 1
            above = (wire.number(TRACK["parent_uuid"], parent),) if parent else ()
            self.tracks.append(
                wire.message(
                    1, wire.number(PACKET["trusted_packet_sequence_id"], 1),
                    wire.message(
                        PACKET["track_descriptor"], wire.number(TRACK["uuid"], number), *above,
                        wire.text(TRACK["name"], name),
                        wire.number(TRACK["child_ordering"], EXPLICIT_ORDER),
                        wire.number(TRACK["sibling_order_rank"], rank), *parts,
                    ),
                )
            )  # fmt: skip
        return self.known[key]

    def cta_track(self, sm: int, cta: int) -> int:
        label = f"SM {sm}" if self.trace.clock != "ticks" else f"SM {sm} (ticks, not time)"
        above = self.track(("sm", sm), label, 0, wire.text(TRACK["description"], self.note))
        return self.track(("cta", sm, cta), f"CTA {cta}", above)

    def warp_track(self, sm: int, cta: int, role: str, warp: int, alone: bool, lane: int) -> int:
        """The track of one warp; lanes after the first take what would overlap."""
        over = f" ({lane + 1})" if lane else ""
        above = self.cta_track(sm, cta)
        if alone:
            named = f"{role}{over}" if warp == NONE else f"{role}, warp {warp}{over}"
            return self.track(("warp", sm, cta, role, warp, lane), named, above)
        group = self.track(("role", sm, cta, role), role, above)
        return self.track(("warp", sm, cta, role, warp, lane), f"warp {warp}{over}", group)

    # -- slices --------------------------------------------------------------------------------

    def about(self) -> None:
        """One instant that says what this is a trace of."""
        notes = {"clock": self.trace.clock, "time": self.note}
        for key, value in self.trace.meta.items():
            notes[key] = value if isinstance(value, str) else repr(value)
        track = self.track(("about",), "about this trace", 0)
        parts = [
            wire.message(EVENT["debug_annotations"],
                         wire.number(ANNOTATION["name_iid"], self.keys(key)),
                         wire.text(ANNOTATION["string_value"], value))
            for key, value in notes.items()
        ]  # fmt: skip
        head = self.head(INSTANT, track, "about this trace", "about")
        event = head + b"".join(parts)
        (stamp,) = self._stamps(self.trace.span["start"][:1])
        self.events.append(wire.message(1, stamp, wire.sized(event)))

    def head(self, kind: int, track: int, name: str, category: str) -> bytes:
        """The part of an event that all slices of a name on a track have in common."""
        return (
            wire.number(EVENT["type"], kind)
            + wire.number(EVENT["track_uuid"], track)
            + wire.number(EVENT["name_iid"], self.names(name))
            + wire.number(EVENT["category_iids"], self.categories(category))
        )

    def argument(self, key: str, value: int | str) -> bytes:
        """One argument of a slice; encoded once, however many slices have it."""
        known = self.encoded.get((key, value))
        if known is None:
            if isinstance(value, str):
                holds = wire.number(ANNOTATION["string_value_iid"], self.values(value))
            else:
                holds = wire.number(ANNOTATION["int_value"], value)
            name = wire.number(ANNOTATION["name_iid"], self.keys(key))
            known = wire.message(EVENT["debug_annotations"], name, holds)
            self.encoded[key, value] = known
        return known

    def argument_column(self, key: str, values: list[int]) -> list[bytes]:
        """The argument ``key`` of every slice; nothing where it is not given."""
        known = {value: self.argument(key, value) for value in sorted(set(values) - {NONE})}
        known[NONE] = b""
        return [known[value] for value in values]

    def text_column(self, key: str, codes: list[int]) -> list[bytes]:
        """The same for a column of the trace's strings."""
        strings = [*self.trace.strings, ""]
        known = {code: self.argument(key, strings[code]) for code in sorted(set(codes) - {NONE})}
        known[NONE] = b""
        return [known[code] for code in codes]

    def slices(self) -> None:
        """Every span and wait as a begin and an end on its warp's track."""
        whole = self.trace
        spans, waits = whole.span, whole.wait
        count = len(spans)
        start = np.concatenate([spans["start"], waits["start"]])
        end = np.concatenate([spans["end"], waits["end"]])
        place = [np.concatenate([spans[c], waits[c]]) for c in ("sm", "cta", "role", "warp")]
        names = [*spans.text("op").tolist(), *(f"wait: {on}" for on in waits.text("on").tolist())]
        extra = self._span_arguments() + self._wait_arguments()
        links = self._links()
        begins, ends = self._stamps(start), self._stamps(end)
        unit = whole.clock
        exact = self._integers(f"start_{unit}", start)
        lengths = self._integers(unit, end - start)

        out, sized = self.events, wire.sized
        packet = wire.tag(FIELDS["Trace"]["packet"], wire.LENGTH)
        heads: dict[tuple[int, str], bytes] = {}
        until, since = end.tolist(), start.tolist()
        for track, rows in self._lanes(since, until, place):
            finish = sized(
                wire.number(EVENT["type"], SLICE_END) + wire.number(EVENT["track_uuid"], track)
            )
            open_rows: list[int] = []
            for row in rows:
                while open_rows and until[open_rows[-1]] <= since[row]:
                    out.append(packet + sized(ends[open_rows.pop()] + finish))
                name = names[row]
                head = heads.get((track, name))
                if head is None:
                    category = "work" if row < count else "wait"
                    head = heads[track, name] = self.head(SLICE_BEGIN, track, name, category)
                event = head + exact[row] + lengths[row] + extra[row] + links.get(row, b"")
                out.append(packet + sized(begins[row] + sized(event)))
                open_rows.append(row)
            while open_rows:
                out.append(packet + sized(ends[open_rows.pop()] + finish))

    def _stamps(self, times: NDArray[np.int64]) -> list[bytes]:
        """What stands in an event's packet before the event's length: time, sequence, flags."""
        head = wire.tag(PACKET["timestamp"], wire.VARINT)
        tail = (
            wire.number(PACKET["trusted_packet_sequence_id"], 1)
            + wire.number(PACKET["sequence_flags"], NEEDS_STATE)
            + wire.tag(PACKET["track_event"], wire.LENGTH)
        )
        return [head + time + tail for time in wire.varints(self.nanoseconds(times))]

    def _integers(self, key: str, values: NDArray[np.int64]) -> list[bytes]:
        """The argument ``key`` of every slice, which hardly any two have in common."""
        tag = wire.tag(EVENT["debug_annotations"], wire.LENGTH)
        rest = wire.number(ANNOTATION["name_iid"], self.keys(key)) + wire.tag(
            ANNOTATION["int_value"], wire.VARINT
        )
        heads = [tag + wire.varint(len(rest) + length) + rest for length in range(11)]
        return [heads[len(value)] + value for value in wire.varints(values)]

    def _lanes(
        self, start: list[int], end: list[int], place: list[NDArray[np.int64]]
    ) -> Iterator[tuple[int, list[int]]]:
        """``(track, its rows in order)``; rows on one track nest or follow, never overlap."""
        sm, cta, role, warp = place
        strings = self.trace.strings
        rank = np.array([ROLES.index(s) if s in ROLES else len(ROLES) for s in strings])
        order = np.lexsort((-np.array(end), np.array(start), warp, role, rank[role], cta, sm))
        keys = np.stack(place, axis=1)[order]
        seams = np.flatnonzero(np.any(np.diff(keys, axis=0) != 0, axis=1)) + 1
        groups = [group.tolist() for group in np.split(order, seams)]
        places = [(int(sm[g[0]]), int(cta[g[0]]), int(role[g[0]])) for g in groups]
        for rows, where in zip(groups, places, strict=True):
            number, name = int(warp[rows[0]]), strings[where[2]]
            alone = places.count(where) == 1
            for lane, mine in enumerate(_nest(rows, start, end)):
                yield self.warp_track(*where[:2], name, number, alone, lane), mine

    def _span_arguments(self) -> list[bytes]:
        """What every span carries besides its times."""
        spans = self.trace.span
        columns = {"tile": "tile", "block": "block", "stage": "stage"}
        columns[f"busy_{self.trace.clock}"] = "busy"
        parts = [self.text_column("unit", spans["unit"].tolist())]
        parts += [self.argument_column(key, spans[c].tolist()) for key, c in columns.items()]
        return [b"".join(row) for row in zip(*parts, strict=True)]

    def _wait_arguments(self) -> list[bytes]:
        """What every wait carries besides its times: for what, which phase, and why."""
        waits, strings = self.trace.wait, [*self.trace.strings, "on"]
        on, kind = waits["on"].tolist(), waits["kind"].tolist()
        parts = [
            [self.argument(strings[k], strings[o]) for k, o in zip(kind, on, strict=True)],
            self.text_column("reason", waits["reason"].tolist()),
            *(self.argument_column(c, waits[c].tolist())
              for c in ("stage", "phase", "tile", "block")),
        ]  # fmt: skip
        return [b"".join(row) for row in zip(*parts, strict=True)]

    def _links(self) -> dict[int, bytes]:
        """The flow numbers of every span that is an end of a flow."""
        leaves = wire.tag(EVENT["flow_ids"], wire.FIXED64)
        enters = wire.tag(EVENT["terminating_flow_ids"], wire.FIXED64)
        links: dict[int, bytes] = defaultdict(bytes)
        for number, (source, target, _) in enumerate(flows(self.trace), 1):
            encoded = number.to_bytes(8, "little")
            links[source] += leaves + encoded
            links[target] += enters + encoded
        return links

    # -- counters ------------------------------------------------------------------------------

    def counters(self) -> None:
        """The trace's own counters, and those that follow from where tiles lived."""
        for each in counters(self.trace):
            self.counter(each)

    def counter(self, given: Counter) -> None:
        """One counter of one CTA, with its value from each time on."""
        unit = UNIT_BYTES if given.unit == "bytes" else UNIT_COUNT
        named = (wire.text(FIELDS["CounterDescriptor"]["unit_name"], given.unit),)
        kind = wire.number(FIELDS["CounterDescriptor"]["unit"], unit)
        track = self.track(
            ("counter", given.sm, given.cta, given.name), given.name,
            self.cta_track(given.sm, given.cta),
            wire.message(TRACK["counter"], kind, *(named if unit == UNIT_COUNT else ())),
        )  # fmt: skip
        head = wire.number(EVENT["type"], COUNTER) + wire.number(EVENT["track_uuid"], track)
        for stamp, value in zip(self._stamps(given.times), given.values.tolist(), strict=True):
            event = head + wire.number(EVENT["counter_value"], value)
            self.events.append(wire.message(1, stamp, wire.sized(event)))


def _nest(rows: list[int], start: list[int], end: list[int]) -> list[list[int]]:
    """Rows, sorted by start and then longest first, on as few lanes as keep each one nested."""
    if all(end[a] <= start[b] for a, b in pairwise(rows)):
        return [rows]
    lanes: list[list[int]] = []
    stacks: list[list[int]] = []
    for row in rows:
        for lane, stack in zip(lanes, stacks, strict=True):
            while stack and end[stack[-1]] <= start[row]:
                stack.pop()
            if not stack or end[row] <= end[stack[-1]]:
                lane.append(row)
                stack.append(row)
                break
        else:
            lanes.append([row])
            stacks.append([row])
    return lanes
