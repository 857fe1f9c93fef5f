"""Whatever is broken at a barrier is found, and the report names that barrier."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from fa4sim import B200, Deadlock, Design, Fault, Problem, simulate
from fa4sim.engine.errors import Hazard
from fa4sim.numerics import attention_blockwise, attention_float64, round_to
from fa4sim.pipelines.fa4.barriers import barrier_table, parties_of, waiters_of
from fa4sim.pipelines.fa4.cluster import Surroundings
from fa4sim.pipelines.fa4.detail import simulate_cluster
from tests.pipelines.cases import CASES, tiles_of

#: Between them these designs use every barrier; three tiles wrap every ring and every phase.
BROKEN = (
    *("pair", "causal persistent", "uneven ring", "variable lengths", "dynamic", "one Q tile"),
    *("uneven ring from registers", "uneven ring, dynamic", "split, dynamic"),
)


def outcome(problem: Problem, design: Design) -> tuple[Deadlock | None, list[Hazard]]:
    """How one cluster with three tiles ends."""
    try:
        detail = simulate_cluster(
            problem, design, B200, tiles_of(problem, design, 3), Surroundings()
        )
    except Deadlock as deadlock:
        return deadlock, list(deadlock.hazards)
    return None, detail.hazards


def faults_of(name: str) -> list[Fault]:
    problem, changes = CASES[name]
    design = Design.for_problem(problem, B200, **changes)
    faults = []
    for spec in barrier_table(design).values():
        if not spec.used:
            continue
        stages = range(spec.stages)
        faults += [Fault("count_plus_one", spec.name), Fault("count_minus_one", spec.name)]
        for role in sorted({role for s in stages for role in parties_of(spec, s)}):
            faults.append(Fault("drop_arrival", spec.name, None, role))
        for role in sorted({role for s in stages for role in waiters_of(spec, s)}):
            faults.append(Fault("drop_wait", spec.name, None, role))
    return faults


def every_fault() -> list[tuple[str, Fault]]:
    return [(name, fault) for name in BROKEN for fault in faults_of(name)]


@pytest.mark.parametrize("name", CASES)
def test_an_unbroken_design_reports_nothing(name: str) -> None:
    problem, changes = CASES[name]
    design = Design.for_problem(problem, B200, **changes)
    deadlock, hazards = outcome(problem, design)
    assert deadlock is None and hazards == []


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_barrier_is_found_and_named(name: str) -> None:
    problem, changes = CASES[name]
    design = Design.for_problem(problem, B200, **changes)
    missed = []
    for fault in faults_of(name):
        deadlock, hazards = outcome(problem, dataclasses.replace(design, faults=(fault,)))
        named = any(hazard.barrier == fault.barrier for hazard in hazards)
        named |= deadlock is not None and fault.barrier in deadlock.suspects
        if not named:
            missed.append((fault, deadlock, hazards))
    assert not missed


def test_every_barrier_that_is_used_by_some_design_is_broken_here() -> None:
    broken = {fault.barrier for _, fault in every_fault()}
    used = set()
    for problem, changes in CASES.values():
        design = Design.for_problem(problem, B200, **changes)
        used |= {spec.name for spec in barrier_table(design).values() if spec.used}
    assert used == broken
    # What is left over is never arrived on or waited for, so breaking it changes nothing:
    # P_full_lastsplit_empty (S_full tells that P has been read), O_empty (O is guarded by
    # P_full_O_rescaled), softmax_stats_full (named barriers took its place) and s0_s1_sequence
    # (switched off in the kernel).
    assert set(barrier_table(Design())) - used == {
        "P_full_lastsplit_empty", "O_empty", "softmax_stats_full", "s0_s1_sequence",
    }  # fmt: skip


def test_breaking_an_unused_barrier_is_refused() -> None:
    problem = Problem(seqlen_q=256)
    design = Design.for_problem(problem, B200, faults=(Fault("drop_arrival", "s0_s1_sequence"),))
    with pytest.raises(ValueError, match="uses no barrier 's0_s1_sequence'"):
        simulate(problem, design)


def test_a_deadlock_names_who_waits_for_whom() -> None:
    problem = Problem(seqlen_q=256, seqlen_k=1024, causal=True)
    design = Design.for_problem(
        problem, B200, faults=(Fault("drop_arrival", "P_full_lastsplit", 1, "softmax1"),)
    )
    with pytest.raises(Deadlock) as caught:
        simulate(problem, design)
    deadlock = caught.value
    assert deadlock.suspects[0] == "P_full_lastsplit"
    mma = next(w for w in deadlock.waiting if w.role == "mma")
    assert (mma.barrier, mma.stage, mma.phase) == ("P_full_lastsplit", 1, 1)
    assert (mma.arrivals, mma.expected) == (0, 4)
    assert mma.missing_from == ("softmax1 (4 of 4)",)
    assert "softmax1 should have made 4 arrivals on P_full_lastsplit[1]" in str(deadlock)
    assert deadlock.ring and deadlock.ring[0].split(" ")[0] == deadlock.ring[-1]


@pytest.mark.parametrize("stage", [0, 1])
def test_swapped_ring_slots_spoil_the_numbers_and_are_reported(stage: int) -> None:
    problem = Problem(heads=1, seqlen_q=256, seqlen_k=1024, head_dim=64)
    design = Design.for_problem(problem, B200)
    rng = np.random.default_rng(5)
    q, k, v = (
        round_to(rng.standard_normal((1, n, 1, 64)).astype(np.float32), "bf16")
        for n in (256, 1024, 1024)
    )
    swapped = dataclasses.replace(design, faults=(Fault("swap_slots", "load_KV_full", stage),))
    run = simulate(problem, swapped, arrays=(q, k, v), on_hazard="record")
    assert any(h.kind == "read_before_full" for h in run.hazards)
    out, _ = attention_blockwise(q, k, v, emulation_freq=design.exp2_period)
    exact, _ = attention_float64(q, k, v)
    assert run.outputs is not None
    assert not np.array_equal(run.outputs.out, out)
    assert not np.allclose(run.outputs.out, exact, atol=0.05, equal_nan=False)
    whole = simulate(problem, design, arrays=(q, k, v))
    assert whole.outputs is not None and np.array_equal(whole.outputs.out, out)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault("drop_wait", "load_KV_empty"), "overwrite_while_read"),
        (Fault("drop_wait", "S_full"), "read_before_full"),
        (Fault("drop_wait", "P_full_O_rescaled"), "read_before_full"),
        (Fault("drop_wait", "O_epi_full"), "read_before_full"),
    ],
    ids=str,
)
def test_a_missing_wait_shows_as_what_it_would_do_to_the_data(fault: Fault, kind: str) -> None:
    # K, V, the final O and the last part of P happen to be there in time on this machine; then
    # the phase that nobody waited for is what is reported (see the test above).
    problem, _ = CASES["pair"]
    design = Design.for_problem(problem, B200, faults=(fault,))
    _, hazards = outcome(problem, design)
    assert any(h.kind == kind and h.barrier == fault.barrier for h in hazards), hazards


@pytest.mark.parametrize(
    ("name", "barrier", "role"),
    [("uneven ring from registers", "load_epi_full", "load"),
     ("uneven ring, dynamic", "clc_empty", "scheduler")],
)  # fmt: skip
def test_a_wait_left_out_is_named_first_even_if_it_ends_in_a_deadlock(
    name: str, barrier: str, role: str
) -> None:
    problem, changes = CASES[name]
    problem = dataclasses.replace(problem, batch=20, heads=20, kv_heads=20)
    design = Design.for_problem(problem, B200, faults=(Fault("drop_wait", barrier),), **changes)
    with pytest.raises(Deadlock) as caught:
        simulate(problem, design)
    assert caught.value.suspects[0] == barrier
    assert f"{role} never waited for {barrier}[0]" in str(caught.value)


def test_nobody_is_said_to_leave_a_wait_out_who_does_not() -> None:
    problem, changes = CASES["dynamic"]
    for fault in (Fault("drop_arrival", "S_full"), Fault("count_plus_one", "load_KV_empty")):
        design = Design.for_problem(problem, B200, faults=(fault,), **changes)
        deadlock, _ = outcome(problem, design)
        assert deadlock is not None and "never waited" not in str(deadlock)


def test_a_deadlock_brings_the_trace_up_to_it() -> None:
    problem = Problem(seqlen_q=256, seqlen_k=1024)
    design = Design.for_problem(problem, B200, faults=(Fault("drop_arrival", "S_full", 1),))
    with pytest.raises(Deadlock) as caught:
        simulate(problem, design, scope="cta")
    trace = caught.value.trace
    assert trace is not None and trace.meta["machine"] == "B200" and trace.size("span")
    ends = trace.wait.where(reason="deadlock")
    assert set(ends["end"]) == {caught.value.at} and "S_full" in ends.unique("on")
