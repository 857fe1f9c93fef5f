"""Units as busy-until arithmetic, against a clock that serves requests one by one."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4sim.engine.memory import Share
from fa4sim.engine.units import Group, Pressure, SubPartition, Unit

GAPS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 50)), min_size=1, max_size=30)
COUNTS = st.integers(0, 40)
GROUPS = st.builds(
    Group, COUNTS, COUNTS, COUNTS, COUNTS, factor=st.sampled_from([1.0, 1.25, 1.55, 2.0])
)


@given(GAPS)
def test_a_unit_does_one_thing_after_the_other(work):
    unit = Unit("port")
    now = end = 0
    for gap, cycles in work:
        now += gap
        end = max(end, now) + cycles
        assert unit.reserve(now, cycles) == end
    assert unit.busy == sum(cycles for _, cycles in work) <= end


@given(st.lists(st.tuples(st.integers(0, 30), GROUPS, st.booleans()), min_size=1, max_size=20))
def test_a_sub_partition_s_units_work_side_by_side(work):
    pressure = Pressure()
    smsp = SubPartition(2, pressure)
    free = dict.fromkeys(("issue", "mufu", "fma", "alu"), 0)
    busy = dict.fromkeys(free, 0)
    now = 0
    for gap, group, running in work:
        now += gap
        pressure.running = running
        times = dict(zip(("mufu", "fma", "alu"), (group.mufu, group.fma, group.alu), strict=True))
        if running:
            times = dict(zip(times, group.pressed, strict=True))
        ends = [now]
        for unit, cycles in {"issue": group.issue, **times}.items():
            if cycles or unit == "issue":
                free[unit] = max(free[unit], now) + cycles
                busy[unit] += cycles
                ends.append(free[unit])
        assert smsp.run(now, group) == max(ends)
        assert smsp.state(now) == (*(max(0, t - now) for t in free.values()), 0)
    assert smsp.busy() == {**busy, "tmem": 0}
    assert all(busy[unit] <= free[unit] for unit in busy), "no unit works faster than time passes"


@pytest.mark.parametrize("factor", [1.0, 1.5, 1.55, 2.0])
def test_beside_a_running_tensor_pipe_arithmetic_takes_longer_but_issue_does_not(factor):
    pressure = Pressure()
    group = Group(10, mufu=80, fma=40, alu=20, factor=factor)
    assert SubPartition(0, pressure).run(0, group) == 80
    pressure.running = True
    smsp = SubPartition(0, pressure)
    assert smsp.run(0, group) == round(80 * factor)
    assert smsp.busy() == {
        "issue": 10, "mufu": round(80 * factor), "fma": round(40 * factor),
        "alu": round(20 * factor), "tmem": 0,
    }  # fmt: skip


def test_warps_of_one_sub_partition_queue_and_others_do_not():
    pressure = Pressure()
    shared, other = SubPartition(0, pressure), SubPartition(1, pressure)
    exp = Group(4, mufu=64)
    assert [shared.run(0, exp) for _ in range(3)] == [64, 128, 192]
    assert other.run(0, exp) == 64


def test_slots_and_skipped_work_are_counted():
    smsp = SubPartition(0, Pressure())
    smsp.slots(5, 3)
    assert smsp.state(5) == (3, 0, 0, 0, 0)
    smsp.tmem.reserve(5, 10)
    once = smsp.busy()
    smsp.add_busy(once)
    assert smsp.busy() == {name: 2 * cycles for name, cycles in once.items()}
    assert smsp.state(5) == (3, 0, 0, 0, 10), "what was not simulated occupies nothing"


# -- fair shares -------------------------------------------------------------------------------

RATES = st.sampled_from([10550.0, 3243.243, 36.5, 7.0])
TAKES = st.lists(st.tuples(st.integers(0, 400), st.integers(1, 16384)), min_size=1, max_size=25)


def exact(takes, rate, sharers, burst, rested):
    """When each take is due, as fractions: paid one after the other at the share's rate."""
    share = Fraction(rate) / sharers
    paid = None if rested else Fraction(0)
    now, due = 0, []
    for gap, size in takes:
        now += gap
        credit = now - burst / share
        paid = max(paid, credit) if paid is not None else credit
        paid += size / share
        due.append((now, size, paid))
    return due


def share_of(rate, sharers, burst, rested=True):
    share = Share(rate, burst, rested)
    share.sharers = sharers
    return share


@given(TAKES, RATES, st.integers(1, 148), st.sampled_from([0, 1000, 49152]), st.booleans())
def test_a_share_is_paid_for_at_its_rate(takes, rate, sharers, burst, rested):
    share = share_of(rate, sharers, burst, rested)
    due = [share.take(now, size) for now, size, _ in exact(takes, rate, sharers, burst, rested)]
    for got, (_, _, wanted) in zip(due, exact(takes, rate, sharers, burst, rested), strict=True):
        assert abs(got - wanted) < 1 + 0.001 * len(takes)  # whole cycles, fine time of 1/1024
    assert due == sorted(due)
    assert share.moved == sum(size for _, size in takes)


@given(TAKES, RATES, st.integers(1, 148), st.sampled_from([0, 1000, 49152]))
def test_no_stretch_of_time_gives_more_than_its_share_and_one_burst(takes, rate, sharers, burst):
    share = share_of(rate, sharers, burst)
    now, taken = 0, []
    for gap, size in takes:
        now += gap
        taken.append((now, size, share.take(now, size)))
    for first, (start, _, _) in enumerate(taken):
        moved = 0
        for _, size, due in taken[first:]:
            moved += size
            most = burst + (max(due, start) - start) * rate / sharers
            rounding = (1 + len(takes)) * rate / sharers / Share.FINE
            assert due < start or moved <= most + rounding + 1e-6


@given(RATES, st.integers(1, 148), st.integers(1, 49152))
def test_who_has_rested_gets_one_burst_at_once_and_then_waits(rate, sharers, burst):
    share = share_of(rate, sharers, burst)
    assert share.take(1000, burst) <= 1000
    assert share.take(1000, 16384) >= 1000 + 16384 * sharers / rate - 0.01


def test_all_who_start_together_have_no_credit():
    share = share_of(128.0, 2, 49152, rested=False)
    assert share.take(0, 6400) == 100
    assert share_of(128.0, 2, 49152).take(0, 6400) <= 0


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_two_moments_in_the_same_place_of_the_share_are_equal(first, later):
    def state(now):
        share = share_of(100.0, 4, 4096)
        share.take(now, 8192)
        return share.state(now + 7)

    assert state(first) == state(later)
