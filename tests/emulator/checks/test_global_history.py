"""What the history of global memory knows, apart from any kernel; and what its reports say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fa4kernel.emulator.checks.global_history import Access, GlobalHistory
from fa4kernel.emulator.ptx.module import Instruction
from tests.emulator.checks.cases_global import FLAG, GLOBAL, SPIN

LINE = Instruction("st", ("global", "u32"), ())


@pytest.fixture
def memory() -> np.ndarray[Any, Any]:
    return np.zeros(64, np.uint8)


@pytest.fixture
def history(memory: np.ndarray[Any, Any]) -> GlobalHistory:
    return GlobalHistory([(memory, "x")], lambda number: f"CTA {number}")


def at(*pieces: int) -> np.ndarray[Any, Any]:
    return np.array(pieces, np.int64)


def plain(history: GlobalHistory, tick: int = 0, **more: Any) -> int:
    given = {"agent": "", "strong": False, "size": 4, **more}
    return history.add(Access(LINE, tick, **given))


def test_a_chain_of_flags_orders_its_ends(history: GlobalHistory) -> None:
    (arena,) = history.arenas
    assert history.write(arena, at(3), 0, plain(history)) == []
    history.meet(0, 100)
    history.meet(1, 100)
    history.meet(1, 200)
    history.meet(2, 200)
    assert history.write(arena, at(3), 2, plain(history, 1)) == []
    (meeting,) = history.write(arena, at(3), 1, plain(history, 2))
    assert (meeting.before, meeting.after) == (2, 1)


def test_what_is_written_after_a_release_is_not_ordered_by_it(history: GlobalHistory) -> None:
    (arena,) = history.arenas
    history.meet(0, 100)
    history.write(arena, at(3), 0, plain(history))
    history.meet(1, 100)
    assert len(history.write(arena, at(3), 1, plain(history, 1))) == 1


def test_reads_before_the_first_write_are_remembered(history: GlobalHistory) -> None:
    (arena,) = history.arenas
    assert history.read(arena, lambda: at(1, 2), 2, 5, plain(history)) == []
    (meeting,) = history.write(arena, at(2, 3), 6, plain(history, 1))
    assert (meeting.what, meeting.before, meeting.pieces) == ("overwrites", 5, [2])


def test_clusters_that_write_the_same_in_one_step_meet(history: GlobalHistory) -> None:
    (arena,) = history.arenas
    found = history.write(arena, at(1, 1, 2), np.array([0, 1, 2]), plain(history))
    assert [(m.before, m.after) for m in found] == [(1, 0)]


@pytest.mark.parametrize("what", [{"strong": True}, {"size": 2}])
def test_atomics_and_parts_of_a_word_may_meet(history: GlobalHistory, what: Any) -> None:
    (arena,) = history.arenas
    history.write(arena, at(1), 0, plain(history, **what))
    assert history.write(arena, at(1), 1, plain(history, 1, **what)) == []
    assert len(history.write(arena, at(1), 2, plain(history, 2))) == 1


def test_memory_is_found_by_where_it_is(history: GlobalHistory, memory: Any) -> None:
    (arena,) = history.arenas
    assert history.arena(memory[12:20]) == (arena, 12)
    assert history.arena(np.zeros(8, np.uint8)) is None


def test_a_report_names_both_clusters_and_the_argument() -> None:
    twin = GLOBAL["a CTA reads behind a flag what another writes"]
    hazards, _ = twin.run(FLAG.replace(SPIN, ""))
    (hazard,) = hazards
    assert hazard.place is not None
    assert str(hazard.place) == "bytes 0x0 to 0x3 of argument 0"
    assert hazard.first is not None
    assert {hazard.first.who, hazard.second.who} == {"a warp of CTA 0", "a warp of CTA 1"}
    assert "no flag says that it is" in hazard.message
