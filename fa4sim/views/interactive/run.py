"""One run's part of an interactive timeline's data; see :mod:`fa4sim.views.interactive.data`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fa4sim.analysis.meanings import barrier_means
from fa4sim.trace import NONE, Trace
from fa4sim.trace.table import Ints
from fa4sim.views.counters import counters
from fa4sim.views.interactive.links import Links
from fa4sim.views.interactive.pack import Pack
from fa4sim.views.interactive.rows import Slices, arrange
from fa4sim.views.scope import microseconds, run_words
from fa4sim.views.style import Look, look_of_op, look_of_wait, op_group, wait_group

#: What the timer that a kernel reads on a GPU can resolve; see PTX ISA, %globaltimer.
GRAINS = {"ns": "measured with a timer of 32 ns grain: compare means, not single slices",
          "ticks": "ticks are the order of events, not time"}  # fmt: skip
AXES = {"cycles": "SM cycles", "ticks": "ticks (no time)", "ns": "ns"}


class RunData:
    """One run's part of the header; its columns go into ``pack``."""

    def __init__(self, trace: Trace, label: str, pack: Pack) -> None:
        self.trace = trace
        self.label = label
        self.pack = pack
        self.strings: dict[str, int] = {}
        first = int(np.concatenate([trace.span["start"], trace.wait["start"]]).min())
        # A GPU's clock started long ago; a simulated one counts from the launch.
        self.origin = first if trace.clock == "ns" else min(0, first)

    def header(self) -> dict[str, Any]:
        """What the page knows of this run."""
        trace = self.trace
        slices = arrange(trace)
        links = Links(trace, slices)
        of_slices, edges = self._slices(slices, links)
        parts = {
            "label": self.label,
            "words": run_words(trace),
            "clock": trace.clock,
            "axis": AXES[trace.clock],
            "microseconds": microseconds(trace),
            "grain": GRAINS.get(trace.clock, ""),
            "about": about(trace),
            "origin": self.origin,
            "end": trace.end - self.origin,
            "tracks": [
                {"sm": t.sm, "cta": t.cta, "role": t.role, "warp": t.warp,
                 "rows": [list(row) for row in t.rows]}
                for t in slices.tracks
            ],
            "slices": of_slices,
            "edges": edges,
            "path": self._path(links),
            "lives": self._lives(),
            "counters": self._counters(),
            "looks": self._looks(),
            "means": self._means(),
        }  # fmt: skip
        return {**parts, "strings": list(self.strings)}

    # -- columns ------------------------------------------------------------------------------

    def _slices(self, slices: Slices, links: Links) -> tuple[dict[str, Any], dict[str, Any]]:
        """The columns of the slices, and those of the links between them."""
        span, wait = self.trace.span, self.trace.wait
        why = links.why()
        found = links.edges(why)
        edges = {
            "source": self.pack.add(found.source), "target": self.pack.add(found.target),
            "time": self.pack.add(self._moved(found.time)), "what": self.texts(found.what),
        }  # fmt: skip

        def column(of_spans: Ints, of_waits: Ints) -> Any:
            return self.pack.add(np.concatenate([of_spans, of_waits])[slices.source])

        none_span = np.full(len(span), NONE, dtype=np.int64)
        none_wait = np.full(len(wait), NONE, dtype=np.int64)
        code = self._codes
        both = {name: column(span[name], wait[name]) for name in ("tile", "block", "stage")}
        columns = {
            "start": column(span["start"] - self.origin, wait["start"] - self.origin),
            "length": column(span["end"] - span["start"], wait["end"] - wait["start"]),
            "is_wait": column(none_span + 1, none_wait + 2),
            "name": column(code(span.text("op")), code(wait.text("on"))),
            **both,
            "row": column(span.ids, wait.ids),
            "unit": column(code(span.text("unit")), none_wait),
            "busy": column(span["busy"], none_wait),
            "bytes": column(links.bytes(), none_wait),
            "kind": column(none_span, code(wait.text("kind"))),
            "reason": column(none_span, code(wait.text("reason"))),
            "phase": column(none_span, wait["phase"]),
            "by": column(none_span, code(why.by)),
            "by_warp": column(none_span, why.warp),
            "by_cta": column(none_span, why.cta),
            "by_slice": column(none_span, why.slice),
            "caused": column(none_span, self._moved(why.time)),
            "landed": column(none_span, self._moved(why.landed)),
            "arrived": column(none_span, links.arrived()),
            "way": column(none_span, code(why.way)),
        }
        return columns, edges

    def _path(self, links: Links) -> dict[str, Any]:
        path = links.path()

        def numbers(name: str) -> Any:
            return self.pack.add([int(link[name]) for link in path])

        return {
            "start": self.pack.add([int(link["start"]) - self.origin for link in path]),
            "length": numbers("length"),
            "slice": numbers("slice"),
            **{name: self.texts([str(link[name]) for link in path])
               for name in ("role", "op", "why")},
        }  # fmt: skip

    def _lives(self) -> dict[str, Any]:
        life = self.trace.life
        texts = {name: self.texts(life.text(name)) for name in ("tensor", "space", "slot")}
        numbers = {name: self.pack.add(life[name]) for name in ("cta", "tile", "block", "stage")}
        times = {name: self.pack.add(self._moved(life[name]))
                 for name in ("birth", "first_use", "last_use", "death")}  # fmt: skip
        return {**texts, **numbers, **times}

    def _counters(self) -> list[dict[str, Any]]:
        return [
            {"sm": each.sm, "cta": each.cta, "name": each.name, "unit": each.unit,
             "most": int(each.values.max()), "times": self.pack.add(each.times - self.origin),
             "values": self.pack.add(each.values)}
            for each in counters(self.trace)
        ]  # fmt: skip

    def _moved(self, times: Ints) -> Ints:
        """Times from the run's origin; those not given stay :data:`NONE`."""
        return np.where(times == NONE, NONE, times - self.origin)

    # -- texts --------------------------------------------------------------------------------

    def code(self, text: str) -> int:
        """The number of a text in the run's list; -1 for none."""
        return self.strings.setdefault(text, len(self.strings)) if text else NONE

    def _codes(self, texts: Any) -> Ints:
        known = {str(text): self.code(str(text)) for text in dict.fromkeys(texts)}
        return np.array([known[str(text)] for text in texts], dtype=np.int64)

    def texts(self, texts: Any) -> Any:
        """A column of texts, packed."""
        return self.pack.add(self._codes(texts))

    def _looks(self) -> dict[str, Any]:
        """How each op and each thing waited for is drawn, by the number of its name."""
        ops, waits = self.trace.span.unique("op"), self.trace.wait.unique("on")
        return {
            "ops": {str(self.code(op)): _look(look_of_op(op), op_group(op)) for op in ops},
            "waits": {
                str(self.code(on)): _look(look_of_wait(wait_group(on)), wait_group(on))
                for on in waits
            },
        }

    def _means(self) -> dict[str, str]:
        """What ends a wait, in words, by the number of the name; of those that are known."""
        means = {on: barrier_means(on) for on in self.trace.wait.unique("on")}
        return {str(self.code(on)): words for on, words in means.items() if words}


def _look(look: Look, group: str) -> list[str]:
    """A look as the page has it: colour, kind of hatch, and what it is called in a legend."""
    return [look.colour, look.hatch[:1], group]


def about(trace: Trace) -> list[list[str]]:
    """What a trace's notes say, as pairs of name and text; fields of a problem or design apart."""
    found = [["clock", trace.clock]]
    for key, value in trace.meta.items():
        if isinstance(value, Mapping) and key in ("problem", "design"):
            found += [[f"{key}.{name}", str(item)] for name, item in value.items()]
        elif isinstance(value, str | int | float):
            found.append([key, f"{value:,}" if isinstance(value, int) else str(value)])
    return found
