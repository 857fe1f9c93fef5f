"""What a report says."""

from __future__ import annotations

import pytest

from fa4kernel.emulator import EmulationError
from fa4kernel.emulator.checks import KINDS, Hazard, Party, Place
from fa4kernel.emulator.checks.reports import Reports
from tests.emulator.checks.cases_barriers import BARRIERS
from tests.emulator.checks.cases_tensor import TENSOR
from tests.emulator.checks.cases_threads import THREADS
from tests.emulator.checks.twins import Twin, init
from tests.emulator.machine.kernels import run


def only(twin: Twin, schedule: str | int = "lockstep") -> Hazard:
    """The one report of the twin's kind."""
    hazards, _ = twin.run(twin.wrong, schedule)
    (found,) = [h for h in hazards if h.kind == twin.kind]
    return found


def test_both_parties_the_place_and_the_schedule_are_named() -> None:
    hazard = only(THREADS["one warp reads what another writes"])
    assert hazard.severity == "hazard"
    assert hazard.first is not None and hazard.first.instruction is not None
    assert hazard.second.instruction is not None
    assert hazard.first.who == "warp 0 of CTA 0" and hazard.second.who == "warp 1 of CTA 0"
    assert hazard.first.instruction.text.endswith("st.shared.u32 [%a1], t;")
    assert hazard.second.instruction.text.endswith("ld.shared.u32 %a2, [%a1];")
    assert hazard.place == Place("shared", 0, 0x400, 0x47F)
    for part in ("warp 0 of CTA 0", "PTX line", "0x400 to 0x47f", "lockstep"):
        assert part in str(hazard)


def test_a_copy_is_named_with_who_issued_it() -> None:
    hazard = only(BARRIERS["who waits for a copy reads what it wrote"])
    assert hazard.first is not None
    assert hazard.first.who == "the TMA copy that warp 0 of CTA 0 issued"
    assert hazard.message.startswith("the second reads what the TMA copy writes")


def test_tensor_memory_is_named_by_columns() -> None:
    hazard = only(TENSOR["the result of an MMA"])
    assert hazard.place == Place("tensor", 0, 0, 7)
    assert "tensor memory columns 0 to 7" in str(hazard)


def test_the_seed_is_told() -> None:
    hazard = only(THREADS["two warps write the same"], 3)
    assert hazard.replay == "emulate(ptx, launch, schedule=3, most_steps=20000)"
    assert f"replay: {hazard.replay}" in str(hazard)


def test_like_meetings_are_told_once() -> None:
    reports = Reports("lockstep")
    for _ in range(5):
        reports.add("overrun", "so", Party("a", None, 1), Party("b", None, 2), None)
    reports.add("overrun", "so", Party("c", None, 1), Party("b", None, 2), None)
    assert [h.count for h in reports.hazards] == [5, 1]


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_are_hazards_protocol_faults_or_advisories(kind: str) -> None:
    severity, sentence = KINDS[kind]
    assert severity in ("hazard", "protocol", "advisory")
    assert sentence == sentence.strip(".").strip()


def test_one_arrival_too_many_is_an_underflow_and_not_split() -> None:
    """A phase has all its arrivals and lacks bytes: the next arrival is a fault, and only that."""
    tx = "@%p9 mbarrier.arrive.expect_tx.shared.b64 _, [base], 16;"
    with pytest.raises(EmulationError, match=r"arrivals .*: 1 more, where 0 of 1 are") as error:
        run(init(1) + tx + tx, checks="default")
    assert "16 bytes announced have not landed" in str(error.value)
    assert "is a wait missing before it, or does one wait for the wrong parity?" in str(error.value)
    assert error.value.kind == "arrival-underflow"
    assert not error.value.hazards
