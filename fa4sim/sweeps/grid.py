"""A grid of what-ifs: values by field, every combination of them a point."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from fa4sim.files import plain
from fa4sim.specs import B200, Machine, machine_named
from fa4sim.specs.checks import quoted
from fa4sim.specs.fields import Settings, owner, typed
from fa4sim.specs.setup import Setup

#: A grid of more points than this is refused: it is more likely a slip than a wish.
MOST_POINTS = 10_000

#: The axis, or the setting, that names a machine.
MACHINE_NAME = "machine"


@dataclass(frozen=True)
class Point:
    """One combination of a grid: its place in the grid's order, and what is to be run.

    ``setup`` is None, and ``reason`` says why, if the design does not fit or the problem is none.
    """

    index: int
    settings: Mapping[str, Any]
    setup: Setup | None
    reason: str = ""


@dataclass(frozen=True)
class Grid:
    """Values by field; every combination of them is a point, the last field varying fastest.

    Args:
        axes: values by name of a field of the problem (``seqlen_q``) or of the design
            (``kv_stages``), of ``machine.CONSTANT`` (``machine.clock_hz``) or of ``machine``
            (then names of GPUs).
        base: settings that all points share, by the same names. What neither names is what the
            kernel would choose for the point's problem.
        machine: on what, unless ``machine`` is an axis: a ``Machine`` or the name of one.
        defaults: fields of the problem for where neither axes nor base say anything; lengths by
            sequence take the place of ``batch``, ``seqlen_q`` and ``seqlen_k``.

    Raises ``ValueError``, quoting it, for a name that nothing has, a value of the wrong type, a
    value or a name that is there twice, an axis without values, and for a grid of more than
    10,000 points.

    >>> grid = Grid({"causal": (False, True), "kv_stages": (2, 30)}, base={"seqlen_q": 512})
    >>> [(dict(p.settings), p.setup is not None) for p in grid.points()][:2]
    [({'causal': False, 'kv_stages': 2}, True), ({'causal': False, 'kv_stages': 30}, False)]
    """

    axes: Mapping[str, Collection[Any]]
    base: Mapping[str, Any] = field(default_factory=dict)
    machine: Machine | str = B200
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.axes:
            raise ValueError("a grid without axes has one point; give values of a field")
        _check_size(self.axes)
        for name in self.axes:
            if name in self.base:
                raise ValueError(
                    f"{name} is given twice: {quoted(self.base[name])} for all points, and as an "
                    "axis"
                )
        axes = {name: _values(name, some) for name, some in self.axes.items()}
        object.__setattr__(self, "axes", axes)
        object.__setattr__(self, "base", {n: typed(n, value) for n, value in self.base.items()})
        if isinstance(self.machine, str):
            object.__setattr__(self, "machine", machine_named(self.machine))
        if not isinstance(self.machine, Machine):
            raise ValueError(f"machine={quoted(self.machine)} must be a Machine, or a name: 'b200'")
        for name in self.defaults:
            if owner(name)[0] != "problem":
                raise ValueError(f"defaults are fields of the problem, and {name!r} is none")

    def __len__(self) -> int:
        """The number of points, those that cannot run among them."""
        return math.prod(len(values) for values in self.axes.values())

    def points(self) -> Iterator[Point]:
        """Every combination in order, put together or refused with the reason."""
        for index, values in enumerate(itertools.product(*self.axes.values())):
            settings = dict(zip(self.axes, values, strict=True))
            try:
                yield Point(index, settings, self._setup(settings))
            except ValueError as refusal:
                yield Point(index, settings, None, str(refusal))

    def _setup(self, settings: Mapping[str, Any]) -> Setup:
        given = {**self.base, **settings}
        name = given.pop(MACHINE_NAME, None)
        machine = self.machine if name is None else machine_named(name)
        assert isinstance(machine, Machine)
        return Setup.of(machine, Settings.of(given), self.defaults)

    def described(self) -> dict[str, Any]:
        """The grid as plain data: what a file says of where its rows come from."""
        assert isinstance(self.machine, Machine)
        return {
            "axes": plain(self.axes), "base": plain(self.base), "machine": self.machine.name,
            "defaults": plain(self.defaults),
        }  # fmt: skip


def digest(points: Sequence[Point]) -> str:
    """A name for what is run: every field of every point's problem, design and machine."""
    whole = hashlib.sha256()
    for point in points:
        facts: list[Any] = [plain(point.settings), point.reason]
        if point.setup is not None:
            setup = point.setup
            facts += [dataclasses.asdict(setup.problem), dataclasses.asdict(setup.design)]
            facts.append(_constants(setup.machine))
        whole.update(json.dumps(plain(facts)).encode())
    return whole.hexdigest()


def _constants(machine: Machine) -> list[Any]:
    names = [spec.name for spec in dataclasses.fields(machine) if spec.name != "origins"]
    return [getattr(machine, name) for name in names]


def _values(name: str, given: Collection[Any]) -> tuple[Any, ...]:
    """The values of an axis, each of its type, none of them twice."""
    values = tuple(_value(name, value) for value in given)
    if not values:
        raise ValueError(f"{name} has no values; give at least one")
    with contextlib.suppress(TypeError):  # a list within a value: compared one by one
        if len(set(values)) == len(values):
            return values
    for value in values:
        if values.count(value) > 1:
            raise ValueError(f"{name} has the value {quoted(value)} twice; give each once")
    return values


def _value(name: str, value: object) -> Any:
    if name != MACHINE_NAME:
        return typed(name, value)
    if not isinstance(value, str):
        raise ValueError(f"machine={quoted(value)} must be the name of one, as 'b200'")
    machine_named(value)
    return value


def _check_size(axes: Mapping[str, Collection[Any]]) -> None:
    """Refuse a grid that would take forever, before its values are looked at."""
    for name, values in axes.items():
        unordered = isinstance(values, str | bytes | Mapping | Set)
        if unordered or not isinstance(values, Collection):
            raise ValueError(f"{name}={quoted(values)} must be a list, tuple or range of values")
    sizes = {name: _length(values) for name, values in axes.items()}
    count = math.prod(sizes.values())
    if count > MOST_POINTS:
        shown = " x ".join(f"{name}: {size:,}" for name, size in sizes.items())
        raise ValueError(
            f"this grid has {count:,} variants ({shown}); at most {MOST_POINTS:,} are run, so "
            "give fewer values or a larger step"
        )


def _length(values: Collection[Any]) -> int:
    """How many values there are: ``len`` counts no further than a machine word."""
    if isinstance(values, range):
        return max(0, -((values.start - values.stop) // values.step))
    return len(values)
