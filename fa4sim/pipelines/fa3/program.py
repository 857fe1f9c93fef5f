"""The order of barrier operations of every role, as a list instead of a loop.

See :mod:`fa4sim.pipelines.fa4.program`, which says what it is for and how an operation is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fa4sim.pipelines.common.cluster import Operation
from fa4sim.pipelines.fa3.barriers import consumer_roles
from fa4sim.specs import HopperDesign


def program(
    design: HopperDesign, role: str, blocks: Sequence[int], *, lane: int = 0
) -> Iterator[Operation]:
    """The operations of one warp of ``role`` over work tiles of ``blocks`` K/V blocks each.

    ``lane`` is the warp's number within its warpgroup.

    >>> [op[:2] for op in program(HopperDesign(), "load", [1])][:3]
    [('wait', 'load_Q_empty'), ('arrive', 'load_Q_full'), ('wait', 'load_K_empty')]

    Raises ``ValueError`` for a role that this design does not have.
    """
    if role == "load" and design.specialised:
        return _load(design, blocks)
    consumers = consumer_roles(design)
    if role not in consumers:
        roles = ("load", *consumers) if design.specialised else consumers
        raise ValueError(f"no role {role!r}; there are {', '.join(roles)}")
    follow = _consumer if design.specialised else _plain
    return follow(design, consumers.index(role), blocks, lane)


def _load(design: HopperDesign, blocks: Sequence[int]) -> Iterator[Operation]:
    slots = design.kv_stages
    ring = 0

    def fill(tensor: str, at: int) -> Iterator[Operation]:
        yield "wait", f"load_{tensor}_empty", at % slots
        yield "arrive", f"load_{tensor}_full", at % slots

    for count in blocks:
        yield "wait", "load_Q_empty", 0
        yield "arrive", "load_Q_full", 0
        yield from fill("K", ring)
        for _ in range(count - 1):
            yield from fill("K", ring + 1)
            yield from fill("V", ring)
            ring += 1
        yield from fill("V", ring)
        ring += 1
    for i in range(slots):
        yield "wait", "load_K_empty", (ring + i) % slots
        yield "wait", "load_V_empty", (ring + i) % slots
    yield "wait", "load_Q_empty", 0


def _consumer(
    design: HopperDesign, number: int, blocks: Sequence[int], lane: int
) -> Iterator[Operation]:
    slots = design.kv_stages
    following = (number + 1) % design.consumers
    ring = 0

    def turn(what: str, whose: int) -> Iterator[Operation]:
        if design.ping_pong:
            yield what, f"Scheduler{whose}", 0

    if number == design.consumers - 1:
        yield from turn("arrive", 0)
    for count in blocks:
        yield "wait", "load_Q_full", 0
        for step in range(count):
            yield "wait", "load_K_full", ring % slots
            yield from turn("sync", number)
            if step:
                yield "wait", "load_V_full", (ring - 1) % slots
            yield from turn("arrive", following)
            yield "arrive", "load_K_empty", ring % slots
            if step:
                yield "arrive", "load_V_empty", (ring - 1) % slots
            ring += 1
        yield "wait", "load_V_full", (ring - 1) % slots
        yield "arrive", "load_V_empty", (ring - 1) % slots
        yield "sync", f"Epilogue{number}", 0
        if lane == 0:
            yield "arrive", "load_Q_empty", 0


def _plain(
    design: HopperDesign, number: int, blocks: Sequence[int], lane: int
) -> Iterator[Operation]:
    loads = number == 0 and lane == 0

    def ask(tensor: str) -> Iterator[Operation]:
        if loads:
            yield "arrive", f"load_{tensor}_full", 0

    for count in blocks:
        yield from ask("Q")
        yield from ask("K")
        yield "wait", "load_Q_full", 0
        for step in range(count):
            yield "wait", "load_K_full", 0
            yield "sync", "Cta", 0
            yield from ask("V")
            yield "wait", "load_V_full", 0
            yield "sync", "Cta", 0
            if step < count - 1:
                yield from ask("K")
        yield "sync", f"Epilogue{number}", 0
        yield "sync", "Cta", 0
