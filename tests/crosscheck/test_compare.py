"""A simulator that is wrong in one respect is told apart from the kernel in that respect.

The kernel's side is a stored record of the official kernel; see :mod:`tests.crosscheck.stored`.
"""

from __future__ import annotations

import copy
import dataclasses
from functools import cache

import pytest

from fa4kernel.crosscheck.accepted import without
from fa4kernel.crosscheck.barriers import compare_barriers
from fa4kernel.crosscheck.inputs import draw
from fa4kernel.crosscheck.lives import compare_lives
from fa4kernel.crosscheck.mix import compare_mix
from fa4kernel.crosscheck.order import compare_order
from fa4kernel.crosscheck.record import Record, Warp
from fa4kernel.crosscheck.simulated import simulated
from fa4kernel.crosscheck.verdict import Part
from fa4sim.pipelines.fa4 import load, mma
from fa4sim.specs import Design, Fault, Problem
from tests.crosscheck.stored import CASES, SEED, from_json, stored, to_json

NEVER_MADE = frozenset({"s0_s1_sequence"})
CASE = CASES["one_cta"]


def simulate(design: Design | None = None) -> Record:
    """The simulator's record of the stored problem."""
    inputs = draw(CASE.problem, SEED, rising=True)
    given = (inputs.q, inputs.k, inputs.v)
    return simulated(CASE.problem, design or CASE.design, CASE.machine, given).record


@cache
def right() -> Record:
    """The simulator as it is."""
    return simulate()


def compare(simulator: Record) -> dict[str, Part]:
    """All parts that a record alone decides."""
    kernel = stored("one_cta")
    parts = (
        compare_barriers(simulator, kernel, NEVER_MADE),
        compare_order(simulator, kernel),
        compare_lives(simulator, kernel),
        compare_mix(simulator, simulator, kernel),
    )
    return {part.name: part for part in parts}


def wrong(parts: dict[str, Part]) -> list[str]:
    """Names of the parts that differ."""
    return [name for name, part in parts.items() if not part.agrees]


def test_simulator_and_official_kernel_agree() -> None:
    parts = compare(right())
    assert wrong(parts) == [], [part.words() for part in parts.values()]
    assert parts["barriers"].compared > 200
    assert parts["order"].figures["happens-before edges"] > 500
    assert parts["tile lifetimes"].figures["lives"] == len(stored("one_cta").lives)


def test_a_record_survives_being_stored() -> None:
    record = stored("one_cta")
    assert to_json(from_json(to_json(record))) == to_json(record)


# --- a simulator whose design or code is wrong ----------------------------------------------------


@pytest.mark.parametrize("count", ["count_minus_one", "count_plus_one"])
def test_one_barrier_count(count: str) -> None:
    # An empty half in its last phase: the run ends all the same, a phase early or late.
    faults = (Fault("count_minus_one", "O_epi_empty", 1),)
    record = simulate(dataclasses.replace(CASE.design, faults=faults))
    if count == "count_plus_one":
        record = copy.deepcopy(right())
        record.barriers[0, "O_epi_empty", 1].count += 1
    parts = compare(record)
    assert "barriers" in wrong(parts)
    first = parts["barriers"].differences[0]
    seen = 31 if count == "count_minus_one" else 33
    assert first == (
        f"O_epi_empty[1] of CTA 0, arrivals that complete a phase: simulator {seen}, kernel 32"
    )


def test_one_order_in_a_role(monkeypatch: pytest.MonkeyPatch) -> None:
    original = mma.MmaRole.commit

    def commit(self: mma.MmaRole, name: str, stage: int) -> None:
        # O of the first stage is told to be ready behind that of the second.
        if name == "O_full":
            stage = 1 - stage
        original(self, name, stage)

    monkeypatch.setattr(mma.MmaRole, "commit", commit)
    parts = compare(simulate())
    assert wrong(parts) == ["order"]
    first = parts["order"].differences[0]
    assert "mma warp 0 of CTA 0: simulator [commit O_full[1]], kernel [commit O_full[0]]" in first


def test_one_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Design.ring_slots

    def ring_slots(self: Design, problem: Problem) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        first, second, *rest = original(self, problem)
        return [second, first, *rest]

    monkeypatch.setattr(Design, "ring_slots", ring_slots)
    parts = compare(simulate())
    assert wrong(parts) == ["tile lifetimes"]
    assert parts["tile lifetimes"].differences[0] == (
        "tile 0 in sKV[0] of CTA 0: simulator K tile (0, 0, 1) in sKV[0] of CTA 0 at byte 32768, "
        "32768 bytes, kernel K tile (0, 0, 1) in sKV[0] of CTA 0 at byte 0, 32768 bytes"
    )


def test_columns_of_tensor_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Design.tmem_map

    def tmem_map(self: Design, element_bytes: int = 2) -> dict[str, tuple[int, int]]:
        columns = original(self, element_bytes)
        return columns | {"P0": (0, columns["P0"][1])}

    monkeypatch.setattr(Design, "tmem_map", tmem_map)
    parts = compare(simulate())
    assert wrong(parts) == ["tile lifetimes"]
    assert "P in columns 0-63 of CTA 0" in parts["tile lifetimes"].differences[0]


def test_another_number_of_slots() -> None:
    parts = compare(simulate(dataclasses.replace(CASE.design, kv_stages=2)))
    assert {"barriers", "order", "tile lifetimes"} <= set(wrong(parts))
    assert parts["barriers"].differences[0].startswith("load_KV_empty[0] of CTA 0")


def test_a_wait_that_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load.LoadRole, "tail", lambda self: iter(()))
    parts = compare(simulate())
    assert "order" in wrong(parts)
    assert "only the kernel does [wait load_KV_empty[2]" in parts["order"].differences[0]


def test_a_smaller_part_of_the_exponentials() -> None:
    parts = compare(simulate(dataclasses.replace(CASE.design, exp2_period=0)))
    assert wrong(parts) == ["instruction mix"]
    assert parts["instruction mix"].differences[0].startswith("exponentials on MUFU: simulator")


def test_p_in_one_part() -> None:
    parts = compare(simulate(dataclasses.replace(CASE.design, p_first_columns=128)))
    assert wrong(parts)[:2] == ["barriers", "order"]
    assert "P_full_lastsplit[0] of CTA 0 is there" in parts["barriers"].differences[0]


# --- a record that is wrong in one place ----------------------------------------------------------


def test_an_event_that_comes_too_early() -> None:
    record = copy.deepcopy(right())
    softmax = record.warps[Warp(0, "softmax0", 0)]
    (number, *_) = [n for n, o in enumerate(softmax) if o.on == "P_full_O_rescaled[0]"]
    softmax[number].begin = 10**9  # later than the wait that it ends
    parts = compare(record)
    assert wrong(parts) == ["order"]
    first = parts["order"].differences[0]
    assert first.startswith("the kernel's order, in the simulator: softmax0 warp 0 of CTA 0's")
    assert "mma warp 0 of CTA 0's [wait P_full_O_rescaled[0] for phase 1]" in first


def test_two_operations_in_the_other_order() -> None:
    record = copy.deepcopy(right())
    load_warp = record.warps[Warp(0, "load", 2)]
    load_warp[3], load_warp[4] = load_warp[4], load_warp[3]
    parts = compare(record)
    assert wrong(parts) == ["order"]
    assert parts["order"].differences[0].startswith("operation 3 of load warp 2 of CTA 0")


def test_a_phase_too_many() -> None:
    record = copy.deepcopy(right())
    mma_warp = record.warps[Warp(0, "mma", 0)]
    (wait, *_) = [o for o in mma_warp if o.on == "load_KV_full[1]"]
    wait.phase += 1
    parts = compare(record)
    assert wrong(parts) == ["order"]
    assert (
        "[wait load_KV_full[1] for phase 2], kernel [wait load_KV_full[1] for phase 1]"
        in (parts["order"].differences[0])
    )


def test_a_tile_that_is_born_before_the_one_in_its_place_dies() -> None:
    record = copy.deepcopy(right())
    (one, two, *_) = sorted(
        (n for n, life in enumerate(record.lives) if life.slot == "sKV[0]"),
        key=lambda n: record.lives[n].birth,
    )
    late = dataclasses.replace(record.lives[one], death=record.lives[two].birth + 1)
    record.lives[one] = late
    parts = compare(record)
    assert wrong(parts) == ["tile lifetimes"]
    assert "simulator: " in parts["tile lifetimes"].differences[0]


def test_bytes_and_parties_and_waiters_of_a_barrier() -> None:
    for change, aspect in (
        (lambda use: use.waiters.add("load"), "who waits"),
        (lambda use: setattr(use, "kind", "named"), "kind"),
        (lambda use: use.arrivals.pop(), "arrivals by role"),
        (lambda use: setattr(use, "completions", use.completions - 1), "phases completed"),
    ):
        record = copy.deepcopy(right())
        change(record.barriers[0, "softmax_stats_empty", 0])
        parts = compare(record)
        assert "barriers" in wrong(parts)
        assert f"softmax_stats_empty[0] of CTA 0, {aspect}" in parts["barriers"].differences[0]


def test_a_fault_of_the_kernels_data_flow_is_told() -> None:
    kernel = stored("one_cta")
    kernel.faults.append("PV multiplies P (0, 0, 0, 1) and V (0, 0, 0)")
    assert compare_order(right(), kernel).differences == kernel.faults


def test_nothing_compared_is_no_agreement() -> None:
    assert not Part("empty").agrees
    assert Part("empty").words() == "empty: NOTHING COMPARED"


# --- what a kernel may leave out ------------------------------------------------------------------


def test_a_last_arrival_that_nobody_waits_for_may_be_left_out() -> None:
    left_out = {("load", "arrive", "load_Q_full"): "it arms no phase"}
    record = without(right(), left_out)
    warp = Warp(0, "load", 2)
    assert len(record.warps[warp]) == len(right().warps[warp]) - 1
    assert record.barriers[0, "load_Q_full", 1].left_over() == {}
    assert right().barriers[0, "load_Q_full", 1].left_over() == {"load": 1}


def test_an_arrival_that_ends_a_phase_may_not() -> None:
    record = copy.deepcopy(right())
    warp = Warp(0, "load", 2)
    last = max(n for n, o in enumerate(record.warps[warp]) if o.on == "load_KV_full[0]")
    record.warps[warp] = record.warps[warp][: last + 1]
    with pytest.raises(ValueError, match="it ends a phase"):
        without(record, {("load", "arrive", "load_KV_full"): "no"})


def test_a_warp_with_another_role() -> None:
    record = copy.deepcopy(right())
    record.roles[13], record.roles[14] = record.roles[14], record.roles[13]
    parts = compare(record)
    assert wrong(parts) == ["barriers"]
    assert parts["barriers"].differences[0] == ("role of warp 13: simulator load, kernel epilogue")
