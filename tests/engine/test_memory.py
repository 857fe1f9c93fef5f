"""The TMA engine: what was issued first lands first, and nothing is faster than its path."""

from hypothesis import given
from hypothesis import strategies as st

from fa4sim.engine.core import Core
from fa4sim.engine.memory import CHUNK_BYTES, Load, Share, TmaLoad, TmaStore
from fa4sim.engine.units import Unit
from tests.engine.warps import at

WIDTH, RATE, LATENCY = 128, 64.0, 90
FAST = 1e6
#: Tiles are boxes of 128 bytes and more: a whole number of cycles on every path here.
SIZES = st.integers(1, 3 * CHUNK_BYTES // 128).map(lambda boxes: 128 * boxes)
LOADS = st.lists(
    st.tuples(
        st.integers(0, 500), st.integers(0, 600), SIZES,
        st.sampled_from([0.0, 0.3, 1.0]),
    ),
    min_size=1, max_size=12,
)  # fmt: skip


def engine(l2=FAST, hbm=FAST, rate=RATE):
    core = Core()
    tma = TmaLoad(core, 0, 0, Unit("port"), WIDTH, rate, Share(l2), Share(hbm))
    core.env.process(tma.run())
    return core, tma


def issue(core, tma, loads):
    """Push ``(gap, latency, size, part from HBM)`` one after the other; returns what landed."""
    landed, now = [], 0
    for number, (gap, latency, size, part) in enumerate(loads):
        now += gap
        load = Load(
            "K", 0, 0, number, 0, number, size, now + latency, int(size * part),
            lambda load: landed.append((load.block, core.now)),
        )  # fmt: skip
        at(core, now, lambda load=load: tma.push(load))
    core.run()
    return landed


def pieces(size):
    return [CHUNK_BYTES] * (size // CHUNK_BYTES) + [size % CHUNK_BYTES] * (size % CHUNK_BYTES > 0)


@given(LOADS)
def test_tiles_land_in_the_order_of_issue_and_not_before_their_time(loads):
    core, tma = engine()
    landed = issue(core, tma, loads)
    assert [number for number, _ in landed] == list(range(len(loads)))
    now = free = 0
    for (_, time), (gap, latency, size, _) in zip(landed, loads, strict=True):
        now += gap
        free = max(free, now + latency) + sum(round(piece / RATE) for piece in pieces(size))
        assert time == free, "alone on a wide road, only its own path holds a tile back"


@given(LOADS, st.sampled_from([40.0, 7.5]), st.sampled_from([29.2, 5.0]))
def test_no_path_gives_more_than_its_rate(loads, l2, hbm):
    core, tma = engine(l2, hbm)
    landed = issue(core, tma, loads)
    end = landed[-1][1]
    first = loads[0][0] + loads[0][1]
    total = sum(size for _, _, size, _ in loads)
    from_hbm = sum(int(size * part) for _, _, size, part in loads)
    chunks = sum(len(pieces(size)) for _, _, size, _ in loads)
    assert tma.l2.moved == total
    assert from_hbm - chunks <= tma.hbm.moved <= from_hbm
    slack = chunks  # whole cycles per piece
    assert end - first >= max(total / RATE, total / l2, tma.hbm.moved / hbm) - slack


@given(LOADS)
def test_bytes_in_flight_are_counted_up_and_down_to_nothing(loads):
    core, tma = engine(l2=20.0)
    issue(core, tma, loads)
    counter = core.trace.counter
    assert set(counter.text("name")) == {"bytes_in_flight"}
    assert counter["value"].min() >= 0 and counter["value"][-1] == tma.in_flight == 0
    assert counter["value"].max() <= sum(size for _, _, size, _ in loads)
    spans = core.trace.span
    assert (spans["start"][1:] >= spans["end"][:-1]).all(), "one tile at a time"
    assert (spans["busy"] <= spans["end"] - spans["start"] + 1).all()


def test_a_busy_shared_memory_port_holds_a_tile_back():
    core, tma = engine()
    tma.port.reserve(0, 5000)
    assert issue(core, tma, [(0, 10, CHUNK_BYTES, 0.0)]) == [(0, 5000 + CHUNK_BYTES // WIDTH)]


def test_loads_in_hand_and_queued_are_listed_and_can_be_moved_on():
    core, tma = engine()
    for number in range(3):
        tma.push(Load("V", number, 5, 9 - number, 0, number, 100, 1000, 0, lambda load: None))
    core.run(watch=lambda: tma.current is not None)
    assert [load.stage for load in tma.loads()] == [0, 1, 2]
    tma.loads()[2].shift(tiles=0, steps=4, ids=0)
    assert (tma.loads()[2].step, tma.loads()[2].block) == (6, 3)


# -- stores ------------------------------------------------------------------------------------


def storing(l2=FAST):
    core = Core()
    tma = TmaStore(core, 0, 0, Unit("port"), WIDTH, RATE, LATENCY, Share(l2), Share(FAST))
    core.env.process(tma.run())
    return core, tma


@given(st.lists(SIZES, min_size=1, max_size=8))
def test_bulk_groups_are_read_out_in_order(sizes):
    core, tma = storing()
    done = []
    for stage, size in enumerate(sizes):
        tma.push(size, 0, stage, lambda stage=stage: done.append((stage, core.now)))
    core.run()
    time = 0
    wanted = []
    for stage, size in enumerate(sizes):
        time += LATENCY + sum(round(piece / RATE) for piece in pieces(size))
        wanted.append((stage, time))
    assert done == wanted
    assert tma.issued == tma.read == len(sizes) and tma.l2.moved == tma.hbm.moved == sum(sizes)


@given(st.integers(1, 6), st.integers(0, 6))
def test_waiting_for_all_but_a_few_groups(groups, allowed):
    core, tma = storing()
    done, woken = [], []
    for _ in range(groups):
        tma.push(4096, 0, 0, lambda: done.append(core.now))
    wake = tma.pending_above(allowed)
    if allowed >= groups:
        assert wake is None
        return
    wake.callbacks.append(lambda _: woken.append(core.now))
    core.run()
    assert woken == [done[groups - allowed - 1]]
    assert tma.pending_above(0) is None
