"""Slots and TMEM regions with tags: whoever comes too early or too late is told so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4sim.engine.buffers import EMPTY, TILE_STRIDE, Buffer, Shards, tag
from fa4sim.engine.core import Core
from fa4sim.trace import NONE
from tests.engine.warps import at, kinds


def slot(core, stage=1):
    return Buffer(core, "K", f"ring[{stage}]", 0, 0, stage, "load_KV_full", "load_KV_empty")


def filled(core, what=7, tensor="K"):
    buffer = slot(core)
    buffer.begin_fill("load", tensor, what, 0, 3)
    buffer.end_fill()
    return buffer


def test_a_slot_that_is_filled_used_and_released_in_order_says_nothing():
    core = Core()
    buffer = slot(core)
    for what in range(3):
        buffer.begin_fill("load", "K", what, 0, 9 - what, parts=2)
        buffer.end_fill()
        buffer.end_fill()
        buffer.check("mma", "K", what, 0, 9 - what)
        buffer.begin_use()
        buffer.end_use()
        buffer.release()
    assert not core.hazards
    life = core.trace.life
    assert life["block"].tolist() == [9, 8, 7] and set(life.text("slot")) == {"ring[1]"}


def test_the_life_of_a_tile_in_a_slot_is_recorded():
    core = Core()
    buffer = slot(core)
    steps = {
        10: lambda: buffer.begin_fill("load", "V", 5, 2, 4),
        60: buffer.end_fill,
        80: buffer.begin_use,
        90: buffer.end_use,
        95: buffer.begin_use,
        100: buffer.end_use,
        130: buffer.release,
    }
    for time, action in steps.items():
        at(core, time, action)
    core.run()
    assert list(core.trace.life.rows()) == [
        {"sm": 0, "cta": 0, "tensor": "V", "tile": 2, "block": 4, "stage": 1, "space": "smem",
         "slot": "ring[1]", "birth": 10, "first_use": 80, "last_use": 100, "death": 130}
    ]  # fmt: skip


def test_a_tile_that_nobody_used_has_no_time_of_use():
    core = Core()
    filled(core).release()
    life = core.trace.life
    assert life["first_use"].tolist() == life["last_use"].tolist() == [NONE]


@pytest.mark.parametrize("parts", [1, 2])
def test_reading_a_tile_that_is_still_on_its_way(parts):
    core = Core()
    buffer = slot(core)
    buffer.begin_fill("load", "K", 7, 0, 3, parts)
    for _ in range(parts - 1):
        buffer.end_fill()
    buffer.check("mma", "K", 7, 0, 3)
    assert kinds(core) == ["read_before_full"]
    hazard = core.hazards[0]
    assert (hazard.barrier, hazard.stage, hazard.by) == ("load_KV_full", 1, "mma")
    assert "K of tile 0, block 3 is still on its way" in hazard.message


@pytest.mark.parametrize(
    "prepare, words",
    [
        (lambda core: slot(core), "it holds nothing; K of tile 0, block 3 is meant"),
        (lambda core: filled(core, what=6), "it holds K of tile 0, block 3, not K of tile 0"),
        (lambda core: filled(core, tensor="V"), "it holds V of tile 0, block 3, not K"),
    ],
)
def test_reading_what_is_not_there(prepare, words):
    core = Core()
    prepare(core).check("mma", "K", 7, 0, 3)
    assert kinds(core) == ["read_before_full"] and words in core.hazards[0].message


def test_reading_what_has_been_given_up():
    core = Core()
    buffer = filled(core)
    buffer.release()
    buffer.check("mma", "K", 7, 0, 3)
    assert "it holds nothing" in core.hazards[0].message


@pytest.mark.parametrize("reading", [True, False])
def test_writing_over_what_is_not_given_up(reading):
    core = Core()
    buffer = filled(core)
    if reading:
        buffer.begin_use()
    buffer.begin_fill("load", "V", 8, 0, 2)
    assert kinds(core) == ["overwrite_while_read"]
    hazard = core.hazards[0]
    assert (hazard.barrier, hazard.by, hazard.other) == ("load_KV_empty", "load", "tensor")
    state = "still being read" if reading else "not yet released"
    assert f"where K of tile 0, block 3 is {state}" in hazard.message


def test_releasing_twice_is_one_life():
    core = Core()
    buffer = filled(core)
    buffer.release()
    buffer.release()
    assert len(core.trace.life) == 1


@given(st.integers(0, 50), st.integers(0, 1000), st.integers(0, 20), st.integers(0, 500))
def test_what_is_held_later_looks_the_same_from_later(tile, step, tiles, steps):
    core = Core()
    buffer = filled(core, what=tag(tile, step))
    before = buffer.state(tag(tile, step))
    buffer.shift(tiles, steps, ids=0)
    assert buffer.holds == tag(tile + tiles, step + steps)
    assert buffer.state(tag(tile + tiles, step + steps)) == before
    assert buffer.block == 3 - steps
    empty = slot(core)
    empty.shift(tiles, steps, 0)
    assert empty.holds == EMPTY


def test_a_slot_can_stand_for_another_of_its_ring():
    core = Core()
    buffer = filled(core)
    buffer.move(4)
    buffer.release()
    life = core.trace.life
    assert life.text("slot")[0] == "ring[4]" and life["stage"][0] == 4


@given(st.integers(0, 1000), st.integers(0, TILE_STRIDE - 1), st.integers(0, TILE_STRIDE - 1))
def test_tags_keep_tiles_and_steps_apart(tile, step, other):
    assert tag(tile, step) < tag(tile + 1, other)


# -- regions of four warps ---------------------------------------------------------------------


@given(st.permutations(range(4)))
def test_a_region_is_done_when_all_four_warps_are(order):
    shards = Shards()
    for left, warp in enumerate(order):
        assert not shards.all_at(5) and sorted(shards.behind(5)) == sorted(order[left:])
        shards.mark(warp, 5)
    assert shards.all_at(5) and shards.behind(5) == []
    assert not shards.all_at(6)


@given(st.lists(st.integers(-1, 50), min_size=4, max_size=4), st.integers(0, 1000))
def test_a_region_later_looks_the_same_from_later(done, by):
    shards = Shards()
    for warp, what in enumerate(done):
        shards.mark(warp, what)
    before = shards.state(0)
    shards.shift(by)
    assert shards.state(by) == before
    assert [what == EMPTY for what in shards.done] == [what == EMPTY for what in done]
