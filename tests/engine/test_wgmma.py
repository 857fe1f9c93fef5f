"""Hopper's tensor cores: measured latencies, order of issue, room in the queue."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4sim.engine.core import Core
from fa4sim.engine.units import Group, Pressure, SubPartition, Unit
from fa4sim.engine.wgmma import Product, WgmmaPipe
from fa4sim.specs import H200
from fa4sim.specs.measured import h200_value
from tests.engine.warps import Warp, at

ISSUE, DEPTH = H200.mma_issue_cycles, H200.wgmma_queue_steps
START, COMMIT = H200.mma_start_cycles, H200.mma_commit_cycles


def pipe(core, groups=2):
    tensor = WgmmaPipe(
        core, 0, 0, groups, Unit("smem"), Pressure(), ISSUE, DEPTH, COMMIT
    )  # fmt: skip
    core.env.process(tensor.run())
    return tensor


def product(core, log, group=0, steps=8, cycles=64, number=0, start=START):
    def note(what):
        return lambda item: log.append((what, group, number, core.now))

    return Product(
        "QK", group, 0, 0, number, 0, number, steps, cycles, 48, start, note("begin"),
        note("finish"),
    )  # fmt: skip


def issue(tensor, item):
    for lane in range(4):
        tensor.issue(lane, item)


def finishes(log):
    return [(group, number, time) for what, group, number, time in log if what == "finish"]


# m64n128k16, operands in shared memory, issue to the waiter: k-steps -> cycles (on an H200).
MEASURED = {1: 130, 2: 194, 4: 323, 8: 580}


@pytest.mark.parametrize("steps", MEASURED)
def test_a_wgmma_takes_as_long_as_on_an_h200(steps):
    core, log = Core(), []
    tensor = pipe(core)

    def run(warp):
        issue(tensor, product(core, log, steps=steps))
        yield from warp.stand(tensor.done(0, 1), "tensor", "S")

    warp = Warp(core, run)
    core.run()
    assert warp.died == pytest.approx(MEASURED[steps], abs=2)


def test_sixteen_steps_leave_their_warp_when_eight_are_done():
    # On an H200 issue and commit of 16 k-steps take 629 cycles.
    core, log = Core(), []
    tensor = pipe(core)

    def run(warp):
        issue(tensor, product(core, log, number=0))
        issue(tensor, product(core, log, number=1))
        yield core.env.timeout(16 * ISSUE)
        yield from warp.stand(tensor.room(0), "tensor", "queue full")

    warp = Warp(core, run)
    core.run()
    assert warp.died == START + 8 * 64
    assert 0.85 * 629 < warp.died < 629


def test_a_product_starts_with_the_fourth_warp():
    core, log = Core(), []
    tensor = pipe(core)
    item = product(core, log)
    for lane, time in enumerate((0, 5, 300, 90)):
        at(core, time, lambda lane=lane: tensor.issue(lane, item))
    core.run()
    assert log[0] == ("begin", 0, 0, 300 + START)


# Warpgroups that issue 8 k-steps each at the same moment: when each is done, on an H200.
TOGETHER = {
    n: [h200_value(f"wgmma_n128_{n}_warpgroups_together_{i + 1}_done_cycles") for i in range(n)]
    for n in (2, 3)
}


@pytest.mark.parametrize("groups", TOGETHER)
def test_warpgroups_that_issue_together_drift_apart_as_on_an_h200(groups):
    core, log = Core(), []
    tensor = pipe(core, groups)
    for group in range(groups):
        issue(tensor, product(core, log, group))
    core.run()
    ends = [time + COMMIT for _, _, time in finishes(log)]
    assert ends == pytest.approx(TOGETHER[groups], rel=0.2)
    assert ends[-1] == START + COMMIT + groups * 512  # no cycle is lost


def test_dense_multiplications_take_tensor_time_away():
    core, log = Core(), []
    pressure = Pressure()
    tensor = WgmmaPipe(core, 0, 0, 1, Unit("smem"), pressure, ISSUE, DEPTH, COMMIT)
    core.env.process(tensor.run())
    smsp = SubPartition(2, pressure)
    issue(tensor, product(core, log))
    at(core, START + 100, lambda: smsp.run(core.now, Group(32, fma=32, steals=32)))
    at(core, START + 900, lambda: smsp.run(core.now, Group(32, fma=32, steals=32)))  # idle by then
    core.run()
    assert finishes(log) == [(0, 0, START + 512 + 32)]


def test_what_is_issued_behind_all_of_anothers_steps_follows_them():
    core, log = Core(), []
    tensor = pipe(core)
    issue(tensor, product(core, log, 0))
    at(core, 8 * ISSUE, lambda: issue(tensor, product(core, log, 1)))
    core.run()
    assert finishes(log) == [(0, 0, START + 512), (1, 0, START + 1024)]


ITEMS = st.lists(
    st.tuples(
        st.integers(0, 400), st.integers(0, 2), st.integers(1, 11), st.sampled_from([32, 64])
    ),
    min_size=1, max_size=20,
)  # fmt: skip


@given(ITEMS)
def test_products_of_a_warpgroup_keep_their_order_and_no_cycle_is_lost(items):
    core, log = Core(), []
    tensor = pipe(core, 3)
    now = work = 0
    for number, (gap, group, steps, cycles) in enumerate(items):
        now += gap
        work += steps * cycles
        at(
            core, now,
            lambda g=group, s=steps, c=cycles, n=number: issue(
                tensor, product(core, log, g, s, c, n)
            ),
        )  # fmt: skip
    core.run()
    done = finishes(log)
    assert tensor.busy == work and len(done) == len(items)
    for group in range(3):
        mine = [number for g, number, _ in done if g == group]
        assert mine == sorted(mine)
        assert tensor.completed[group] == tensor.issued[group] == len(mine)
    # The tensor cores never stand while something is ready: last end <= arrivals + all the work.
    assert done[-1][2] <= now + len(items) * (START + 11 * ISSUE) + work
    assert not any(tensor.waiting_steps)
