"""Names that a caller gives are those that reports speak in."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from fa4kernel.emulator import DeadlockError, EmulationError, emulate, inspect
from fa4kernel.emulator.emulate import decode
from fa4kernel.emulator.labels import Labels
from tests.emulator.kernels import PRODUCER_ARRIVES, ring, ring_launch

LABELS = Labels(
    barriers={"ring.full": "S_full", "ring.empty": "P_full"},
    named={0: "everybody"},
    roles={"consume": "softmax0"},
)


def stuck(tmp_path: Path, labels: Labels, **options: object) -> DeadlockError:
    text = ring(tmp_path).replace(PRODUCER_ARRIVES, "")
    with pytest.raises(DeadlockError) as caught:
        emulate(text, replace(ring_launch(), labels=labels), **options)  # type: ignore[arg-type]
    return caught.value


def test_a_deadlock_is_told_in_them(tmp_path: Path) -> None:
    error = stuck(tmp_path, LABELS)
    assert {wait.on for wait in error.waits} == {"S_full[0]", "P_full[0]"}
    assert "softmax0 (warp 1)" in str(error)
    assert "ring.full[0]" not in str(error)


def test_a_hazard_names_the_roles_that_meet(tmp_path: Path) -> None:
    text = ring(tmp_path).replace("bar.sync 0;", "")
    for labels, roles in ((Labels(), ("produce", "consume")), (LABELS, ("produce", "softmax0"))):
        try:
            hazards = emulate(text, replace(ring_launch(), labels=labels)).hazards
        except EmulationError as error:
            hazards = error.hazards
        known = {f"{role} (warp {warp}) of CTA 0" for warp, role in enumerate(roles)}
        assert {hazard.second.who for hazard in hazards} == known


def test_an_offset_goes_before_a_name(tmp_path: Path) -> None:
    first = 0x400  # the ring's barriers are all that is in shared memory
    error = stuck(tmp_path, Labels(barriers={"ring.full": "S_full", first: "first"}))
    assert {wait.on for wait in error.waits} == {"first", "ring.empty[0]"}


def test_a_fault_names_its_barrier(tmp_path: Path) -> None:
    arrives_twice = PRODUCER_ARRIVES.replace("[%r9];", "[%r9], 2;")
    twice = ring(tmp_path).replace(PRODUCER_ARRIVES, arrives_twice)
    for labels, name in ((Labels(), "ring.full[0]"), (LABELS, "S_full[0]")):
        with pytest.raises(EmulationError, match="too many arrivals") as caught:
            emulate(twice, replace(ring_launch(), labels=labels))
        assert f"the mbarrier is {name}\n" in str(caught.value)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_trace_is_written_in_them(tmp_path: Path) -> None:
    run = emulate(ring(tmp_path), replace(ring_launch(), labels=LABELS), trace=True)
    assert run.trace is not None
    assert set(run.trace.arrive.unique("barrier")) == {"S_full", "P_full", "everybody"}
    assert "softmax0" in run.trace.span.unique("role")


def test_one_program_is_launched_with_several_labels(tmp_path: Path) -> None:
    text = ring(tmp_path).replace(PRODUCER_ARRIVES, "")
    program = decode(text, ring_launch())
    for labels, name in ((Labels(), "ring.full[0]"), (LABELS, "S_full[0]")):
        with pytest.raises(DeadlockError) as caught:
            emulate(program, replace(ring_launch(), labels=labels))
        assert name in {wait.on for wait in caught.value.waits}


def test_a_role_may_go_by_its_first_warp(tmp_path: Path) -> None:
    error = stuck(tmp_path, Labels(roles={1: "correction", "consume": "softmax0"}))
    assert "correction (warp 1)" in str(error) and "softmax0" not in str(error)


def test_an_inspection_speaks_in_them(tmp_path: Path) -> None:
    (kernel,) = inspect(ring(tmp_path), LABELS)
    assert {each.family for each in kernel.mbarriers} == {"S_full", "P_full"}
    assert "softmax0" in {role.name for role in kernel.roles}
