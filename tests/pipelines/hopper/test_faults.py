"""Whatever is broken at a barrier is found, and the report names that barrier."""

from __future__ import annotations

import dataclasses

import pytest

from fa4sim import H200, Deadlock, Fault, HopperDesign, Problem, simulate
from fa4sim.engine.errors import Hazard
from fa4sim.pipelines.common.cluster import Surroundings
from fa4sim.pipelines.fa3.barriers import barrier_table
from fa4sim.pipelines.fa4.detail import simulate_cluster
from tests.pipelines.hopper.cases import CASES, design_of, tiles_of

#: Between them these designs use every barrier; several tiles wrap every ring and every phase.
BROKEN = ("full", "three consumers", "neither", "plain")


def outcome(problem: Problem, design: HopperDesign) -> tuple[Deadlock | None, list[Hazard]]:
    """How one CTA with three tiles ends."""
    tiles = tiles_of(problem, design, 3)
    try:
        detail = simulate_cluster(problem, design, H200, tiles, Surroundings())
    except Deadlock as deadlock:
        return deadlock, list(deadlock.hazards)
    return None, detail.hazards


def faults_of(name: str) -> list[Fault]:
    faults = []
    for spec in barrier_table(design_of(name)[1]).values():
        faults += [Fault("count_plus_one", spec.name), Fault("count_minus_one", spec.name)]
        faults += [Fault("drop_arrival", spec.name, None, role) for role in spec.parties]
        faults += [Fault("drop_wait", spec.name, None, role) for role in spec.waiters]
    return faults


@pytest.mark.parametrize("name", CASES)
def test_an_unbroken_design_reports_nothing(name: str) -> None:
    assert outcome(*design_of(name)) == (None, [])


@pytest.mark.parametrize(
    ("name", "fault"),
    [(name, fault) for name in BROKEN for fault in faults_of(name)],
    ids=lambda value: (
        value if isinstance(value, str) else f"{value.kind}:{value.barrier}:{value.role}"
    ),
)
def test_every_fault_is_found_and_its_barrier_named(name: str, fault: Fault) -> None:
    problem, design = design_of(name, faults=(fault,))
    deadlock, hazards = outcome(problem, design)
    named = {hazard.barrier for hazard in hazards}
    if deadlock is not None:
        named |= set(deadlock.suspects)
    assert fault.barrier in named, (deadlock, hazards)


def test_a_dropped_release_of_k_hangs_and_says_who_waits_for_whom() -> None:
    problem, design = design_of("full", faults=(Fault("drop_arrival", "load_K_empty"),))
    with pytest.raises(Deadlock) as caught:
        simulate(problem, design, H200)
    assert caught.value.suspects[0] == "load_K_empty"
    assert caught.value.ring and {"load", "consumer0"} <= {
        entry.split(" ")[0] for entry in caught.value.ring
    }
    assert "consumer1 should have made 4 arrivals on load_K_empty[0]" in str(caught.value)


def test_a_turn_that_is_not_passed_on_hangs() -> None:
    fault = Fault("drop_arrival", "Scheduler1", role="consumer0")
    deadlock, _ = outcome(*design_of("full", faults=(fault,)))
    assert deadlock is not None and deadlock.suspects[0] == "Scheduler1"
    assert {who.role for who in deadlock.waiting} == {"consumer0", "consumer1", "load"}


def test_faults_that_break_nothing_are_refused() -> None:
    problem, design = design_of("without turns")
    for fault, message in (
        (Fault("drop_arrival", "Scheduler0"), "uses no barrier 'Scheduler0'"),
        (Fault("drop_arrival", "load_K_full", 5), "has stages 0 to 1"),
        (Fault("drop_wait", "load_K_full", role="load"), "'load' does not wait for load_K_full"),
    ):
        with pytest.raises(ValueError, match=message):
            outcome(problem, dataclasses.replace(design, faults=(fault,)))
