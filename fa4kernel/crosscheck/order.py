"""Part 2: the simulator does what the kernel does, in an order that the kernel allows.

Two things make an order: what each warp does one after the other, and what it has to wait for.
So first every warp's operations are compared, one by one: on barriers (with the phase it waits
for) and on data (with the tile). If they are the same, an arrival or a copy that ends a phase in
the kernel's run has a counterpart in the simulator's, and must come there before the end of every
wait for that phase; and the other way round.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from fa4kernel.crosscheck.record import Operation, Place, Record, Source, Warp
from fa4kernel.crosscheck.verdict import Part

#: What comes before, the warp that waits, and the number of its operation.
Edge = tuple[Source, Warp, int]


def compare_order(simulator: Record, kernel: Record) -> Part:
    """Compare programs, then each side's happens-before with the other side's times."""
    part = Part("order")
    same = _programs(part, simulator, kernel)
    part.figures["operations"] = sum(map(len, simulator.warps.values()))
    if same:
        edges = list(happens_before(kernel))
        _respected(part, edges, simulator, "the kernel's order, in the simulator")
        _respected(part, list(happens_before(simulator)), kernel, "the simulator's, in the kernel")
        _units(part, simulator, kernel)
        part.figures["happens-before edges"] = len(edges)
    for fault in kernel.faults:
        part.holds(fault, False)
    return part


def _programs(part: Part, simulator: Record, kernel: Record) -> bool:
    """Compare what every warp does; True if it is all the same."""
    before = len(part.differences)
    for warp in sorted(simulator.warps.keys() | kernel.warps.keys()):
        mine, theirs = simulator.warps.get(warp, []), kernel.warps.get(warp, [])
        for number, (one, other) in enumerate(zip(mine, theirs, strict=False)):
            part.compared += 1
            if one.key != other.key or _phase(one) != _phase(other):
                part.differences.append(
                    f"operation {number} of {warp}: simulator {_words(one)}, kernel "
                    f"{_words(other)}{_after(mine, number)}"
                )
                break
        else:
            part.compared += 1
            if len(mine) != len(theirs):
                longer, who = (mine, "simulator") if len(mine) > len(theirs) else (theirs, "kernel")
                number = min(len(mine), len(theirs))
                part.differences.append(
                    f"operation {number} of {warp}: only the {who} does "
                    f"{_words(longer[number])}{_after(longer, number)}"
                )
    return len(part.differences) == before


def _phase(operation: Operation) -> int:
    return operation.phase if operation.what in ("wait", "sync") else -1


def _words(operation: Operation) -> str:
    phase = f" for phase {operation.phase}" if _phase(operation) >= 0 else ""
    return f"[{operation}{phase}]"


def _after(operations: list[Operation], number: int) -> str:
    return f", after {_words(operations[number - 1])}" if number else ""


def happens_before(record: Record) -> Iterator[Edge]:
    """Everything that ends a phase, with everybody who waits for it."""
    waits: dict[tuple[Place, int], list[tuple[Warp, int]]] = defaultdict(list)
    for warp, operations in record.warps.items():
        for number, operation in enumerate(operations):
            if operation.what in ("wait", "sync") and operation.phase > 0:
                place = place_of(record, warp, operation)
                waits[place, operation.phase].append((warp, number))
    for place, use in record.barriers.items():
        for arrival in use.arrivals:
            for warp, number in waits.get((place, arrival.phase + 1), ()):
                yield arrival.source, warp, number


def place_of(record: Record, warp: Warp, operation: Operation) -> Place:
    """The barrier that a warp waits for: its own CTA's, or the leader's where a pair shares it."""
    name, stage = operation.on[:-1].rsplit("[", 1)
    own = (warp.cta, name, int(stage))
    return own if own in record.barriers else (warp.cta & ~1, name, int(stage))


def _respected(part: Part, edges: list[Edge], record: Record, whose: str) -> None:
    """Every source must come before the end of the wait, in another record."""
    for source, warp, number in edges:
        wait = record.warps[warp][number]
        time = _time(record, source)
        text = f"{whose}: {_source(source, record)} before the end of {warp}'s {_words(wait)}"
        if time is None:
            part.holds(f"{text}: it never happens", False)
        else:
            part.holds(f"{text}: {time} is after {wait.end} {record.clock}", time <= wait.end)


def _time(record: Record, source: Source) -> int | None:
    who, number = source
    if isinstance(who, Warp):
        operations = record.warps.get(who, [])
        return operations[number].begin if number < len(operations) else None
    times = record.done.get(who, [])
    return times[number] if number < len(times) else None


def _source(source: Source, record: Record) -> str:
    who, number = source
    if isinstance(who, Warp):
        return f"{who}'s {_words(record.warps[who][number])}"
    return f"[{who}]"


def _units(part: Part, simulator: Record, kernel: Record) -> None:
    """MMAs and copies: as often on both sides, and MMAs complete in the same order."""
    for text in sorted(simulator.done.keys() | kernel.done.keys()):
        part.equal(f"times of [{text}]", len(simulator.done[text]), len(kernel.done[text]))
    part.equal("the order in which MMAs complete", _mmas(simulator), _mmas(kernel))


def _mmas(record: Record) -> list[tuple[str, str]]:
    """MMA runs by CTA, in the order in which they complete."""
    found = [
        (text.rsplit(" of CTA ", 1)[1], time, text)
        for text, times in record.done.items()
        if not text.startswith("load")
        for time in times
    ]
    return [(cta, text) for cta, _, text in sorted(found)]
