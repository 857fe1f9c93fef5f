"""Whether the order of events that a GPU measured is one that the barriers allow.

The protocol of a design says what every role does in turn: which barrier it waits for, where it
arrives (`fa4sim.pipelines.fa3.program`). Whoever waits for a phase goes on only when all its
arrivals have come. So a stamp that stands before an arrival in its role's order was written before
every stamp that stands behind the wait for it. That is what is checked, for every phase of every
barrier within the stamps: the last stamp before an arrival against the first one behind the wait.
The emulator allows every order that these pairs allow, and no other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fa4kernel.bench.predict import simulators_design
from fa4kernel.hopper.config import LOAD_STAMPS, STAMPS, Config
from fa4kernel.hopper.traced import Stamps, from_first, tiles_of
from fa4sim.pipelines.fa3.barriers import barrier_table, consumer_roles
from fa4sim.pipelines.fa3.program import program

LOAD = "load"
Stamp = tuple[str, int]  # its name, and the turn of the rings


class Event(NamedTuple):
    """What a role does: "wait", "arrive" or "sync" at a barrier's stage, or "stamp" in a turn.

    `phase` counts what the role has done there before.
    """

    what: str
    name: str
    number: int
    phase: int = 0


class Edge(NamedTuple):
    """Two stamps of which the first must not be the later one."""

    barrier: str
    stage: int
    phase: int
    arrives: str  # role
    before: Stamp
    waits: str
    behind: Stamp


class Checked(NamedTuple):
    """How many pairs there are by barrier; those in the wrong order, with the cycles between."""

    edges: dict[str, int]
    violated: list[tuple[Edge, int]]

    @property
    def pairs(self) -> int:
        """All pairs."""
        return sum(self.edges.values())


def check(cfg: Config, stamps: Stamps) -> Checked:
    """Check the stamps of all CTAs that are there.

    Args:
        cfg: of the kernel.
        stamps: (CTAs, 1 + consumers, blocks, len(STAMPS)), a CTA's first work tiles, whole.

    Raises:
        ValueError: a stamp that the protocol has is missing.
    """
    counts: dict[str, int] = defaultdict(int)
    violated = []
    for cta in stamps:
        now = from_first(cta)
        for edge in edges(cfg, [len(turns) for turns in tiles_of(now[1])]):
            first = _time(now, edge.arrives, edge.before)
            late = first - _time(now, edge.waits, edge.behind)
            counts[edge.barrier] += 1
            if late > 0:
                violated.append((edge, late))
    return Checked(dict(counts), violated)


def edges(cfg: Config, blocks: Sequence[int]) -> list[Edge]:
    """The pairs of stamps that barriers order, over a CTA's work tiles of so many K/V blocks."""
    design = simulators_design(cfg)
    events = {role: _counted(_consumer(cfg, role, blocks)) for role in consumer_roles(design)}
    events[LOAD] = _counted(_load(cfg, blocks))
    arrivals: dict[tuple[str, int, int], list[tuple[str, Stamp]]] = defaultdict(list)
    for role, own in events.items():
        last: Stamp | None = None
        for event in own:
            if event.what == "stamp":
                last = (event.name, event.number)
            elif event.what in ("arrive", "sync") and last is not None:
                arrivals[event.name, event.number, event.phase].append((role, last))
    table = barrier_table(design)
    found = []
    for role, own in events.items():
        behind: Stamp | None = None
        for event in reversed(own):
            if event.what == "stamp":
                behind = (event.name, event.number)
            elif event.what in ("wait", "sync") and behind is not None:
                phase = event.phase - table[event.name].starts_free
                found += [
                    Edge(event.name, event.number, phase, other, before, role, behind)
                    for other, before in arrivals[event.name, event.number, phase]
                    if other != role
                ]
    return found


def _consumer(cfg: Config, role: str, blocks: Sequence[int]) -> Iterator[Event]:
    """A consumer's operations, and its stamps where `fa4kernel.hopper.consumer` has them."""
    operations = _operations(cfg, role, blocks)
    number = int(role[-1])
    turn = 0
    if cfg.ping_pong and number == cfg.consumers - 1:
        yield next(operations)  # the first turn
    for count in blocks:
        yield next(operations)  # Q
        for step in range(count):
            yield Event("stamp", "begin", turn)
            yield next(operations)
            yield Event("stamp", "K", turn)
            if cfg.ping_pong:
                yield next(operations)
            yield Event("stamp", "turn", turn)
            if step:
                yield Event("stamp", "QK", turn)
                yield next(operations)
                yield Event("stamp", "V", turn)
            if cfg.ping_pong:
                yield next(operations)
            yield Event("stamp", "PV" if step else "QK", turn)
            yield next(operations)  # K is free
            yield Event("stamp", "S", turn)
            yield Event("stamp", "softmax", turn)
            if step:
                yield next(operations)  # V is free
                yield Event("stamp", "O", turn)
            yield Event("stamp", "P", turn)
            turn += 1
        yield next(operations)
        yield Event("stamp", "last V", turn - 1)
        yield next(operations)
        yield Event("stamp", "last O", turn - 1)
        yield next(operations)  # the warps meet
        yield next(operations)  # Q is free
        yield Event("stamp", "stored", turn - 1)


def _load(cfg: Config, blocks: Sequence[int]) -> Iterator[Event]:
    """The load warp's operations, and its stamps where `fa4kernel.hopper.load` has them."""
    turns = {"K": 0, "V": 0}
    for event in _operations(cfg, LOAD, blocks):
        yield event
        tensor = event.name.split("_")[1]
        if tensor in turns and turns[tensor] < sum(blocks):
            what = "free" if event.what == "wait" else "asked"
            yield Event("stamp", f"{tensor} {what}", turns[tensor])
            turns[tensor] += what == "asked"


def _operations(cfg: Config, role: str, blocks: Sequence[int]) -> Iterator[Event]:
    for what, name, stage in program(simulators_design(cfg), role, blocks):
        yield Event(what, name, stage)


def _counted(events: Iterator[Event]) -> list[Event]:
    """With phases: how often the role has done the same before."""
    done: dict[tuple[str, str, int], int] = defaultdict(int)
    found = []
    for event in events:
        what = event[:3]
        found.append(event._replace(phase=done[what]))
        done[what] += 1
    return found


def _time(now: Stamps, role: str, stamp: Stamp) -> int:
    """When a stamp was written, counted from the CTA's first."""
    name, turn = stamp
    if role == LOAD:
        found = int(now[0, turn, LOAD_STAMPS[name]])
    else:
        found = int(now[1 + int(role[-1]), turn, STAMPS.index(name)])
    if not found:
        raise ValueError(f"{role} has no stamp {name!r} of turn {turn}: give whole work tiles")
    return found
