"""A warp's record: every cycle of its life is inside exactly one span or wait."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4sim.engine.agent import Agent
from fa4sim.engine.core import Core
from fa4sim.engine.units import Group, Pressure, SubPartition, Unit
from tests.engine.warps import RESUME, Warp, at, barrier

STEPS = st.lists(
    st.tuples(st.sampled_from(["work", "spend", "port", "wait", "stand"]), st.integers(0, 60)),
    min_size=1, max_size=15,
)  # fmt: skip


def stretches(core, warp):
    """Spans and waits of a warp, in time."""
    rows = []
    for table in (core.trace.span, core.trace.wait):
        mine = table.where(warp=warp)
        rows += zip(mine["start"].tolist(), mine["end"].tolist(), strict=True)
    return sorted(row for row in rows if row[1] > row[0])


@given(st.lists(STEPS, min_size=1, max_size=3))
def test_no_cycle_of_a_warp_is_unexplained_or_explained_twice(programs):
    core = Core()
    smsp = SubPartition(0, Pressure())
    port = Unit("tmem")
    bar = barrier(core)
    for time in range(0, 2000, 50):
        at(core, time, lambda: bar.arrive("load", 0, 0, 1))

    def program(steps):
        def run(warp):
            for what, cycles in steps:
                if what == "work":
                    yield from warp.work("exp2", "mufu", Group(2, mufu=cycles), latency=4)
                elif what == "spend":
                    yield from warp.spend("vote", "issue", cycles)
                elif what == "port":
                    yield from warp.port("load S", "tmem", port, cycles, 13, 1, 0)
                elif what == "wait":
                    yield from warp.wait(bar, bar.completions + cycles % 3, "test")
                else:
                    event = core.env.timeout(cycles)
                    yield from warp.stand(event, "tma", "the store", 0)

        return run

    warps = [Warp(core, program(steps), warp=4 * i, smsp=smsp) for i, steps in enumerate(programs)]
    core.run()
    for warp in warps:
        rows = stretches(core, warp.warp)
        assert sum(end - start for start, end in rows) == warp.died
        cursor = 0
        for start, end in rows:
            assert start == cursor
            cursor = end


def test_a_wait_row_says_for_what_and_why():
    core = Core()
    bar = barrier(core, name="S_full", stage=1)
    at(core, 30, lambda: bar.arrive("load", 0, 0, 1))

    def steps(warp):
        warp.tile_id, warp.block = 5, 6
        yield from warp.wait(bar, 1, "scores")

    Warp(core, steps, role="softmax1", warp=4)
    core.run()
    assert list(core.trace.wait.rows()) == [
        {"sm": 0, "cta": 0, "role": "softmax1", "warp": 4, "on": "S_full", "kind": "barrier",
         "stage": 1, "phase": 1, "reason": "scores", "start": 0, "end": 30 + RESUME,
         "tile": 5, "block": 6, "span": -1}
    ]  # fmt: skip


def test_a_span_shows_the_work_of_its_unit_and_the_queueing_before_it():
    core = Core()
    smsp = SubPartition(0, Pressure())

    def steps(warp):
        yield from warp.work("exp2", "mufu", Group(4, mufu=64), latency=20)

    for warp in (0, 4):
        Warp(core, steps, warp=warp, smsp=smsp)
    core.run()
    span = core.trace.span
    assert span["end"].tolist() == [84, 148] and span["busy"].tolist() == [84, 84]
    assert set(span.text("unit")) == {"mufu"}


def test_skipped_time_is_added_to_everything_recorded():
    core = Core()
    core.skipped = 1000

    def steps(warp):
        yield from warp.spend("vote", "issue", 5)

    warp = Warp(core, steps)
    core.run()
    assert core.now == warp.died == 1005
    assert core.trace.span["start"].tolist() == [1000]


def test_the_clock_counts_its_steps_and_stops_when_asked():
    core = Core()
    for time in range(10):
        at(core, time, lambda: None)
    core.run(watch=lambda: core.env.cycle >= 4)
    assert core.events == 5 and core.env.cycle == 4
    core.run()
    assert core.events == 10 and core.env.cycle == 9
    core.run()
    assert core.events == 10


def test_a_role_must_say_what_it_does():
    with pytest.raises(NotImplementedError):
        next(Agent(Core(), 0, 0, "mma", 0, SubPartition(0, Pressure())).run())
