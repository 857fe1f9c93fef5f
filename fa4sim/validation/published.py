"""Published figures, as data: what was run, what came out, and where it is written."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

from fa4sim.specs import B200, Design, Machine, Problem, machine_named


@dataclass(frozen=True)
class Row:
    """One published throughput: ``published`` in TFLOP/s, ``fitted`` if a constant saw it.

    ``slower`` is that of another software state of the same report, if there is one. ``design``
    holds what the run did otherwise than the kernel's own choice.
    """

    name: str
    problem: Problem
    machine: Machine
    published: float
    fitted: bool = False
    slower: float | None = None
    design: dict[str, Any] = field(default_factory=dict)

    def chosen(self, machine: Machine | None = None, **changes: Any) -> Design:
        """The kernel's design for this row on its machine (or ``machine``), then ``changes``."""
        return Design.for_problem(self.problem, machine or self.machine, **self.design, **changes)


@dataclass(frozen=True)
class Group:
    """Rows of one report that belong together."""

    name: str
    source: str
    clock: str
    rows: tuple[Row, ...]


@cache
def _data() -> dict[str, Any]:
    text = files("fa4sim.validation").joinpath("data/published.json").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


def source() -> str:
    """Where the validated rows are published."""
    return str(_data()["rows"]["source"])


def conditions() -> str:
    """Under which conditions they were measured."""
    return str(_data()["rows"]["conditions"])


def validated_rows() -> tuple[Row, ...]:
    """The rows that decide: head dim 128, full and causal, 1k to 32k."""
    data = _data()["rows"]
    machine = replace(B200, clock_hz=data["clock_hz"])
    rows = []
    for mask in ("full", "causal"):
        for length, tflops in zip(data["lengths"], data[mask], strict=True):
            problem = Problem(
                batch=data["tokens"] // length,
                heads=data["heads"],
                seqlen_q=length,
                head_dim=data["head_dim"],
                causal=mask == "causal",
            )
            name = f"{mask} {length // 1024}k"
            rows.append(Row(name, problem, machine, tflops, [mask, length] in data["fitted"]))
    return tuple(rows)


def other_shapes() -> tuple[Group, ...]:
    """Published rows of other shapes, dtypes and machines; no constant was fitted to them."""
    groups = []
    for data in _data()["other_shapes"]:
        machine = replace(machine_named(data["machine"]), clock_hz=data["clock_hz"])
        if "sms" in data:
            machine = replace(machine, sms=data["sms"])
        rows = []
        for entry in data["rows"]:
            entry = dict(entry)
            published, slower = entry.pop("published"), entry.pop("slower", None)
            given = {**data["problem"], **entry}
            if "tokens" in data:
                given["batch"] = data["tokens"] // given["seqlen_q"]
            problem = Problem(**given)
            mask = "causal" if problem.causal else "full"
            length = problem.seqlen_q
            name = f"{mask} {length // 1024}k" if length >= 1024 else f"{mask} {length}"
            rows.append(
                Row(name, problem, machine, published, False, slower, data.get("design", {}))
            )
        groups.append(Group(data["group"], data["source"], data["clock"], tuple(rows)))
    return tuple(groups)


def pipe_use() -> tuple[str, tuple[dict[str, Any], ...]]:
    """Source, and published busy fractions of tensor pipe and MUFU by machine."""
    data = _data()["pipe_use"]
    return str(data["source"]), tuple(data["rows"])


def published_effects() -> dict[str, str]:
    """What is published about each idea's worth, in words with its source."""
    return dict(_data()["ideas"])
