"""What a run of the original says about it: what ran, who waits for what, what waits tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from fa4kernel.emulator.emulate import decode
from fa4kernel.emulator.mutation.coverage import Place, Usage, never_ran, observe, synchronisation
from fa4kernel.emulator.mutation.knowledge import Listener, listen
from tests.emulator.mutation.ring import PTX, TURNS, ring

T = TypeVar("T")

#: Index of the first barrier of the ring: shared variables begin at byte 1024.
FIRST = 1024 // 8
FULL, EMPTY = (FIRST, FIRST + 1), (FIRST + 2, FIRST + 3)


def used(ptx: str = PTX) -> Usage:
    """What a run of the ring uses."""
    launch = ring(ptx).prepare().launch
    return observe(decode(ptx, launch), launch)


def heard(ptx: str = PTX) -> Listener:
    """What waits of the ring tell."""
    launch = ring(ptx).prepare().launch
    return listen(decode(ptx, launch), launch, set())


def by_line(found: Mapping[Place, set[T]]) -> dict[int, set[T]]:
    """What is told by place, by line."""
    return {line: values for (line, _), values in found.items()}


def lines(places: set[Place]) -> set[int]:
    """Lines of places."""
    return {line for line, _ in places}


def test_every_synchronisation_instruction_of_the_ring_runs() -> None:
    function = decode(PTX, ring().prepare().launch).context.function
    assert len(synchronisation(function)) == 9
    assert never_ran(function, used()) == []


def test_what_is_jumped_over_never_ran() -> None:
    ptx = PTX.replace("ret;\nCONSUMER:", "ret;\n    fence.proxy.async.shared::cta;\nCONSUMER:")
    function = decode(ptx, ring().prepare().launch).context.function
    assert [i.opcode for i in never_ran(function, used(ptx))] == ["fence"]


def test_phases_that_are_waited_for_are_those_of_the_turns() -> None:
    turns = range(TURNS)
    full = {(FULL[turn % 2], turn // 2) for turn in turns}
    empty = {(EMPTY[turn % 2], turn // 2 - 1) for turn in turns}
    assert used().awaited == full | empty


def test_arrivals_count_in_the_phase_of_their_turn() -> None:
    counts = by_line(used().counts)
    assert counts[47] == {(FULL[turn % 2], turn // 2) for turn in range(TURNS)}
    assert counts[68] == {(EMPTY[turn % 2], turn // 2) for turn in range(TURNS)}


def test_inits_and_meetings_are_told_by_line() -> None:
    usage = used()
    inits = by_line(usage.inits)
    assert [inits[line] for line in (21, 22, 23, 24)] == [{b} for b in (*FULL, *EMPTY)]
    assert {place: {line for line, _ in found} for place, found in usage.meetings.items()} == {
        (0, 0): {26}
    }
    assert usage.used == {*FULL, *EMPTY}


def test_who_waits_and_who_arrives_is_told_by_warp() -> None:
    usage = used()
    told, arrivers = by_line(usage.told), by_line(usage.arrivers)
    assert arrivers == {26: {0, 1}, 47: {0}, 68: {1}}
    assert told == {47: {*FULL}, 68: {*EMPTY}}
    assert usage.waiters == {**{b: {1} for b in FULL}, **{b: {0} for b in EMPTY}}


def test_every_wait_of_the_ring_tells_something_that_is_relied_on() -> None:
    assert heard().needless == set()


def test_of_two_waits_for_the_same_phase_either_tells_nothing() -> None:
    again = """FULL2:
    mbarrier.try_wait.parity.shared.b64 %p6, [%r21], %r7;
    @!%p6 bra FULL2;
    shl.b32 %r23"""
    assert lines(heard(PTX.replace("shl.b32 %r23", again)).needless) == {61, 64}


def test_last_wait_of_a_warp_tells_nothing_that_it_relies_on() -> None:
    tail = """xor.b32 %r12, %r7, 1;
TAIL:
    mbarrier.try_wait.parity.shared.b64 %p3, [%r2+24], 1;
    @!%p3 bra TAIL;
    ret;
CONSUMER:"""
    assert lines(heard(PTX.replace("ret;\nCONSUMER:", tail)).needless) == {58}


def test_accesses_of_threads_are_noted_by_warp() -> None:
    found = heard()
    bytes_of_slots = range(1024 + 32, 1024 + 288, 4)
    (writer,) = found.memory.written
    assert found.memory.written[writer].nonzero()[0].tolist() == [b // 4 for b in bytes_of_slots]
    assert not found.memory.fetched
    assert lines(found.late) == {47, 68}
