"""The tensor pipe: nothing overtakes, and a commit follows everything before it."""

from hypothesis import given
from hypothesis import strategies as st

from fa4sim.engine.core import Core
from fa4sim.engine.tensor import STEPS_PER_PIECE, Commit, Mma, TensorPipe
from fa4sim.engine.units import Pressure, Unit
from tests.engine.warps import at, barrier

START, START_TMEM, COMMIT = 40, 8, 45
ITEMS = st.lists(
    st.tuples(
        st.integers(0, 300), st.booleans(), st.integers(1, 8), st.sampled_from([16, 32, 64]),
        st.booleans(),
    ),
    min_size=1, max_size=20,
)  # fmt: skip


def pipe(core, sms=1):
    ports = [Unit("port") for _ in range(sms)]
    pressures = [Pressure() for _ in range(sms)]
    tensor = TensorPipe(core, list(range(sms)), 0, ports, pressures, START, START_TMEM, COMMIT)
    core.env.process(tensor.run())
    return tensor


def mma(core, log, number=0, steps=8, cycles=64, smem=0, from_tmem=False):
    def note(what):
        return lambda item: log.append((what, number, core.now))

    return Mma(
        "qk", 0, 0, 0, number, 0, number, core.env.cycle, 0, steps, cycles, smem, from_tmem,
        note("begin"), note("finish"),
    )  # fmt: skip


@given(ITEMS)
def test_mmas_and_commits_keep_the_order_of_issue(items):
    core = Core()
    tensor = pipe(core)
    bar = barrier(core)
    log, landed, wanted, wanted_landed = [], [], [], []
    now = free = 0
    for number, (gap, is_mma, steps, cycles, from_tmem) in enumerate(items):
        now += gap
        if is_mma:
            at(
                core, now,
                lambda n=number, s=steps, c=cycles, t=from_tmem: tensor.push(
                    mma(core, log, n, s, c, from_tmem=t)
                ),
            )  # fmt: skip
            begin = max(free, now + (START_TMEM if from_tmem else START))
            free = begin + steps * cycles
            wanted += [("begin", number, begin), ("finish", number, free)]
        else:
            commit = Commit(lambda n=number: landed.append((n, core.now)), bar)
            at(core, now, lambda commit=commit: tensor.push(commit))
            wanted_landed.append((number, max(free, now) + COMMIT))
    core.run()
    assert log == wanted
    assert landed == wanted_landed
    assert tensor.busy == sum(s * c for _, is_mma, s, c, _ in items if is_mma)
    spans = core.trace.span
    assert (spans["end"] - spans["start"] == spans["busy"]).all()


def test_the_start_up_of_an_mma_hides_behind_the_one_that_runs():
    core = Core()
    tensor, log = pipe(core), []
    for number in range(3):
        tensor.push(mma(core, log, number))
    core.run()
    assert [time for what, _, time in log if what == "begin"] == [40, 40 + 512, 40 + 1024]


def test_a_busy_port_slows_the_pipe_piece_by_piece():
    core = Core()
    tensor, log = pipe(core), []
    tensor.push(mma(core, log, smem=64))
    at(core, START + 1, lambda: tensor.ports[0].reserve(core.env.cycle, 100))
    core.run()
    # The first piece had its operands; the others queue behind what came in between.
    assert log == [("begin", 0, START), ("finish", 0, START + 512 + 100)]
    span = core.trace.span
    assert span["busy"].tolist() == [512] and tensor.ports[0].busy == 512 + 100


def test_operands_that_take_longer_than_the_mathematics_set_the_pace():
    core = Core()
    tensor, log = pipe(core), []
    tensor.push(mma(core, log, steps=4, cycles=32, smem=64))
    core.run()
    assert log[-1] == ("finish", 0, START + 4 * 64)


def test_a_pair_waits_for_the_slower_of_its_two_ports_and_is_shown_on_both_sms():
    core = Core()
    tensor, log = pipe(core, sms=2), []
    tensor.ports[1].reserve(0, 1000)
    tensor.push(mma(core, log, steps=STEPS_PER_PIECE, smem=10))
    core.run()
    assert log[-1] == ("finish", 0, 1000 + STEPS_PER_PIECE * 10)
    span = core.trace.span
    assert span["sm"].tolist() == [0, 1] and span["cta"].tolist() == [0, 1]
    assert span["start"].tolist() == [START] * 2


def test_everybody_on_the_sm_feels_the_pipe_while_it_runs():
    core = Core()
    tensor, log, felt = pipe(core), [], {}
    tensor.push(mma(core, log))
    for time in (0, START - 1, START + 1, START + 511, START + 513):
        at(core, time, lambda time=time: felt.update({time: tensor.pressures[0].running}))
    core.run()
    assert list(felt.values()) == [False, False, True, True, False]


def test_what_is_queued_can_be_looked_at_and_moved_on():
    core = Core()
    tensor, log = pipe(core), []
    for number in range(3):
        tensor.push(mma(core, log, number))
    core.run(watch=lambda: tensor.current is not None)
    assert [item.step for item in tensor.mmas()] == [0, 1, 2]
    tensor.mmas()[1].shift(tiles=1, steps=4, ids=10)
    moved = tensor.mmas()[1]
    assert (moved.tile, moved.step, moved.tile_id, moved.block) == (1, 5, 10, -3)
