"""A barrier's phases: what completes one, who passes, and what does not add up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4sim.engine.core import Core
from tests.engine.warps import RESUME, TRY, Warp, at, barrier, kinds


def passes(core, bar, phases, role="mma"):
    """The times at which one warp gets past ``bar``, waiting for each of ``phases`` in turn."""
    times = []

    def steps(warp):
        for phase in phases:
            yield from warp.wait(bar, phase, "test")
            times.append(core.now)

    Warp(core, steps, role)
    return times


def arrivals(core, bar, when, role="load", count=1, tx_bytes=0):
    for time in when:
        at(core, time, lambda: bar.arrive(role, 0, 0, count, tx_bytes))


# -- waiting -----------------------------------------------------------------------------------


def test_a_parked_waiter_resumes_a_latency_after_the_last_arrival():
    core = Core()
    bar = barrier(core, expected=2)
    times = passes(core, bar, [1])
    arrivals(core, bar, [10, 25])
    core.run()
    assert times == [25 + RESUME]


def test_a_phase_that_is_complete_costs_one_look():
    core = Core()
    bar = barrier(core)
    bar.arrive("load", 0, 0, 1)
    times = passes(core, bar, [1, 1])
    core.run()
    assert times == [TRY, 2 * TRY]


def test_phase_zero_is_over_before_anything_happens():
    core = Core()
    times = passes(core, barrier(core), [0])
    core.run()
    assert times == [TRY] and not core.hazards


def test_everybody_who_waits_for_a_phase_passes_together():
    core = Core()
    bar = barrier(core)
    early = [passes(core, bar, [1], role) for role in ("mma", "softmax0", "softmax1")]
    later = passes(core, bar, [1, 2])
    arrivals(core, bar, [40, 60])
    core.run()
    assert early == [[40 + RESUME]] * 3 and later == [40 + RESUME, 60 + RESUME]


def test_a_named_barrier_lets_through_at_once_if_it_is_complete():
    core = Core()
    bar = barrier(core, tries=0)
    bar.arrive("load", 0, 0, 1)
    times = passes(core, bar, [1])
    core.run()
    assert times == [0]


@given(
    first=st.lists(st.integers(0, 50), min_size=3, max_size=3),
    gaps=st.lists(st.integers(1, 40), min_size=4, max_size=4), arrive=st.integers(0, 60),
)  # fmt: skip
def test_a_phase_is_over_when_arrivals_and_bytes_are_all_there(first, gaps, arrive):
    # One arrival announces the bytes; they come in parts, perhaps before it is made.
    core = Core()
    bar = barrier(core)
    times = passes(core, bar, [1])
    sizes = [100, 1, 4096]
    at(core, arrive, lambda: bar.arrive("load", 0, 0, 1, sum(sizes)))
    for when, size in zip(first, sizes, strict=True):
        at(core, when, lambda size=size: bar.deliver(size))
    core.run()
    assert times == [max(arrive, *first) + RESUME]
    assert bar.completions == 1 and (bar.pending, bar.tx_pending) == (1, 0)


def test_bytes_alone_complete_nothing():
    core = Core()
    bar = barrier(core, expected=2)
    bar.arrive("load", 0, 0, 1, 64)
    bar.deliver(64)
    assert bar.completions == 0 and bar.missing() == ("load (1 of 2)",)
    bar.arrive("load", 0, 0, 1)
    assert bar.completions == 1


@given(
    parties=st.dictionaries(st.sampled_from("abcd"), st.integers(1, 5), min_size=1, max_size=4),
    phases=st.integers(1, 4), data=st.data(),
)  # fmt: skip
def test_in_whatever_order_the_parties_arrive_a_phase_takes_all_of_them(parties, phases, data):
    core = Core()
    bar = barrier(core, sum(parties.values()), parties)
    for phase in range(phases):
        singles = [role for role, count in parties.items() for _ in range(count)]
        for left, role in reversed(list(enumerate(data.draw(st.permutations(singles))))):
            assert bar.completions == phase
            assert bar.missing() if left + 1 else True
            bar.arrive(role, 0, 0, 1)
        assert bar.completions == phase + 1
    assert not core.hazards
    rows = core.trace.arrive
    assert rows["phase"].tolist() == [p for p in range(phases) for _ in range(bar.expected)]


# -- one phase bit -----------------------------------------------------------------------------


@pytest.mark.parametrize("late", [1, 2, 3, 4, 5])
def test_a_waiter_one_phase_late_waits_for_another_two_late_does_not_notice(late):
    # The hardware keeps one bit. If an odd number of phases too many has passed, the bit is back
    # where it was and the waiter parks; if an even number, it passes as if nothing had happened.
    core = Core()
    bar = barrier(core)
    for _ in range(1 + late):
        bar.arrive("load", 0, 0, 1)
    times = passes(core, bar, [1])
    arrivals(core, bar, [100])
    core.run()
    assert times == ([100 + RESUME] if late % 2 else [TRY])
    assert kinds(core) == ["phase_behind"]
    hazard = core.hazards[0]
    assert (hazard.barrier, hazard.by, hazard.other) == ("full", "mma", "load")
    assert f"phase 1 when {1 + late} phases have completed" in hazard.message


def test_a_phase_that_a_registered_waiter_never_saw_is_reported():
    core = Core()
    bar = barrier(core)
    times = passes(core, bar, [1])
    bar.watch("mma.0@0")
    arrivals(core, bar, [10, 20, 30])
    core.run()
    assert times == [10 + RESUME]
    # It saw phase 1 but never came for phase 2, which is over when phase 3 completes.
    assert kinds(core) == ["unobserved_phase"]
    assert core.hazards[0].other == "mma.0@0" and core.hazards[0].cycle == 30


# -- what does not add up ----------------------------------------------------------------------


def test_an_arrival_of_somebody_else_is_surplus():
    core = Core()
    bar = barrier(core, 2)
    bar.arrive("epilogue", 3, 0, 1)
    assert kinds(core) == ["surplus_arrival"]
    assert "epilogue is not among the arrivers" in core.hazards[0].message
    assert bar.pending == 1, "the hardware does not know who arrives"


def test_what_is_too_much_counts_towards_the_next_phase():
    core = Core()
    bar = barrier(core, expected=2, parties={"load": 3})
    bar.arrive("load", 0, 0, 3)
    assert bar.completions == 1 and bar.pending == 1
    assert kinds(core) == ["surplus_arrival"]
    assert "3 arrivals of load meet a phase that lacks 2" in core.hazards[0].message


def test_a_count_below_the_arrivers_shows_in_the_phase_that_gets_the_rest():
    core = Core()
    bar = barrier(core, expected=1, parties={"load": 2})
    bar.arrive("load", 0, 0, 1)
    bar.arrive("load", 0, 0, 1)
    assert bar.completions == 2
    assert kinds(core) == ["surplus_arrival"]
    assert "belongs to phase 0 but lands in phase 1" in core.hazards[0].message


def test_a_count_above_the_arrivers_is_missing_arrivals_or_a_wait_without_end():
    core = Core()
    bar = barrier(core, expected=3, parties={"load": 2})
    times = passes(core, bar, [1])
    arrivals(core, bar, [1, 2])
    core.run()
    assert times == [] and bar.completions == 0
    bar.arrive("load", 0, 0, 1)
    assert kinds(core) == ["missing_arrival"]
    assert "still lacks arrivals (count 3, arrivers 2)" in core.hazards[0].message


def test_dropped_arrivals_and_waits_leave_no_trace():
    core = Core()
    bar = barrier(core, 2, {"load": 1, "mma": 1})
    bar.dropped_arrivals = frozenset({"load"})
    bar.dropped_waits = frozenset({"softmax0"})
    bar.arrive("load", 0, 0, 1)
    times = passes(core, bar, [1], "softmax0")
    bar.arrive("mma", 0, 0, 1)
    core.run()
    assert times == [0] and bar.completions == 0 and len(core.trace.arrive) == 1
    assert bar.missing() == ("load (1 of 1)",)


def test_the_same_hazard_is_told_once():
    core = Core()
    bar = barrier(core)
    for _ in range(3):
        bar.arrive("stranger", 0, 0, 1)
    assert len(core.hazards) == 1
    assert str(core.hazards[0]).startswith(
        "cycle 0: surplus_arrival at full[0] of CTA 0: stranger is not"
    )


# -- comparing moments -------------------------------------------------------------------------


@given(st.integers(0, 4), st.integers(0, 3), st.integers(1, 5))
def test_moments_a_whole_number_of_phases_apart_look_the_same(phases, extra, more):
    core = Core()
    bar = barrier(core, 4, {"load": 4})
    for _ in range(4 * phases + extra):
        bar.arrive("load", 0, 0, 1)
    before = bar.state()
    for _ in range(4 * more):
        bar.arrive("load", 0, 0, 1)
    assert bar.state() == before and bar.phase == phases + more
    bar.arrive("load", 0, 0, 1)
    assert bar.state() != before
